"""Learns a baseline from a server's own traffic: intervals gathered by decode concurrency.

Neighbouring bins lie a factor of the square root of two apart. Time is in the observations;
nothing here looks at a clock.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from specgauge.baseline.faults import word
from specgauge.baseline.observation import Observation
from specgauge.baseline.schema import LevelRecord, ServerFigures, keys_at
from specgauge.derive.statistics import ratio_estimate
from specgauge.errors import BaselineError

CONFIDENCE = 0.95
TIGHT = 0.03
"""A bin is full when the half-width of its B is no more than this share of it..."""
ENOUGH_INTERVALS = 10
ENOUGH_TOKENS = 1000.0
"""...and it rests on so many intervals and decode tokens."""

LOOSE = 0.10
"""A bin of a wider half-width says too little to be written down..."""
LEAST_INTERVALS = 3
LEAST_TOKENS = 100.0
"""...and so does one of fewer intervals or decode tokens."""

MOST_INTERVALS = 1000
"""A bin takes no more intervals than this."""

_PER_DOUBLING = 2.0
_LARGEST = 1e9

Bins = Mapping[int, tuple[Observation, ...]]


def bin_of(concurrency: float) -> int:
    """Give the number of a bin: 0 up to 1.19 requests in decode, 1 around 1.41, 2 around 2."""
    return max(round(_PER_DOUBLING * math.log2(concurrency)), 0)


def gather(bins: Bins, seen: Iterable[Observation]) -> Bins:
    """Add observations to their bins; uneven ones teach nothing and bins that hold enough rest."""
    found = dict(bins)
    for one in seen:
        if not one.uneven:
            number = bin_of(one.concurrency)
            held = found.get(number, ())
            if len(held) < MOST_INTERVALS:
                found[number] = (*held, one)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """How well a bin is known: B in seconds a token, its half-width as a share (None: unknown)."""

    concurrency: float
    intervals: int
    tokens: float
    tpot: float
    half_width: float | None

    @property
    def full(self) -> bool:
        """Whether it needs no more."""
        return (
            self.intervals >= ENOUGH_INTERVALS
            and self.tokens >= ENOUGH_TOKENS
            and self.half_width is not None
            and self.half_width <= TIGHT
        )

    @property
    def usable(self) -> bool:
        """Whether it may become a level."""
        return (
            self.intervals >= LEAST_INTERVALS
            and self.tokens >= LEAST_TOKENS
            and self.half_width is not None
            and self.half_width <= LOOSE
        )


def fill(held: Sequence[Observation]) -> Filling:
    """Say how well the intervals of one bin fix its B."""
    tokens = math.fsum(one.tokens for one in held)
    found = ratio_estimate(
        [one.spent for one in held], [one.tokens for one in held], confidence=CONFIDENCE
    )
    assert found is not None
    half = None if found.high is None else (found.high - found.value) / found.value
    return Filling(
        # weighted by tokens: a straight B is met exactly, however the loads lie within the bin
        concurrency=math.fsum(one.tokens * one.concurrency for one in held) / tokens,
        intervals=len(held),
        tokens=tokens,
        tpot=found.value,
        half_width=half,
    )


def levels(bins: Bins) -> tuple[tuple[LevelRecord, ...], tuple[str, ...]]:
    """Turn usable bins into levels; the second value says which bins were left out, and why."""
    found, left_out = [], []
    for _, held in sorted(bins.items()):
        filling = fill(held)
        if filling.usable:
            note = () if filling.full else (f"not full: {describe(filling)}",)
            found.append(level(held, filling=filling, notes=note))
        else:
            left_out.append(
                f"left out the load of {filling.concurrency:.3g} requests: {describe(filling)}"
            )
    return tuple(found), tuple(left_out)


def describe(filling: Filling) -> str:
    """Say in a few words what a bin holds."""
    width = "" if filling.half_width is None else f", within {filling.half_width:.1%}"
    plural = "" if filling.intervals == 1 else "s"
    return f"{filling.tokens:.0f} tokens in {filling.intervals} interval{plural}{width}"


def level(
    held: Sequence[Observation], *, filling: Filling, notes: tuple[str, ...] = ()
) -> LevelRecord:
    """Write one or more intervals of the same load as a level."""
    seconds, firsts = _total(held, "seconds"), _total(held, "firsts")
    interval = None
    if filling.half_width is not None:
        half = filling.half_width * filling.tpot
        interval = (max(filling.tpot - half, 0.0), filling.tpot + half)
    usages = [one.kv_usage for one in held if one.kv_usage is not None]
    try:
        return LevelRecord(
            decode_concurrency=filling.concurrency,
            window_seconds=seconds,
            requests=round(min(firsts, _LARGEST)),
            output_tokens=round(_total(held, "generated")),
            prompt_tokens_per_request=_mean(_total(held, "prompts"), firsts),
            output_tokens_per_request=_mean(_total(held, "generated"), firsts),
            server=ServerFigures(
                tpot_seconds=filling.tpot,
                tpot_ci95=interval,
                step_seconds=_mean(filling.tpot * filling.tokens, _total(held, "steps")),
                ttft_seconds=_mean(_total(held, "ttft_sum"), firsts),
                e2e_seconds=_mean(_total(held, "e2e_sum"), _total(held, "finished")),
                generation_tokens_per_second=_total(held, "generated") / seconds,
                kv_cache_usage_ratio_max=min(max(usages), 1.0) if usages else None,
            ),
            notes=notes,
        )
    except ValidationError as error:
        raise BaselineError([word(one, keys_at) for one in error.errors()]) from None


def _total(held: Sequence[Observation], name: str) -> float:
    return math.fsum(getattr(one, name) for one in held)


def _mean(total: float, count: float) -> float | None:
    """Give a mean where there is one; a mean of nothing was not measured."""
    return total / count if total > 0.0 and count > 0.0 else None
