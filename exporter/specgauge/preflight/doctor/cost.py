"""What a step with a draft costs, and how much of that is verification at this load.

Pure arithmetic on a verdict's figures and its baseline: with rho the cost of a drafted step in
plain steps, k drafted tokens cost at most (rho - 1) / k each. What a busy card asks for checking
k + 1 tokens a request instead of one is estimated by the baseline itself, at k + 1 times the load
(above its top on the line of its last two levels): what is left of rho is the draft's own.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from specgauge.derive.interpolate import tpot_at
from specgauge.derive.speedup import Cost, Piece, cost
from specgauge.model.baseline import Curve

_LEAST_COVERAGE = 0.25
_ENOUGH = 3
_TOKENS = 500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCost:
    """A drafted token's cost in plain steps: its bound, and its own beyond verification.

    `verification` is what checking costs at this load, in plain steps, as estimated.
    """

    bound: float
    own: float
    verification: float

    @property
    def is_the_drafts(self) -> bool:
        """Whether at least a third of what a step costs extra is the draft's own."""
        return self.own >= (self.bound - self.own) / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Speedups at a lower load and at the highest of a run, and those loads."""

    low_load: float
    high_load: float
    low_speedup: float
    high_speedup: float


def draft_cost(rho: float, k: int, coverage: float | None, load: float, curve: Curve) -> DraftCost:
    """Split the cost of a step; of steps without a draft none is dearer."""
    share = 1.0 if coverage is None else min(max(coverage, _LEAST_COVERAGE), 1.0)
    drafted = 1.0 + (rho - 1.0) / share
    checked = load * (k + 1)
    busy = _extended(curve, checked) / tpot_at(curve, load)
    return DraftCost(bound=(drafted - 1.0) / k, own=(drafted - busy) / k, verification=busy)


def _extended(curve: Curve, load: float) -> float:
    """Give B at a load, on the line of the two highest levels where it lies above them."""
    if load <= curve.top or len(curve.levels) < 2:  # noqa: PLR2004 - a line needs two
        return tpot_at(curve, load)
    below, top = curve.levels[-2:]
    slope = (top.tpot - below.tpot) / (top.decode_concurrency - below.decode_concurrency)
    return top.tpot + max(slope, 0.0) * (load - top.decode_concurrency)


def spread_over_load(pieces: Sequence[Piece], curve: Curve) -> Spread | None:
    """Compare the highest load with the lower one at which speculation gains most.

    Loads are taken together by doublings; None where there are no two with enough in them.
    """
    groups: dict[int, list[Cost]] = defaultdict(list)
    for piece in pieces:
        priced = cost(curve, piece)
        if priced is not None and piece.tokens > 0:
            groups[int(math.log2(max(piece.concurrency, 1.0)))].append(priced)
    told = [
        _Load(load=_load(group), speedup=_speedup(group))
        for _, group in sorted(groups.items())
        if len(group) >= _ENOUGH and math.fsum(one.piece.tokens for one in group) >= _TOKENS
    ]
    if len(told) < 2:  # noqa: PLR2004 - one against another
        return None
    *lower, high = told
    low = max(lower, key=lambda one: one.speedup)
    return Spread(
        low_load=low.load,
        high_load=high.load,
        low_speedup=low.speedup,
        high_speedup=high.speedup,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    load: float
    speedup: float


def _speedup(group: Sequence[Cost]) -> float:
    spent = math.fsum(one.piece.spent for one in group)
    return math.fsum(one.concurrency for one in group) / spent


def _load(group: Sequence[Cost]) -> float:
    seconds = math.fsum(one.piece.seconds for one in group)
    return math.fsum(one.piece.spent for one in group) / seconds


def residual(baseline: float, now: float) -> float:
    """Say by what share of the baseline a time is longer."""
    return now / baseline - 1.0
