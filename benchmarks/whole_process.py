"""CPU, memory and answer times of whole processes: the sidecar and two exporters beside it."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from shutil import which
from tempfile import NamedTemporaryFile

import aiohttp
from cycle import Client
from engine_process import Fleet
from measure import MILLI, Row, cpu_seconds, percentile, resident_mib, spread, tell

_HERE = Path(__file__).parent
_FLEET = Fleet(engines=16, models=2, positions=16)
_SCRAPES = re.compile(
    rb'^specgauge_scrapes_total\{result="ok",target="[^"]*"\} (\S+)$', re.MULTILINE
)
_START_SECONDS = 10.0


@contextmanager
def sidecar(*arguments: str) -> Iterator[tuple[str, int]]:
    """Run `specgauge serve` with these arguments; gives its URL and its process id."""
    listen = f"127.0.0.1:{free_port()}"
    command = (sys.executable, "-m", "specgauge", "serve", "--listen", listen, *arguments)
    with running(*command) as pid:
        yield f"http://{listen}", pid


@contextmanager
def running(*command: str) -> Iterator[int]:
    """Run a command until the block ends; gives its process id."""
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def wait_for(url: str) -> Client:
    """Wait until a server answers, and keep the connection."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        client = Client(url)
        try:
            client.get()
        except (OSError, HTTPException):
            client.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return client


def measure_side_by_side(engines: str, seconds: int) -> list[Row]:
    """Scrape the sidecar, a naive exporter and the node exporter once a second each, together.

    Naive and sidecar scrape the recorded page once a second themselves.
    """
    with ExitStack() as opened:
        url, pid = opened.enter_context(sidecar("--target", engines))
        fleet_url, fleet_pid = opened.enter_context(sidecar("--target", engines + _FLEET.path))
        port = free_port()
        naive = (sys.executable, str(_HERE / "naive_exporter.py"), engines + "/metrics")
        naive_pid = opened.enter_context(running(*naive, f"--port={port}"))
        processes = {
            "specgauge serve, one engine": (url, pid),
            f"specgauge serve, {_FLEET.engines} engines x {_FLEET.models} models": (
                fleet_url,
                fleet_pid,
            ),
            "naive exporter, one engine": (f"http://127.0.0.1:{port}", naive_pid),
        }
        if which("prometheus-node-exporter"):
            at = f"127.0.0.1:{free_port()}"
            node = ("prometheus-node-exporter", f"--web.listen-address={at}")
            processes["Prometheus' node exporter"] = (
                f"http://{at}",
                opened.enter_context(running(*node)),
            )
        else:
            tell("  prometheus-node-exporter is not installed and left out")
        return _watch(processes, seconds)


def _watch(processes: dict[str, tuple[str, int]], seconds: int) -> list[Row]:
    """Scrape every process each second and read its CPU before the next."""
    clients = {name: wait_for(url) for name, (url, _) in processes.items()}
    taken: dict[str, list[float]] = {name: [] for name in processes}
    sizes: dict[str, int] = {}
    before: dict[str, float] = {}
    time.sleep(2.0)
    begun = time.monotonic()
    for number in range(seconds + 1):
        for name, (_, pid) in processes.items():
            now = cpu_seconds(pid)
            if name in before:
                taken[name].append(now - before[name])
            before[name] = now
            sizes[name] = len(clients[name].get())
        time.sleep(max(0.0, begun + number + 1 - time.monotonic()))
        if number % 10 == 0:
            tell(f"  side by side: {number} of {seconds} s")
    return [
        Row(
            what=f"{name}, answers {sizes[name] / 1024:.0f} KiB",
            value=f"{spread(taken[name], MILLI)} ms CPU a second, {resident_mib(pid):.1f} MiB",
            target="64 MiB" if name.startswith("specgauge serve, one") else "",
        )
        for name, (_, pid) in processes.items()
    ]


