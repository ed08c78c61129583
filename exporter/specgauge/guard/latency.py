"""A latency objective that is missed, and whether speculation can be why."""

from specgauge.guard.finding import Finding
from specgauge.guard.policy import Policy
from specgauge.guard.speed import too_little
from specgauge.model.guard import GuardReason, Look, Outcome, Signal
from specgauge.model.verdict import Verdict

DECODE = frozenset({"tpot_seconds", "e2e_seconds"})
"""Objectives that slow decoding can miss by itself; TTFT alone is queueing or prefill."""

BUSIER = 1.25
"""A pool with more requests in decode than this many times the other's is no comparison."""


def judge_latency(look: Look, policy: Policy, *, acceptance_lost: bool) -> Finding | None:
    """Say `degraded` where an objective is missed and speculation is the plausible cause.

    That is a verdict `costs`; where it is unknown, acceptance that collapsed or lies below its
    floor, or time per token worse than that of the standard pool in the same window. Verdicts of
    1 and better acquit it.
    """
    missed = missed_objectives(look, policy)
    if not missed or too_little(look, policy) is not None:
        return None
    if look.verdict is Verdict.UNKNOWN:
        slower = bool(DECODE & missed.keys()) and _slower_than_standard(look, policy)
        if not acceptance_lost and not slower:
            return None
    elif look.verdict is not Verdict.COSTS:
        return None
    return Finding(
        signal=Signal.LATENCY,
        outcome=Outcome.DEGRADED,
        reason=GuardReason.LATENCY_OBJECTIVE_MISSED,
        numbers=missed,
    )


def missed_objectives(look: Look, policy: Policy) -> dict[str, float]:
    """Give the latencies that are above what was promised."""
    promised = {
        "tpot_seconds": policy.objective.tpot_seconds,
        "ttft_seconds": policy.objective.ttft_seconds,
        "e2e_seconds": policy.objective.e2e_seconds,
    }
    seen = {name: look.numbers[name] for name in promised if name in look.numbers}
    limits = {name: limit for name, limit in promised.items() if limit is not None}
    return {n: value for n, value in seen.items() if n in limits and value > limits[n]}


def _slower_than_standard(look: Look, policy: Policy) -> bool:
    """Compare the pools only where ours is not the busier one: load slows both."""
    names = ("tpot_seconds", "decode_concurrency")
    if any(name not in pool for pool in (look.numbers, look.standard) for name in names):
        return False
    if look.standard.get("tokens", 0.0) < policy.min_tokens:
        return False
    (ours, load), (theirs, other) = ([p[n] for n in names] for p in (look.numbers, look.standard))
    return load <= BUSIER * other and ours * (1.0 - policy.margin) > theirs
