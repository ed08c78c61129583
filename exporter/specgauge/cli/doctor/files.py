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
_SAMPLE, _FIRST = 1 << 16, 10
"""So many characters and lines tell whether it is a log."""
_OF_LOGS = frozenset("\t\n\r\b\x1b")


def log_lines(paths: Iterable[Path]) -> Iterator[str]:
    """Give the lines of logs; of one beyond 64 MiB its beginning and its end."""
    for path in paths:
        text = _bytes(path, _HEAD + _TAIL, cut=True).decode("utf-8", errors="replace")
        if _is_binary(text[:_SAMPLE]):
            raise UsageError(f"--log {path}: not text; give it unpacked, and in UTF-8")
        yield from text.split("\n")


def left_out(paths: Iterable[Path]) -> str:
    """Say what of which logs was not read; '' where all of it was."""
    sizes = {path: path.stat().st_size for path in paths if path.is_file()}
    return "; ".join(
        f"{path}: {(size - _HEAD - _TAIL) / (1 << 20):.1f} MiB in its middle were not read"
        for path, size in sizes.items()
        if size > _HEAD + _TAIL
    )


def _is_binary(start: str) -> bool:
    """Tell what is no text from a log with a stray byte, or with zeros before what was rotated."""
    shown = "".join(start.lstrip("\0").split("\n", _FIRST)[:_FIRST])
    odd = sum(one == "\ufffd" or (one < " " and one not in _OF_LOGS) for one in shown)
    return odd > len(shown) / 10


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
