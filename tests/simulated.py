"""A server simulated step by step: what a scrape a second would see of it under some load.

A step serves every request in decode and lasts B(n), the time per token without speculation at
that many; a request that waits gets its first token in the next step. No clock, no real time.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from specgauge.derive.speedup import Piece

StepTime = Callable[[int], float]

SHAPES: dict[str, StepTime] = {
    "flat": lambda _: 0.005,
    "line": lambda n: 0.0045 + 0.00006 * n,
    "large GPU": lambda n: 0.0046 + 0.00003 * n + 2.2e-7 * n * n,
    "steep": lambda n: 0.004 + 0.0002 * n,
    "knee": lambda n: 0.005 + max(0, n - 16) * 0.0003,
    "root": lambda n: 0.004 + 0.001 * math.sqrt(n),
    "CPU": lambda n: 0.03 + 0.002 * n,
}
MOST = 256
LOADS = ("steady", "on and off", "waves", "bursts")
LENGTHS = ((8, 8), (16, 64), (32, 352), (200, 200), (100, 800))


@dataclass(slots=True)
class _Second:
    tokens: float = 0.0
    spent: float = 0.0
    served: int = 0
    steps: int = 0


def arrivals(kind: str, chance: random.Random, end: float) -> list[float]:
    """Draw the times at which requests come, of 0.1 to 60 a second or 8 to 64 at once."""
    rate = 10.0 ** chance.uniform(-1.0, math.log10(60.0))
    if kind == "bursts":
        size, gap = chance.randint(8, 64), chance.uniform(1.0, 10.0)
        starts = _spaced(chance, lambda: gap * chance.uniform(0.8, 1.2), end)
        return [at for at in starts for _ in range(size)]
    every = list(_spaced(chance, lambda: chance.expovariate(rate), end))
    if kind == "on and off":
        on, off = chance.uniform(0.3, 8.0), chance.uniform(0.3, 8.0)
        return [at for at in every if at % (on + off) < on]
    if kind == "waves":
        period = chance.uniform(2.0, 20.0)
        return [
            at
            for at in every
            if chance.random() < 0.5 + 0.5 * math.sin(2.0 * math.pi * at / period)
        ]
    return every


def serve(
    step_time: StepTime,
    times: Sequence[float],
    lengths: Sequence[int],
    *,
    seconds: int,
    noise: Callable[[], float] = lambda: 1.0,
) -> list[Piece]:
    """Serve requests of some lengths; gives one piece a second, idle ones too."""
    seen: dict[int, _Second] = defaultdict(_Second)
    now, upcoming = 0.0, 0
    active: list[int] = []
    waiting: list[int] = []
    while now < seconds:
        while upcoming < len(times) and times[upcoming] <= now:
            waiting.append(lengths[upcoming])
            upcoming += 1
        if not active and not waiting:
            if upcoming == len(times):
                break
            now = times[upcoming]
            continue
        begun, waiting = waiting[: MOST - len(active)], waiting[MOST - len(active) :]
        count = len(active)
        lasted = step_time(max(count, 1)) * noise()
        now += lasted
        second = seen[int(now)]
        second.tokens += count
        second.spent += count * lasted
        second.served += count + len(begun)
        second.steps += 1
        active = [left - 1 for left in (*active, *begun) if left > 1]
    return [_piece(seen[second]) for second in range(seconds)]


def _piece(second: _Second) -> Piece:
    full = second.served / second.steps if second.steps else 0.0
    return Piece(tokens=second.tokens, spent=second.spent, seconds=1.0, fullness=full)


def _spaced(chance: random.Random, gap: Callable[[], float], end: float) -> Iterator[float]:
    at = chance.random()
    while at < end:
        yield at
        at += gap()
