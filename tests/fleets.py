"""A pool of sidecars that is not there: their pages, their past, and a Prometheus over them."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.flag_servers import Asked, FlagServer, Reply, flag_server
from tests.sidecars import DEADLINE, until

SCRAPE = 0.2
CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: specgauge
    static_configs: [{{targets: [{addresses}]}}]
"""
MODEL = 'target="spec",model_name="m"'
TEXT = {"Content-Type": "text/plain; version=0.0.4"}


@dataclass(slots=True, kw_only=True)
class Member:
    """A sidecar whose counters grow by as much at every scrape, for 16 requests in decode.

    `speedup` is how much longer its tokens would have taken without speculation.
    """

    speedup: float = 1.0
    model: str = "m"
    state: str = "active"
    accepted: float = 60.0
    down: bool = False
    scrapes: int = 0
    extra: dict[str, float] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)

    def scrape(self) -> str:
        """Let time pass and write the page."""
        self.scrapes += 1
        for series, growth in self.growth().items():
            self.counters[series] = self.counters.get(series, 0.0) + growth
        lines = [f"{series} {value!r}" for series, value in self.samples().items()]
        return "\n".join(line.replace("nan", "NaN") for line in lines) + "\n"

    def growth(self) -> Mapping[str, float]:
        """Say by how much each counter grows from one scrape to the next."""
        labels = MODEL.replace('"m"', f'"{self.model}"')
        engine = f'{labels},engine="0"'
        speed = f'{labels},basis="concurrency"'
        return {
            f"specgauge_generation_tokens_total{{{engine}}}": 210.0,
            f"specgauge_first_tokens_total{{{engine}}}": 10.0,
            f'specgauge_requests_finished_total{{{engine},finished_reason="stop"}}': 8.0,
            f'specgauge_requests_finished_total{{{engine},finished_reason="length"}}': 2.0,
            f"specgauge_drafts_total{{{engine}}}": 100.0,
            f"specgauge_draft_tokens_total{{{engine}}}": 300.0,
            f"specgauge_accepted_tokens_total{{{engine}}}": self.accepted,
            f"specgauge_decode_seconds_total{{{engine}}}": 16.0,
            f"specgauge_engine_restarts_total{{{engine}}}": 0.0,
            f"specgauge_baseline_decode_seconds_total{{{speed}}}": 16.0 * self.speedup,
            f"specgauge_baseline_covered_decode_seconds_total{{{speed}}}": 16.0,
            f'specgauge_baseline_decode_seconds_total{{{labels},basis="throughput"}}': 99.0,
            'specgauge_http_requests_total{target="spec",code="2xx"}': 9.0,
            'specgauge_http_requests_total{target="spec",code="5xx"}': 1.0,
        }

    def samples(self) -> dict[str, float]:
        """Give the page as it stands."""
        labels = MODEL.replace('"m"', f'"{self.model}"')
        gauges = {
            f'specgauge_baseline_tpot_seconds{{{labels},concurrency="{level}"}}': 0.02
            for level in (1, 8, 64)
        }
        states = {
            f'specgauge_guard_state{{target="spec",state="{state}"}}': float(state == self.state)
            for state in ("active", "fallback", "latched", "probing")
        }
        gauges[f"specgauge_requests_waiting{{{labels}}}"] = 1.0
        return {**self.counters, **gauges, **states, **self.extra}

    def answer(self, _: Asked) -> Reply:
        """Answer a scrape."""
        return Reply(status=503) if self.down else Reply(text=self.scrape(), headers=TEXT)

    def restart(self) -> None:
        """Begin anew, as a sidecar does whose process was killed."""
        self.counters.clear()


@asynccontextmanager
async def pool(program: str, folder: Path, *members: Member) -> AsyncIterator[str]:
    """Serve the members and run a Prometheus that scrapes them; gives its URL."""
    async with serving(list(members)) as servers:
        shown = ", ".join(f'"{one.url.removeprefix("http://")}"' for one in servers)
        async with running(program, folder, CONFIG.format(addresses=shown)) as url:
            await scraped(*members, times=2)
            yield url


async def scraped(*members: Member, times: int) -> None:
    """Wait until all members have been scraped so many times more."""
    wanted = [one.scrapes + times for one in members]
    await until(
        lambda: all(one.scrapes >= n for one, n in zip(members, wanted, strict=True)), "scrapes"
    )


@asynccontextmanager
async def serving(members: list[Member]) -> AsyncIterator[list[FlagServer]]:
    if not members:
        yield []
        return
    async with flag_server(members[0].answer) as first, serving(members[1:]) as others:
        yield [first, *others]


@asynccontextmanager
async def running(program: str, folder: Path, config: str = "") -> AsyncIterator[str]:
    """Run a Prometheus on a free port over `folder`/data; gives its URL."""
    file = folder / "prometheus.yml"
    file.write_text(config)
    command = (program, f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}")
    async with prometheus_at(*command, "--storage.tsdb.retention.time=100y") as url:
        yield url


@asynccontextmanager
async def prometheus_at(*command: str, folder: Path | None = None) -> AsyncIterator[str]:
    """Run a Prometheus by its command line in a folder, on a free port; gives its URL."""
    async with listening(*command, found=find_url, folder=folder) as url:
        yield url


@asynccontextmanager
async def listening(
    *command: str,
    found: Callable[[asyncio.StreamReader], Awaitable[str]],
    folder: Path | None = None,
) -> AsyncIterator[str]:
    """Run a server on a free port by its command line; `found` reads from its log where it is."""
    process = await asyncio.create_subprocess_exec(
        *command,
        "--web.listen-address=127.0.0.1:0",
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
    )
    reading: asyncio.Task[None] | None = None
    try:
        assert process.stderr is not None
        where = await asyncio.wait_for(found(process.stderr), DEADLINE)
        reading = asyncio.create_task(drain(process.stderr))
        yield where
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        if reading is not None:
            await reading


async def find_url(log: asyncio.StreamReader) -> str:
    """Read on until it is ready; the port stands in an earlier line."""
    seen = ""
    async for line in log:
        seen += line.decode()
        found = re.search(r'"Listening on" address=(\S+)', seen)
        if found and "Server is ready" in seen:
            return f"http://{found[1]}"
    raise AssertionError(seen)


async def drain(log: asyncio.StreamReader) -> None:
    while await log.read(1 << 16):
        pass


def past(start: float, seconds: float, every: float) -> Iterator[str]:
    """Write the past of two members as OpenMetrics, for Prometheus to take in.

    Speculation pays, costs in the middle third, and pays again. Halfway through that third one
    of the members is killed and starts anew.
    """
    members = {"a:1": Member(), "b:1": Member()}
    rows: dict[str, list[str]] = {}
    for at in range(math.floor(seconds / every) + 1):
        share = at * every / seconds
        for instance, member in members.items():
            member.speedup = 0.6 if 1 / 3 <= share < 2 / 3 else 1.4
            if instance == "b:1" and at == math.floor(seconds / every / 2):
                member.restart()
            for _ in range(math.floor(every)):
                member.scrape()
            for series, value in member.samples().items():
                name, _, labels = series.partition("{")
                row = f'{name}{{job="specgauge",instance="{instance}",{labels} {value!r}'
                rows.setdefault(name, []).append(f"{row} {start + at * every:.3f}")
    for name, lines in rows.items():
        counted = name.endswith("_total")
        yield f"# TYPE {name.removesuffix('_total')} {'counter' if counted else 'gauge'}\n"
        yield "\n".join(lines) + "\n"
    yield "# EOF\n"
