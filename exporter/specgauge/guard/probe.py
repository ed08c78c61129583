"""When speculation gets another chance, and when that chance is passed.

A probe that is not clear goes on with the flag on: waiting costs nothing, for one degraded window
ends it. That is why it may be slow to call a pool active, and so does not swing with the load.
"""

from dataclasses import replace

from specgauge.guard.cooldown import longest, wait
from specgauge.guard.fall import fall_back
from specgauge.guard.policy import Policy
from specgauge.guard.step import TOUCHING, Step, known
from specgauge.model.guard import (
    Assessment,
    GuardReason,
    GuardState,
    Outcome,
    Phase,
    Surroundings,
)

# The share of the load that would return which a probe must have seen.
ENOUGH_LOAD = 0.7


def rest(state: GuardState, around: Surroundings, policy: Policy) -> Step:
    """Stay off until the cool-down ends, then probe, where probing is allowed."""
    if not policy.probes:
        return Step(state=replace(state, next_probe=None), reason=GuardReason.MANUAL_RECOVERY)
    due = state.next_probe
    if due is None:
        due = state.since + wait(state.failures, policy)
    if around.time < due and not around.probe_asked:
        return Step(state=replace(state, next_probe=due), reason=GuardReason.COOLING_DOWN)
    return start_probe(state, around)


def start_probe(state: GuardState, around: Surroundings) -> Step:
    """Turn the flag on to see how speculation does at the load that would return."""
    load = known(around.standard, "decode_concurrency")
    probing = replace(
        state,
        phase=Phase.PROBING,
        flag=True,
        since=around.time,
        streak=0,
        streak_end=around.time,
        next_probe=None,
        probe_load=state.fallback_load if load is None else load,
        healthy_for=0.0,
        saved=None,
    )
    asked = around.probe_asked
    return Step(state=probing, reason=GuardReason.PROBE_ASKED if asked else GuardReason.PROBE_DUE)


def probe(state: GuardState, assessment: Assessment, around: Surroundings, policy: Policy) -> Step:
    """End a probe with the first degraded window, or with a healthy one that is long enough."""
    if assessment.outcome not in {Outcome.HEALTHY, Outcome.DEGRADED}:
        return Step(state=state, reason=assessment.reason)
    if assessment.start < state.since - TOUCHING:
        return Step(state=state, reason=GuardReason.PROBE_TOO_SHORT)
    if assessment.outcome is Outcome.DEGRADED:
        return fall_back(state, assessment, around, policy)
    state = _more_healthy(state, assessment)
    if around.time - state.since < policy.probe_for - TOUCHING:
        return Step(state=state, reason=GuardReason.PROBE_TOO_SHORT)
    doubt = _doubt(state, assessment)
    if doubt is not None and not _has_lasted(state, around.time, policy):
        return Step(state=state, reason=doubt)
    return Step(state=_recovered(state, around.time), reason=GuardReason.PROBE_SUCCEEDED)


def _more_healthy(state: GuardState, assessment: Assessment) -> GuardState:
    """Add what a healthy window covers beyond those before it."""
    beyond = assessment.end - max(assessment.start, state.streak_end)
    return replace(
        state,
        healthy_for=state.healthy_for + max(0.0, beyond),
        streak_end=max(state.streak_end, assessment.end),
    )


def _doubt(state: GuardState, assessment: Assessment) -> GuardReason | None:
    """Say why this window does not show that speculation stands the load that would return.

    The load counts as the pool without speculation would feel it: under the same arrivals a pool
    that is faster holds fewer requests. The load at which speculation cost must be stood too: at
    the worst its gain falls as the load rises, and what is left of the lower end of its interval
    has to be a gain still. Where the load is not known, nothing is held against the evidence.
    """
    load = known(assessment.numbers, "decode_concurrency")
    if load is None:
        return None
    speedup = known(assessment.numbers, "speedup_ratio")
    felt = load if speedup is None else load * max(1.0, speedup)
    if felt < ENOUGH_LOAD * (state.probe_load or 0.0):
        return GuardReason.PROBE_LOAD_TOO_LOW
    if not state.fallback_load:
        return None
    share = min(1.0, load / state.fallback_load)
    gain = known(assessment.numbers, "speedup_ratio_low")
    gain = speedup if gain is None else gain
    if share < ENOUGH_LOAD if gain is None else share * gain < 1.0:
        return GuardReason.PROBE_LOAD_TOO_LOW if share < 1.0 else GuardReason.PROBE_NOT_CLEAR
    return None


def _has_lasted(state: GuardState, time: float, policy: Policy) -> bool:
    """Tell whether it went well for so long that the load must really have changed."""
    if state.healthy_for < wait(state.failures, policy) - TOUCHING:
        return False
    return not state.fallbacks or time - state.fallbacks[-1] >= longest(policy)


def _recovered(state: GuardState, time: float) -> GuardState:
    return replace(
        state,
        phase=Phase.ACTIVE,
        since=time,
        streak=0,
        streak_end=state.since,
        failures=0,
        fallback_load=None,
        fallback_tpot=None,
        probe_load=None,
        told=(),
        healthy_for=0.0,
    )