def measure_answer_times(engines: str, seconds: int, scrapers: int = 20) -> list[Row]:
    """Time /metrics of a sidecar of which one target hangs, as many scrapers see it."""
    targets = [
        {"name": "live", "url": engines},
        {"name": "hanging", "url": f"{engines}/silent/metrics"},
    ]
    rows: list[Row] = []
    with ExitStack() as opened:
        file = opened.enter_context(NamedTemporaryFile("w", suffix=".yaml"))
        json.dump({"targets": targets}, file)  # JSON is YAML, too
        file.flush()
        url, _ = opened.enter_context(sidecar("--config", file.name))
        wait_for(url).close()
        for name, apart in (("spread over the second", 1.0 / scrapers), ("all at once", 0.0)):
            tell(f"  {scrapers} scrapers, {name}: {seconds} s")
            urls = (f"{url}/metrics", f"{engines}/fixed/metrics")
            taken, fixed = asyncio.run(_scrape_often(urls, seconds, scrapers, apart))
            rows += (
                Row(
                    what=f"{scrapers} scrapers a second, {name}, one target hanging",
                    value=_answer_times(taken),
                    target="p99 20 ms",
                ),
                Row(
                    what="the same scrapers at a server of fixed pages, half a second later",
                    value=_answer_times(fixed),
                ),
            )
    return rows


def _answer_times(taken: Sequence[float]) -> str:
    median, high = percentile(taken, 50) * MILLI, percentile(taken, 99) * MILLI
    return f"p50 {median:.2f} ms, p99 {high:.2f} ms of {len(taken)} answers"


async def _scrape_often(
    urls: tuple[str, str], seconds: int, scrapers: int, apart: float
) -> list[list[float]]:
    """Let every scraper ask once a second, each a little later than the one before.

    Both servers are asked, half a second apart, so that what the machine and the client add
    can be told from the times of the second one.
    """
    loop = asyncio.get_running_loop()
    start = loop.time() + 0.2
    taken: list[list[float]] = [[], []]

    async def scrape(session: aiohttp.ClientSession, which: int, phase: float) -> None:
        for second in range(seconds):
            await asyncio.sleep(start + phase + second - loop.time())
            began = loop.time()
            async with session.get(urls[which]) as response:
                await response.read()
            taken[which].append(loop.time() - began)

    connector = aiohttp.TCPConnector(limit=2 * scrapers)
    async with aiohttp.ClientSession(connector=connector) as session:
        phases = (number * apart for number in range(scrapers))
        await asyncio.gather(
            *(scrape(session, which, phase + 0.5 * which) for phase in phases for which in (0, 1))
        )
    return taken


def measure_memory(engines: str, cycles: int, marks: Sequence[int]) -> list[Row]:
    """Read the memory of the real process, scraping ten times a second, at so many cycles."""
    wanted = [mark for mark in marks if mark <= cycles] or [cycles]
    rows = []
    with sidecar("--target", engines, "--interval", "100ms") as (url, pid):
        client = wait_for(url)
        for mark in wanted:
            done = scrapes(client)
            while done < mark:
                time.sleep(max(1.0, min(10.0, (mark - done) / 20)))
                done = scrapes(client)
                tell(f"  memory: {done} of {wanted[-1]} cycles, {resident_mib(pid):.1f} MiB")
            rows.append(
                Row(
                    what=f"`python -m specgauge serve` after {mark:,} cycles",
                    value=f"{resident_mib(pid):.1f} MiB",
                    target="64 MiB",
                )
            )
        client.close()
    return rows


def measure_fast_memory(engines: str, cycles: int, marks: Sequence[int]) -> list[Row]:
    """Do the same for the sidecar alone with its time running fast."""
    port = free_port()
    command = (sys.executable, str(_HERE / "fast_sidecar.py"), engines, str(port))
    rows = []
    with running(*command) as pid:
        client = wait_for(f"http://127.0.0.1:{port}")
        for mark in (mark for mark in marks if mark <= cycles):
            done = scrapes(client)
            while done < mark:
                time.sleep(max(0.2, min(10.0, (mark - done) / 200)))
                done = scrapes(client)
            tell(f"  memory: {done} of {cycles} cycles, {resident_mib(pid):.1f} MiB")
            rows.append(
                Row(
                    what=f"its `Sidecar` with time 100 times faster, after {done:,} cycles",
                    value=f"{resident_mib(pid):.1f} MiB",
                    target="64 MiB",
                )
            )
        client.close()
    return rows


def scrapes(client: Client) -> int:
    """Read how many good scrapes a sidecar has done."""
    found = _SCRAPES.search(client.get())
    return int(float(found[1])) if found else 0


def processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0))
