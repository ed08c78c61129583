"""Recorded timelines: one JSON line a page with its time, the pages in files beside it.

A line is `{"t": seconds, "page": "path"}`, `{"t": ..., "page": null, "error": "timeout"}` or
`{"t": ..., "evidence": {...}}`; `"pool"` says whose page it is. Nothing is judged here.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specgauge.errors import SourceError
from specgauge.guard.evidence import read_evidence
from specgauge.guard.once import RepeatedKeyError, load_once
from specgauge.model.guard import Blind
from specgauge.model.outcome import ScrapeResult
from specgauge.serve.timeline_keys import check_keys

_MAX_BYTES = 64 << 20
_LATEST = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line: a page's bytes, an error, or ready evidence, at `time` seconds.

    `ignored` are its keys that mean nothing here.
    """

    line: int
    time: float
    data: bytes | None = None
    error: str | Blind | None = None
    evidence: Mapping[str, object] | None = None
    pool: str | None = None
    ignored: tuple[str, ...] = ()


def read_timeline(path: Path, *, any_order: bool = False) -> Iterator[Entry]:
    """Read a timeline line by line; raises SourceError naming the line that is at fault.

    With `any_order` a clock that stood still or went back is not a fault.
    """
    before = -math.inf
    for number, found in _lines(path):
        entry = _entry(path, number, found, with_page=True)
        if entry.time <= before and not any_order:
            raise _fault(path, number, f"t {entry.time:g} is not after the line before")
        before = entry.time
        yield entry


def outline(path: Path) -> Iterator[Entry]:
    """Read of every line when it was and whose, without its page or evidence.

    Raises SourceError for what `read_timeline` would find wrong with a line itself.
    """
    for number, found in _lines(path):
        yield replace(_entry(path, number, found, with_page=False), evidence=None)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read one JSON object a line; blank lines say nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise SourceError(ScrapeResult.UNREACHABLE, f"{path}: {reason}") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, _object(path, number, line)


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = load_once(line)
    except RepeatedKeyError as error:
        raise _fault(path, number, str(error)) from None
    except (ValueError, RecursionError):
        raise _fault(path, number, "not a JSON object") from None
    if not isinstance(found, dict):
        raise _fault(path, number, "not a JSON object")
    return found


def _entry(path: Path, number: int, found: Mapping[str, Any], *, with_page: bool) -> Entry:
    try:
        ignored = check_keys(found)
    except ValueError as error:
        raise _fault(path, number, str(error)) from None
    time = found.get("t")
    if isinstance(time, bool) or not isinstance(time, int | float) or not abs(time) <= _LATEST:
        raise _fault(path, number, 't must be a number of seconds, as in {"t": 5.0, ...}')
    evidence, page = found.get("evidence"), found.get("page")
    if page is not None and not isinstance(page, str):
        raise _fault(path, number, "page must be a path or null")
    if evidence is None and page is None and not found.get("error"):
        raise _fault(path, number, "a page, an error or evidence is needed")
    _check_evidence(path, number, evidence)
    return Entry(
        line=number,
        time=float(time),
        data=None if page is None or not with_page else _page(path, number, page),
        error=str(found["error"]) if found.get("error") else None,
        evidence=evidence,
        pool=found.get("pool") if isinstance(found.get("pool"), str) else None,
        ignored=ignored,
    )


def _check_evidence(path: Path, number: int, evidence: object) -> None:
    """Refuse evidence that is none while its line is known."""
    if evidence is None:
        return
    if not isinstance(evidence, dict):
        raise _fault(path, number, "evidence must be an object")
    try:
        read_evidence(evidence, end=0.0, window=1.0, spacing=1.0, margin=0.0)
    except ValueError as error:
        raise _fault(path, number, f"evidence: {error}") from None


def _page(path: Path, number: int, page: str) -> bytes:
    try:
        with (path.parent / page).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        told = f"{path}:{number}: {page}: {reason}"
        raise SourceError(ScrapeResult.UNREACHABLE, told) from error
    if len(data) > _MAX_BYTES:
        raise SourceError(ScrapeResult.TOO_LARGE, f"{path}:{number}: {page}: larger than 64 MiB")
    return data


def _fault(path: Path, number: int, problem: str) -> SourceError:
    return SourceError(ScrapeResult.NOT_METRICS, f"{path}:{number}: {problem}")
