"""From evidence to turning the flag off, and whether that helped; turns nothing on."""

from collections.abc import Mapping
from dataclasses import replace

from specgauge.guard.cooldown import probe_after
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
from specgauge.model.verdict import VerdictReason

# A fallback helped when the time per token is at least this share lower than before it.
BETTER_BY = 0.02
# The other pool is looked at when two windows, and this many seconds, lie behind the fallback.
LOOK_AFTER = 30.0


def watch(state: GuardState, assessment: Assessment, around: Surroundings, policy: Policy) -> Step:
    """Count degraded windows that do not overlap, and fall back when there are enough.

    One that overlaps those counted so far takes their place if it alone is worth more.
    """
    if assessment.outcome is Outcome.HEALTHY:
        return Step(state=_forget_streak(state, assessment), reason=assessment.reason)
    if assessment.outcome is not Outcome.DEGRADED:
        return Step(state=state, reason=assessment.reason)
    worth = windows_in(assessment.end - assessment.start, assessment.numbers, policy)
    if not state.streak:
        state = replace(state, row_from=state.streak_end)
    if assessment.start >= state.streak_end - TOUCHING:
        state = replace(state, streak=state.streak + worth, streak_end=assessment.end)
    elif worth > state.streak > 0 and assessment.start >= state.row_from - TOUCHING:
        # instead of those that it overlaps
        state = replace(state, streak=worth, streak_end=assessment.end)
    enough = state.streak >= policy.consecutive or (assessment.severe and state.streak > 0)
    if not enough:
        return Step(state=state, reason=GuardReason.NOT_YET_IN_A_ROW)
    return fall_back(state, assessment, around, policy)


def windows_in(seconds: float, numbers: Mapping[str, float], policy: Policy) -> int:
    """Count the decision windows that a degraded one is worth.

    One that grew holds several, each of which points the same way, if it also holds the requests
    of several: a few long requests are one sample, however long they are looked at.
    """
    if policy.playbook:
        return 1
    long = (seconds + TOUCHING) // policy.decision_window
    requests = max(numbers.get(name, 0.0) for name in ("requests", "first_tokens"))
    return max(1, int(min(long, requests // max(2.0 * policy.min_requests, 1.0))))


def fall_back(
    state: GuardState, assessment: Assessment, around: Surroundings, policy: Policy
) -> Step:
    """Turn the flag off on this evidence, unless the traffic has nowhere to go."""
    if policy.require_standard_capacity and (
        around.standard_up is False or around.standard_has_room is False
    ):
        return Step(state=state, reason=GuardReason.NO_FALLBACK_CAPACITY)
    if around.others_falling_back:
        return Step(state=state, reason=GuardReason.MEMBERS_FALLING_BACK)
    numbers = assessment.numbers
    fallen = replace(
        state,
        phase=Phase.FALLBACK,
        flag=False,
        since=around.time,
        streak=0,
        fallback_tpot=known(numbers, "tpot_seconds"),
        probe_load=None,
        healthy_for=0.0,
        saved=None,
    )
    load = known(numbers, "decode_concurrency")
    if state.phase is Phase.PROBING:
        return _failed_probe(fallen, load, policy)
    return _fallen(fallen, load, assessment.reason, policy)


def look_after(
    state: GuardState, assessment: Assessment, around: Surroundings
) -> tuple[GuardState, tuple[str, ...]]:
    """Say, once per fallback, when the pool without speculation is no faster than it was with."""
    before, now = state.fallback_tpot, known(around.standard, "tpot_seconds")
    patience = max(LOOK_AFTER, 2.0 * (assessment.end - assessment.start))
    if before is None or now is None or around.time - state.since < patience:
        return state, ()
    looked = replace(state, fallback_tpot=None)
    said = GuardReason.FALLBACK_INEFFECTIVE
    if now < before * (1.0 - BETTER_BY) or said in state.told:
        return looked, ()
    return replace(looked, told=(*state.told, said)), (said,)


def _forget_streak(state: GuardState, assessment: Assessment) -> GuardState:
    """Begin a new row with windows that do not begin before the healthy one.

    A short window that is even may lie within a longer one that costs: that one may still begin
    where the row did.
    """
    if not state.streak:
        return state
    if assessment.reason == VerdictReason.WITHIN_MARGIN:
        return replace(state, streak=0, streak_end=state.row_from)
    return replace(state, streak=0, streak_end=min(state.streak_end, assessment.start))


def _failed_probe(fallen: GuardState, load: float | None, policy: Policy) -> Step:
    """Wait longer than before the probe, and remember the highest load that was not stood."""
    failures = fallen.failures + 1
    loads = [at for at in (fallen.fallback_load, load) if at is not None]
    state = replace(
        fallen,
        failures=failures,
        fallback_load=max(loads, default=None),
        next_probe=probe_after(fallen.since, failures, policy),
    )
    return Step(state=state, reason=GuardReason.PROBE_FAILED)


def _fallen(fallen: GuardState, load: float | None, reason: str, policy: Policy) -> Step:
    """Count a fallback against the day's, and stay off for good when there were too many."""
    state = replace(
        fallen,
        failures=0,
        fallback_load=load,
        fallbacks=(*fallen.fallbacks, fallen.since),
        told=(),
    )
    if len(state.fallbacks) > policy.max_fallbacks_per_day:
        latched = replace(state, phase=Phase.LATCHED, next_probe=None)
        return Step(state=latched, reason=GuardReason.TOO_MANY_FALLBACKS)
    due = probe_after(state.since, 0, policy)
    return Step(state=replace(state, next_probe=due), reason=reason)
