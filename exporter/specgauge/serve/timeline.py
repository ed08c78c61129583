"""Recorded timelines: one JSON line a page with its time, the pages in files beside it.

A line is `{"t": seconds, "page": "path"}`, `{"t": ..., "page": null, "error": "timeout"}` or
`{"t": ..., "evidence": {...}}`; `"pool"` says whose page it is.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult

_MAX_BYTES = 64 << 20
_LATEST = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line: a page's bytes, an error, or ready evidence, at `time` seconds."""

    line: int
    time: float
    data: bytes | None = None
    error: str | None = None
    evidence: Mapping[str, object] | None = None
    pool: str | None = None


def read_timeline(path: Path) -> Iterator[Entry]:
    """Read a timeline line by line; raises SourceError naming the line that is at fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise SourceError(ScrapeResult.UNREACHABLE, f"{path}: {reason}") from error
    before = -math.inf
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            entry = _entry(path, number, line)
            if entry.time <= before:
                raise _fault(path, number, f"t {entry.time:g} is not after the line before")
            before = entry.time
            yield entry


def _entry(path: Path, number: int, line: str) -> Entry:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise _fault(path, number, "not a JSON object") from None
    if not isinstance(found, dict):
        raise _fault(path, number, "not a JSON object")
    time = found.get("t")
    if isinstance(time, bool) or not isinstance(time, int | float) or not abs(time) <= _LATEST:
        raise _fault(path, number, 't must be a number of seconds, as in {"t": 5.0, ...}')
    evidence, page = found.get("evidence"), found.get("page")
    if evidence is not None and not isinstance(evidence, dict):
        raise _fault(path, number, "evidence must be an object")
    if page is not None and not isinstance(page, str):
        raise _fault(path, number, "page must be a path or null")
    if evidence is None and page is None and not found.get("error"):
        raise _fault(path, number, "a page, an error or evidence is needed")
    return Entry(
        line=number,
        time=float(time),
        data=None if page is None else _page(path, number, page),
        error=str(found["error"]) if found.get("error") else None,
        evidence=evidence,
        pool=found.get("pool") if isinstance(found.get("pool"), str) else None,
    )


def _page(path: Path, number: int, page: str) -> bytes:
    try:
        with (path.parent / page).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _fault(path, number, f"{page}: {reason}") from error
    if len(data) > _MAX_BYTES:
        raise _fault(path, number, f"{page}: larger than 64 MiB")
    return data


def _fault(path: Path, number: int, problem: str) -> SourceError:
    return SourceError(ScrapeResult.NOT_METRICS, f"{path}:{number}: {problem}")
