"""Pages with their times from files and timelines, for a verdict; judges nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specgauge.cli.baseline.reading import read_page, understood
from specgauge.engines.reader import Reader
from specgauge.errors import NoVerdictError, SourceError, UsageError
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Page
from specgauge.serve.timeline import read_timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A page at a time in seconds."""

    time: float
    page: Page


def read_moments(
    pages: Sequence[Path], window: float | None, timeline: Path | None
) -> list[Moment]:
    """Read the pages that the command line names; at least two of them."""
    if timeline is not None and not pages and window is None:
        return _of_timeline(timeline)
    if timeline is None and len(pages) == 2 and window is not None:  # noqa: PLR2004 - BEFORE, AFTER
        reader = Reader()
        return [
            Moment(time=at, page=read_page(reader, path))
            for at, path in zip((0.0, window), pages, strict=True)
        ]
    raise UsageError("give --window SECONDS with BEFORE and AFTER, or --timeline FILE alone")


def _of_timeline(path: Path) -> list[Moment]:
    reader, lines, found = Reader(), 0, []
    for entry in read_timeline(path):
        lines += 1
        if entry.data is not None:
            page = understood(reader, entry.data, f"{path}:{entry.line}")
            found.append(Moment(time=entry.time, page=page))
    if not found:
        why = f"none of its {lines} lines has a page" if lines else "there is no line in it"
        raise SourceError(ScrapeResult.NO_ENGINE_METRICS, f"{path}: {why}")
    if len(found) == 1:
        raise NoVerdictError(f"{path}: only one page; a verdict needs at least two")
    return found
