"""From the words of a command line to what it says of speculation; the rest is kept as it is.

It changes nothing for any release: that is `translate`.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from specgauge.preflight.flags.command import Command, Entry
from specgauge.preflight.flags.finding import Code, Finding, error, warning
from specgauge.preflight.flags.literal import Written, read_config
from specgauge.preflight.flags.release import Span
from specgauge.preflight.flags.surface import Flag, Surface
from specgauge.preflight.flags.words import Word
from specgauge.units import quote

CONFIG_FLAGS = frozenset({"--speculative-config", "-sc"})
_OF_SPECULATION = re.compile(r"--(?:spec-|.*speculat)")
_TRUTH = {"true": True, "false": False, "1": True, "0": False}
_SHORT = {"-tp": "--tensor-parallel-size", "-dp": "--data-parallel-size"}
_SIZES = frozenset({"--tensor-parallel-size", "--data-parallel-size", "--max-num-seqs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A flag with its words, or words that belong to no flag we know."""

    name: str
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What a command line says of speculation, and all the rest of it in order."""

    model: Word | None
    config: Mapping[str, object]
    said_by: Mapping[str, str]
    flags: tuple[str, ...]
    before: tuple[Part, ...]
    behind: tuple[Part, ...]
    sizes: Mapping[str, int]
    span: Span
    expands: bool
    findings: tuple[Finding, ...]


def gather(command: Command, surface: Surface) -> Gathered:
    """Read the arguments; raises ValueError for a flag without its value or a bad JSON."""
    reader = _Gatherer(command, surface)
    reader.run()
    split = reader.first if reader.first is not None else len(reader.rest)
    return Gathered(
        model=reader.model,
        config=reader.config,
        said_by=reader.said_by,
        flags=tuple(dict.fromkeys(reader.flags)),
        before=tuple(reader.rest[:split]),
        behind=tuple(reader.rest[split:]),
        sizes=reader.sizes,
        span=reader.span(),
        expands=reader.expands,
        findings=tuple(reader.findings),
    )


def flag_name(text: str) -> str:
    """Write a flag's name the one way: dashes up to the first dot, as the engine does."""
    if not text.startswith("--"):
        return text
    head, dot, keys = text.partition(".")
    return head.replace("_", "-") + dot + keys


