"""From one line of the router's access log to what it says of a request, or why it says nothing.

Pure: whatever the bytes are, it answers and raises nothing.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from specgauge.model.traffic import LineResult

UNKNOWN = "unknown"
CONTEXTS: tuple[tuple[int, str], ...] = (
    (1 << 10, "0-1k"),
    (4 << 10, "1k-4k"),
    (16 << 10, "4k-16k"),
    (64 << 10, "16k-64k"),
)
"""Prompt lengths in tokens: each up to below its bound, 1k being 1024."""
LONGEST_CONTEXT = "64k+"
CONTEXT_NAMES = (*(name for _, name in CONTEXTS), LONGEST_CONTEXT, UNKNOWN)

NO_NAME = "none"
"""The pool of a request that no pool answered, and the class of one that has none."""

_LONGEST_COUNT = 3
_LONGEST_NAME = 100
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_NUMBERS = (int, float)
_MOST = 1e15
_SLACK_SECONDS = 0.05  # router and script read the clock at different moments
_BROKEN_OFF = 499  # nginx's own status for a client that went away; above it lie the 5xx
_ANSWERED = range(200, 400)
_POOLS = frozenset({"pool", "served_pool"})
_DRAFTED = ("drafts", "draft_tokens", "accepted_tokens")
_YES, _NO = frozenset({"1", "true"}), frozenset({"0", "false"})


class Record(NamedTuple):
    """One request; what the line does not tell is None. A tuple, for there are very many.

    `drafted` are drafts, the tokens that they proposed and those accepted; `whole` says that every
    figure of the line could be used.
    """

    traffic_class: str
    pool: str
    failed: bool
    retries: int
    e2e: float | None
    ttft: float | None
    completion_tokens: int | None
    decode: tuple[int, float] | None
    context: str
    drafted: tuple[int, int, int] | None
    whole: bool


class _Duplicate(Exception):  # noqa: N818 - never leaves this module
    """A key stands twice."""


class _Bad(Exception):  # noqa: N818 - never leaves this module
    """A value that cannot be."""


def read_line(line: bytes) -> Record | LineResult:
    """Read a line; a request whose figures contradict each other is counted without them."""
    try:
        # What clients send may stand in it in any encoding; class and pool are the router's words.
        found = _READER.decode(line.decode("utf-8", "replace"))
    except _Duplicate:
        return LineResult.DUPLICATE_KEY
    except (ValueError, RecursionError):
        return LineResult.NOT_JSON
    if not isinstance(found, dict):
        return LineResult.NOT_AN_OBJECT
    if not {"class", "status", "seconds"} <= found.keys() or not found.keys() & _POOLS:
        return LineResult.MISSING_KEY
    try:
        return _record(found)
    except _Bad:
        return LineResult.BAD_VALUE


def _record(found: Mapping[str, Any]) -> Record:
    status, seconds = _number(found, "status"), _number(found, "seconds")
    if status is None or seconds is None:
        raise _Bad
    answered = status in _ANSWERED
    failed = status >= _BROKEN_OFF or (answered and found.get("complete") == "")
    answered &= not failed
    figures = _figures(found, seconds)
    return Record(
        traffic_class=_name(found["class"]),
        pool=_name(found.get("served_pool") or found.get("pool")),
        failed=failed,
        retries=_retries(found.get("retries"), found.get("upstream")),
        e2e=seconds if answered else None,
        ttft=figures.ttft if answered else None,
        completion_tokens=figures.completion,
        decode=figures.decode if answered else None,
        context=figures.context,
        drafted=figures.drafted,
        whole=figures.whole,
    )


class _Figures(NamedTuple):
    ttft: float | None = None
    completion: int | None = None
    decode: tuple[int, float] | None = None
    context: str = UNKNOWN
    drafted: tuple[int, int, int] | None = None
    whole: bool = False


def _figures(found: Mapping[str, Any], seconds: float) -> _Figures:
    """Read what a request may do without; of figures that contradict each other none is taken."""
    try:
        first = _number(found, "first_byte_seconds") if _streams(found.get("stream")) else None
        completion, prompt = _count(found, "completion_tokens"), _count(found, "prompt_tokens")
        drafted = _drafted(found)
    except _Bad:
        return _Figures()
    if first is not None and first > seconds + _SLACK_SECONDS:
        return _Figures()
    decode = None
    if first is not None and completion is not None and completion > 1:
        decode = (completion - 1, max(seconds - first, 0.0))
    return _Figures(
        ttft=first,
        completion=completion,
        decode=decode,
        context=context_of(prompt),
        drafted=drafted,
        whole=True,
    )


def _drafted(found: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Read the three counts, of use only together; raises _Bad where they contradict each other."""
    drafts, proposed, accepted = (_count(found, key) for key in _DRAFTED)
    if drafts is None or proposed is None or accepted is None:
        return None
    if accepted > proposed or (proposed and not drafts):
        raise _Bad
    return drafts, proposed, accepted


def context_of(prompt_tokens: int | None) -> str:
    """Name the bucket of a prompt's length."""
    if prompt_tokens is None:
        return UNKNOWN
    return next((name for below, name in CONTEXTS if prompt_tokens < below), LONGEST_CONTEXT)


def _name(value: object) -> str:
    """Take the name of a class or pool; empty is a name of its own."""
    if _is_empty(value):
        return NO_NAME
    if not isinstance(value, str) or len(value) > _LONGEST_NAME or not value.isprintable():
        raise _Bad
    return value


def _retries(told: object, upstream: object) -> int:
    """Count the servers after the first; nginx writes `a:1, b:2`, and ` : ` between groups.

    A group without a live server stands there by its bare name: nobody was asked. HAProxy names
    the last server alone and tells the number, with a plus where the server was another one.
    """
    number = told.removeprefix("+") if isinstance(told, str) else ""
    if number.isascii() and number.isdigit() and len(number) <= _LONGEST_COUNT:
        return int(number)
    if not isinstance(upstream, str):
        return 0
    asked = sum(":" in one for one in upstream.replace(" : ", ", ").split(", "))
    return max(asked - 1, 0)


def _is_empty(value: object) -> bool:
    return value is None or value == "" or value == "-"  # noqa: PLR1714 - lists have no hash


def _streams(value: object) -> bool:
    """Take 1 and 0, true and false, as text or not; nothing is no stream."""
    word = "0" if _is_empty(value) else str(value).lower()
    if not isinstance(value, str | int | None) or word not in _YES | _NO:
        raise _Bad
    return word in _YES


def _number(found: Mapping[str, Any], key: str) -> float | None:
    """Read a number from 0 that stands there as such or as text; empty and - are none."""
    value: Any = found.get(key)
    if _is_empty(value):
        return None
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise _Bad
    elif type(value) not in _NUMBERS or not 0 <= value < _MOST:
        raise _Bad
    return float(value)


def _count(found: Mapping[str, Any], key: str) -> int | None:
    number = _number(found, key)
    if number is None:
        return None
    if not number.is_integer():
        raise _Bad
    return int(number)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Duplicate
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_READER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
