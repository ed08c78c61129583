"""Pages from files, timelines and servers, for the baseline commands."""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from specgauge.baseline.from_pages import PagePair, TimedPage
from specgauge.config.address import parse_address
from specgauge.engines.reader import Reader
from specgauge.errors import SourceError, UsageError
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Page
from specgauge.serve.scrape import Endpoint, Scraper
from specgauge.serve.timeline import read_timeline

Item = TypeVar("Item")

_MAX_BYTES = 64 << 20
_WORTH_SHOWING = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a server answered once: its page, its release, its list of models."""

    page: Page
    version: str | None
    models: object


def read_pairs(named: Iterable[tuple[Path, Path, float]]) -> list[PagePair]:
    """Read pairs of page files; both of a pair go through one reader."""
    found = []
    for before, after, seconds in counted(list(named), "pairs read"):
        reader = Reader()
        found.append(
            PagePair(
                before=read_page(reader, before),
                after=read_page(reader, after),
                seconds=seconds,
                place=f"{before} to {after}",
            )
        )
    return found


def read_pages(path: Path) -> list[TimedPage]:
    """Read the pages of a timeline; failed scrapes leave a gap."""
    reader = Reader()
    found = []
    for entry in counted(read_timeline(path), "pages read"):
        if entry.data is not None:
            page = understood(reader, entry.data, f"{path}:{entry.line}")
            found.append(TimedPage(time=entry.time, page=page))
    return found


def open_scraper(url: str, timeout: float) -> Scraper:
    """Prepare to fetch a server's page."""
    try:
        page = parse_address(url).page
    except ValueError as problem:
        raise UsageError(f"--url: {problem}") from problem
    return Scraper(Endpoint(url=page, timeout=timeout, max_bytes=_MAX_BYTES))


async def ask(scraper: Scraper, reader: Reader) -> Server:
    """Fetch a page and what else tells whose it is."""
    body = await scraper.fetch()
    page = reader.read(body.data, complete=body.complete)
    return Server(
        page=page,
        version=await scraper.fetch_version(),
        models=await scraper.fetch_json("/v1/models"),
    )


def counted(items: Iterable[Item], what: str) -> Iterator[Item]:
    """Pass items on; on a terminal, tell how many once it takes over two seconds."""
    shown = _counter(what)
    number = 0
    for number, item in enumerate(items, 1):
        yield item
        shown(number, ended=False)
    shown(number, ended=True)


class _Show(Protocol):
    def __call__(self, number: int, *, ended: bool) -> None: ...


def _counter(what: str) -> _Show:
    began = time.monotonic()
    drawn = False

    def show(number: int, *, ended: bool) -> None:
        nonlocal drawn
        late = time.monotonic() - began > _WORTH_SHOWING
        if sys.stderr.isatty() and (late or drawn):
            drawn = True
            end = "\n" if ended else ""
            sys.stderr.write(f"\r{number} {what}{end}")
            sys.stderr.flush()

    return show


def read_page(reader: Reader, path: Path) -> Page:
    """Read a page from a file; a refusal names it."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceError(ScrapeResult.UNREACHABLE, f"{path}: {reason}") from error
    if len(data) > _MAX_BYTES:
        raise SourceError(ScrapeResult.TOO_LARGE, f"{path}: larger than 64 MiB")
    return understood(reader, data, str(path))


def understood(reader: Reader, data: bytes, place: str) -> Page:
    """Read a page's bytes; a refusal names where they are from."""
    try:
        return reader.read(data)
    except SourceError as problem:
        raise SourceError(problem.result, f"{place}: {problem.detail}") from problem
