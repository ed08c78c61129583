"""Drives the pools of a comparison; SIGINT and SIGTERM end it with what there is."""

import asyncio
import contextlib
import gc
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from specgauge.baseline import exchange
from specgauge.baseline.brake import Brake
from specgauge.baseline.load import Generator
from specgauge.baseline.prompts import PromptSet
from specgauge.cli.values import plain
from specgauge.config.address import parse_address
from specgauge.errors import BaselineError, UsageError
from specgauge.preflight.compare.arena import Arena
from specgauge.preflight.compare.bouts import Side
from specgauge.preflight.compare.contest import Order, Runner, Standing
from specgauge.preflight.compare.fields import Likeness
from specgauge.preflight.compare.plan import Contest
from specgauge.preflight.compare.pool import Door
from specgauge.preflight.compare.records import Record
from specgauge.serve.scrape import Endpoint, Scraper

_MAX_BYTES = 64 << 20
_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """What came of it; `stopped` says that the user ended it."""

    records: Mapping[Side, Record]
    likeness: Likeness | None
    stopped: bool


async def drive(
    urls: Mapping[Side, str],
    contest: Contest,
    prompts: Mapping[str, PromptSet],
    order: Order,
    headers: Mapping[str, str],
) -> Driven:
    """Run a comparison over these servers."""
    gc.freeze()  # a full collection would hold chunks up for milliseconds
    brake = Brake()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, brake.event.set)
    scrapers: list[Scraper] = []
    try:
        doors = [_door(side, url, headers, scrapers) for side, url in urls.items()]
        arena = Arena(
            contest=contest,
            prompts=prompts,
            brake=brake,
            clock=loop.time,
            poll=min(1.0, contest.window / 4.0),
        )
        with _watching() as report:
            runner = Runner(doors, order, arena, report)
            records = await runner.run()
        return Driven(records=records, likeness=runner.likeness, stopped=brake.pulled)
    except BaselineError:
        if brake.pulled:  # nothing was measured yet
            raise click.Abort from None
        raise
    finally:
        for scraper in scrapers:
            await scraper.close()


def _door(side: Side, url: str, headers: Mapping[str, str], scrapers: list[Scraper]) -> Door:
    try:
        address = exchange.parse_address(url)
        page = parse_address(url.rstrip("/").removesuffix("/v1")).page
    except ValueError as problem:
        raise UsageError(f"the {side} pool: {problem}") from None
    endpoint = Endpoint(url=page, headers=headers, max_bytes=_MAX_BYTES, timeout=_TIMEOUT)
    scrapers.append(Scraper(endpoint))
    return Door(
        side=side,
        name=f"{address.socket or address.authority}",
        address=address,
        pages=scrapers[-1],
        generator=Generator(address),
        clock=asyncio.get_running_loop().time,
        headers=headers,
    )


@contextlib.contextmanager
def _watching() -> Iterator[Callable[[Standing], None]]:
    """Show a bar on a terminal, and a line for every cell that is over always."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar:
        task = bar.add_task("asking the servers", total=None)

        def report(now: Standing) -> None:
            bar.update(task, total=now.of, completed=now.done, description=plain(now.told))
            if now.finished is not None:
                console.print(f"{plain(now.told)}: measured", markup=False)

        yield report
