"""Pages for the doctor: from files, a timeline or a server; a refusal is kept, not raised."""

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from specgauge.baseline import exchange
from specgauge.baseline.facts import served
from specgauge.baseline.load import Generator, Terms
from specgauge.baseline.stream import Request
from specgauge.cli.baseline.reading import open_scraper, read_page, understood
from specgauge.cli.doctor.files import text_of
from specgauge.cli.moments import Moment
from specgauge.cli.progress import waiting
from specgauge.engines.reader import Reader
from specgauge.errors import SourceError, UsageError
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Page
from specgauge.preflight.doctor.case import Failure
from specgauge.preflight.doctor.probe import Plan, ProbeError, probe
from specgauge.preflight.doctor.shown import Shown, shown
from specgauge.serve.scrape import Body, Scraper
from specgauge.serve.timeline import read_timeline

_WINDOW = 10.0
_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Pages with their times, what their first and last text shows, and what else a server told.

    `failure` says why there is no page, or no second one. `probed` are the probe's requests;
    the pages from `probe_from` on lie around them.
    """

    moments: tuple[Moment, ...] = ()
    pages: tuple[Shown, ...] = ()
    failure: Failure | None = None
    release: str | None = None
    probed: tuple[Request, ...] | None = None
    probe_from: int = 0
    probe_failure: str = ""


async def look(pages: tuple[Path, ...], options: dict[str, Any]) -> Seen | None:
    """Get the pages that the command line names; None where it names none."""
    url, window, timeline = options["url"], options["window"], options["timeline"]
    if sum((bool(pages), url is not None, timeline is not None)) > 1:
        raise UsageError("give pages, --timeline or --url: one of them")
    if options["probe"] and url is None:
        raise UsageError("--probe needs --url")
    if url is not None:
        return await _server(url, window, options)
    if timeline is not None:
        return _timeline(timeline)
    if not pages:
        return None
    if len(pages) > 2 or (len(pages) == 2) != (window is not None):  # noqa: PLR2004 - BEFORE, AFTER
        raise UsageError("give one PAGE, or --window SECONDS with BEFORE and AFTER")
    return _kept(lambda: _files(pages, window or 0.0))


def _kept(read: Callable[[], Seen]) -> Seen:
    """Read, or keep why that failed."""
    try:
        return read()
    except SourceError as problem:
        return Seen(failure=Failure(result=problem.result, detail=problem.detail))


def _files(pages: tuple[Path, ...], window: float) -> Seen:
    reader = Reader()
    moments = tuple(
        Moment(time=at, page=read_page(reader, path))
        for at, path in zip((0.0, window), pages, strict=False)
    )
    return Seen(moments=moments, pages=tuple(shown(text_of(path)) for path in pages))


def _timeline(path: Path) -> Seen:
    """Read a timeline; a page in it that is none is kept as a finding, a line that is none not."""
    reader, moments = Reader(), []
    texts: list[bytes] = []
    failure = None
    for entry in read_timeline(path):
        if entry.data is None:
            continue
        try:
            page = understood(reader, entry.data, f"{path}:{entry.line}")
        except SourceError as problem:
            failure = Failure(result=problem.result, detail=problem.detail)
            break
        moments.append(Moment(time=entry.time, page=page))
        texts[1:] = [entry.data]
    if not moments and failure is None:
        raise SourceError(ScrapeResult.UNREACHABLE, f"{path}: no line of it has a page")
    told = tuple(shown(data.decode(errors="replace")) for data in texts)
    return Seen(moments=tuple(moments), pages=told, failure=failure)


async def _server(url: str, window: float | None, options: dict[str, Any]) -> Seen:
    """Look at a server twice, and in between wait or probe."""
    scraper = open_scraper(re.sub(r"/v1/?$", "", url), _TIMEOUT)
    reader, moments, told = Reader(), [], []
    clock = asyncio.get_running_loop().time

    async def take() -> None:
        body = await scraper.fetch()
        page = _page(reader, body, url)
        moments.append(Moment(time=clock(), page=page))
        told.append(shown(body.data.decode(errors="replace")))

    failure, probed, probe_from, probe_failure = None, None, 0, ""
    try:
        release = await scraper.fetch_version()
        try:
            await take()
            if window is not None or not options["probe"]:
                await _wait(window or _WINDOW)
                await take()
            if options["probe"]:
                probe_from = len(moments) - 1
                probed = await _probed(url, scraper, options["model"])
                await take()
        except SourceError as problem:
            failure = Failure(result=problem.result, detail=problem.detail)
        except ProbeError as problem:
            probe_failure = str(problem)
    finally:
        await scraper.close()
    return Seen(
        moments=tuple(moments),
        pages=tuple(told),
        failure=failure,
        release=release,
        probed=probed,
        probe_from=probe_from,
        probe_failure=probe_failure,
    )


async def _wait(seconds: float) -> None:
    async with waiting(seconds, "between two looks"):
        await asyncio.sleep(seconds)


def _page(reader: Reader, body: Body, url: str) -> Page:
    """Read a fetched page; a refusal names the server, without credentials."""
    try:
        return reader.read(body.data, complete=body.complete)
    except SourceError as problem:
        place = re.sub("//[^/]*@", "//", url)
        raise SourceError(problem.result, f"{place}: {problem.detail}") from problem


async def _probed(url: str, scraper: Scraper, model: str | None) -> tuple[Request, ...]:
    """Stream the probe's requests, with a bar on a terminal."""
    try:
        address = exchange.parse_address(url)
    except ValueError as problem:
        raise UsageError(f"--url: {problem}") from None
    named = model or next(iter(served(await scraper.fetch_json("/v1/models"))), None)
    if named is None:
        raise UsageError("--probe: the server does not list its models; name one with --model")
    key = os.environ.get("OPENAI_API_KEY")
    terms = Terms(model=named, headers={"Authorization": f"Bearer {key}"} if key else {})
    plan = Plan()
    click.echo(f"specgauge: --probe sends {plan}", err=True)
    async with waiting(plan.seconds, "probing, at most"):
        return tuple(await probe(Generator(address), terms, plan))
