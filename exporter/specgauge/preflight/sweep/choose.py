"""Which candidate is best: at each load, and over the loads that are expected.

The rules, and every one of them is ours:

- Repeats of a candidate at a load stand for their median; failed and noisy runs do not count.
- Noise costs: the time per token is raised by its standard error, worked out from the median
  deviation, so that a result that may be luck does not win.
- Within 1 % of the best, the smallest k wins: it takes the least memory and wastes the least.
- Nothing is assumed of the shape over k: where k = 1 and 4 gain and 2 does not, 4 may win.
- Over several loads the geometric mean counts, weighted by the loads that are expected; a
  candidate without a result at a load that counts is out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specgauge.preflight.sweep.cell import Cell

TIE = 0.01
"""Results closer than this are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The choice at one load; `ties` are those it was no better than, `best` the quickest."""

    concurrency: int
    candidate: str
    k: int | None
    speedup: float | None
    low: float | None = None
    high: float | None = None
    best: str = ""
    ties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The choice over all loads that count, of those `compared`; `left_out` says why not others."""

    candidate: str
    k: int | None
    speedup: float | None
    weights: Mapping[int, float]
    compared: tuple[str, ...] = ()
    ties: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def pick(cells: Sequence[Cell]) -> Pick | None:
    """Choose among the cells of one load; None where none of them can be believed."""
    usable = [cell for cell in cells if cell.usable]
    if not usable:
        return None
    chosen, best, ties = _least([(one.cost, _size(one.k), one) for one in usable])
    return Pick(
        concurrency=chosen.concurrency,
        candidate=chosen.candidate,
        k=chosen.k,
        speedup=chosen.speedup,
        low=chosen.low,
        high=chosen.high,
        best=best.candidate,
        ties=tuple(one.candidate for one in ties),
    )


def picks(cells: Sequence[Cell]) -> tuple[Pick, ...]:
    """Choose at every load."""
    loads = sorted({cell.concurrency for cell in cells})
    found = [pick([cell for cell in cells if cell.concurrency == load]) for load in loads]
    return tuple(one for one in found if one is not None)


def weigh(loads: Sequence[int], expected: Sequence[float]) -> dict[int, float]:
    """Share the weight out over measured loads: between two of them by distance in logarithms.

    Without an expectation every load counts the same. An expected load outside those measured
    counts for the nearest.
    """
    ordered = sorted(loads)
    if not expected:
        return dict.fromkeys(ordered, 1.0 / len(ordered))
    found = dict.fromkeys(ordered, 0.0)
    for load in expected:
        above = next((one for one in ordered if one >= load), ordered[-1])
        below = next((one for one in reversed(ordered) if one <= load), ordered[0])
        share = math.log(load / below) / math.log(above / below) if above > below else 1.0
        found[below] += (1.0 - share) / len(expected)
        found[above] += share / len(expected)
    return {load: share for load, share in found.items() if share > 0.0}


def recommend(cells: Sequence[Cell], weights: Mapping[int, float]) -> Recommendation | None:
    """Choose over the loads that count; None where no candidate has a result at all of them."""
    names = list(dict.fromkeys(cell.candidate for cell in cells))
    rivals: list[tuple[float, int, Cell]] = []
    left_out: dict[str, str] = {}
    speedups: dict[str, float | None] = {}
    for name in names:
        own = {c.concurrency: c for c in cells if c.candidate == name and c.usable}
        lacking = [load for load in weights if load not in own]
        if lacking:
            rejected = [c.rejected for c in cells if c.candidate == name and c.rejected]
            at = ", ".join(str(load) for load in lacking)
            left_out[name] = f"no result at concurrency {at}: {(rejected or ['not measured'])[0]}"
            continue
        first = next(iter(own.values()))
        logs = [share * math.log(own[load].cost) for load, share in weights.items()]
        rivals.append((math.exp(math.fsum(logs)), _size(first.k), first))
        speedups[name] = _mean({load: own[load].speedup for load in weights}, weights)
    if not rivals:
        return None
    chosen, _, ties = _least(rivals)
    return Recommendation(
        candidate=chosen.candidate,
        k=chosen.k,
        speedup=speedups[chosen.candidate],
        weights=dict(weights),
        compared=tuple(speedups),
        ties=tuple(one.candidate for one in ties),
        left_out=left_out,
    )


def _least(rivals: Sequence[tuple[float, int, Cell]]) -> tuple[Cell, Cell, list[Cell]]:
    """Give the smallest of those that tie with the least cost, the least, and the others tied."""
    least = min(rivals, key=lambda one: one[0])
    tied = [one for one in rivals if one[0] <= least[0] * (1.0 + TIE)]
    chosen = min(tied, key=lambda one: (one[1], one[0]))
    return chosen[2], least[2], [one[2] for one in tied if one[2] is not chosen[2]]


def _size(k: int | None) -> int:
    """Give k for an order; one that is not known comes last."""
    return 1 << 30 if k is None else k


def _mean(values: Mapping[int, float | None], weights: Mapping[int, float]) -> float | None:
    known = {load: value for load, value in values.items() if value}
    if len(known) < len(values):
        return None
    return math.exp(math.fsum(share * math.log(known[load]) for load, share in weights.items()))
