"""A server's log file while a comparison runs: how many new lines say that memory ran out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult

_OUT_OF_MEMORY = re.compile(rb"out ?of ?memory|\boom[- ]?kill|cuda error", re.IGNORECASE)
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMark:
    """A log file and how long it was when the comparison began."""

    path: Path
    size: int

    def count(self) -> int:
        """Count the lines since then that speak of memory; a log begun anew counts whole."""
        try:
            with self.path.open("rb") as file:
                end = file.seek(0, 2)
                file.seek(self.size if end >= self.size else 0)
                lines: Iterator[bytes] = iter(lambda: file.readline(_LONGEST), b"")
                return sum(bool(_OUT_OF_MEMORY.search(line)) for line in lines)
        except OSError as error:
            raise _unreadable(self.path, error) from error


def mark(path: Path) -> LogMark:
    """Remember where a log file ends now; SourceError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return LogMark(path=path, size=file.seek(0, 2))
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> SourceError:
    reason = getattr(error, "strerror", None) or str(error)
    return SourceError(ScrapeResult.UNREACHABLE, f"{path}: {reason}")
