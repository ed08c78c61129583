"""How counters grew from cell to cell, whatever began anew and whatever is missing; asks nothing.

A counter that fell has begun anew and is taken to have grown from 0. What grew across more than
`BRIDGE` cells without a value is left out: nobody knows when it did. The first value of a series
is where counting starts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

BRIDGE = 3
_NOISE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What grew by how much after point `first`, up to point `last`; `reset` if anything fell."""

    first: int
    last: int
    growth: Mapping[str, float]
    reset: bool = False

    @property
    def cells(self) -> int:
        """How many cells it spans."""
        return self.last - self.first


def stretches(levels: Mapping[str, Mapping[int, float]], *, bridge: int = BRIDGE) -> list[Stretch]:
    """Say how counters of one server grew, from each point with values to the next.

    After a reset what grew in its cell only shows in the next one: both become one stretch.
    """
    found: list[Stretch] = []
    known = sorted({at for points in levels.values() for at in points})
    before: dict[str, float] = {}
    for place, at in enumerate(known):
        grown, fell = _grown(before, {name: levels[name].get(at) for name in levels})
        if place and at - known[place - 1] <= bridge and grown:
            one = Stretch(first=known[place - 1], last=at, growth=grown, reset=fell)
            joins = fell and found and found[-1].last == one.first
            found.append(_joined(found.pop(), one) if joins else one)
        before |= {name: value for name in levels if (value := levels[name].get(at)) is not None}
    return found


def gaps(present: Iterable[int], count: int) -> list[tuple[int, int]]:
    """List the runs of cells from 1 to `count` that are not among those present."""
    there = set(present)
    found: list[tuple[int, int]] = []
    for cell in range(1, count + 1):
        if cell in there:
            continue
        if found and found[-1][1] == cell - 1:
            found[-1] = (found[-1][0], cell)
        else:
            found.append((cell, cell))
    return found


def _grown(
    before: Mapping[str, float], now: Mapping[str, float | None]
) -> tuple[dict[str, float], bool]:
    grown: dict[str, float] = {}
    fell = False
    for name, level in now.items():
        past = before.get(name)
        if level is None or past is None:
            continue
        reset = level < past * (1.0 - _NOISE)
        grown[name] = level if reset else max(level - past, 0.0)
        fell = fell or reset
    return grown, fell


def _joined(one: Stretch, other: Stretch) -> Stretch:
    growth = {
        name: one.growth.get(name, 0.0) + other.growth.get(name, 0.0)
        for name in {*one.growth, *other.growth}
    }
    return Stretch(first=one.first, last=other.last, growth=growth, reset=True)
