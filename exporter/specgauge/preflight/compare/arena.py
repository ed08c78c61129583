"""One bout: a load brought up on one pool, held for a window, and let down again.

Drives the one generator and looks at the server's page; what a load is stands in the plan, and
what the figures mean is decided elsewhere.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from specgauge.baseline.brake import Brake
from specgauge.baseline.load import Ask, came, closed_loop
from specgauge.baseline.plan import draw_lengths, draw_order, stagger
from specgauge.baseline.prompts import PromptSet
from specgauge.baseline.stream import BROKEN, Outcome, Request
from specgauge.baseline.twin import Between, Look
from specgauge.errors import SourceError, UsageError
from specgauge.model.quantity import Kind, Quantity
from specgauge.preflight.compare.bouts import Answer, Bout, CellKey
from specgauge.preflight.compare.plan import Contest
from specgauge.preflight.compare.pool import Pool

DEAD_IN_A_ROW = 10
"""So many requests that fail in a row mean that the server cannot go on."""

_TEMPLATE_TOKENS = 64
_CHARACTERS_PER_TOKEN = 2
"""Fewer characters a token than any tokenizer needs for plain English."""

FIGURES = (
    "tpot_seconds",
    "ttft_seconds",
    "decode_concurrency",
    "generation_tokens_per_second",
    "acceptance_ratio",
    "acceptance_length",
    "num_speculative_tokens",
    "drafts",
    "preemptions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """What the bouts of a comparison share; `poll` and `drain` are in seconds."""

    contest: Contest
    prompts: Mapping[str, PromptSet]
    brake: Brake
    clock: Callable[[], float]
    poll: float = 1.0
    drain: float = 60.0

    def fitted(self, most: object) -> "Arena":
        """Leave out the prompts that do not fit a model's context together with an answer."""
        if not isinstance(most, int):
            return self
        room, longest = most - _TEMPLATE_TOKENS, self.contest.lengths.high
        found = {
            name: one.fitting(room, longest, _CHARACTERS_PER_TOKEN)
            for name, one in self.prompts.items()
        }
        for name, one in found.items():
            if not one.prompts:
                told = f"no prompt of {name} fits beside so many in the model's {most}"
                raise UsageError(f"--output-tokens {self.contest.lengths}: {told}; ask for fewer")
        return replace(self, prompts=found)

    def asks(self, key: CellKey, repeat: int, *, warm: bool = False) -> Iterator[Ask]:
        """Give the requests of a bout, the same for both pools and new to any prefix cache.

        Those to warm up with are others, so that the measured ones begin with the same for both.
        """
        plan = self.contest
        prompts = self.prompts[key.traffic_class or ""].prompts
        seed = plan.seed + repeat
        lengths = draw_lengths(plan.lengths, seed)
        cell = f"{key.load.concurrency:g}-{key.temperature:g}-{repeat}{'w' if warm else ''}"
        for number, place in enumerate(draw_order(len(prompts), seed)):
            prompt = prompts[place]
            mark = f"[{plan.salt}-{cell}-{number}]"
            yield Ask(prompt=prompt.marked(mark), tokens=prompt.tokens or next(lengths))


