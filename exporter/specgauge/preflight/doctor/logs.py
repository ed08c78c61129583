"""A server's log as facts: its own lines on speculation, its errors, its arguments.

Lines in, values out; opens no file. Knows the wordings of vLLM from 0.5 to 0.33, with or without
the time, the level and the process before them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

_LONGEST_LINE = 20_000
_SHOWN = 200


class Fault(StrEnum):
    """What a line of a log proves to be wrong."""

    VOCABULARY = "vocabulary"
    REFUSED_METHOD = "refused_method"
    FLAGS = "flags"
    MEMORY = "memory"
    OTHER = "other"


class Mark(StrEnum):
    """What a line of a log tells by the way."""

    STATS_OFF = "stats_off"
    ASYNC_OFF = "async_off"
    SCHEDULE_OFF = "schedule_off"
    SAMPLING_REFUSED = "sampling_refused"
    PREEMPTED = "preempted"
    ON_CPU = "on_cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculated:
    """One line on speculation: V1's is of an interval, V0's of the engine's whole life."""

    v1: bool
    accepted: float
    drafted: float
    length: float | None = None
    positions: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One error: the engine's own words, and what numbers or names they hold."""

    fault: Fault
    words: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What a log tells."""

    speculated: tuple[Speculated, ...] = ()
    errors: tuple[Error, ...] = ()
    marks: frozenset[Mark] = frozenset()
    release: str | None = None
    arguments: str | None = None
    most_waiting: int = 0
    most_kv: float = 0.0
    lines: int = 0


_HEAD = re.compile(
    r"^(?:[\w.-]{1,60} +\| )?(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]{4,5})? ?"
    r"(?:std(?:out|err) [FP] )?)?(?:\([^)]*\) ?)?"
    r"(?:(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) +[\d-]+ [\d:.]+ ?)?(?:\[[^\]]*:\d+\] ?)?"
)
"""Container, time of its log, process, level, time, place: one space behind each at most, so that
what is indented stays so."""

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_SHARE = r"\d{1,3}(?:\.\d{1,9})?"

_V0 = re.compile(
    r"Speculative metrics: .*?Number of accepted tokens: (\d{1,15}), Number of draft "
    r"tokens: (\d{1,15})"
)
_V1 = re.compile(
    rf"SpecDecoding metrics: .*?Mean acceptance length: ({_SHARE}|nan), .*?Accepted: (\d{{1,15}}) "
    rf"tokens, Drafted: (\d{{1,15}}) tokens(?:, Per-position acceptance rate: ({_SHARE}"
    rf"(?:, {_SHARE})*))?(?![.\d])"
)
_LOAD = re.compile(rf"Waiting: (\d{{1,15}}) reqs.*?KV cache usage: ({_SHARE})%")
_RELEASE = re.compile(
    r"(?:API server version|LLM engine \(v|vLLM version|version)\s*:?\s*v?(\d+\.\d+\.\d+[\w.+]*)"
)
_ARGUMENTS = re.compile(r"non-default args: (\{.*\})")
_LAST_OF_TRACEBACK = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Exit))\b:? ?(.*)")

_VOCABULARIES = (
    re.compile(
        r"Target model vocab_size=(?P<target>\d{1,15}).*?Draft model vocab_size=(?P<draft>\d{1,15})"
    ),
    re.compile(
        r"[Dd]raft(?: model)?(?:'s)? vocab\w*[ _]?size\D{0,20}(?P<draft>\d{1,15})\D{1,60}?"
        r"[Tt]arget(?: model)?(?:'s)? vocab\w*[ _]?size\D{0,20}(?P<target>\d{1,15})"
    ),
    re.compile(r"assert all\(vocab_sizes\[0\] == vocab_size"),
    re.compile(r"[Dd]raft (?:model )?and target (?:model )?have different vocab"),
    re.compile(r"[Tt]arget and draft model should have the same vocabulary"),
)
_METHODS = (
    re.compile(r"[Ss]peculative decoding with draft model is not supported"),
    re.compile(r"Unsupported speculative method: '?([\w-]+)"),
)
_FLAGS = (
    re.compile(r"unrecognized arguments: (.+)"),
    re.compile(r"unexpected keyword argument '?(\w+)"),
    re.compile(r"Unexpected keyword argument"),
)
_MEMORY = (
    re.compile(r"(?:CUDA|HIP|XPU) out of memory|OutOfMemoryError"),
    re.compile(r"No available memory for the cache blocks"),
    re.compile(r"larger than the (?:available|maximum number of tokens that can be stored in) KV"),
    re.compile(r"KV cache is needed, which is larger than"),
)
_MARKS = {
    Mark.STATS_OFF: re.compile(r"disabling stats logging"),
    Mark.ASYNC_OFF: re.compile(r"[Aa]sync(?:hronous)? scheduling (?:not supported|is not|is dis)"),
    Mark.SCHEDULE_OFF: re.compile(r"Dynamic speculative decoding is not supported with data"),
    Mark.SAMPLING_REFUSED: re.compile(r"are not (?:yet )?supported with speculative decoding"),
    Mark.PREEMPTED: re.compile(r"(?:is preempted by|Preempting request|not enough KV cache space)"),
    Mark.ON_CPU: re.compile(r"device_config=cpu\b|device=cpu\b|\[cpu(?:_\w+)?\.py:\d+\]|CPUWorker"),
}

_SPEAKS = re.compile(
    r"metrics:|reqs,|ersion|\(v\d|non-default|vocab|memory|KV|argument|method|speculative|sync|"
    r"Dynamic|logging|reempt|cpu|CPU|Error|Exception|Exit|Traceback|shutdown|SIG|Interrupt|died"
)
"""A word of each line that anything is read from; most lines of a log have none."""


def read_log(lines: Iterable[str]) -> Log:
    """Read a whole log; lines of no interest cost little."""
    speculated: list[Speculated] = []
    errors: list[Error] = []
    marks: set[Mark] = set()
    release = arguments = None
    waiting, kv, count, before, tracing = 0, 0.0, 0, "", False
    ending = False
    for raw in lines:
        line = _COLOUR.sub("", raw[:_LONGEST_LINE].rstrip("\r\n"))
        count += bool(line.strip())
        if not tracing and not _SPEAKS.search(line):
            before = line if line.strip() else before
            continue
        text = _HEAD.sub("", line, count=1)
        speculated += _speculated(text)
        marks |= {mark for mark, pattern in _MARKS.items() if pattern.search(line)}
        if load := _LOAD.search(text):
            waiting, kv = max(waiting, int(load[1])), max(kv, float(load[2]) / 100.0)
        if release is None and (told := _RELEASE.search(text)):
            release = told[1].rstrip(".")
        if told := _ARGUMENTS.search(text):
            arguments = told[1]
        ending = bool(_ENDING.search(text)) or (ending and not _BEGINS.search(text))
        error = None if ending else _error(text, before, tracing=tracing)
        if error is not None and error.words not in {one.words for one in errors}:
            errors.append(error)
        tracing = _tracing(text, tracing=tracing)
        before = text if text.strip() else before
    return Log(
        speculated=tuple(speculated),
        errors=tuple(errors),
        marks=frozenset(marks),
        release=release,
        arguments=arguments,
        most_waiting=waiting,
        most_kv=kv,
        lines=count,
    )


def _speculated(text: str) -> Iterator[Speculated]:
    if found := _V1.search(text):
        positions = tuple(float(part) for part in (found[4] or "").split(", ") if part)
        length = None if found[1] == "nan" else float(found[1])
        yield Speculated(
            v1=True,
            accepted=float(found[2]),
            drafted=float(found[3]),
            length=length,
            positions=positions,
        )
    elif found := _V0.search(text):
        yield Speculated(v1=False, accepted=float(found[1]), drafted=float(found[2]))


def _tracing(text: str, *, tracing: bool) -> bool:
    """Tell whether the next line may be the last one of a traceback."""
    if "Traceback (most recent call last)" in text:
        return True
    return tracing and (text[:1] in {" ", "\t"} or not text.strip())


def _error(text: str, before: str, *, tracing: bool) -> Error | None:
    """Recognise what is wrong by the engine's wording; of other tracebacks the last line."""
    for pattern in _VOCABULARIES:
        if found := pattern.search(text):
            sizes = {name: int(size) for name, size in found.groupdict().items()}
            return Error(fault=Fault.VOCABULARY, words=_words(text), numbers=sizes)
    for pattern in _METHODS:
        if found := pattern.search(text):
            names = tuple(found.groups()) or ("draft_model",)
            return Error(fault=Fault.REFUSED_METHOD, words=_words(text), names=names)
    for pattern in _FLAGS:
        if found := pattern.search(text):
            told = found[1] if found.groups() else before.strip().rpartition(".")[2]
            names = tuple(word for word in told.split() if word.startswith("-")) or (told.strip(),)
            return Error(fault=Fault.FLAGS, words=_words(text), names=names)
    for fault, patterns in ((Fault.MEMORY, _MEMORY), (Fault.OTHER, (_DIED,))):
        if any(pattern.search(text) for pattern in patterns):
            return Error(fault=fault, words=_words(text))
    last = _LAST_OF_TRACEBACK.match(text)
    if tracing and last and last[1] not in _ENDED:
        return Error(fault=Fault.OTHER, words=_words(text))
    return None


_DIED = re.compile(
    r"engine core exited unexpectedly|EngineCore.{0,40} died unexpectedly", re.IGNORECASE
)
_ENDING = re.compile(
    r"shutdown triggered|received signal|SIGTERM|SIGINT|[Ss]end sigterm|KeyboardInterrupt"
)
_BEGINS = re.compile(r"non-default args|LLM engine \(v|API server version")
"""From the one on to the other a server is being stopped, and what it complains of is no fault."""

_ENDED = frozenset({"CancelledError", "SystemExit", "GeneratorExit"})
"""What ends a process in good order, or only echoes another error."""


def _words(text: str) -> str:
    """Quote a line, shortened."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _SHOWN else plain[: _SHOWN - 3] + "..."
