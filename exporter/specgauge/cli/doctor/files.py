"""Files that doctor is given beside pages: logs, rules, dashboards, requests; bounded in size."""

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from specgauge.errors import SourceError, UsageError
from specgauge.model.outcome import ScrapeResult
from specgauge.preflight.doctor.queries import Expression, read_expressions
from specgauge.preflight.doctor.requests import Segmented, read_requests

_MOST = 32 << 20
_HEAD, _TAIL = 16 << 20, 48 << 20


def log_lines(paths: Iterable[Path]) -> Iterator[str]:
    """Give the lines of logs; of one beyond 64 MiB its beginning and its end."""
    for path in paths:
        text = _bytes(path, _HEAD + _TAIL, cut=True).decode("utf-8", errors="replace")
        yield from text.split("\n")


def expressions_of(path: Path, option: str) -> list[Expression]:
    """Read the queries of a rule file or a dashboard."""
    try:
        return read_expressions(_text(path, option))
    except ValueError as problem:
        raise UsageError(f"{option} {path}: {problem}") from None


def requests_of(path: Path) -> Segmented:
    """Read per-request objects."""
    try:
        return read_requests(_text(path, "--requests"))
    except ValueError as problem:
        raise UsageError(f"--requests {path}: {problem}") from None


def text_of(path: Path) -> str:
    """Read a page's text once more, for what the reader does not keep; '' where that fails."""
    try:
        return _bytes(path, 2 * _MOST).decode("utf-8", errors="replace")
    except SourceError:
        return ""


def _text(path: Path, option: str) -> str:
    try:
        return _bytes(path, _MOST).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{option} {path}: not text in UTF-8") from None


def _bytes(path: Path, limit: int, *, cut: bool = False) -> bytes:
    """Read a regular file, or of a larger one with `cut` its two ends."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size if stat.S_ISREG(path.stat().st_mode) else 0
            if cut and size > limit:
                head = file.read(_HEAD)
                file.seek(size - _TAIL)
                return head + b"\n" + file.read(_TAIL)
            data = file.read(limit + 1)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise SourceError(ScrapeResult.UNREACHABLE, f"{path}: {reason}") from problem
    if len(data) > limit and not cut:
        raise SourceError(ScrapeResult.TOO_LARGE, f"{path}: larger than {limit >> 20} MiB")
    return data[:limit]
