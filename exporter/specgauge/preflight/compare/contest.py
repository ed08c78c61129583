"""Runs the comparison: opens the pools, refuses unequal ones, then the sample and the cells.

Loses nothing: whatever a stop or a dying server leaves behind is in the records.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from specgauge.baseline.faults import shown
from specgauge.baseline.load import Terms
from specgauge.errors import UsageError
from specgauge.preflight.compare.arena import Arena, Round
from specgauge.preflight.compare.bouts import Bout, CellKey, Side
from specgauge.preflight.compare.fields import SPECULATION, Likeness, likeness
from specgauge.preflight.compare.outputs import Sampling, collect
from specgauge.preflight.compare.plan import turn
from specgauge.preflight.compare.pool import Door, Pool, open_pool
from specgauge.preflight.compare.records import AGAIN, GREEDY, PRODUCTION, Record, Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be done besides the plan in the arena.

    `samples` prompts of a class are asked for their texts; `known` are the facts of a baseline
    that was measured before.
    """

    wish: Terms
    samples: int
    model: str | None = None
    allowed: Collection[str] = ()
    known: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far the comparison is: `done` of `of` bouts; `finished` is a cell that is over."""

    told: str
    done: int
    of: int
    finished: CellKey | None = None


class Runner:
    """Runs one comparison, over both pools or over one of them."""

    def __init__(
        self,
        doors: Sequence[Door],
        order: Order,
        arena: Arena,
        report: Callable[[Standing], None],
    ) -> None:
        self._doors = doors
        self._order = order
        self._arena = arena
        self._report = report
        self._bouts: dict[Side, list[Bout]] = {door.side: [] for door in doors}
        self._texts: dict[Side, dict[str, dict[str, Texts]]] = {door.side: {} for door in doors}
        self._notes: list[str] = []
        self._done = 0
        self.likeness: Likeness | None = None

    async def run(self) -> dict[Side, Record]:
        """Run everything; raises SpecgaugeError, before any load, where it must not run."""
        async with AsyncExitStack() as stack:
            for door in self._doors:
                await stack.enter_async_context(door.generator.running())
            pools = await self._open()
            await self._sample(pools)
            await self._fight(pools)
        return {side: self._record(pool) for side, pool in pools.items()}

    async def _open(self) -> dict[Side, Pool]:
        arena, order = self._arena, self._order
        every = [prompt for one in arena.prompts.values() for prompt in one.prompts]
        prompt = min(every, key=lambda one: len(one.as_text()))
        pools = {
            door.side: await open_pool(door, order.wish, prompt, arena.brake, model=order.model)
            for door in self._doors
        }
        for pool in pools.values():
            self._notes += pool.notes
        refused = [line for pool in pools.values() for line in self._wrong_kind(pool)]
        refused += self._unlike(pools)
        if refused:
            raise UsageError("\n".join(refused))
        rooms = [pool.facts.get("model.max_model_len") for pool in pools.values()]
        known = [room for room in rooms if isinstance(room, int)]
        self._arena = arena.fitted(min(known, default=None))
        extras = [pool.terms.extras for pool in pools.values()]
        if any(one != extras[0] for one in extras):
            self._notes.append("only one pool understands ignore_eos: it is asked of neither")
            plain = {side: replace(pool.terms, extras={}) for side, pool in pools.items()}
            pools = {side: replace(pool, terms=plain[side]) for side, pool in pools.items()}
        return pools

    def _wrong_kind(self, pool: Pool) -> list[str]:
        """Refuse a baseline that speculates and a speculative pool that does not."""
        if SPECULATION in self._order.allowed:
            return []
        hint = f"or give --allow {SPECULATION}"
        name, why = pool.door.name, pool.why
        if pool.door.side is Side.BASELINE and (pool.speculates or pool.configured):
            told = f"speculation: the baseline pool {name} speculates: {why}"
            return [f"{told}; start it without speculation, {hint}"]
        if pool.door.side is Side.SPECULATIVE and pool.speculates is False:
            told = f"speculation: the speculative pool {name} does not speculate: {why}"
            return [f"{told}; start it with --speculative-config, {hint}"]
        return []

    def _unlike(self, pools: Mapping[Side, Pool]) -> list[str]:
        """Refuse pools that differ in more than speculation, naming every field."""
        second = pools.get(Side.SPECULATIVE)
        first = pools[Side.BASELINE].facts if Side.BASELINE in pools else self._order.known
        if second is None or first is None:
            return []
        self.likeness = likeness(first, second.facts)
        refused = self.likeness.refused(self._order.allowed)
        return [
            f"{one.field}: {shown(one.baseline)} in the baseline pool, {shown(one.speculative)} "
            f"in the speculative pool; make them equal, or give --allow {one.field}"
            for one in refused
        ]

    async def _sample(self, pools: Mapping[Side, Pool]) -> None:
        """Ask every pool for whole answers: greedily, the baseline twice, and as in production."""
        arena, plan = self._arena, self._arena.contest
        if not self._order.samples:
            return
        hot = max(plan.temperatures)
        for name, prompts in arena.prompts.items():
            asked = prompts.prompts[: self._order.samples]
            for side, pool in pools.items():
                passes = {GREEDY: 0.0, **({AGAIN: 0.0} if side is Side.BASELINE else {})}
                passes |= {PRODUCTION: hot} if hot > 0.0 else {}
                found: dict[str, Texts] = {}
                for kind, temperature in passes.items():
                    if arena.brake.pulled:
                        return
                    self._tell(f"{name} answers for quality, {side}, {kind}")
                    sampling = Sampling(
                        temperature=temperature, seed=plan.seed, tokens=plan.lengths.high
                    )
                    found[kind] = await collect(pool, asked, sampling, arena.brake)
                if not arena.brake.pulled:
                    self._texts[side][name] = found

    async def _fight(self, pools: Mapping[Side, Pool]) -> None:
        for key in self._arena.contest.cells:
            alive = await self._cell(pools, key)
            if self._arena.brake.pulled or not alive:
                return
            self._tell(str(key), finished=key)

    async def _cell(self, pools: Mapping[Side, Pool], key: CellKey) -> bool:
        """Run the bouts of a cell in turns; False where a pool is gone."""
        for repeat in range(self._arena.contest.repeats):
            for side in turn(repeat):
                pool = pools.get(side)
                if pool is None:
                    continue
                self._tell(f"{key}, repeat {repeat + 1}, {side}")
                bout = await Round(pool, key, repeat, self._arena).run()
                if bout is None:
                    return True
                failing = bout.died or (bout.answers[-1].failure if bout.answers else None)
                gone = failing is not None and not await _alive(pool)
                self._bouts[side].append(replace(bout, died=failing) if gone else bout)
                self._done += 1
                if gone:
                    self._notes.append(f"{key}: the {side} pool is gone: {failing}")
                    return False
        return True

    def _tell(self, told: str, *, finished: CellKey | None = None) -> None:
        plan = self._arena.contest
        of = len(plan.cells) * plan.repeats * len(self._doors)
        self._report(Standing(told=told, done=self._done, of=of, finished=finished))

    def _record(self, pool: Pool) -> Record:
        side, plan = pool.door.side, self._arena.contest
        bouts = self._bouts[side]
        drafts = [bout.figures["drafts"] for bout in bouts if "drafts" in bout.figures]
        counted = None if not drafts or pool.speculates else sum(drafts) > 0.0
        told = {k: v for k, v in pool.facts.items() if isinstance(v, str | int | bool)}
        return Record(
            facts=told,
            bouts=tuple(bouts),
            texts=self._texts[side],
            speculated=True if pool.speculates else counted,
            partial=len(bouts) < len(plan.cells) * plan.repeats,
            notes=tuple(self._notes),
        )


async def _alive(pool: Pool) -> bool:
    """Ask a pool whether it is still there."""
    return await pool.door.pages.fetch_json("/v1/models") is not None
