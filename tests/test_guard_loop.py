"""The guard in a closed loop: what it decides moves the load, and the load moves what it sees.

A pool with speculation and one without share a load that swings around the one at which
speculation breaks even. A pool that traffic leaves runs empty and looks fast; it fills slowly.
"""

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from specgauge.guard.decide import begin, decide
from specgauge.guard.policy import Policy
from specgauge.model.guard import Assessment, GuardState, Outcome, Phase, Surroundings

HOUR = 3600.0
EVERY = 5.0
WINDOW = 15.0
BREAK_EVEN = 40.0
FILLING = 20.0
# Of the standard error: an interval that holds the truth 95 times out of 100.
WIDE = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A load and what speculation does under it.

    `steepness` is how fast the gain falls as the load rises; `swing` and `period` are of the load,
    and a `course` takes their place. `noise` is of one window's speedup. `closed` clients wait for
    their answers before they ask again, and think for `thinking` answers' time; others come
    whatever the speed. `watched` says whether the guard sees the pool without speculation.
    """

    period: float = 1200.0
    swing: float = 0.3
    steepness: float = 0.5
    noise: float = 0.02
    closed: bool = True
    thinking: float = 1.0
    watched: bool = True
    seed: int = 1
    course: Callable[[float], float] | None = None

    def speedup(self, load: float) -> float:
        return min(2.5, math.pow(BREAK_EVEN / max(load, 0.5), self.steepness))

    def demand(self, time: float) -> float:
        if self.course is not None:
            return self.course(time)
        return BREAK_EVEN * (1.0 + self.swing * math.sin(2.0 * math.pi * time / self.period))

    def settles_at(self, time: float, speed: float) -> float:
        """Say how many requests decode once the pool has filled, at this speed of the tokens."""
        demand = self.demand(time)
        if not self.closed:
            return demand / speed
        # Of those clients, the share that waits for tokens and does not think.
        return demand * (1.0 + self.thinking) / (1.0 + self.thinking * speed)


@dataclass(slots=True)
class Run:
    """What happened: the times of flips between active and fallback, and of flag writes."""

    flips: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    costly: float = 0.0
    on: float = 0.0
    last: Phase = Phase.ACTIVE

    def most_in_an_hour(self, times: list[float]) -> int:
        recent: deque[float] = deque()
        most = 0
        for time in times:
            recent.append(time)
            while recent[0] <= time - HOUR:
                recent.popleft()
            most = max(most, len(recent))
        return most


def look(
    samples: deque[tuple[float, float, float]], world: World, noise: float, time: float
) -> Assessment:
    """Judge the last window as the real assessment would, with an interval around the speedup."""
    inside = [one for one in samples if one[0] > time - WINDOW]
    start = max(time - WINDOW, inside[0][0] - EVERY) if inside else time - WINDOW
    if not inside or time - start < WINDOW - 1e-6:
        return Assessment(start=start, end=time, outcome=Outcome.NO_DATA, reason="too_few_tokens")
    load = sum(one[1] for one in inside) / len(inside)
    true = sum(one[1] * one[2] for one in inside) / sum(one[1] for one in inside)
    seen = true + noise
    low, high = seen - WIDE * world.noise, seen + WIDE * world.noise
    numbers = {
        "decode_concurrency": load,
        "speedup_ratio": seen,
        "speedup_ratio_low": low,
        "speedup_ratio_high": high,
        "tpot_seconds": 0.02 / seen,
    }
    if high < 0.95:
        outcome, reason = Outcome.DEGRADED, "speedup_below_one"
    elif low >= 0.95:
        outcome, reason = Outcome.HEALTHY, "speedup_above_one"
    else:
        outcome, reason = Outcome.INCONCLUSIVE, "interval_too_wide"
    return Assessment(
        start=start, end=time, outcome=outcome, reason=reason, severe=high < 0.8, numbers=numbers
    )


def run(world: World, hours: float, policy: Policy | None = None) -> Run:
    """Let guard and load act upon each other."""
    policy = policy or Policy()
    chance = random.Random(world.seed)  # noqa: S311 - a simulation
    state: GuardState = begin(True, None, 0.0, policy)  # noqa: FBT003 - the flag as read
    speculative, standard = world.demand(0.0), 0.0
    samples: deque[tuple[float, float, float]] = deque(maxlen=int(WINDOW / EVERY))
    noise, found = 0.0, Run()
    for tick in range(1, int(hours * HOUR / EVERY) + 1):
        time = tick * EVERY
        # Errors of windows that overlap are alike, and alike for a while in bursty traffic.
        noise = 0.8 * noise + 0.6 * chance.gauss(0.0, world.noise)
        speed = world.speedup(speculative)
        towards = world.settles_at(time, speed) if state.flag else 0.0
        back = 0.0 if state.flag else world.settles_at(time, 1.0)
        speculative += (towards - speculative) * EVERY / FILLING
        standard += (back - standard) * EVERY / FILLING
        if state.flag:
            samples.append((time, speculative, world.speedup(speculative)))
            assessment = look(samples, world, noise, time)
        else:
            samples.clear()
            assessment = Assessment(
                start=time - WINDOW, end=time, outcome=Outcome.NO_DATA, reason="flag_off"
            )
        seen = {"decode_concurrency": standard, "tpot_seconds": 0.02} if world.watched else {}
        before = state
        state, decision = decide(state, assessment, Surroundings(time=time, standard=seen), policy)
        if state.flag is not before.flag:
            found.writes.append(time)
        settled = {Phase.ACTIVE, Phase.FALLBACK, Phase.LATCHED}
        if decision.changed and state.phase in settled:
            off = state.phase is not Phase.ACTIVE
            if off is not (found.last is not Phase.ACTIVE):
                found.flips.append(time)
            found.last = state.phase
        if state.flag:
            found.on += EVERY
            found.costly += EVERY if world.speedup(speculative) < 0.95 else 0.0
    return found


def named(world: World) -> str:
    kind = "closed" if world.closed else "open"
    return f"{kind}-{world.period:.0f}s-swing{world.swing:g}-steep{world.steepness:g}"


WORLDS = [
    World(period=period, swing=swing, steepness=steepness, closed=closed, noise=noise)
    for closed in (True, False)
    for period, swing, steepness, noise in (
        (300.0, 0.6, 1.0, 0.03),
        (600.0, 0.15, 0.3, 0.03),
        (1200.0, 0.3, 0.5, 0.02),
        (1800.0, 0.6, 0.3, 0.01),
        (2400.0, 0.3, 1.0, 0.03),
        (3600.0, 0.3, 0.6, 0.02),
        (7200.0, 0.6, 1.0, 0.02),
    )
]


@pytest.mark.parametrize("world", WORLDS, ids=named)
def test_load_that_swings_flips_at_most_twice_an_hour(world: World) -> None:
    """The load comes back with the flag, so a guard that trusted a drained pool would swing."""
    found = run(world, 4)
    assert found.most_in_an_hour(found.flips) <= 2
    # Besides, trials that fail: after 5, 10, 20 and 40 minutes, two writes each.
    assert found.most_in_an_hour(found.writes) <= 9


def test_the_other_pool_need_not_be_watched() -> None:
    """Without a view of the standard pool the load of the fall is what must be stood."""
    found = run(World(watched=False), 6)
    assert found.most_in_an_hour(found.flips) <= 2


def test_a_load_that_always_pays_is_never_turned_off() -> None:
    """Noise around a clear gain flips nothing."""
    assert run(replace(World(), swing=0.0, steepness=0.0, noise=0.03), 12).flips == []


def test_a_load_that_always_costs_is_on_trial_only() -> None:
    """A load that is too high for good is off but for trials that become rare."""
    found = run(World(course=lambda _: 2.0 * BREAK_EVEN), 8)
    assert len(found.flips) == 1
    assert found.on < 0.02 * 8 * HOUR


def test_a_load_that_really_goes_down_gets_speculation_back() -> None:
    """After a busy hour speculation is on soon, and called active when it has proven itself."""
    evening = World(course=lambda time: (2.0 if time < HOUR else 0.25) * BREAK_EVEN)
    found = run(evening, 6)
    assert found.flips[0] < 300.0
    assert len(found.flips) == 2
    assert found.flips[1] < 3.0 * HOUR
    on_again = next(at for at in found.writes if at > HOUR)
    assert on_again < 2.0 * HOUR
