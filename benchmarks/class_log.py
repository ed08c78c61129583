#!/usr/bin/env python3
"""Measures the reading of an access log: lines a second, memory, and what others have to wait.

A log of a million lines waits for a sidecar that starts. It scrapes an engine once a second
meanwhile, and a client asks for its /metrics ten times a second.
"""

import argparse
import asyncio
import contextlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil
from measure import MEBI, Row, percentile, resident_mib, write_table

from specgauge.model.settings import Settings, TargetSettings
from specgauge.model.traffic import LineResult
from specgauge.serve.app import Sidecar
from specgauge.serve.classes.line import read_line
from specgauge.serve.classes.totals import Totals
from specgauge.serve.demo.recording import RecordingName, load
from specgauge.serve.demo.stand_in import StandIn
from specgauge.serve.log import Log

_CLASSES = ("chat", "code", "batch", "short", "other")
_LOOK_SECONDS = 0.1
_QUIET_LOOKS = 150


def line(number: int) -> bytes:
    """Write a line as the router does, each another one."""
    return json.dumps(
        {
            "time": round(1790000000 + number / 100, 3),
            "id": f"{number:032x}",
            "class": _CLASSES[number % len(_CLASSES)],
            "pool": "speculative",
            "reason": "rule:chat",
            "body": "read",
            "status": 200,
            "complete": "1",
            "upstream": "127.0.0.1:8000",
            "upstream_status": "200",
            "seconds": 1 + number % 700 / 100,
            "first_byte_seconds": f"{number % 90 / 100:.3f}",
            "bytes": 40_000,
            "stream": "1",
            "served_pool": "speculative" if number % 3 else "standard",
            "completion_tokens": str(100 + number % 300),
            "prompt_tokens": str(number * 37 % 80_000),
            "drafts": "60",
            "draft_tokens": "240",
            "accepted_tokens": str(number % 200),
        },
        separators=(",", ":"),
    ).encode()


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was seen while something went on."""

    waits: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    seconds: float = 0.0
    scrapes: int = 0
    failed: int = 0


def raw_rows(count: int = 50_000) -> Iterator[Row]:
    """Time the reading of lines alone, as CPU."""
    lines = [line(number) for number in range(count)]
    totals = Totals(since=0.0)
    began = time.process_time()
    for one in lines:
        record = read_line(one)
        if isinstance(record, LineResult):
            raise SystemExit("a line of this program's own was refused")
        totals.add(record)
    seconds = time.process_time() - began
    yield Row(what="bytes of a line", value=f"{sum(map(len, lines)) / count:.0f}")
    yield Row(what="read and added up, CPU a line", value=f"{seconds / count * 1e6:.1f} us")


async def watch(sidecar: Sidecar, client: aiohttp.ClientSession, lines: int) -> Seen:
    """Ask for /metrics until so many lines are read, or for a while where none are wanted."""
    seen, process = Seen(), os.getpid()
    began = time.monotonic()
    before = sum(sidecar.view.targets[0].scrapes.values())
    while True:
        asked = time.monotonic()
        async with client.get(f"{sidecar.url}/metrics") as response:
            await response.read()
        seen.waits.append(time.monotonic() - asked)
        seen.resident.append(resident_mib(process))
        classes = sidecar.view.classes
        counted = sum(classes.lines.values()) if classes else 0
        if (counted >= lines > 0) or (lines == 0 and len(seen.waits) >= _QUIET_LOOKS):
            break
        await asyncio.sleep(_LOOK_SECONDS)
    seen.seconds = time.monotonic() - began
    scrapes = sidecar.view.targets[0].scrapes
    seen.scrapes = sum(scrapes.values()) - before
    seen.failed = sum(count for result, count in scrapes.items() if result != "ok")
    return seen


async def measure(lines: int, folder: Path) -> tuple[Seen, Seen]:
    """Run a sidecar without a log, then one that finds a long one."""
    engine = StandIn(load(RecordingName.SPECULATIVE))
    await engine.start()
    target = TargetSettings(name="demo", url=f"{engine.url}/metrics")
    plain = Settings(targets=(target,), host="127.0.0.1", port=0)
    log, state = folder / "access.log", folder / "place.json"
    with log.open("wb") as file:
        file.writelines(line(number) + b"\n" for number in range(lines))
    print(f"{log.stat().st_size / MEBI:.0f} MiB of log are written", file=sys.stderr)
    found = []
    for settings, wanted in (
        (plain, 0),
        (
            Settings(
                targets=(target,),
                host="127.0.0.1",
                port=0,
                access_log=str(log),
                access_log_state=str(state),
            ),
            lines,
        ),
    ):
        sidecar = Sidecar(settings, log=Log(io.StringIO()))
        await sidecar.start()
        async with aiohttp.ClientSession() as client:
            found.append(await watch(sidecar, client, wanted))
        await sidecar.stop()
    await engine.stop()
    return found[0], found[1]


def rows(quiet: Seen, busy: Seen, lines: int) -> Iterator[Row]:
    """Write down what was seen."""
    grown = max(busy.resident) - max(quiet.resident)
    yield Row(what="lines", value=f"{lines:,}")
    yield Row(what="lines a second, wall", value=f"{lines / busy.seconds:,.0f}")
    yield Row(what="memory: resident before", value=f"{max(quiet.resident):.1f} MiB")
    yield Row(what="memory: growth while it reads", value=f"{grown:.1f} MiB", target="16 MiB")
    yield Row(what="scrapes of the engine a second", value=f"{busy.scrapes / busy.seconds:.2f}")
    yield Row(what="scrapes that failed", value=str(busy.failed), target="0")
    for name, seen in (("without a log", quiet), ("while it reads", busy)):
        median, most = percentile(seen.waits, 50) * 1e3, max(seen.waits) * 1e3
        high = percentile(seen.waits, 99) * 1e3
        value = f"{median:.1f} / {high:.1f} / {most:.1f} ms"
        yield Row(what=f"GET /metrics {name}: p50 / p99 / most", value=value)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    lines = parser.parse_args().lines
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        quiet, busy = asyncio.run(measure(lines, Path(folder)))
        load_average = psutil.getloadavg()[0]
        write_table(f"A log that waits (load average {load_average:.1f})", rows(quiet, busy, lines))
        write_table("Lines alone", raw_rows())


if __name__ == "__main__":
    main()
