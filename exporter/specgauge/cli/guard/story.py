"""What the sidecar tells of its guard, in lines for a person; asks nobody and decides nothing.

The document comes from another process: what is missing or odd in it is left out, not trusted.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specgauge.cli.guard.figures import figures, moment
from specgauge.guard.words import reason_in_words, span_in_words

Document = Mapping[str, Any]
_FLAGS = {True: "on", False: "off"}
_TOLD = 3
"""So many of the last moves are told by `explain`."""


def status_lines(found: Document) -> Iterator[str]:
    """Say how the guard stands: the sidecar's words, then the flag, then what to mind."""
    yield f"{_text(found.get('target'))}: {_text(found.get('state'))}{_dry(found)}"
    yield from _text(found.get("says")).splitlines()
    flag = _mapping(found.get("flag"))
    where = f"{_text(flag.get('backend'))}, {_text(flag.get('place'))}"
    wanted, is_now = _flag(flag.get("desired")), _flag(flag.get("confirmed"))
    yield f"Flag {_text(flag.get('key'))} ({where}): wanted {wanted}, confirmed {is_now}"
    writes = _mapping(flag.get("writes"))
    told = [f"{_text(name)} {_text(count)}" for name, count in writes.items() if count]
    if told:
        yield f"Writes: {', '.join(told)}"
    yield from _rest(found, flag)


def records(found: Document) -> list[dict[str, Any]]:
    """Give the decisions that are kept, oldest first."""
    kept = found.get("history")
    shown = [one for one in kept if isinstance(one, dict)] if isinstance(kept, list) else []
    return sorted(shown, key=lambda one: _number(one.get("unix")) or 0.0)


def history_lines(kept: Sequence[Document]) -> Iterator[str]:
    """Write decisions as aligned rows."""
    if not kept:
        yield "Nothing has changed since the sidecar started."
        return
    rows = [_row(one) for one in kept]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def explanation(found: Document, *, now: float) -> Iterator[str]:
    """Say where it stands, then why it last moved; `now` is Unix time in seconds."""
    yield from _text(found.get("says")).splitlines()
    kept = records(found)
    moves = [one for one in kept if one.get("changed") is True]
    if not moves:
        yield "It has not moved the flag since the sidecar started."
        moves = [one for one in kept if one.get("would_be")]
    for one in moves[-_TOLD:]:
        at = _number(one.get("unix"))
        ago = "At some time" if at is None else f"{span_in_words(now - at)} ago"
        yield f"{ago}: {_sentence(one)}"
    yield from _rest(found, _mapping(found.get("flag")))


def _sentence(one: Document) -> str:
    """Give the sidecar's words for a decision, or make some where it has none."""
    if one.get("says"):
        return _text(one["says"])
    why = reason_in_words(_text(one.get("reason")))
    return f"{_text(one.get('state'))}, flag {_flag(one.get('flag'))}: {why}."


def _row(one: Document) -> tuple[str, ...]:
    at = _number(one.get("unix"))
    warnings = one.get("warnings")
    told = warnings if isinstance(warnings, list) and one.get("changed") is not True else None
    reasons = told or [one.get("reason")]
    would = one.get("would_be")
    return (
        "-" if at is None else moment(at),
        f"would be {_text(would)}" if would else _text(one.get("state")),
        f"flag {_flag(one.get('flag'))}",
        ", ".join(_text(reason) for reason in reasons),
        figures(_mapping(one.get("evidence"))),
    )


def _rest(found: Document, flag: Document) -> Iterator[str]:
    """Say what the sidecar's own words leave out."""
    override = _mapping(found.get("override"))
    if override:
        until = _number(override.get("until"))
        ends = "until an override of auto" if until is None else f"until {moment(until)}"
        why = f": {_text(override['reason'])}" if override.get("reason") else ""
        yield f"Override: {_text(override.get('mode'))} {ends}{why}"
    if flag.get("last_error"):
        yield f"Last failure of the flag: {_text(flag['last_error'])}"
    if flag.get("on_the_word") is True:
        yield "Mind: the flag cannot be read back, so its writes are taken on their answer's word"
    if found.get("frozen") is True:
        yield "Mind: the freeze file holds the flag where it is"


def _dry(found: Document) -> str:
    return " (dry run)" if found.get("dry_run") is True else ""


def _flag(value: object) -> str:
    return _FLAGS[value] if isinstance(value, bool) else "unknown"


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _mapping(value: object) -> Document:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    """Make what was sent fit for a terminal, which obeys escape codes."""
    text = "-" if value is None else str(value)
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)
