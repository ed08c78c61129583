"""What speculation's steps cost, and the acceptance at which they pay for themselves.

With S the speedup at equal concurrency, a step costs rho = tokens_per_step / S plain steps. It
breaks even where the tokens of a step equal rho: over steps that carry a draft (a share of
`coverage`) that is an acceptance length of 1 + (rho - 1) / coverage.
"""

from collections.abc import Sequence

from specgauge.model.derived import Absent, Reason


def step_cost_ratio(tokens_per_step: float | Absent, speedup: float) -> float | Absent:
    """Give rho, the cost of one decode step in steps of the baseline."""
    if isinstance(tokens_per_step, Absent):
        return tokens_per_step
    return tokens_per_step / speedup


def breakeven_acceptance_length(
    rho: float | Absent, coverage: float | Absent, k: int | None
) -> float | Absent:
    """Give the acceptance length at which a step pays for itself; none below 1 or above K + 1.

    Below 1 a step with a draft would cost less than one without: no acceptance is that low.
    """
    if isinstance(rho, Absent):
        return rho
    if isinstance(coverage, Absent):
        return coverage
    if coverage <= 0.0:
        return Absent(reason=Reason.NO_DRAFTS)
    found = 1.0 + (rho - 1.0) / coverage
    if found < 1.0:
        return Absent(reason=Reason.BELOW_ONE)
    if k is not None and found > k + 1:
        return Absent(reason=Reason.CANNOT_PAY)
    return found


def suggested_k(survival: Sequence[float], rho: float) -> int:
    """Suggest K for a chain of fixed draft length: where tokens over cost are greatest.

    A draft cut to k positions yields 1 + s_0 + ... + s_(k-1) tokens, exactly; its cost is taken
    to grow evenly from 1 at k = 0 to rho at K, so that nothing is saved on verification. Within
    1 % the smaller k wins. 0 says that no draft pays at this cost.
    """
    best, chosen = 1.0, 0
    tokens = 1.0
    for k, share in enumerate(survival, 1):
        tokens += share
        gain = tokens / (1.0 + k * (rho - 1.0) / len(survival))
        if gain > best * 1.01:
            best, chosen = gain, k
    return chosen
