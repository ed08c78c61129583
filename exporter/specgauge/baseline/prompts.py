"""Prompt sets: the package's own, one per traffic class, and files in the formats people have.

Reads files; sends nothing.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from specgauge.baseline.faults import half_character, is_text
from specgauge.errors import UsageError

CLASSES = ("chat", "code", "extraction", "summarisation", "tools")
"""Traffic classes that the package has prompts for."""

_MIXED = "mixed"
_FIX = (
    'each entry needs "prompt" or "text" (a string), "messages" (role and content), or '
    '"conversations" (ShareGPT)'
)
_LENGTHS = ("output_tokens", "max_tokens")
_HUMAN = frozenset({"human", "user"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt; `tokens` is the output length it asks for itself, if it does.

    `place` is where it stands, for messages.
    """

    text: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    traffic_class: str = ""
    tokens: int | None = None
    place: str = field(default="", compare=False)

    def as_text(self) -> str:
        """Write it for /v1/completions."""
        if not self.messages:
            return self.text
        return "\n\n".join(f"{role}: {content}" for role, content in self.messages)

    def as_messages(self) -> list[dict[str, str]]:
        """Write it for /v1/chat/completions."""
        pairs = self.messages or (("user", self.text),)
        return [{"role": role, "content": content} for role, content in pairs]

    def marked(self, mark: str) -> "Prompt":
        """Put a mark before it, so that no earlier request shares its beginning."""
        if not self.messages:
            return Prompt(
                text=f"{mark} {self.text}", traffic_class=self.traffic_class, tokens=self.tokens
            )
        (role, content), *rest = self.messages
        return Prompt(
            messages=((role, f"{mark} {content}"), *rest),
            traffic_class=self.traffic_class,
            tokens=self.tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSet:
    """Prompts under one name; `sha256` is of what is sent, so it names the set wherever it is."""

    name: str
    prompts: tuple[Prompt, ...]

    @property
    def sha256(self) -> str:
        """Hash the prompts in their order."""
        plain = [[p.text, p.messages, p.tokens] for p in self.prompts]
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def fitting(self, room: int, answer: int, characters: int) -> "PromptSet":
        """Leave out the prompts that, at so many characters a token, leave no room for an answer.

        `answer` is the length of one where the prompt itself does not say. Raises UsageError where
        it says more than there is room for in all.
        """
        for p in self.prompts:
            if (p.tokens or 0) > room:
                told = f"asks for {p.tokens} tokens; the model's context has room for {room}"
                raise UsageError(f"--prompts {p.place}: {told}; ask for fewer")
        kept = tuple(
            p
            for p in self.prompts
            if len(p.as_text()) <= characters * (room - (p.tokens or answer))
        )
        return PromptSet(name=self.name, prompts=kept)


def shipped(traffic_class: str | None = None) -> PromptSet:
    """Give the package's own set of a class, or all of them in turns."""
    if traffic_class is not None:
        return PromptSet(name=traffic_class, prompts=tuple(_own(traffic_class)))
    rounds = zip_longest(*(_own(name) for name in CLASSES))
    taken = tuple(prompt for prompt in chain.from_iterable(rounds) if prompt is not None)
    return PromptSet(name=_MIXED, prompts=taken)


def read_prompts(path: Path, traffic_class: str | None = None) -> PromptSet:
    """Read a file of prompts; of one class only, if one is named. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not UTF-8"
        raise UsageError(f"--prompts {path}: {reason}") from None
    found = parse_prompts(text, source=str(path))
    if traffic_class is not None:
        found = [one for one in found if one.traffic_class == traffic_class]
    if not found:
        of = f" of the class {traffic_class}" if traffic_class else ""
        raise UsageError(f"--prompts {path}: no prompt{of} in it; {_FIX}")
    return PromptSet(name=traffic_class or _named(path), prompts=tuple(found))


def _named(path: Path) -> str:
    """Name a set by its file, whose name need not be text."""
    return path.stem.encode(errors="surrogateescape").decode(errors="replace")


def parse_prompts(text: str, *, source: str) -> list[Prompt]:
    """Take prompts from a JSON list, JSONL or ShareGPT; UsageError names the line and the fix."""
    entries = _listed if text.lstrip()[:1] == "[" else _lines
    found = []
    for line, entry in entries(text, source):
        try:
            prompt = _prompt(entry)
        except ValueError as problem:
            raise UsageError(f"{source}:{line}: {problem}; {_FIX}") from None
        if prompt is not None:
            if not is_text(f"{prompt.as_text()}{prompt.traffic_class}"):
                told = f"{half_character(entry)}: half of a surrogate pair is no text"
                raise UsageError(f"{source}:{line}: {told}")
            found.append(replace(prompt, place=f"{source}:{line}"))
    return found


def _own(name: str) -> Iterator[Prompt]:
    file = files("specgauge.baseline") / "prompts" / f"{name}.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines():
        yield Prompt(text=json.loads(line)["text"], traffic_class=name)


def _lines(text: str, source: str) -> Iterator[tuple[int, object]]:
    """Give each line's number and value."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError) as problem:
                raise UsageError(
                    f"{source}:{number}: not JSON ({problem}); one JSON object a line"
                ) from None
            yield number, entry


def _listed(text: str, source: str) -> Iterator[tuple[int, object]]:
    """Give each entry of a JSON list with the number of the line it begins on."""
    decoder = json.JSONDecoder()
    at = _skip(text, text.index("[") + 1)
    while text[at : at + 1] != "]":
        number = text.count("\n", 0, at) + 1
        try:
            entry, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as problem:
            raise UsageError(f"{source}:{number}: not JSON ({problem}); fix the entry") from None
        yield number, entry
        at = _skip(text, end)
        if text[at : at + 1] not in {",", "]"} or not text[at:]:
            number = text.count("\n", 0, at) + 1
            raise UsageError(f"{source}:{number}: the list goes on without a comma or a ]")
        at = _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    while text[at : at + 1].isspace():
        at += 1
    return at


def _prompt(entry: object) -> Prompt | None:
    """Read one entry; None where no human speaks in it; ValueError where it cannot be read."""
    entry = {"text": entry} if isinstance(entry, str) else entry
    entry = entry if isinstance(entry, dict) else {}
    traffic_class = entry.get("class") or entry.get("category") or ""
    tokens = _tokens(entry)
    if "conversations" in entry:
        turns = _turns(entry["conversations"], role="from", content="value")
        spoken = [content for role, content in turns if role in _HUMAN]
        if not spoken:
            return None
        return Prompt(text=spoken[0], traffic_class=str(traffic_class), tokens=tokens)
    if "messages" in entry:
        messages = tuple(_turns(entry["messages"], role="role", content="content"))
        return Prompt(messages=messages, traffic_class=str(traffic_class), tokens=tokens)
    for name in ("prompt", "text", "turns", "question"):
        value = entry.get(name)
        if isinstance(value, list) and name == "turns" and value:  # Spec-Bench: the first turn
            value = value[0]
        if isinstance(value, str) and value.strip():
            return Prompt(text=value, traffic_class=str(traffic_class), tokens=tokens)
    raise ValueError("there is no prompt in this entry")


def _turns(value: object, *, role: str, content: str) -> list[tuple[str, str]]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise ValueError("a conversation is a list of at least one turn")
    pairs = [
        (turn.get(role), turn.get(content)) if isinstance(turn, Mapping) else (None, None)
        for turn in value
    ]
    turns = [(who, said) for who, said in pairs if isinstance(who, str) and isinstance(said, str)]
    if len(turns) < len(pairs):
        raise ValueError(f'a turn needs "{role}" and "{content}", both strings')
    return turns


def _tokens(entry: Mapping[str, Any]) -> int | None:
    for name in _LENGTHS:
        value = entry.get(name)
        if value is None:
            continue
        if type(value) is not int or value < 1:
            raise ValueError(f'"{name}" is {value!r}, not a whole number above 0')
        return value
    return None
