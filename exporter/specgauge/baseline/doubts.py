"""What is odd about a baseline that can be read: one line each, with its place and what to do.

Nothing here refuses; the schema does that.
"""

from collections.abc import Sequence
from itertools import pairwise

from specgauge.baseline.match import SLOW_SECONDS
from specgauge.baseline.schema import BaselineFile, LevelRecord
from specgauge.derive.interpolate import SAME_LOAD

FALL = 0.95
"""TPOT below so much of that at a lower load is no noise."""

Placed = Sequence[tuple[str, float, float]]


def doubts(file: BaselineFile) -> tuple[str, ...]:
    """List what a reader of the baseline should look at."""
    levels: Placed = [
        (f"levels[{place}]", one.decode_concurrency, tpot_of(one))
        for place, one in enumerate(file.levels)
    ]
    rising = sorted(levels, key=lambda level: level[1])
    found = [] if rising == levels else ["levels: not in order of decode_concurrency; sorted"]
    found += _units(levels)
    for low, high in pairwise(rising):
        found += _pair(low, high)
    found += [
        f"levels[{place}].server.tpot_ci95: does not hold tpot_seconds {one.server.tpot_seconds:g}"
        for place, one in enumerate(file.levels)
        if one.server is not None and not _holds(one.server.tpot_ci95, one.server.tpot_seconds)
    ]
    if len(rising) == 1:
        found.append("levels: only one; what it says of other loads is a guess, record more")
    if file.partial:
        found.append("partial: the recording was cut short; record it again")
    return tuple(found)


def tpot_of(level: LevelRecord) -> float:
    """Give the TPOT that a level stands for: the server's, else the client's mean."""
    if level.server is not None:
        return level.server.tpot_seconds
    found = level.client.tpot_seconds.mean if level.client else None
    assert found is not None
    return found


def _units(levels: Placed) -> list[str]:
    return [
        f"{place}: {tpot:g} seconds a token; are these milliseconds?"
        for place, _, tpot in levels
        if tpot > SLOW_SECONDS
    ]


def _pair(low: tuple[str, float, float], high: tuple[str, float, float]) -> list[str]:
    """Compare a level with the next higher one."""
    (below, c0, tpot0), (above, c1, tpot1) = low, high
    if c1 <= SAME_LOAD * c0:
        return [f"{above}: within 10 % of the load of {below}; the two are merged"]
    if tpot1 < FALL * tpot0:
        return [f"{above}: a token takes less time than at the lower load of {below}; warm-up?"]
    if c1 / tpot1 < c0 / tpot0:
        return [f"{above}: fewer tokens a second in all than at the lower load of {below}"]
    return []


def _holds(bounds: tuple[float, float] | None, value: float) -> bool:
    return bounds is None or bounds[0] <= value <= bounds[1]
