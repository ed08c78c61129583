"""The guard's state machine: from what is seen and what was, to what is wanted and why.

Only `degraded` turns the flag off; only a due probe or an operator turns it on. Missing data and
doubt change nothing. The same inputs give the same decisions: no clock, no chance, no I/O.
"""

from dataclasses import replace

from specgauge.guard.adopt import begin, saved_due
from specgauge.guard.command import hand_back, obey
from specgauge.guard.cooldown import carry
from specgauge.guard.fall import look_after, watch
from specgauge.guard.policy import Policy
from specgauge.guard.probe import probe, rest, start_probe
from specgauge.guard.step import Step
from specgauge.model.guard import (
    Assessment,
    Decision,
    GuardReason,
    GuardState,
    Outcome,
    Phase,
    Surroundings,
)

__all__ = ["begin", "decide"]


def decide(
    state: GuardState, assessment: Assessment, around: Surroundings, policy: Policy
) -> tuple[GuardState, Decision]:
    """Take one look's assessment into account; gives the new state and the decision made."""
    kept = carry(state, around.time, policy)
    if policy.dry_run:
        step = _rehearse(kept, assessment, around, policy)
    else:
        step = _step(replace(kept, shadow=None), assessment, around, policy)
    after = step.state
    decision = Decision(
        time=around.time,
        before=state.phase,
        state=after.phase,
        flag=after.flag,
        outcome=assessment.outcome,
        reason=step.reason,
        changed=_moved(state, after),
        signal=assessment.signal,
        model_name=assessment.model_name,
        evidence=assessment.numbers,
        wanted=step.wanted,
        shadow=_elsewhere(after),
        rehearsed=assessment.rehearsed,
        companions=assessment.companions,
        next_probe=None if policy.dry_run else after.next_probe,
        warnings=step.warnings,
    )
    return after, decision


def _moved(before: GuardState, after: GuardState) -> bool:
    return before.phase is not after.phase or before.flag is not after.flag


def _elsewhere(state: GuardState) -> Phase | None:
    shadow = state.shadow
    return None if shadow is None or shadow.phase is state.phase else shadow.phase


def _step(state: GuardState, assessment: Assessment, around: Surroundings, policy: Policy) -> Step:
    """Adopt, obey or follow the evidence, unless the flag is frozen and would move."""
    if state.phase is Phase.STARTING and around.confirmed is not None:
        adopted = begin(around.confirmed, state.saved, around.time, policy)
        return Step(state=adopted, reason=GuardReason.READ_BACK_ADOPTED)
    step = hand_back(state, around, policy) or obey(state, around)
    step = step or _follow(state, assessment, around, policy)
    if around.frozen and step.state.flag is not state.flag:
        return Step(state=state, reason=GuardReason.FROZEN, wanted=step.state.phase)
    return step


def _follow(
    state: GuardState, assessment: Assessment, around: Surroundings, policy: Policy
) -> Step:
    """Apply the rules of the phase it is in."""
    if state.phase is Phase.STARTING:
        return _grope(state, assessment, around, policy)
    if state.phase is Phase.ACTIVE:
        return watch(state, assessment, around, policy)
    if state.phase is Phase.PROBING:
        return probe(state, assessment, around, policy)
    looked, warnings = look_after(state, assessment, around)
    if state.phase is Phase.LATCHED:
        return Step(state=looked, reason=GuardReason.TOO_MANY_FALLBACKS, warnings=warnings)
    return replace(rest(looked, around, policy), warnings=warnings)


def _grope(state: GuardState, assessment: Assessment, around: Surroundings, policy: Policy) -> Step:
    """Watch while the flag is unknown; probe if an earlier run turned it off and would by now."""
    due = saved_due(state, policy)
    if due is not None and around.time >= due:
        resumed = begin(read_back=False, saved=state.saved, time=around.time, policy=policy)
        return start_probe(resumed, around)
    step = watch(state, assessment, around, policy)
    if assessment.outcome is Outcome.DEGRADED:
        return step
    return replace(step, reason=GuardReason.READ_BACK_UNKNOWN)


def _rehearse(
    state: GuardState, assessment: Assessment, around: Surroundings, policy: Policy
) -> Step:
    """Decide for a shadow that nobody obeys, and keep phase and flag as they were found.

    The shadow goes through fallback, cool-down and probes on the evidence of the flag as it is, so
    that each step is told once, by `wanted`, and not at every window. A flag that others change is
    followed, for a dry run has no wish of its own. Whether a fallback helped cannot be seen.
    """
    if around.confirmed is not None and around.confirmed is not state.flag:
        starting = state.phase is Phase.STARTING
        adopted = begin(around.confirmed, state.saved, around.time, policy)
        reason = GuardReason.READ_BACK_ADOPTED if starting else GuardReason.CHANGED_ELSEWHERE
        return Step(state=adopted, reason=reason)
    before = carry(state.shadow or state, around.time, policy)
    step = _step(before, assessment, around, policy)
    after = step.state
    wanted = after.phase if _moved(before, after) else step.wanted
    return Step(state=replace(state, shadow=after), reason=step.reason, wanted=wanted)
