"""What verification would cost at a load, from a baseline: a step's price by the tokens in it.

A step that checks k draft tokens for each of c requests computes c * (1 + k) tokens, about as many
as a step of that many requests without speculation; the baseline knows the price of that one.
Attention for the further tokens is left out: the cache is read once for them all. Above the
baseline's range the price goes on along the line through its two highest levels, so a baseline of
one level tells no price.
"""

from dataclasses import dataclass

from specgauge.derive.interpolate import tpot_at
from specgauge.model.baseline import Curve
from specgauge.preflight.advise.lookup import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a draft of k tokens costs to verify, and so how much of it must be accepted.

    `ngram_speedup` is the replay's tokens a step over what such steps would cost.
    """

    concurrency: float
    verification_cost: float
    breakeven_acceptance: float
    ngram_speedup: float | None
    extrapolated: bool


def expect(
    curve: Curve, concurrency: float, draft_tokens: int, tally: Tally | None
) -> Expected | None:
    """Reckon with a baseline at a load; None where one level tells nothing of larger steps."""
    if len(curve.levels) == 1:
        return None
    busy = in_step(concurrency)
    full = busy * (1 + draft_tokens)
    cost = _price(curve, full) / _price(curve, busy)
    speedup = None
    if tally is not None and (gained := tally.tokens_per_step) is not None:
        drafted = tally.draft_tokens / tally.steps
        speedup = gained * _price(curve, busy) / _price(curve, busy * (1 + drafted))
    return Expected(
        concurrency=concurrency,
        verification_cost=cost,
        breakeven_acceptance=max(cost - 1.0, 0.0) / draft_tokens,
        ngram_speedup=speedup,
        extrapolated=full > curve.top,
    )


def in_step(concurrency: float) -> float:
    """Give the requests of a step: a mean over idle time may be below 1, a step never is."""
    return max(concurrency, 1.0)


def _price(curve: Curve, concurrency: float) -> float:
    """Give B(c), above the top along the last line, which never falls."""
    top = curve.levels[-1]
    if concurrency <= top.decode_concurrency:
        return tpot_at(curve, concurrency)
    below = curve.levels[-2]
    slope = (top.tpot - below.tpot) / (top.decode_concurrency - below.decode_concurrency)
    return top.tpot + max(slope, 0.0) * (concurrency - top.decode_concurrency)
