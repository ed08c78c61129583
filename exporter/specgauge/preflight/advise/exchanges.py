"""Recorded prompts with their answers, in the formats that prompts themselves are read in.

Text in, values out; a file is read elsewhere. The prompt of an entry is what the prompt reader
takes from it; the answer stands beside it or is the last turn of the conversation.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specgauge.baseline.faults import is_text
from specgauge.baseline.prompts import parse_prompts
from specgauge.errors import UsageError

ANSWERS = ("output", "completion", "response", "answer", "generated_text", "output_text")
"""Keys under which an answer may stand."""

_FIX = (
    'each entry needs a prompt and its answer, as "prompt" and "output", "messages" that end with '
    'the assistant\'s, ShareGPT "conversations", or "prompt_token_ids" and "token_ids"'
)
_ASSISTANT = frozenset({"assistant", "gpt", "chatgpt", "model", "bard"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A prompt and the answer that was recorded to it, as texts or as the engine's own tokens."""

    prompt: str | tuple[int, ...]
    output: str | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanges:
    """What a file held; `unanswered` entries have a prompt alone."""

    exchanges: tuple[Exchange, ...]
    unanswered: int


def parse_exchanges(text: str, *, source: str) -> Exchanges:
    """Read JSONL or a JSON list; raises UsageError naming the entry and the fix."""
    found: list[Exchange] = []
    unanswered = 0
    try:
        for place, entry in _entries(text, source):
            pair = _exchange(entry, place)
            if pair is None:
                unanswered += 1
            else:
                found.append(pair)
    except RecursionError:
        raise UsageError(f"{source}: an entry is nested too deep; {_FIX}") from None
    if not found:
        raise UsageError(f"{source}: no recorded answer in it; {_FIX}")
    return Exchanges(exchanges=tuple(found), unanswered=unanswered)


def _entries(text: str, source: str) -> Iterator[tuple[str, object]]:
    """Give each entry with where it stands."""
    if text.lstrip()[:1] == "[":
        for number, entry in enumerate(_json(text, source), 1):
            yield f"{source}: entry {number}", entry
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{source}:{number}", _json(line, f"{source}:{number}")


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise UsageError(f"{place}: not JSON; one JSON object a line, or a list") from None


def _exchange(entry: object, place: str) -> Exchange | None:
    """Take an entry apart; None where it has no answer."""
    if not isinstance(entry, Mapping):
        return None
    if (told := _tokens(entry, place)) is not None:
        return told
    asked, output = _split(entry)
    if not output:
        return None
    if not is_text(output):
        raise UsageError(f"{place}: half of a surrogate pair is no text; record it again")
    read = parse_prompts(json.dumps(asked), source=place)
    if not read:
        return None
    return Exchange(prompt=read[0].as_text(), output=output)


def _tokens(entry: Mapping[str, Any], place: str) -> Exchange | None:
    """Take the tokens that an engine was asked to return, where there are some."""
    found = [entry.get(name) for name in ("prompt_token_ids", "token_ids")]
    if not all(isinstance(one, list) for one in found):
        return None
    prompt, output = (tuple(one or ()) for one in found)
    if not all(type(token) is int for token in (*prompt, *output)):
        raise UsageError(f"{place}: tokens are whole numbers; record them as the engine has them")
    return Exchange(prompt=prompt, output=output) if output else None


def _split(entry: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """Set the answer apart from what is asked."""
    for name, role, content in (
        ("messages", "role", "content"),
        ("conversations", "from", "value"),
    ):
        turns = entry.get(name)
        if isinstance(turns, list):
            at = _last_answer(turns, role) if name == "messages" else _first_answer(turns, role)
            if at is not None:
                asked = [_plain(turn, content) for turn in turns[:at]]
                return {**entry, name: asked}, _said(turns[at].get(content))
    return entry, _answer(entry)


def _answer(entry: Mapping[str, Any]) -> str | None:
    """Find an answer beside a prompt, also as an OpenAI-style response has it."""
    for name in ANSWERS:
        value = entry.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, Mapping):
            return _choice(value)
    return _choice(entry)


def _choice(entry: Mapping[str, Any]) -> str | None:
    choices = entry.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        return None
    message = first.get("message")
    return _said(message.get("content") if isinstance(message, Mapping) else first.get("text"))


def _said(content: object) -> str | None:
    """Give what was said: text, or the texts of its parts; None where a part is no text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [one.get("text") if isinstance(one, Mapping) else None for one in content]
    known = [text for text in texts if isinstance(text, str)]
    return "".join(known) if len(known) == len(texts) else None


def _plain(turn: object, content: str) -> object:
    """Write a turn whose content is in parts of text as the prompt reader takes it."""
    if not isinstance(turn, Mapping) or (said := _said(turn.get(content))) is None:
        return turn
    return {**turn, content: said}


def _last_answer(turns: Sequence[Any], role: str) -> int | None:
    """Give the place of a last turn that is an answer with something before it."""
    last = len(turns) - 1
    return last if last > 0 and _speaks(turns[last], role) else None


def _first_answer(turns: Sequence[Any], role: str) -> int | None:
    """Give the place of the first answer, which is to the turn that the prompt reader takes."""
    return next((at for at, turn in enumerate(turns) if at and _speaks(turn, role)), None)


def _speaks(turn: object, role: str) -> bool:
    who = turn.get(role) if isinstance(turn, Mapping) else None
    return isinstance(who, str) and who in _ASSISTANT
