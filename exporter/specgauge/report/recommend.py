"""What follows from figures: each recommendation with the rule that fired; decides nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from specgauge.report.classes import SPECULATIVE, ClassFigures
from specgauge.report.figures import Figures, GroupFigures
from specgauge.report.speed import LoadBin
from specgauge.report.terms import Limits

ENOUGH_CELLS = 6
"""Fewer cells of a load say nothing about it."""

_MOSTLY = 0.5
_DAY = 86_400.0


class Rule(StrEnum):
    """Which rule fired."""

    ACCEPTANCE_LOW = "acceptance_low"
    SPEEDUP_LOW = "speedup_low"
    MANY_FALLBACKS = "many_fallbacks"
    OTHER_K = "other_k"
    K_SCHEDULE = "k_schedule"
    CLASS_OFF = "class_off"
    BASELINE_STALE = "baseline_stale"
    BASELINE_MISMATCH = "baseline_mismatch"
    NO_BASELINE = "no_baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to do about a group; `condition` is the rule as it fired, with its numbers."""

    rule: Rule
    condition: str
    text: str


def recommend(group: GroupFigures, every: Figures, limits: Limits) -> tuple[Recommendation, ...]:
    """Hold a group to every rule; classes are those of its cluster."""
    found = [
        *_acceptance(group, limits),
        *_speedup(group, limits),
        *_fallbacks(group, limits),
        *_other_k(group),
        *_schedule(group),
        *_baseline(group, limits),
    ]
    for one in every.classes:
        if one.cluster == group.name.cluster:
            found += _class(one, group.breakeven_length)
    return tuple(found)


def _acceptance(group: GroupFigures, limits: Limits) -> Iterator[Recommendation]:
    ratio = group.acceptance.ratio
    if ratio is not None and ratio < limits.min_acceptance:
        yield Recommendation(
            rule=Rule.ACCEPTANCE_LOW,
            condition=f"acceptance {ratio:.3f} < {limits.min_acceptance:g}",
            text="Change the draft, or train a head on this traffic.",
        )


def _speedup(group: GroupFigures, limits: Limits) -> Iterator[Recommendation]:
    found = group.speed.speedup
    if found is not None and found.value < limits.min_speedup:
        yield Recommendation(
            rule=Rule.SPEEDUP_LOW,
            condition=f"speedup {found.value:.3f} < {limits.min_speedup:g}",
            text="Weigh what speculation saves against what it costs to run.",
        )


def _fallbacks(group: GroupFigures, limits: Limits) -> Iterator[Recommendation]:
    count = group.fallback_count
    if count > limits.max_fallbacks:
        yield Recommendation(
            rule=Rule.MANY_FALLBACKS,
            condition=f"{count} fallbacks > {limits.max_fallbacks}",
            text="Look at their reasons and at the draft; they should be rare.",
        )


def _other_k(group: GroupFigures) -> Iterator[Recommendation]:
    k = group.draft_length
    if k.share is None or k.suggested is None or k.used is None:
        return
    if k.share > _MOSTLY and k.suggested != k.used:
        yield Recommendation(
            rule=Rule.OTHER_K,
            condition=f"{k.suggested} draft tokens suggested, {k.used} used, "
            f"for {k.share:.0%} of the tokens",
            text=f"Try num_speculative_tokens {k.suggested}; specgauge sweep tells for sure.",
        )


def _schedule(group: GroupFigures) -> Iterator[Recommendation]:
    """Find the load from which on it costs, below which it pays."""
    known = [one for one in group.speed.bins if one.cells >= ENOUGH_CELLS]
    costing: list[LoadBin] = []
    for one in reversed(known):
        if one.speedup.high is None or one.speedup.high >= 1.0:
            break
        costing.append(one)
    below = known[: len(known) - len(costing)]
    if costing and any(one.speedup.value > 1.0 for one in below):
        first = costing[-1]
        yield Recommendation(
            rule=Rule.K_SCHEDULE,
            condition=f"speedup {first.speedup.value:.3f} < 1 from {first.low:g} requests in "
            "decode on, above 1 below",
            text=f"Draft nothing from {first.low:g} requests on: "
            "num_speculative_tokens_per_batch_size, or a routing rule on load.",
        )


def _baseline(group: GroupFigures, limits: Limits) -> Iterator[Recommendation]:
    state = group.baseline
    if state.mismatches:
        yield Recommendation(
            rule=Rule.BASELINE_MISMATCH,
            condition=f"the baseline differs in {', '.join(state.mismatches)}",
            text="Record a baseline of this server: specgauge baseline record.",
        )
    if state.age_seconds is not None and state.age_seconds > limits.max_baseline_age:
        yield Recommendation(
            rule=Rule.BASELINE_STALE,
            condition=f"the baseline is {state.age_seconds / _DAY:.1f} d old "
            f"> {limits.max_baseline_age / _DAY:g} d",
            text="Record it anew: specgauge baseline record.",
        )
    if group.acceptance.draft_tokens and state.created is None and group.speed.speedup is None:
        yield Recommendation(
            rule=Rule.NO_BASELINE,
            condition="no baseline covered any of the period",
            text="Record one: without it nobody knows whether speculation pays.",
        )


def _class(one: ClassFigures, breakeven: float | None) -> Iterator[Recommendation]:
    ours = next((pool for pool in one.pools if pool.pool == SPECULATIVE), None)
    conditions = []
    if one.ratio is not None and one.ratio.high is not None and one.ratio.high < 1.0:
        conditions.append(f"class {one.name}: speculative pool {one.ratio.value:.3f} times as fast")
    if ours is not None and ours.length is not None and breakeven and ours.length < breakeven:
        conditions.append(
            f"class {one.name}: acceptance length {ours.length:.2f} < {breakeven:.2f} to pay"
        )
    if conditions:
        yield Recommendation(
            rule=Rule.CLASS_OFF,
            condition="; ".join(conditions),
            text=f"Send class {one.name} to the pool without speculation.",
        )
