"""A real nginx before two pools, its log read by a sidecar, held against what the client saw."""

import asyncio
import os
import random
import signal
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from tests.routers import Front, routing
from tests.servers import answer, serving
from tests.sidecars import Running, quick, sidecar, until
from tests.small_pages import v1_page

from specgauge.model.settings import TargetSettings
from specgauge.model.traffic import LineResult

RULES = """
  rules:
    - name: code
      when: {patterns: [code_fence]}
      pool: speculative
    - name: batch
      when: {header: {name: X-Traffic, values: [batch]}}
      pool: standard
    - name: tiny
      when: {max_tokens: {below: 32}}
      pool: standard
"""
Key = tuple[str, str]


@dataclass(slots=True)
class Ledger:
    """What a client saw of its own requests, by class and pool."""

    requests: Counter[Key] = field(default_factory=Counter)
    errors: Counter[Key] = field(default_factory=Counter)
    streams: Counter[Key] = field(default_factory=Counter)
    seconds: defaultdict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def ask(self, front: Front, chance: random.Random, *, leaves: bool = False) -> None:
        """Send one request of some class and write down how it went."""
        stream = leaves or chance.random() < 0.5
        body: dict[str, Any] = {"stream": stream, "messages": [{"role": "user", "content": "?"}]}
        headers = {}
        match chance.choice(["code", "batch", "tiny", "other"]):
            case "code":
                body["messages"][0]["content"] = "```python"
            case "batch":
                headers["X-Traffic"] = "batch"
            case "tiny":
                body["max_tokens"] = 5
        url, began = f"{front.url}/v1/chat/completions", time.monotonic()
        async with front.client.post(url, json=body, headers=headers) as response:
            key = (response.headers["X-Specgauge-Class"], response.headers["X-Specgauge-Pool"])
            self.requests[key] += 1
            try:
                if leaves:
                    await response.content.readany()
                    response.close()
                else:
                    await response.read()
            except aiohttp.ClientPayloadError:
                self.errors[key] += 1
                return
        if leaves or response.status >= 500:
            self.errors[key] += 1
        elif response.status == 200:
            self.streams[key] += stream
            self.seconds[key].append(time.monotonic() - began)


def sums(found: dict[str, float], series: str) -> Counter[Key]:
    """Read a counter by class and pool; those that are 0 are not among them."""
    read: Counter[Key] = Counter()
    for key, value in found.items():
        name, _, labels = key.partition("{")
        if name == f"specgauge_class_{series}" and value:
            told = dict(one.split("=") for one in labels.rstrip("}").split(","))
            read[told["class"].strip('"'), told["pool"].strip('"')] += int(value)
    return read


def rotate(front: Front, number: int) -> None:
    """Rotate the log as logrotate does: a new name, then a signal."""
    log = front.folder / "access.log"
    log.rename(front.folder / f"access.log.{number}")
    pid = int((front.folder / "nginx" / "nginx.pid").read_text())
    os.kill(pid, signal.SIGUSR1)


async def lines(made: Running, count: int) -> None:
    def counted() -> bool:
        view = made.sidecar.view.classes
        return view is not None and sum(view.lines.values()) >= count

    await until(counted, f"{count} lines")


async def drive(front: Front, ledger: Ledger) -> int:
    """Send requests while all goes well, then while it does not; gives how often one was retried.

    Rotates the log twice on the way.
    """
    chance = random.Random(7)  # noqa: S311 - the same requests in every run

    async def ask(count: int, *, leaves: bool = False) -> None:
        await asyncio.gather(*(ledger.ask(front, chance, leaves=leaves) for _ in range(count)))

    spec, standard = front.speculative, front.standard
    spec.pause = standard.pause = 0.004
    for turn in range(3):
        front.tell(flag=True)
        await ask(60)
        front.tell(flag=False)  # a class is what it is, whichever pool has it
        asking = asyncio.create_task(ask(60))
        await asyncio.sleep(0.02)
        if turn < 2:
            rotate(front, turn + 1)
        await asking
    front.tell(flag=True)
    spec.chunks = standard.chunks = 200
    await ask(12, leaves=True)
    spec.chunks = standard.chunks = 5
    spec.mode = standard.mode = "cut"
    await ask(20)
    spec.mode, standard.mode, before = "slam", "well", spec.asked
    await ask(20)
    standard.mode = "503"
    await ask(10)
    return spec.asked - before


async def test_agrees_with_the_client_to_the_request() -> None:
    """Streams, errors, retries, clients that leave, servers that break off, and two rotations."""
    ledger = Ledger()
    async with routing(RULES) as front, serving(answer(v1_page(1000))) as engine:
        log = front.folder / "access.log"
        settings = quick(TargetSettings(name="spec", url=engine.page))
        async with sidecar(settings=replace(settings, access_log=str(log))) as made:
            await until(lambda: made.events("class_log_followed"), "the log")
            retried = await drive(front, ledger)
            total = sum(ledger.requests.values())
            await lines(made, total)
            found = await made.samples()
            async with made.client.get("/api/v1/classes") as response:
                document = await response.json()
    results = {
        one: found[f'specgauge_class_log_lines_total{{result="{one}"}}'] for one in LineResult
    }
    assert results == {**dict.fromkeys(LineResult, 0), LineResult.OK: 422}
    assert sums(found, "requests_total") == ledger.requests
    assert sums(found, "errors_total") == ledger.errors
    assert sums(found, "ttft_seconds_count") == +ledger.streams
    assert sums(found, "e2e_seconds_count") == {k: len(v) for k, v in ledger.seconds.items()}
    assert sums(found, "retries_total").total() == retried > 0
    assert {name for name, _ in ledger.requests} == {"code", "batch", "tiny", "other"}
    assert len(ledger.requests) == 6
    for one in document["classes"]:
        for pool in one["pools"]:
            key = (one["class"], pool["pool"])
            seconds = ledger.seconds[key]
            assert pool["requests"] == ledger.requests[key]
            assert (pool["acceptance_ratio"], pool["acceptance_length"]) == (3 / 8, 1 + 3 / 2)
            assert pool["completion_tokens"] == 5 * len(seconds)
            # The client's time includes its own waiting for a connection, never less.
            assert 0 < pool["e2e_seconds"]["mean"] <= sum(seconds) / len(seconds) + 0.002
