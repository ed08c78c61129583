"""The primary signal: what the verdict says of speed, once there is enough to judge by."""

from specgauge.guard.chance import fell, stands_out
from specgauge.guard.finding import Finding, requests_seen
from specgauge.guard.pace import Pace, upper_end
from specgauge.guard.policy import Policy
from specgauge.model.guard import GuardReason, Look, Outcome, Signal
from specgauge.model.verdict import Verdict, VerdictReason

UNCOVERED = frozenset(
    {
        VerdictReason.NO_BASELINE,
        VerdictReason.OUTSIDE_RANGE,
        VerdictReason.BASELINE_MISMATCH,
        VerdictReason.WORKLOAD_MISMATCH,
    }
)
"""Reasons of an unknown verdict that say that no baseline speaks for this load."""


def wants_baseline(look: Look) -> bool:
    """Tell whether speed is unknown for want of a baseline, so that acceptance may decide."""
    unknown = look.verdict is Verdict.UNKNOWN and not look.covered
    return unknown and look.verdict_reason in UNCOVERED


def too_little(look: Look, policy: Policy) -> GuardReason | None:
    """Say what there is too little of for a judgement of speed; None where there is enough."""
    if look.numbers.get("tokens", 0.0) < policy.min_tokens:
        return GuardReason.TOO_FEW_TOKENS
    if requests_seen(look) < policy.min_requests:
        return GuardReason.TOO_FEW_REQUESTS
    return None


def judge_speed(look: Look, policy: Policy, pace: Pace) -> Finding:
    """Turn the verdict into an outcome.

    A loss that is no more than what windows of late differ by anyway is inconclusive. It is severe
    only where the whole interval is far below 1, also by what they have differed by. Right after a
    fall that they cannot explain, a verdict that only leans towards a loss is one.
    """
    if look.leans and too_little(look, policy) is None and fell(pace, look, policy):
        return Finding(
            signal=Signal.SPEEDUP, outcome=Outcome.DEGRADED, reason=GuardReason.SPEEDUP_FELL
        )
    if look.verdict is Verdict.UNKNOWN:
        few = look.verdict_reason == VerdictReason.TOO_FEW_TOKENS
        return _say(Outcome.NO_DATA if few else Outcome.INCONCLUSIVE, look.verdict_reason)
    few_reason = too_little(look, policy)
    if few_reason is not None:
        return _say(Outcome.NO_DATA, few_reason)
    if look.verdict is not Verdict.COSTS:
        return _say(Outcome.HEALTHY, look.verdict_reason)
    if not stands_out(pace, look, policy):
        return _say(Outcome.INCONCLUSIVE, GuardReason.WITHIN_USUAL)
    most = upper_end(pace, look)
    return Finding(
        signal=Signal.SPEEDUP,
        outcome=Outcome.DEGRADED,
        reason=look.verdict_reason,
        severe=most is not None and most < policy.severe,
    )


def _say(outcome: Outcome, reason: str) -> Finding:
    return Finding(signal=Signal.SPEEDUP, outcome=outcome, reason=reason)
