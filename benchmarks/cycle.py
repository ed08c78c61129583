"""CPU of the sidecar's parts, in this process; the engine runs in another, see engine_process."""

import asyncio
import gc
import statistics
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from time import process_time, thread_time
from urllib.parse import urlsplit

from aiohttp import web
from engine_process import Fleet
from measure import MILLI, Row, spread, tell
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from specgauge.model.settings import TargetSettings
from specgauge.model.view import View
from specgauge.serve.collector import ViewCollector
from specgauge.serve.events import Events
from specgauge.serve.exposition import Oven
from specgauge.serve.log import Log
from specgauge.serve.scrape import Endpoint, Scraper
from specgauge.serve.tracker import Moment, Tracker
from specgauge.serve.web import Site, WebServer

SCRAPE_WINDOW = 60.0
_OPENMETRICS = "application/openmetrics-text"
_FLEETS = tuple(
    Fleet(engines=engines, models=models, positions=16)
    for engines, models in ((1, 1), (2, 1), (4, 1), (4, 2), (8, 2), (16, 2), (26, 2))
)
_WARM_UP = 10
_BLOCK = 20
_LIMIT = 32
"""Engine-models up to which the cycle's CPU is to be linear."""


@dataclass(slots=True, kw_only=True)
class Cycle:
    """A page's scraper and tracker; each turn is a page, a second after the one before."""

    url: str
    scraper: Scraper = field(init=False)
    tracker: Tracker = field(init=False)
    second: float = 0.0
    page: bytes = b""

    @property
    def lines(self) -> int:
        """How long the last page was."""
        return self.page.count(b"\n")

    def __post_init__(self) -> None:
        """Make what the sidecar's loop would."""
        self.scraper = Scraper(Endpoint(url=self.url))
        self.tracker = Tracker(TargetSettings(name="bench", url=self.url), SCRAPE_WINDOW)

    async def turn(self) -> tuple[float, float]:
        """Scrape and derive once; gives the CPU seconds of the fetch and of the whole."""
        began = process_time()
        body = await self.scraper.fetch()
        fetched = process_time()
        self.second += 1.0
        self.tracker.page(
            body.data,
            complete=body.complete,
            at=Moment(time=self.second, unix=self.second),
            seconds=0.0,
        )
        ended = process_time()
        self.page = body.data
        return fetched - began, ended - began


async def measure_cycle(url: str, turns: int) -> list[Row]:
    """Measure a cycle on the recorded page, in turn with the library's parser on that page."""
    cycle = Cycle(url=f"{url}/metrics")
    await _warm_up(cycle)
    fetches: list[float] = []
    wholes: list[float] = []
    parsed: list[float] = []
    for number in range(turns):
        fetch, whole = await cycle.turn()
        fetches.append(fetch)
        wholes.append(whole)
        if number % _BLOCK == 0:
            parsed.extend(_parse(cycle.page.decode()) for _ in range(3))
    await cycle.scraper.close()
    return [
        Row(
            what=f"one cycle, {cycle.lines} lines: HTTP, read, add up, derive",
            value=f"{spread(wholes, MILLI)} ms",
            target="1.5 ms",
        ),
        Row(what="of it the HTTP request", value=f"{spread(fetches, MILLI)} ms"),
        Row(what="library's parser alone, same pages", value=f"{spread(parsed, MILLI)} ms"),
    ]


def _parse(text: str) -> float:
    """Give the CPU seconds that the library's parser needs for a page."""
    began = process_time()
    list(text_string_to_metric_families(text))
    return process_time() - began


async def measure_scaling(url: str, turns: int) -> list[Row]:
    """Measure the cycle on pages of growing fleets, all in turn, and fit a line."""
    cycles = {fleet: Cycle(url=url + fleet.path) for fleet in _FLEETS}
    for cycle in cycles.values():
        await _warm_up(cycle)
    taken: dict[Fleet, list[float]] = {fleet: [] for fleet in cycles}
    for number in range(turns):
        for fleet, cycle in cycles.items():
            taken[fleet].append((await cycle.turn())[1])
        if number % 10 == 0:
            tell(f"  scaling: {number} of {turns}")
    for cycle in cycles.values():
        await cycle.scraper.close()
    rows = [
        Row(
            what=f"{fleet.engines} x {fleet.models} engine-models, {cycles[fleet].lines:,} lines",
            value=f"{spread(samples, MILLI)} ms",
            target="40 ms" if fleet.size == _LIMIT else "",
        )
        for fleet, samples in taken.items()
    ]
    known = {f.size: statistics.median(s) for f, s in taken.items() if f.size <= _LIMIT}
    slope, start = statistics.linear_regression(list(known), list(known.values()))
    off = max(abs(start + slope * size - value) for size, value in known.items())
    return [
        *rows,
        Row(
            what=f"line fitted to 1 to {_LIMIT}",
            value=f"{start * MILLI:.2f} ms + {slope * MILLI:.3f} ms each, "
            f"r2 = {statistics.correlation(list(known), list(known.values())) ** 2:.4f}, "
            f"off by at most {off * MILLI:.2f} ms",
            target="linear",
        ),
    ]


