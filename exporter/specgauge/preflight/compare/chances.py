"""Chances of counts: whether one share is below another by more than luck; numbers in and out."""

import math


def fall_chance(passed: int, of: int, before: int, before_of: int) -> float:
    """Give the chance of so few passes or fewer if both shares were one (Fisher, one-sided).

    A small one says that the first share is below the second's by more than luck. 1 where either
    has nothing to count.
    """
    if not of or not before_of:
        return 1.0
    passes, total = passed + before, of + before_of
    least = max(0, of - (total - passes))
    every = _log_choose(total, of)
    logs = [
        _log_choose(passes, hits) + _log_choose(total - passes, of - hits) - every
        for hits in range(least, passed + 1)
    ]
    return min(1.0, math.fsum(math.exp(log) for log in logs))


def difference_interval(
    passed: int, of: int, before: int, before_of: int
) -> tuple[float, float] | None:
    """Give the 95 % interval of first share minus second (Newcombe 1998, method 10)."""
    if not of or not before_of:
        return None
    one, (low1, high1) = passed / of, _wilson(passed, of)
    two, (low2, high2) = before / before_of, _wilson(before, before_of)
    gap = one - two
    return (
        gap - math.hypot(one - low1, high2 - two),
        gap + math.hypot(high1 - one, two - low2),
    )


def _wilson(hits: int, of: int) -> tuple[float, float]:
    share, square = hits / of, _Z * _Z
    middle = (share + square / (2 * of)) / (1 + square / of)
    spread = math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    half = _Z / (1 + square / of) * spread
    return max(0.0, middle - half), min(1.0, middle + half)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


_Z = 1.959963984540054
