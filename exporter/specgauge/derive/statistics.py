"""The interval of a ratio of sums, from the pieces that the sums are made of.

A ratio estimator S = sum(x) / sum(y) over n pieces has the variance
n/(n-1) * sum((x_i - S*y_i)^2) / sum(y)^2 (Cochran, Sampling Techniques, ch. 6); its interval
takes Student's t with n-1 degrees of freedom. Successive pieces of a time series are correlated:
with a lag-1 autocorrelation r of the residuals the variance of the sum is (1 + r) / (1 - r) times
as large (the sum of a first-order autoregression; Priestley, Spectral Analysis and Time Series,
5.3.2). The estimate of r is too low by about (1 + 3r)/n (Kendall 1954), which is added back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

ENOUGH_FOR_CORRELATION = 10
"""Of fewer pieces a lag-1 autocorrelation is noise: they are taken as independent."""

_MOST_CORRELATION = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A ratio with its interval; `low` and `high` are None where one piece allows none."""

    value: float
    low: float | None
    high: float | None


def ratio_estimate(
    tops: Sequence[float],
    bottoms: Sequence[float],
    *,
    confidence: float,
    spread: float = 0.0,
    successive: bool = False,
) -> Estimate:
    """Estimate sum(tops) / sum(bottoms), none of them below 0.

    `spread` is a further half-width, as a share of the estimate. `successive` says that the
    pieces follow each other in time. The bottoms must add up to more than nothing; raises
    ZeroDivisionError otherwise.
    """
    total = math.fsum(bottoms)
    value = math.fsum(tops) / total
    n = len(tops)
    if n < 2:  # noqa: PLR2004 - one piece says nothing about its spread
        return Estimate(value=value, low=None, high=None)
    residuals = [x - value * y for x, y in zip(tops, bottoms, strict=True)]
    squares = math.fsum(residual**2 for residual in residuals)
    deviation = math.sqrt(n / (n - 1) * squares) / total
    if successive and n >= ENOUGH_FOR_CORRELATION:
        r = autocorrelation(residuals)
        deviation *= math.sqrt((1.0 + r) / (1.0 - r))
    half = math.hypot(student_t(confidence, n - 1) * deviation, spread * value)
    # times and counts are never below 0 and neither is their ratio, however wide the interval
    return Estimate(value=value, low=max(value - half, 0.0), high=value + half)


def autocorrelation(residuals: Sequence[float]) -> float:
    """Give the lag-1 autocorrelation of residuals that add up to 0; never below 0 nor near 1."""
    squares = math.fsum(one**2 for one in residuals)
    if squares <= 0.0:
        return 0.0
    r = math.fsum(one * after for one, after in pairwise(residuals)) / squares
    r += (1.0 + 3.0 * max(r, 0.0)) / len(residuals)
    return min(max(r, 0.0), _MOST_CORRELATION)


@lru_cache(maxsize=256)
def student_t(confidence: float, degrees: int) -> float:
    """Give the two-sided quantile of Student's t: P(|T| <= t) = confidence, within 1e-9.

    By bisection on the distribution's closed form for whole degrees (Abramowitz and Stegun,
    26.7.3 and 26.7.4).
    """
    low, high = 0.0, 2.0
    while _within(high, degrees) < confidence:
        high *= 2.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2.0
        if _within(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return high


def _within(t: float, degrees: int) -> float:
    """Give P(|T| <= t)."""
    angle = math.atan2(t, math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    if degrees == 1:
        return 2.0 * angle / math.pi
    odd = degrees % 2 == 1
    term = cosine if odd else 1.0
    total = term
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if odd:
        return 2.0 / math.pi * (angle + sine * total)
    return sine * total