class _Gatherer:
    """The arguments while they are walked through."""

    def __init__(self, command: Command, surface: Surface) -> None:
        self.surface = surface
        self.words = list(command.arguments)
        self.takes_positional = command.entry in {Entry.SERVE, Entry.ARGUMENTS}
        self.model: Word | None = None
        self.config: dict[str, object] = {}
        self.said_by: dict[str, str] = {}
        self.flags: list[str] = []
        self.rest: list[Part] = []
        self.first: int | None = None
        self.sizes: dict[str, int] = {}
        self.expands = False
        self.findings: list[Finding] = []

    def run(self) -> None:
        while self.words:
            self._take(self.words.pop(0))

    def span(self) -> Span:
        """Give the releases that have every flag, and every key of the JSON."""
        span = self.surface.known
        for flag in (self.surface.flags[name] for name in self.flags):
            span = span.narrowed(flag.span) if flag.existed else span
        for name, by in self.said_by.items():
            if by in CONFIG_FLAGS and (key := self.surface.keys.get(name)):
                span = span.narrowed(key.span)
        return span

    def _take(self, first: Word) -> None:
        name, equals, given = first.value.partition("=")
        name = flag_name(name)
        name = _SHORT.get(name, name)
        raw = first.raw.partition("=")[2]
        value = Word(value=given, raw=raw, expands=first.expands) if equals else None
        top, dot, path = name.partition(".")
        if dot and top in CONFIG_FLAGS:
            self._dotted(top, path, value or self._next(first))
        elif name in CONFIG_FLAGS:
            self._whole(name, value or self._next(first))
        elif (flag := self.surface.flags.get(name)) and flag.key:
            self._flag(flag, first, value)
        elif name == "--model":
            self.model = value or self._next(first)
        elif not first.value.startswith("-") and self._is_model():
            self.model = first
        else:
            self._keep(name, first, value)

    def _is_model(self) -> bool:
        return self.takes_positional and self.model is None and not self.rest and not self.flags

    def _keep(self, name: str, first: Word, value: Word | None) -> None:
        """Pass words through; those of a flag whose arity is known stay together."""
        taken = [first]
        neighbour = self.surface.neighbours.get(name)
        takes = neighbour.takes if neighbour else "perhaps" if name in self.surface.switches else ""
        if value is None and self._follows(takes):
            taken.append(self.words.pop(0))
        if name in self.surface.flags and value is None and self._follows("value"):
            taken.append(self.words.pop(0))
        if name in self.surface.flags:
            self.flags.append(name)
        if name in _SIZES:
            number = value or (self.words[0] if self.words else None)
            if number is not None and re.fullmatch(r"[0-9]{1,6}", number.value):
                self.sizes[name] = int(number.value)
        if _OF_SPECULATION.match(name) and name not in self.surface.flags:
            near = get_close_matches(name, self.surface.flags, n=1)
            fix = f"did you mean {near[0]}?" if near else ""
            self.findings.append(warning(Code.UNKNOWN_FLAG, name, "a flag of no release", fix))
        self.rest.append(Part(name=name, words=tuple(taken)))

    def _follows(self, takes: str) -> bool:
        if not self.words or not takes or takes == "nothing":
            return False
        following = self.words[0].value
        return following.lower() in _TRUTH if takes == "perhaps" else following[:1] != "-"

    def _next(self, first: Word) -> Word:
        if not self.words or self.words[0].value.startswith("--"):
            raise ValueError(f"{first.value} has no value behind it")
        return self.words.pop(0)

    def _flag(self, flag: Flag, first: Word, value: Word | None) -> None:
        assert flag.key
        self._mark(flag.name)
        if flag.takes != "value":
            if value is None and self._follows("perhaps") and flag.takes == "perhaps":
                value = self.words.pop(0)
            on = value is None or _TRUTH.get(value.value.lower(), True)
            self._set(flag.key, on, flag.name)
            return
        value = value or self._next(first)
        self.expands |= value.expands
        kind = self.surface.keys[flag.key].kind
        self._set(flag.key, _number(value.value, kind), flag.name)

    def _whole(self, name: str, value: Word) -> None:
        if self._mark(name):
            self.findings.append(
                warning(Code.DUPLICATE_FLAG, name, "stands there twice; the last one counts")
            )
            for key in [key for key, by in self.said_by.items() if by in CONFIG_FLAGS]:
                del self.config[key], self.said_by[key]
        self.expands |= value.expands
        if value.raw.startswith('{"'):
            told = f"a shell takes the quotes of {quote(value.raw)} away"
            raise ValueError(f"{name}: {told}; put single quotes around all of it")
        written = read_config(value.value, place=name)
        self.findings += twice(written)
        for key, one in written.config.items():
            self._set(key, one, name)

    def _dotted(self, name: str, path: str, value: Word) -> None:
        self._mark(name)
        self.expands |= value.expands
        key, *deeper = path.split(".")
        found: object = _json(value.value)
        if path.endswith("+"):
            key, *deeper = path[:-1].split(".")
            before = self.config.get(key)
            more = [_json(one) for one in value.value.split(",")]
            found = [*before, *more] if isinstance(before, list) else more
        for part in reversed(deeper):
            found = {part: found}
        before = self.config.get(key)
        if isinstance(before, dict) and isinstance(found, dict):
            found = {**before, **found}
        self.config[key] = found
        self.said_by[key] = name

    def _mark(self, name: str) -> bool:
        """Remember that a flag stands there, and where the first did; true if it did before."""
        if self.first is None:
            self.first = len(self.rest)
        seen = name in self.flags
        self.flags.append(name)
        return seen

    def _set(self, key: str, value: object, by: str) -> None:
        before = self.said_by.get(key)
        if before is not None and before != by:
            same = self.config[key] == value
            message = f"{before} and {by} both say it{', and differently' * (not same)}"
            self.findings.append(error(Code.ALIAS_CONFLICT, key, message, "keep one of them"))
        self.config[key] = value
        self.said_by[key] = by


def twice(written: Written) -> Sequence[Finding]:
    """Tell of keys that stand twice in one object."""
    return [
        warning(Code.DUPLICATE_KEY, key, "stands there twice; the last one counts", "keep one")
        for key in written.twice
    ]


def _number(text: str, kind: str) -> object:
    """Read a flag's value as its kind of key asks; left as text where it is none."""
    if kind in {"text", "choice"}:
        return text
    try:
        number = float(text) if kind in {"number", "ratio"} else int(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _json(text: str) -> object:
    try:
        found: object = json.loads(text)
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return text
    return found
