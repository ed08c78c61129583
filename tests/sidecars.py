"""Runs the real sidecar for a test: inside this process, or as a process of its own."""

import asyncio
import io
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from specgauge.model.settings import Settings, TargetSettings
from specgauge.serve.app import Sidecar
from specgauge.serve.log import Log

DEADLINE = 30.0
INTERVAL = 0.02
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warning|error) (\w+)( \w+=.*)?")


def read_samples(page: str) -> dict[str, float]:
    """Read a page's samples, each under its name and labels in the order of the alphabet."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(f'{key}="{text}"' for key, text in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in found, f"{key} stands twice"
            found[key] = sample.value
    return found


async def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Wait for something that only looking again can tell."""
    try:
        async with asyncio.timeout(DEADLINE):
            while not condition():  # noqa: ASYNC110 - only looking tells
                await asyncio.sleep(INTERVAL / 2)
    except TimeoutError:
        raise AssertionError(f"{what} did not come within {DEADLINE:g} s") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A sidecar in this process, with a client and everything it has logged."""

    sidecar: Sidecar
    client: aiohttp.ClientSession
    stream: io.StringIO

    def events(self, *names: str) -> list[str]:
        """Name the events logged so far, without time; only those of the names, if any."""
        lines = [line.split(" ", 1)[1] for line in self.stream.getvalue().splitlines()]
        return [line for line in lines if not names or line.split()[1] in names]

    async def samples(self) -> dict[str, float]:
        """Scrape it."""
        async with self.client.get("/metrics") as response:
            assert response.status == 200
            return read_samples(await response.text())

    async def scrapes(self, more: int = 3) -> None:
        """Wait until every target has been scraped some more times."""
        counts = [sum(one.scrapes.values()) for one in self.sidecar.view.targets]
        await until(
            lambda: all(
                sum(one.scrapes.values()) >= before + more
                for one, before in zip(self.sidecar.view.targets, counts, strict=True)
            ),
            "another scrape",
        )

    async def result(self, name: str, target: int = 0) -> None:
        """Wait until a target's last scrape ended so."""
        await until(lambda: self.sidecar.view.targets[target].result == name, f"a scrape {name}")


@asynccontextmanager
async def sidecar(
    *targets: TargetSettings,
    settings: Settings | None = None,
    read_settings: Callable[[], Settings] | None = None,
) -> AsyncIterator[Running]:
    """Run a sidecar on a free port that scrapes often."""
    stream = io.StringIO()
    settings = settings or quick(*targets)
    made = Sidecar(settings, read_settings=read_settings, log=Log(stream))
    await made.start()
    try:
        async with aiohttp.ClientSession(made.url) as client:
            yield Running(sidecar=made, client=client, stream=stream)
    finally:
        await made.stop()


def quick(*targets: TargetSettings, timeout: float = 10.0, token: str | None = None) -> Settings:
    """Give settings for a sidecar on a free port that scrapes often."""
    return Settings(
        targets=targets, interval=INTERVAL, timeout=timeout, host="127.0.0.1", port=0, token=token
    )


@dataclass(slots=True, kw_only=True)
class Process:
    """`specgauge` as a process, and the lines that it has written on stderr."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def follow(self) -> None:
        """Take in lines until it ends."""
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            async with self.news:
                self.lines.append(line.decode().rstrip("\n"))
                self.news.notify_all()

    async def line(self, event: str, *, count: int = 1) -> str:
        """Wait for the line of an event, or for its next one."""
        try:
            async with asyncio.timeout(DEADLINE), self.news:
                await self.news.wait_for(lambda: len(self.told(event)) >= count)
        except TimeoutError:
            raise AssertionError(f"no {event} among {self.lines}") from None
        return self.told(event)[count - 1]

    def told(self, event: str) -> list[str]:
        """Give the lines of one event."""
        return [line for line in self.lines if f" {event}" in line.partition("=")[0]]

    async def end(self) -> int:
        """Wait for its end; gives the exit code."""
        return await asyncio.wait_for(self.process.wait(), DEADLINE)

    async def listening(self) -> str:
        """Wait until it listens; gives the URL."""
        found = re.search(r" url=(\S+)", await self.line("listening"))
        assert found
        return found[1]


@asynccontextmanager
async def specgauge(
    *arguments: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[Process]:
    """Run the command line; whatever happens, it has ended afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specgauge", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )
    made = Process(process=process)
    following = asyncio.create_task(made.follow())
    try:
        yield made
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await following
        assert process.stdout is not None
        await process.stdout.read()
