"""Runs a sweep: server after server, load after load, and keeps what it has after each of them.

What is measured already is not measured again, so that a sweep goes on where it was ended.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

from specgauge.baseline.brake import Brake, Why
from specgauge.baseline.exchange import parse_address
from specgauge.baseline.level import Live
from specgauge.baseline.load import Generator
from specgauge.errors import SourceError
from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.folder import Folder
from specgauge.preflight.sweep.measure import Site, measure, open_site
from specgauge.preflight.sweep.memory import gpu_memory
from specgauge.preflight.sweep.order import Visit, turns
from specgauge.preflight.sweep.processes import members
from specgauge.preflight.sweep.server import (
    CandidateError,
    OpenPages,
    Server,
    StoppedError,
    free_port,
    running,
)
from specgauge.preflight.sweep.state import Book
from specgauge.preflight.sweep.task import Task
from specgauge.preflight.sweep.template import fill, split


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Whom a sweep tells how it stands: in words, in seconds of waiting, in figures of a load."""

    say: Callable[[str], None]
    wait: Callable[[str, float], None]
    live: Callable[[Visit, Live], None]


class Sweep:
    """One run of a sweep; `stop` ends it with what there is."""

    def __init__(
        self,
        task: Task,
        book: Book,
        folder: Folder,
        *,
        open_pages: Callable[[str], OpenPages],
        telling: Telling,
        salt: str,
    ) -> None:
        self._task = task
        self._book = book
        self._folder = folder
        self._open_pages = open_pages
        self._telling = telling
        self._salt = salt
        self._stop = asyncio.Event()
        self._brake = Brake()
        self._sites: dict[str, Site] = {}

    def stop(self) -> None:
        """End the sweep as soon as its server has been stopped."""
        self._stop.set()
        self._brake.pull(Why.STOPPED, "stopped by the user")

    async def run(self) -> bool:
        """Measure what is lacking; False where the user ended it."""
        by_name = {one.name: one for one in self._task.candidates}
        async with AsyncExitStack() as kept:
            for turn in turns(self._task.visits):
                candidate = by_name[turn[0].candidate]
                visits = [one for one in turn if not self._book.has(one)]
                if self._stop.is_set():
                    return False
                if not visits or self._passed_over(candidate):
                    continue
                try:
                    await self._turn(candidate, visits, kept)
                except CandidateError as problem:
                    self._telling.say(f"{candidate.name}: {problem.reason}")
                    self._book.fail(candidate.name, problem.reason, problem.lines)
                except StoppedError:
                    return False
        self._book.settle()
        return True

    def _passed_over(self, candidate: Candidate) -> bool:
        """Tell whether a candidate has failed, or need not be tried."""
        status = self._book.status(candidate.name)
        if status == "failed" or (status == "pruned" and self._task.prune):
            return True
        why = self._book.needless(candidate) if self._task.prune else None
        if why is not None:
            self._telling.say(f"{candidate.name}: pruned, {why}")
            self._book.prune(candidate.name, why)
        return why is not None

    async def _turn(
        self, candidate: Candidate, visits: Sequence[Visit], kept: AsyncExitStack
    ) -> None:
        """Measure at one server; a server that was given stays known until the end."""
        if candidate.url is not None:
            site = self._sites.get(candidate.name)
            if site is None:
                site = await self._reach(candidate.url, kept)
                self._sites[candidate.name] = site
            await self._visit(candidate, visits, site, None)
            return
        port = free_port()
        arguments = fill(split(candidate.server or self._task.server or ""), candidate, port)
        async with (
            running(arguments, candidate.name, self._folder, grace=self._task.grace) as server,
            AsyncExitStack() as own,
        ):
            url = f"http://127.0.0.1:{port}"
            pages = self._open_pages(url)
            own.push_async_callback(pages.close)
            self._telling.say(f"{candidate.name}: starting, round {visits[0].round}")
            seconds = await server.ready(
                pages,
                self._stop,
                timeout=self._task.start_timeout,
                report=lambda waited: self._telling.wait(candidate.name, waited),
            )
            site = await self._open(pages, url, own)
            site = replace(
                site, server=site.server.model_copy(update={"ready_seconds": round(seconds, 3)})
            )
            await self._visit(candidate, visits, site, server)

    async def _reach(self, url: str, kept: AsyncExitStack) -> Site:
        """Open a server that runs already."""
        pages = self._open_pages(url)
        kept.push_async_callback(pages.close)
        try:
            await pages.fetch()
        except SourceError as problem:
            raise CandidateError(problem.detail) from None
        return await self._open(pages, url, kept)

    async def _open(self, pages: OpenPages, url: str, stack: AsyncExitStack) -> Site:
        generator = Generator(parse_address(url))
        await stack.enter_async_context(generator.running())
        return await open_site(self._task.order, pages, generator, self._fresh_brake())

    async def _visit(
        self, candidate: Candidate, visits: Sequence[Visit], site: Site, server: Server | None
    ) -> None:
        for visit in visits:
            run = await measure(
                site,
                visit,
                self._task.order,
                self._fresh_brake(),
                salt=self._salt,
                speculative=candidate.k != 0,
                report=partial(self._telling.live, visit),
            )
            if server is not None and run.failure is not None:
                await server.reap()
                if server.ended is not None:
                    raise server.failure(f"the server died at concurrency {visit.concurrency}")
            self._book.add(run, self._with_memory(site, server))
            self._telling.say(self._book.told(run))

    def _with_memory(self, site: Site, server: Server | None) -> Site:
        """Look at the memory of a server of ours, whose processes are known."""
        if server is None:
            found: int | str = "the server was not started here"
        else:
            found = gpu_memory(members(server.root))
        key = "gpu_memory_unknown" if isinstance(found, str) else "gpu_memory_bytes"
        return replace(site, server=site.server.model_copy(update={key: found}))

    def _fresh_brake(self) -> Brake:
        """Give the next run a brake of its own, pulled at once where the sweep is to end."""
        self._brake = Brake()
        if self._stop.is_set():
            self._brake.pull(Why.STOPPED, "stopped by the user")
        return self._brake