async def measure_exposition(url: str, turns: int) -> list[Row]:
    """Measure our own page: baked anew for each view, and from what was baked before."""
    cycle = Cycle(url=f"{url}/metrics")
    await _warm_up(cycle)
    kitchen = Kitchen()
    taken: dict[str, list[float]] = {}
    headers = {"text": ("", ""), "gzip": ("", "gzip"), "OpenMetrics": (_OPENMETRICS, "")}
    body = b""
    for _ in range(turns):
        await cycle.turn()
        kitchen.view = View(targets=(cycle.tracker.view,))
        for name, (accept, encoding) in headers.items():
            for state in ("fresh", "kept"):
                began = process_time()
                baked = kitchen.oven.bake(accept, encoding)
                taken.setdefault(f"{name}, {state}", []).append(process_time() - began)
            body = baked.body if name == "text" else body
    await cycle.scraper.close()
    told = {
        "text, fresh": f"page of {len(body.splitlines())} lines baked as ",
        "gzip, fresh": "adding ",
    }
    rows = [
        Row(
            what=told.get(name, "") + name,
            value=f"{spread(samples, MILLI)} ms",
            target="2 ms" if name == "text, fresh" else "",
        )
        for name, samples in taken.items()
    ]
    return rows + await _measure_serving(kitchen, cycle, turns)


class Kitchen:
    """Our page's maker with a view that can be changed."""

    def __init__(self) -> None:
        self.view = View(targets=())
        registry = CollectorRegistry()
        registry.register(ViewCollector(lambda: self.view))
        self.oven = Oven(registry=registry, version=lambda: self.view)


async def _measure_serving(kitchen: Kitchen, cycle: Cycle, turns: int) -> list[Row]:
    """Measure whole requests at the server; the client works in another thread, uncounted."""
    site = Site(
        oven=lambda: kitchen.oven,
        view=lambda: kitchen.view,
        reload=list,
        token=lambda: None,
        running=lambda: True,
        trend=lambda _: iter(()),
        events=Events(dict).stream,
        routes=web.Response,
    )
    server = WebServer(site, host="127.0.0.1", port=0, log=Log(sys.stderr))
    await server.start()
    client = Client(server.url)

    async def request(*, zipped: bool, anew: bool) -> float:
        if anew:
            kitchen.view = View(targets=(cycle.tracker.view,))
        return await counted(lambda: asyncio.to_thread(client.get, zipped=zipped))

    variants = {
        "GET /metrics, fresh": {"zipped": False, "anew": True},
        "GET /metrics, kept": {"zipped": False, "anew": False},
        "GET /metrics with gzip, fresh": {"zipped": True, "anew": True},
        "GET /metrics with gzip, kept": {"zipped": True, "anew": False},
    }
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(turns):
        for name, how in variants.items():
            taken[name].append(await request(**how))
    client.close()
    await server.stop()
    return [
        Row(
            what=name,
            value=f"{spread(samples, MILLI)} ms",
            target="2 ms" if name.endswith("fresh") else "",
        )
        for name, samples in taken.items()
    ]


async def counted(work: Callable[[], Awaitable[object]]) -> float:
    """Give the CPU seconds that this thread spends while the work is done."""
    began = thread_time()
    await work()
    return thread_time() - began


class Client:
    """A blocking client over one kept connection, as a scraper has it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=10.0)

    def get(self, *, zipped: bool = False) -> bytes:
        """Fetch /metrics as it comes over the wire."""
        headers = {"Accept-Encoding": "gzip" if zipped else "identity"}
        self._connection.request("GET", "/metrics", headers=headers)
        return self._connection.getresponse().read()

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


async def _warm_up(cycle: Cycle) -> None:
    """Let the reader meet every key, and Python settle."""
    for _ in range(_WARM_UP):
        await cycle.turn()
    gc.collect()
