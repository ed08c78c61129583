"""One level of a recording: load brought up, held, measured piece by piece, and let down again.

Drives the generator and looks at the server's page; writes nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from specgauge.baseline.brake import SPOILT, Brake, Guard, Why
from specgauge.baseline.figures import Measured, Piece, settled
from specgauge.baseline.load import Ask, Generator, Terms, came, closed_loop, open_loop
from specgauge.baseline.plan import Load, Plan, draw_gaps, stagger
from specgauge.baseline.stream import Request
from specgauge.baseline.twin import Between, Look, Twin
from specgauge.errors import SourceError

_SETTLING_LOOKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """How a level stands, for whoever watches; `seconds` since it became steady, if it has."""

    load: Load
    seconds: float
    steady: bool
    in_flight: int
    chunks_per_second: float = 0.0
    tpot: float | None = None
    half_width: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the levels of a recording share; `poll` and `drain` are in seconds."""

    plan: Plan
    terms: Terms
    asks: Iterator[Ask]
    generator: Generator
    twin: Twin | None
    brake: Brake
    clock: Callable[[], float]
    report: Callable[[Live], None]
    shared: bool = False
    speculative: bool = False
    poll: float = 1.0
    drain: float = 60.0


class Level:
    """Runs one level; lives as long as its load does."""

    def __init__(self, load: Load, around: Surroundings) -> None:
        self._load = load
        self._around = around
        self._guard = Guard(
            around.brake,
            shared=around.shared,
            poll=around.poll,
            speculative=around.speculative,
        )
        self._requests: list[Request] = []
        self._pieces: list[Piece] = []
        self._edges: list[Look | None] = []
        self._late: Sequence[float] = ()
        self._seen: Look | None = None
        self._began = around.clock()
        self._steady: float | None = None
        self._counted = (self._began, around.generator.chunks)

    async def run(self) -> Measured | None:
        """Run the level; None where nothing of it can be used."""
        before = await self._look()
        stop = asyncio.Event()
        driving = asyncio.create_task(self._drive(stop))
        try:
            await self._warm_up()
            if not self._around.brake.pulled:
                await self._measure()
        finally:
            stop.set()
            await self._land(driving)
        after = await self._settle(before)
        return self._result(self._account(before, after))

    async def _drive(self, stop: asyncio.Event) -> None:
        around, load = self._around, self._load
        shared = (around.generator, around.terms, around.asks)
        if load.concurrency is not None:
            starts = stagger(load.concurrency, around.plan.warmup, around.plan.seed)
            await closed_loop(*shared, starts, stop, self._done)
        else:
            gaps = draw_gaps(load.request_rate or 0.0, around.plan.seed)
            await open_loop(*shared, gaps, stop, self._done)

    def _done(self, request: Request) -> None:
        self._requests.append(request)
        self._guard.take_request(request)

    async def _warm_up(self) -> None:
        """Wait until every stream has begun and none of the first answers is under way."""
        around = self._around
        ready = self._began + around.plan.warmup
        await self._hold(ready)
        latest = ready + around.plan.window
        while not around.brake.pulled and around.clock() < latest:
            oldest = around.generator.oldest
            if oldest is None or oldest >= ready:
                return
            await came(around.brake.event, around.poll / 4.0)
            await self._look()

    async def _measure(self) -> None:
        """Measure pieces until the mean is known well enough or the window is over."""
        around = self._around
        plan = around.plan
        late_from = len(around.generator.late)
        edge = self._steady = await self._edge()
        for place in range(1, plan.pieces + 1):
            await self._hold(self._steady + place * plan.piece_seconds)
            if around.brake.pulled:
                return
            start, edge = edge, await self._edge()
            found = self._between(self._edges[-2], self._edges[-1])
            self._pieces.append(
                Piece(
                    start=start,
                    end=edge,
                    window=found.window if found else None,
                    derived=found.derived if found else None,
                )
            )
            self._late = around.generator.late[late_from:]
            if settled(self._pieces, self._requests, plan)[1]:
                return

    async def _hold(self, until: float) -> None:
        """Let the load go on until then, with an eye on the server."""
        around = self._around
        while not around.brake.pulled and (left := until - around.clock()) > 0.0:
            await came(around.brake.event, min(around.poll, left))
            if left > around.poll:  # else whoever waits looks next
                await self._look()

    async def _edge(self) -> float:
        """Look at the page where a piece begins or ends; gives the time of that."""
        look = await self._look()
        self._edges.append(look)
        return self._around.clock() if look is None else look.time

    async def _look(self) -> Look | None:
        """Look at the page, with an eye on what should end the recording."""
        twin, before, look, found = self._around.twin, self._seen, None, None
        if twin is not None:
            with contextlib.suppress(SourceError):  # the streams will tell whether it is gone
                look = self._seen = await twin.look()
            found = self._between(before, look)
        if found is not None:
            self._guard.take_look(found, self._around.clock())
        self._tell(found)
        return look

    def _between(self, before: Look | None, after: Look | None) -> Between | None:
        twin = self._around.twin
        if twin is None or before is None or after is None:
            return None
        return twin.between(before, after)

    def _tell(self, found: Between | None) -> None:
        around = self._around
        now, chunks = around.clock(), around.generator.chunks
        (then, before), self._counted = self._counted, (now, chunks)
        last = self._pieces[-1].decode if self._pieces else None
        around.report(
            Live(
                load=self._load,
                seconds=now - (self._steady or self._began),
                steady=self._steady is not None,
                in_flight=around.generator.in_flight,
                chunks_per_second=(chunks - before) / max(now - then, 1e-9),
                tpot=last[0] / last[1] if last else None,
                half_width=settled(self._pieces, self._requests, around.plan)[0],
                waiting=found.waiting if found else None,
                kv_usage=found.kv_usage if found else None,
            )
        )

    async def _land(self, driving: asyncio.Task[None]) -> None:
        """Let the requests under way end, unless there is no point in waiting for them."""
        brake, generator = self._around.brake, self._around.generator
        gentle = not brake.pulled or brake.why is Why.LIMIT
        if gentle:
            braked = asyncio.create_task(brake.event.wait())
            waited = {driving} if brake.pulled else {driving, braked}
            await asyncio.wait(
                waited, timeout=self._around.drain, return_when=asyncio.FIRST_COMPLETED
            )
            braked.cancel()
        while not driving.done():  # again, since a request may have been connecting
            generator.give_up()
            await asyncio.wait({driving}, timeout=self._around.poll)
        await driving

    async def _settle(self, before: Look | None) -> Look | None:
        """Look until the server has counted what it did, a few times at most."""
        brake, after = self._around.brake, await self._look()
        for _ in range(_SETTLING_LOOKS):
            found = self._between(before, after)
            told = sum(one.tokens or 0 for one in self._requests)
            if found is None or (found.running == 0 and (found.generated or 0.0) >= told):
                break
            await asyncio.sleep(0.0 if brake.pulled else self._around.poll)
            after = await self._look()
        return after

    def _account(self, before: Look | None, after: Look | None) -> list[str]:
        """Hold the server's count of tokens against what arrived."""
        found = self._between(before, after)
        if found is None or found.generated is None:
            return []
        known = sum(one.tokens or 0 for one in self._requests)
        unknown = sum(one.asked for one in self._requests if one.tokens is None)
        return self._guard.take_count(found.generated, known, unknown)

    def _result(self, notes: list[str]) -> Measured | None:
        brake, plan = self._around.brake, self._around.plan
        least = plan.repeats if brake.pulled and brake.why is Why.LIMIT else 1
        if len(self._pieces) < least or (brake.pulled and brake.why in SPOILT):
            return None
        if brake.pulled:
            notes = [*notes, f"cut short after {len(self._pieces)} repeats: {brake.reason}"]
        whole = self._between(self._edges[0], self._edges[len(self._pieces)])
        return Measured(
            load=self._load,
            pieces=self._pieces,
            requests=self._requests,
            whole=whole.derived if whole else None,
            kv_max=self._guard.kv_max,
            late=self._late,
            notes=tuple(notes),
        )
