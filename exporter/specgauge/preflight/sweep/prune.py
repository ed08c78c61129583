"""Which candidates need not be tried, by what a longer draft of the same kind has shown.

A draft cut to k' tokens yields T(k') = 1 + coverage * (s_0 + ... + s_(k'-1)) tokens a step, with
s_i the share of drafts whose position i was accepted: E(k') of the literature where every step
carries a draft. What a step costs, in steps without speculation, is known where k was measured
and taken to lie on a straight line between; the predicted speedup is the one over the other.

A candidate is left out only where the most that its speedup may be lies below the least that
something measured has, at every load and over those that are expected. Never where a shorter
draft is another draft: trees, and blocks drafted at once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.cell import Cell

SLACK = 0.1
"""By so much a step may cost less than the straight line says."""

FEWEST_DRAFTS = 100
"""Of fewer drafts a survival is a guess."""

_SIGMAS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a candidate would do at one load; `most` bounds its speedup, `best` is to be beaten."""

    concurrency: int
    k: int
    speedup: float
    most: float
    source: str
    rival: str
    least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """One measured k of a family at a load: tokens and cost of a step, and the survival."""

    k: int
    cost: float
    cheapest: float
    survival: tuple[float, ...] = ()
    coverage: float = 1.0
    drafts: float = 0.0
    name: str = ""


def predict(candidate: Candidate, cells: Sequence[Cell]) -> Prediction | None:
    """Predict a candidate at the one load of these cells; None where nothing speaks for it."""
    if not candidate.chain or not candidate.k:
        return None
    own = [one for one in cells if one.usable and one.family == candidate.family]
    points = [_START, *(point for one in own if (point := _point(one)) is not None)]
    rivals = [one for one in cells if one.usable and one.low is not None]
    if len(points) == 1 or not rivals:
        return None
    points.sort(key=lambda one: one.k)
    told = next((one for one in points if one.k >= candidate.k), points[-1])
    tokens, most_tokens = _tokens(told, candidate.k)
    cost = _line(points, candidate.k)
    below = max((one for one in points if one.k <= candidate.k), key=lambda one: one.k)
    rival = max(rivals, key=lambda one: one.low or 0.0)
    return Prediction(
        concurrency=rival.concurrency,
        k=candidate.k,
        speedup=tokens / cost,
        most=most_tokens / max(below.cheapest, (1.0 - SLACK) * cost),
        source=told.name,
        rival=rival.candidate,
        least=rival.low or 0.0,
    )


def prune(
    candidate: Candidate, cells: Sequence[Cell], loads: Sequence[int], weights: Mapping[int, float]
) -> str | None:
    """Say why a candidate need not be tried; None where it must be."""
    found = []
    for load in loads:
        at_load = [one for one in cells if one.concurrency == load]
        prediction = predict(candidate, at_load)
        if prediction is None or prediction.most >= prediction.least:
            return None
        found.append(prediction)
    most = {one.concurrency: one.most for one in found}
    if not any(_beats(name, cells, most, weights) for name in {one.candidate for one in cells}):
        return None
    told = ", ".join(
        f"{one.speedup:.2f}x (at most {one.most:.2f}x) at {one.concurrency}, where {one.rival} has "
        f"at least {one.least:.2f}x"
        for one in found
    )
    return f"predicted from the survival of {found[0].source}: {told}"


_START = _Point(k=0, cost=1.0, cheapest=1.0)


def _point(cell: Cell) -> _Point | None:
    """Work out what a step costs; None where the page does not tell enough."""
    told = cell.speculation
    if told is None or not cell.k or cell.speedup is None or cell.high is None:
        return None
    survival, per_step = told.position_acceptance_ratio, told.tokens_per_step
    if not survival or per_step is None or (told.drafts or 0.0) < FEWEST_DRAFTS:
        return None
    return _Point(
        k=cell.k,
        cost=per_step / cell.speedup,
        cheapest=per_step / cell.high,
        survival=survival,
        coverage=1.0 if told.draft_coverage_ratio is None else told.draft_coverage_ratio,
        drafts=told.drafts or 0.0,
        name=cell.candidate,
    )


def _tokens(told: _Point, k: int) -> tuple[float, float]:
    """Give the tokens of a step at k, and the most they may be.

    Beyond what was measured the last position's share among those before it is taken to go on;
    at most every further position survives as often as the last.
    """
    survival = list(told.survival)
    before = survival[-2] if len(survival) > 1 else 1.0
    ratio = min(survival[-1] / before, 1.0) if before > 0.0 else 0.0
    shares = survival[:k]
    most = [min(1.0, one + _SIGMAS * math.sqrt(one * (1.0 - one) / told.drafts)) for one in shares]
    while len(shares) < k:
        shares.append(shares[-1] * ratio)
        most.append(most[-1])
    coverage = min(told.coverage, 1.0)
    return (
        1.0 + coverage * math.fsum(shares),
        1.0 + min(1.0, coverage * (1.0 + SLACK)) * math.fsum(most),
    )


def _line(points: Sequence[_Point], k: int) -> float:
    """Interpolate the cost of a step; beyond the last k the last line goes on, never downwards."""
    for low, high in pairwise(points):
        if k <= high.k:
            share = (k - low.k) / (high.k - low.k) if high.k > low.k else 1.0
            return low.cost + (high.cost - low.cost) * share
    low, high = points[-2:]
    slope = (high.cost - low.cost) / (high.k - low.k) if high.k > low.k else 0.0
    return high.cost + max(slope, 0.0) * (k - high.k)


def _beats(
    name: str, cells: Sequence[Cell], most: Mapping[int, float], weights: Mapping[int, float]
) -> bool:
    """Tell whether a candidate surely has more over the expected loads than another may have."""
    lows = {one.concurrency: one.low for one in cells if one.candidate == name and one.usable}
    total = 0.0
    for load, share in weights.items():
        low = lows.get(load)
        if not low:
            return False
        total += share * math.log(low / most[load])
    return total > 0.0