class Round:
    """Runs one bout; lives as long as its load does."""

    def __init__(self, pool: Pool, key: CellKey, repeat: int, arena: Arena) -> None:
        self._pool = pool
        self._key = key
        self._repeat = repeat
        self._arena = arena
        self._requests: list[Request] = []
        self._row = 0
        self._warm = 0
        self._over = asyncio.Event()
        self._peaks: dict[str, float] = {}
        self._died: str | None = None

    async def run(self) -> Bout | None:
        """Run the bout; None where the user stopped it."""
        arena, plan = self._arena, self._arena.contest
        streams = int(self._key.load.concurrency)
        terms = replace(self._pool.terms, temperature=self._key.temperature or 0.0)
        starts = stagger(streams, plan.warmup, plan.seed)
        stop = asyncio.Event()
        began = arena.clock()
        asks = self._asks(began + plan.warmup)
        generator = self._pool.door.generator
        driving = asyncio.create_task(closed_loop(generator, terms, asks, starts, stop, self._done))
        try:
            await self._hold(began + plan.warmup)
            before = await self._look(None)
            await self._hold(began + plan.bout_seconds, before)
            after = await self._look(before)
        finally:
            stop.set()
            await self._land(driving)
        if arena.brake.pulled:
            return None
        return self._bout(began + plan.warmup, streams, self._between(before, after))

    def _asks(self, ready: float) -> Iterator[Ask]:
        """Give requests to warm up with until then, and after that the measured ones."""
        arena = self._arena
        warm = arena.asks(self._key, self._repeat, warm=True)
        measured = arena.asks(self._key, self._repeat)
        while arena.clock() < ready:
            self._warm += 1
            yield next(warm)
        yield from measured

    def _done(self, request: Request) -> None:
        self._requests.append(request)
        if request.outcome is Outcome.CUT:
            return
        self._row = self._row + 1 if request.outcome in BROKEN else 0
        if self._row >= DEAD_IN_A_ROW and self._died is None:
            self._died = request.detail
            self._over.set()

    async def _hold(self, until: float, since: Look | None = None) -> None:
        """Let the load go on until then, with an eye on the server's gauges."""
        arena = self._arena
        while not (arena.brake.pulled or self._over.is_set()):
            left = until - arena.clock()
            if left <= 0.0:
                return
            await came(arena.brake.event, min(arena.poll, left))
            if left > arena.poll:
                await self._look(since)

    async def _look(self, since: Look | None) -> Look | None:
        if self._pool.twin is None:
            return None
        look = None
        with contextlib.suppress(SourceError):  # the streams will tell whether it is gone
            look = await self._pool.twin.look()
        found = self._between(since, look)
        if found is not None:
            self._peak("requests_waiting_max", found.waiting)
            if found.kv_usage is not None:
                self._peak("kv_cache_usage_ratio_max", found.kv_usage)
        return look

    def _peak(self, name: str, value: float) -> None:
        self._peaks[name] = max(value, self._peaks.get(name, value))

    def _between(self, before: Look | None, after: Look | None) -> Between | None:
        twin = self._pool.twin
        if twin is None or before is None or after is None:
            return None
        return twin.between(before, after)

    async def _land(self, driving: asyncio.Task[None]) -> None:
        """Let the requests under way end, unless there is no point in waiting for them."""
        arena, generator = self._arena, self._pool.door.generator
        if not (arena.brake.pulled or self._over.is_set()):
            braked = asyncio.create_task(arena.brake.event.wait())
            await asyncio.wait(
                {driving, braked}, timeout=arena.drain, return_when=asyncio.FIRST_COMPLETED
            )
            braked.cancel()
        while not driving.done():  # again, since a request may have been connecting
            generator.give_up()
            await asyncio.wait({driving}, timeout=arena.poll)
        await driving

    def _bout(self, ready: float, streams: int, found: Between | None) -> Bout:
        # each request was sent in the turn of the loop that drew it, so times give their order
        drawn = sorted(self._requests, key=lambda one: one.sent)
        first = max(self._warm, streams)
        kept = [
            (max(number - self._warm, 0), one)
            for number, one in enumerate(drawn)
            if one.outcome is not Outcome.CUT and (one.outcome in BROKEN or number >= first)
        ]
        ended = max((one.ended for _, one in kept), default=ready)
        restarted = found is not None and found.restarted
        return Bout(
            key=self._key,
            repeat=self._repeat,
            seconds=max(0.0, ended - ready),
            answers=tuple(_answer(place, one) for place, one in kept),
            figures=self._figures(found),
            finished=_finished(found),
            died=self._died or ("the engine restarted under load" if restarted else None),
        )

    def _figures(self, found: Between | None) -> dict[str, float]:
        values = found.derived.values if found is not None else {}
        told = {
            name: float(value)
            for name in FIGURES
            if isinstance(value := values.get(name), int | float) and value >= 0
        }
        return told | self._peaks


def _answer(place: int, request: Request) -> Answer:
    if request.outcome in BROKEN:
        return Answer(place=place, failure=request.detail or str(request.outcome))
    return Answer(
        place=place,
        asked=request.asked,
        ttft=request.ttft,
        e2e=request.e2e,
        decode_seconds=request.decode_seconds,
        decode_tokens=request.decode_tokens,
        tokens=request.tokens,
    )


def _finished(found: Between | None) -> dict[str, float]:
    """Count the requests that the server says ended, by their reason."""
    sums = found.window.sums if found is not None else {}
    return {
        str(part): count
        for (quantity, kind, part), count in sums.items()
        if quantity is Quantity.REQUESTS_FINISHED and kind is Kind.COUNTER
    }
