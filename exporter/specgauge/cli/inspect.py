"""`specgauge inspect`: the sidecar's answer once, from files or URLs."""

import asyncio
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from specgauge.cli.table import draw_models
from specgauge.cli.values import LONGEST_WINDOW
from specgauge.config.address import parse_address
from specgauge.derive.accumulate import advance, open_ledger, whole_life
from specgauge.derive.inspection import document
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.engines.reader import Reader
from specgauge.errors import SourceError, UsageError
from specgauge.model.derived import Derived, Hints
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Page
from specgauge.serve.scrape import Endpoint, Scraper
from specgauge.units import parse_duration

_MAX_BYTES = 64 << 20


def _seconds(_: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Read a time in seconds, bare or as a duration."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parse_duration(value)
        except ValueError:
            raise UsageError(f"--window {value}: no time; write 10 or 10s") from None
    if not 0.0 < seconds <= LONGEST_WINDOW:
        told = f"the time between two pages must be above 0 and at most {LONGEST_WINDOW:g} s"
        raise UsageError(f"--window {value}: {told}")
    return seconds


_TIMEOUT = 10.0


@click.command(epilog="\b\nExample:\n  specgauge inspect --window 10 http://127.0.0.1:8000")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--window",
    callback=_seconds,
    metavar="SECONDS",
    help="Time between the two pages, as 10 or 10s.",
)
@click.option("--json", "as_json", is_flag=True, help="Print specgauge.inspect/v1.")
@click.option("--engines", type=click.IntRange(min=1), help="Engines that should be there.")
@click.option("--method", help="Speculation method the server was started with.")
def inspect(
    sources: tuple[str, ...],
    window: float | None,
    as_json: bool,
    engines: int | None,
    method: str | None,
) -> None:
    """Say what speculation did, from one page or between two.

    SOURCE is a file, - for standard input, or a URL. One page gives totals since the engine
    started; --window with BEFORE and AFTER, or with one URL that is then scraped twice, gives
    rates as well.
    """
    _check(sources, window)
    seen = asyncio.run(look(sources, window))
    models = derive(seen, Hints(method=method, engines=engines))
    page = seen.pages[-1]
    if as_json:
        found = document(
            models, dialect=page.layout.dialect, version=seen.version, seconds=seen.seconds
        )
        click.echo(json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False))
    else:
        draw_models(models, dialect=page.layout.dialect, seconds=seen.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One page or two with the seconds between them, and the engine's word on its release."""

    pages: tuple[Page, ...]
    seconds: float | None
    version: str | None


def derive(seen: Look, hints: Hints) -> list[Derived]:
    """Derive every model of the last page."""
    last = seen.pages[-1]
    if seen.seconds is None:
        found = windows({}, whole_life(last, 0.0), last, None)
    else:
        before = open_ledger(seen.pages[0], 0.0)
        after, _ = advance(before, last, seen.seconds)
        found = windows(before.totals, after, last, seen.seconds, before.doubts)
    return [summarise(one, hints) for one in found.values()]


async def look(sources: tuple[str, ...], window: float | None) -> Look:
    """Fetch or read the pages; a URL alone is fetched twice, a window apart."""
    reader = Reader()
    scraper = None
    try:
        if len(sources) == 1 and _is_url(sources[0]):
            scraper = _scraper(sources[0])
            page, began = await _fetched(reader, scraper, sources[0])
            pages = [page]
            if window is not None:
                await _wait(window)
                page, ended = await _fetched(reader, scraper, sources[0])
                pages.append(page)
                window = ended - began
            version = await scraper.fetch_version()
            return Look(pages=tuple(pages), seconds=window, version=version)
        taken = [_read(reader, source) for source in sources]
        return Look(pages=tuple(taken), seconds=window, version=None)
    finally:
        if scraper is not None:
            await scraper.close()


def _check(sources: tuple[str, ...], window: float | None) -> None:
    if window is None and len(sources) > 1:
        raise UsageError("two pages need --window SECONDS, the time between them")
    if window is not None and len(sources) == 1 and not _is_url(sources[0]):
        raise UsageError("--window needs two pages, BEFORE and AFTER, or one URL")
    if len(sources) > 2:  # noqa: PLR2004 - BEFORE and AFTER
        raise UsageError("give one page, or two with --window")
    if len(sources) > 1 and any(_is_url(source) for source in sources):
        raise UsageError("two pages come from files; give a URL once, it is scraped twice")
    if sources.count("-") > 1:
        raise UsageError("standard input can be only one of the two pages")


def _is_url(source: str) -> bool:
    return "://" in source


def _scraper(url: str) -> Scraper:
    """Make what fetches a URL, by the same rules as the sidecar's."""
    try:
        page = parse_address(url).page
    except ValueError as problem:
        shown = re.sub("//[^/]*@", "//", url)
        raise UsageError(f"{shown}: {problem}") from problem
    return Scraper(Endpoint(url=page, timeout=_TIMEOUT, max_bytes=_MAX_BYTES))


async def _fetched(reader: Reader, scraper: Scraper, url: str) -> tuple[Page, float]:
    """Fetch one page and note when it came; a refusal names the URL, without credentials."""
    body = await scraper.fetch()
    at = asyncio.get_running_loop().time()  # a busy server writes the page just before it sends it
    try:
        return reader.read(body.data, complete=body.complete), at
    except SourceError as problem:
        shown = re.sub("//[^/]*@", "//", url)
        raise SourceError(problem.result, f"{shown}: {problem.detail}") from problem


def _read(reader: Reader, source: str) -> Page:
    """Read one page from a file or standard input; a refusal names it."""
    try:
        return reader.read(_file(source))
    except SourceError as problem:
        raise SourceError(problem.result, f"{source}: {problem.detail}") from problem


def _file(source: str) -> bytes:
    try:
        if source == "-":
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if re.fullmatch(r"[\w.-]+:[0-9]{1,5}(/.*)?", source):
            reason = f"{reason}; for a server write http://{source}"
        raise SourceError(ScrapeResult.UNREACHABLE, f"{reason}") from error
    if len(data) > _MAX_BYTES:
        raise SourceError(ScrapeResult.TOO_LARGE, "the page is larger than 64 MiB")
    return data


async def _wait(seconds: float) -> None:
    """Wait between the two scrapes, with a bar on a terminal where it takes a while."""
    from specgauge.cli.progress import waiting  # noqa: PLC0415 - rich loads slowly

    async with waiting(seconds, "between two scrapes"):
        await asyncio.sleep(seconds)
