"""Loads the pages of tests/pages and measures windows between them; only it knows both."""

import json
import lzma
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from specgauge.derive.accumulate import advance, open_ledger, whole_life
from specgauge.derive.summary import summarise
from specgauge.derive.window import snapshot, windows
from specgauge.engines.reader import Reader
from specgauge.model.derived import Derived, Hints
from specgauge.model.ledger import Interval, Ledger
from specgauge.model.quantity import Page

PAGES = Path(__file__).parent / "pages"
CAPTURES = tuple(sorted(folder.name for folder in (PAGES / "vllm").iterdir()))
H200_MODES = ("none", "draft", "draft-poor", "eagle")
H200_LEVELS = (1, 8, 32, 128)


@cache
def load_page(name: str) -> bytes:
    """Read a page by its path under tests/pages, unpacked."""
    path = PAGES / name
    packed = path.with_name(path.name + ".xz")
    return lzma.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()


def load_truth(folder: str) -> Any:
    """Read what is known of the pages of a folder besides the pages."""
    return json.loads((PAGES / folder / "truth.json").read_text())


@cache
def load_series(name: str) -> Any:
    """Read a series of pages of one server: `pages` with their times, and `phases` of the load."""
    return json.loads(lzma.decompress((PAGES / "series" / f"{name}.json.xz").read_bytes()))


class Watched:
    """One target seen page by page, from its first page on."""

    def __init__(self, first: bytes, time: float = 0.0) -> None:
        self.reader = Reader()
        self.page: Page = self.reader.read(first)
        self.ledger: Ledger = open_ledger(self.page, time)
        self.start, self.doubts = snapshot(self.ledger), self.ledger.doubts
        self.since = time

    def see(self, page: bytes, time: float) -> Interval:
        """Take in one more page."""
        self.page = self.reader.read(page)
        self.ledger, interval = advance(self.ledger, self.page, time)
        return interval

    def mark(self) -> None:
        """Begin the window anew."""
        self.start, self.doubts = snapshot(self.ledger), self.ledger.doubts
        self.since = self.ledger.time

    def derive(self, hints: Hints | None = None) -> dict[str, Derived]:
        """Derive every model's quantities over the window."""
        seconds = self.ledger.time - self.since
        measured = windows(self.start, self.ledger, self.page, seconds, self.doubts)
        return {name: summarise(window, hints or Hints()) for name, window in measured.items()}


def measure(
    pages: Sequence[bytes], seconds: float = 1.0, hints: Hints | None = None
) -> dict[str, Derived]:
    """Derive each model over the window from the first page to the last, evenly spaced."""
    watched = Watched(pages[0])
    for place, page in enumerate(pages[1:], 1):
        watched.see(page, seconds * place / (len(pages) - 1))
    return watched.derive(hints)


def measure_life(page: bytes, hints: Hints | None = None) -> dict[str, Derived]:
    """Derive each model from one page alone."""
    seen = Reader().read(page)
    measured = windows({}, whole_life(seen, 0.0), seen, None)
    return {name: summarise(window, hints or Hints()) for name, window in measured.items()}


def only(models: dict[str, Derived]) -> Derived:
    """Give the one model there is."""
    (model,) = models.values()
    return model


def totals(ledger: Ledger) -> dict[tuple[object, ...], float]:
    """Spell the cells of a ledger's totals out, so that ledgers of two readers compare."""
    return {(*cell.measure, cell.model, cell.engine): v for cell, v in ledger.totals.items()}


def samples(page: Page) -> dict[tuple[object, ...], float]:
    """Spell the series of a page out, so that pages of two readers compare."""
    return {_spelled(series): value for series, value in page.values.items()}


def faults(page: Page) -> dict[tuple[object, ...], str]:
    """Spell out which series of a page cannot be trusted and why."""
    return {_spelled(series): reason for series, reason in page.faults.items()}


def _spelled(series: Any) -> tuple[object, ...]:
    cell = series.cell
    other = series.name if series.quantity == "other" else ""
    return (*cell.measure, cell.model, cell.engine, series.rank, other, *series.origin)


def shuffle_lines(page: bytes, order: Iterable[int]) -> bytes:
    """Put the lines of a page into another order."""
    lines = page.splitlines(keepends=True)
    return b"".join(lines[place] for place in order)
