"""Paired intervals of the ratio of two pools, on the log scale; no clock, chance from a seed.

A repeat is a block: both pools ran the same requests in it, one after the other. The ratio of
means is the mean of the blocks' log ratios with Student's t, so that drift from block to block
is in the interval and drift common to both pools of a block is not. Percentiles take the pooled
pairs; their spread is a bootstrap of pairs, widened by as much as the blocks' means spread more
than pairs alone would let them.
"""

import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from specgauge.baseline.figures import quantile
from specgauge.derive.statistics import Estimate, student_t

CONFIDENCE = 0.95
DRAWS = 300
MOST_PAIRS = 2000
"""Of more pairs a bootstrap draws so many, and its spread is scaled."""

Sums = tuple[float, float]
"""A quantity and what it is spread over: seconds and tokens, seconds and requests."""

Block = Sequence[tuple[Sums, Sums]]
"""The pairs of one repeat: the first pool's sums and the second's, request by request."""


def mean_ratio(blocks: Sequence[Block]) -> Estimate | None:
    """Give how many times the first pool's mean is the second's; None where nothing is paired."""
    logs = [log for block in blocks if (log := _log_ratio(block)) is not None]
    return ratio_of_logs(logs)


def ratio_of_logs(logs: Sequence[float]) -> Estimate | None:
    """Give the ratio of which these are independent measurements on the log scale."""
    if not logs:
        return None
    middle = fmean(logs)
    if len(logs) == 1:
        return Estimate(value=math.exp(middle), low=None, high=None)
    half = student_t(CONFIDENCE, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return around(middle, half)


def around(middle: float, half: float) -> Estimate:
    """Put an interval of that half-width on the log scale around a log ratio."""
    half = min(half, _WIDEST)
    return Estimate(
        value=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half)
    )


def quantile_ratios(
    blocks: Sequence[Block], shares: Sequence[float], *, seed: int, draws: int = DRAWS
) -> Mapping[float, Estimate]:
    """Give the ratio of each of these quantiles of the quantity per request; {} without pairs."""
    pairs = [
        (x / n, y / m)
        for block in blocks
        for (x, n), (y, m) in block
        if x > 0.0 and n > 0.0 and y > 0.0 and m > 0.0
    ]
    if not pairs:
        return {}
    points = _logs(pairs, shares)
    if len(pairs) < 2:  # noqa: PLR2004 - one pair says nothing about its spread
        return {share: Estimate(value=math.exp(points[share]), low=None, high=None)
                for share in shares}  # fmt: skip
    size = min(len(pairs), MOST_PAIRS)
    chance = random.Random(f"pairs {seed}")  # noqa: S311 - nothing secret here
    drawn = [_logs(chance.choices(pairs, k=size), shares) for _ in range(draws)]
    wider = _excess(blocks, pairs) * math.sqrt(size / len(pairs))
    t = student_t(CONFIDENCE, min(len(pairs) - 1, _MANY))
    return {
        share: around(points[share], t * wider * stdev([one[share] for one in drawn]))
        for share in shares
    }


def _logs(pairs: Sequence[tuple[float, float]], shares: Sequence[float]) -> dict[float, float]:
    first, second = sorted(x for x, _ in pairs), sorted(y for _, y in pairs)
    return {share: math.log(quantile(first, share) / quantile(second, share)) for share in shares}


def _log_ratio(block: Block) -> float | None:
    sums = [math.fsum(column) for column in zip(*((*a, *b) for a, b in block), strict=True)]
    if len(sums) < 4 or min(sums) <= 0.0:  # noqa: PLR2004 - two sums of each pool
        return None
    return math.log(sums[0] / sums[1]) - math.log(sums[2] / sums[3])


def _excess(blocks: Sequence[Block], pairs: Sequence[tuple[float, float]]) -> float:
    """Tell by which factor the blocks' means spread more than their pairs do; at least 1."""
    logs = [log for block in blocks if (log := _log_ratio(block)) is not None]
    apart = stdev([math.log(x / y) for x, y in pairs])
    if len(logs) < 2 or apart <= 0.0:  # noqa: PLR2004 - a spread needs two
        return 1.0
    expected = apart / math.sqrt(len(pairs))
    return max(1.0, stdev(logs) / math.sqrt(len(logs)) / expected)


_WIDEST = 20.0
_MANY = 1000
