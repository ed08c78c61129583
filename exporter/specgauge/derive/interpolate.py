"""The baseline as a curve B(c): linear between levels, held at its ends.

Below the lowest level B is held without limit; above the highest up to `REACH` times it, beyond
which the curve says nothing.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from specgauge.model.baseline import Curve, Level

REACH = 1.5
"""So far above its highest level a baseline is trusted, as a multiple of that level's load."""

_ROUNDING = 1e-9

SAME_LOAD = 1.1
"""Levels no further apart than this factor are one level."""


def curve(levels: Sequence[Level]) -> Curve:
    """Put levels in order and merge those of the same load; raises ValueError without any."""
    ordered = sorted(levels, key=lambda level: level.decode_concurrency)
    if not ordered:
        raise ValueError("a baseline needs at least one level")
    groups: list[list[Level]] = []
    for level in ordered:
        if groups and level.decode_concurrency <= SAME_LOAD * _load(groups[-1]):
            groups[-1].append(level)
        else:
            groups.append([level])
    return Curve(levels=tuple(_merged(group) for group in groups))


def covers(found: Curve, concurrency: float) -> bool:
    """Tell whether the curve says anything at this load."""
    return concurrency <= REACH * found.top


def tpot_at(found: Curve, concurrency: float) -> float:
    """Give B(c) in seconds a token."""
    return _at(found, concurrency, lambda level: level.tpot) or found.levels[-1].tpot


def ttft_at(found: Curve, concurrency: float) -> float | None:
    """Give the baseline's time to first token in seconds, interpolated like B."""
    return _at(found, concurrency, lambda level: level.ttft)


def upper_bound_at(found: Curve, concurrency: float) -> float:
    """Give the most that B can be: above the top, a server that serves no more in all."""
    return tpot_at(found, concurrency) * max(1.0, concurrency / found.top)


def spread_at(found: Curve, concurrency: float) -> float:
    """Give the baseline's own half-width of 95 % as a share of B; 0 where it was not recorded."""
    high = _at(found, concurrency, lambda level: level.tpot_high)
    low = _at(found, concurrency, lambda level: level.tpot_low)
    if high is None or low is None:
        return 0.0
    return max(high - low, 0.0) / 2.0 / tpot_at(found, concurrency)


def load_for(found: Curve, rate: float) -> tuple[float, bool]:
    """Find the load c at which the baseline yields `rate` decode tokens a second, c/B(c) = rate.

    Of several the least. The second value is False where no load within reach yields as much:
    then c is the limit.
    """
    first = found.levels[0]
    if _yields(first, rate):
        return rate * first.tpot, True
    for low, high in pairwise(found.levels):
        if _yields(high, rate):
            return _between(low, high, rate), True
    reach = rate * found.levels[-1].tpot
    limit = REACH * found.top
    return (reach, True) if reach <= limit else (limit, False)


def _yields(level: Level, rate: float) -> bool:
    """Tell whether a level yields so many decode tokens a second, give or take rounding."""
    return rate * level.tpot <= level.decode_concurrency * (1.0 + _ROUNDING)


def _between(low: Level, high: Level, rate: float) -> float:
    """Solve c = rate * B(c) on the straight line from a level that yields less to one of more."""
    c0, c1 = low.decode_concurrency, high.decode_concurrency
    lacking, spare = rate * low.tpot - c0, c1 - rate * high.tpot
    return c0 + (c1 - c0) * lacking / (lacking + max(spare, 0.0))


def _at(found: Curve, concurrency: float, of: Callable[[Level], float | None]) -> float | None:
    """Interpolate one figure of the levels that have it."""
    points = [
        (level.decode_concurrency, value)
        for level in found.levels
        if (value := of(level)) is not None
    ]
    if not points:
        return None
    if concurrency <= points[0][0]:
        return points[0][1]
    for (c0, v0), (c1, v1) in pairwise(points):
        if concurrency <= c1:
            return v0 + (v1 - v0) * (concurrency - c0) / (c1 - c0)
    return points[-1][1]


def _load(group: Sequence[Level]) -> float:
    return sum(level.decode_concurrency for level in group) / len(group)


def _merged(group: Sequence[Level]) -> Level:
    if len(group) == 1:
        return group[0]

    def mean(of: Callable[[Level], float | None]) -> float | None:
        values = [value for level in group if (value := of(level)) is not None]
        return sum(values) / len(values) if values else None

    return Level(
        decode_concurrency=_load(group),
        tpot=sum(level.tpot for level in group) / len(group),
        tpot_low=mean(lambda level: level.tpot_low),
        tpot_high=mean(lambda level: level.tpot_high),
        ttft=mean(lambda level: level.ttft),
        e2e=mean(lambda level: level.e2e),
        prompt_tokens_per_request=mean(lambda level: level.prompt_tokens_per_request),
        output_tokens_per_request=mean(lambda level: level.output_tokens_per_request),
        concurrency=mean(lambda level: level.concurrency),
    )
