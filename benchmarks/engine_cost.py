"""What being scraped costs a real vLLM server: CPU of its API process, and its time per token.

Phases without scrapes, with one every five seconds and with one a second follow each other in
rounds, under a load that goes on throughout: that of `--streams`, or whatever the server has.
Two pages more, at the edges of each phase, are fetched in every variant alike.

    python benchmarks/engine_cost.py --url http://127.0.0.1:8000 --pid 4711 --streams 8
"""

import argparse
import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
from measure import MILLI, Row, cpu_seconds, spread, tell, write_table

from specgauge.derive.accumulate import advance, open_ledger
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.engines.reader import Reader
from specgauge.model.derived import Hints
from specgauge.model.quantity import Page
from specgauge.serve.scrape import Endpoint, Scraper

NONE, EVERY_FIVE, EVERY_SECOND = "no scrapes", "every 5 s", "every second"
_ALONE = 100
_INTERVALS = {NONE: None, EVERY_FIVE: 5.0, EVERY_SECOND: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One stretch of time under one variant; `tpot` None where no token was decoded."""

    cpu_ratio: float
    tpot: float | None
    scrapes: int


async def measure(url: str, pids: list[int], seconds: float, rounds: int) -> dict[str, list[Phase]]:
    """Take every variant once a round, in an order that changes."""
    found: dict[str, list[Phase]] = {name: [] for name in _INTERVALS}
    scraper = Scraper(Endpoint(url=f"{url}/metrics", timeout=30.0))
    order = random.Random(0)  # noqa: S311 - a fair order, not a secret
    try:
        for number in range(rounds):
            for name in order.sample(list(_INTERVALS), len(_INTERVALS)):
                tell(f"  round {number + 1} of {rounds}: {name}")
                found[name].append(await _phase(scraper, pids, seconds, _INTERVALS[name]))
    finally:
        await scraper.close()
    return found


async def alone(url: str, pids: list[int]) -> Row:
    """Count the CPU of scrapes one after the other, before there is any load."""
    scraper = Scraper(Endpoint(url=f"{url}/metrics", timeout=30.0))
    taken = []
    try:
        for _ in range(_ALONE):
            used = sum(map(cpu_seconds, pids))
            await scraper.fetch()
            taken.append(sum(map(cpu_seconds, pids)) - used)
    finally:
        await scraper.close()
    return Row(what="one scrape before the load: CPU", value=f"{spread(taken, MILLI)} ms")


async def _phase(
    scraper: Scraper, pids: list[int], seconds: float, interval: float | None
) -> Phase:
    clock = asyncio.get_running_loop()
    reader = Reader()
    first = await _page(reader, scraper)
    began, used = clock.time(), sum(map(cpu_seconds, pids))
    scrapes = 0
    while interval is not None and (scrapes + 1) * interval < seconds:
        scrapes += 1
        await asyncio.sleep(began + scrapes * interval - clock.time())
        await scraper.fetch()
    await asyncio.sleep(began + seconds - clock.time())
    used, took = sum(map(cpu_seconds, pids)) - used, clock.time() - began
    last = await _page(reader, scraper)
    return Phase(cpu_ratio=used / took, tpot=_tpot(first, last, took), scrapes=scrapes)


async def _page(reader: Reader, scraper: Scraper) -> Page:
    body = await scraper.fetch()
    return reader.read(body.data, complete=body.complete)


def _tpot(first: Page, last: Page, seconds: float) -> float | None:
    """Give the time per output token between two pages, of the model that decoded most."""
    before = open_ledger(first, 0.0)
    after, _ = advance(before, last, seconds)
    derived = [summarise(w, Hints()) for w in windows(before.totals, after, last, seconds).values()]
    known = [
        (one.values["decode_tokens_per_second"], one.values["tpot_seconds"])
        for one in derived
        if {"decode_tokens_per_second", "tpot_seconds"} <= one.values.keys()
    ]
    tpot = max(known, default=(0, None))[1]
    return tpot if isinstance(tpot, float) else None


def rows(found: dict[str, list[Phase]]) -> list[Row]:
    """Set every variant beside the phases of its own round without scrapes."""
    told = []
    for name, phases in found.items():
        tpots = [one.tpot * MILLI for one in phases if one.tpot is not None]
        told.append(
            Row(
                what=f"{name}: CPU of the process, of one core",
                value=f"{spread([one.cpu_ratio for one in phases], 100.0)} %",
            )
        )
        if len(tpots) > 1:
            told.append(Row(what=f"{name}: TPOT", value=f"{spread(tpots)} ms"))
        if name == NONE:
            continue
        pairs = list(zip(phases, found[NONE], strict=True))
        extra = [MILLI * (one.cpu_ratio - none.cpu_ratio) for one, none in pairs]
        told.append(Row(what=f"{name}: CPU above none", value=f"{spread(extra)} ms a second"))
        slower = [one.tpot / n.tpot for one, n in pairs if one.tpot is not None and n.tpot]
        if len(slower) > 1:
            told.append(Row(what=f"{name}: TPOT over that without", value=f"{spread(slower)}"))
    return told


@contextlib.asynccontextmanager
async def load(url: str, streams: int) -> AsyncIterator[None]:
    """Keep so many streams of completions going while the body runs."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        model = ""
        if streams:
            async with session.get(f"{url}/v1/models", raise_for_status=True) as response:
                model = (await response.json())["data"][0]["id"]
        tasks = [asyncio.create_task(_stream(session, url, model, n)) for n in range(streams)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _stream(session: aiohttp.ClientSession, url: str, model: str, number: int) -> None:
    """Send one request after the other, of mixed lengths so that streams do not move in step."""
    lengths = random.Random(number)  # noqa: S311 - a mix, not a secret
    while True:
        body = {
            "model": model,
            "prompt": f"Stream {number}: count on from {lengths.randrange(1000)}: ",
            "max_tokens": lengths.randrange(32, 160),
            "ignore_eos": True,
            "temperature": 0.0,
            "stream": True,
        }
        async with session.post(f"{url}/v1/completions", json=body) as response:
            response.raise_for_status()
            async for _ in response.content.iter_any():
                pass


async def run(arguments: argparse.Namespace) -> None:
    """Measure under load and print the table."""
    first = await alone(arguments.url, arguments.pid)
    async with load(arguments.url, arguments.streams):
        if arguments.streams:
            await asyncio.sleep(arguments.seconds / 2)
        found = await measure(arguments.url, arguments.pid, arguments.seconds, arguments.rounds)
    title = f"Cost of scrapes to the server, {arguments.rounds} rounds of {arguments.seconds:g} s"
    write_table(title, [first, *rows(found)])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", required=True, help="root of a vLLM server, without /metrics")
    parser.add_argument(
        "--pid", type=int, action="append", required=True, help="API server process; repeat"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a phase")
    parser.add_argument("--rounds", type=int, default=8, help="phases of each variant, at least 2")
    parser.add_argument("--streams", type=int, default=0, help="requests to keep under way")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
