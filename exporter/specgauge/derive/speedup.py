"""How much faster each token came than the baseline says it would have without speculation.

Interval by interval, never from a window's mean load: load that comes and goes within a window
would read as a loss. For intervals with t decode tokens and s seconds spent in decode over dt:

- basis `concurrency`: sum t*B(s/dt) / sum s, at the same number of decoding requests;
- basis `throughput`: sum t*B(c) / sum s with c/B(c) = t/dt, under the same arrivals.

Intervals above the baseline's reach are left out of both sums of both bases.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from specgauge.derive.interpolate import (
    covers,
    load_for,
    spread_at,
    tpot_at,
    ttft_at,
    upper_bound_at,
)
from specgauge.derive.statistics import Estimate, ratio_estimate
from specgauge.model.baseline import Curve

UNEVEN = 1.25
"""Steps fuller than the time was by this factor: the load came or went within the interval."""

_EDGE = 0.5
_THINNING = 1.5


class Basis(StrEnum):
    """What is held equal between the server and its baseline."""

    CONCURRENCY = "concurrency"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One interval: decode tokens, seconds that requests spent in decode, its own length.

    `fullness` is the mean number of requests in an engine's step, 0 where it is not known.
    """

    tokens: float
    spent: float
    seconds: float
    fullness: float = 0.0

    @property
    def concurrency(self) -> float:
        """Mean number of requests in decode."""
        return self.spent / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one piece would have cost without speculation, in decode seconds, by basis."""

    piece: Piece
    concurrency: float
    throughput: float
    saturates: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """The two ratios with their intervals, and what they rest on.

    `covered` is the share of decode seconds within the baseline's reach; `upper` is the
    concurrency basis with the most that the baseline may be: its upper bound above its top, and
    at the peak of a load that came and went within an interval. `baseline_tpot` and
    `baseline_ttft` are its own at the loads seen, weighted by tokens.
    """

    concurrency: Estimate
    throughput: Estimate
    saturates: bool
    covered: float
    extrapolated: bool
    upper: Estimate
    tokens: float
    baseline_tpot: float
    baseline_ttft: float | None


def cost(curve: Curve, piece: Piece) -> Cost | None:
    """Price one piece by the baseline; None where its load is out of the baseline's reach."""
    if piece.spent <= 0.0 or not covers(curve, piece.concurrency):
        return None
    load, reached = load_for(curve, piece.tokens / piece.seconds)
    return Cost(
        piece=piece,
        concurrency=piece.tokens * tpot_at(curve, piece.concurrency),
        throughput=piece.tokens * tpot_at(curve, load),
        saturates=not reached,
    )


def peaks(pieces: Sequence[Piece]) -> list[float]:
    """Give the load that requests met at most in each of successive pieces.

    It is more than the mean where the load came or went within the interval: where steps were
    fuller than the time was on the mean, or an interval beside had less than half the load. Half
    as many requests again then allow for a batch that thins out. Below one request it is all one.
    """
    loads = [piece.concurrency for piece in pieces]
    found = []
    for place, piece in enumerate(pieces):
        beside = min(loads[max(place - 1, 0) : place + 2])
        uneven = piece.fullness > UNEVEN * max(piece.concurrency, 1.0)
        full = max(piece.fullness, piece.concurrency)
        at_edge = beside < _EDGE * piece.concurrency
        found.append(_THINNING * full if uneven or at_edge else piece.concurrency)
    return found


def speedup(
    curve: Curve, pieces: Sequence[Piece], *, confidence: float, doubt: float = 0.0
) -> Speedup | None:
    """Compare pieces with the baseline; None where none of them is within its reach.

    The interval is that of the pieces, widened by the baseline's own and by `doubt` (a share).
    """
    priced_at = [
        (priced, peak)
        for piece, peak in zip(pieces, peaks(pieces), strict=True)
        if (priced := cost(curve, piece)) is not None
    ]
    costs = [priced for priced, _ in priced_at]
    spent = [priced.piece.spent for priced in costs]
    total = math.fsum(spent)
    tokens = math.fsum(priced.piece.tokens for priced in costs)
    if total <= 0.0 or tokens <= 0.0:
        return None
    spread = _weighted(costs, lambda load: spread_at(curve, load))

    def estimate(tops: list[float]) -> Estimate:
        width = math.hypot(spread or 0.0, doubt)
        return ratio_estimate(tops, spent, confidence=confidence, spread=width, successive=True)

    return Speedup(
        concurrency=estimate([priced.concurrency for priced in costs]),
        throughput=estimate([priced.throughput for priced in costs]),
        saturates=any(priced.saturates for priced in costs),
        covered=total / math.fsum(piece.spent for piece in pieces),
        extrapolated=any(priced.piece.concurrency > curve.top for priced in costs),
        upper=estimate(
            [priced.piece.tokens * upper_bound_at(curve, peak) for priced, peak in priced_at]
        ),
        tokens=tokens,
        baseline_tpot=math.fsum(priced.concurrency for priced in costs) / tokens,
        baseline_ttft=_weighted(costs, lambda load: ttft_at(curve, load)),
    )


def _weighted(costs: Sequence[Cost], figure: Callable[[float], float | None]) -> float | None:
    """Average a figure of the baseline over the loads seen, weighted by tokens."""
    values = [(priced.piece.tokens, figure(priced.piece.concurrency)) for priced in costs]
    known = [(weight, value) for weight, value in values if value is not None]
    total = math.fsum(weight for weight, _ in known)
    return math.fsum(weight * value for weight, value in known) / total if total > 0 else None
