"""What an operator says goes before any evidence; keeps no override itself."""

from dataclasses import replace

from specgauge.guard.adopt import begin
from specgauge.guard.policy import Policy
from specgauge.guard.step import Step
from specgauge.model.guard import GuardReason, GuardState, Override, Phase, Surroundings

_FLAGS = {"on": True, "off": False}
AUTO = "auto"


def obey(state: GuardState, around: Surroundings) -> Step | None:
    """Do what an operator asks; None where nobody asks for anything.

    An override that ends leaves the flag as it was. One that left it off is followed by a probe
    at once, or by what is left of the cool-down that it interrupted. `auto` ends an override and
    lets go of a latch, each with a probe at once. Whoever unlatches gets a fresh day.
    """
    override = around.override
    if override is not None and _is_in_force(override, around.time):
        return _override(state, _FLAGS[override.mode], around.time)
    if state.phase is Phase.OVERRIDE:
        expired = override is not None and override.mode != AUTO
        reason = GuardReason.OVERRIDE_EXPIRED if expired else GuardReason.OVERRIDE_LIFTED
        return Step(state=_released(state, around.time), reason=reason)
    if state.phase is Phase.LATCHED and override is not None and override.mode == AUTO:
        freed = replace(_released(state, around.time), fallbacks=())
        return Step(state=freed, reason=GuardReason.OVERRIDE_LIFTED)
    return None


def hand_back(state: GuardState, around: Surroundings, policy: Policy) -> Step | None:
    """Go on with the flag as others have made it, once an operator leaves it to us (`auto`)."""
    override = around.override
    if override is None or override.mode != AUTO:
        return None
    if not around.changed_elsewhere or around.confirmed in {None, state.flag}:
        return None
    adopted = begin(around.confirmed, None, around.time, policy)
    kept = () if state.phase is Phase.LATCHED else state.fallbacks
    return Step(state=replace(adopted, fallbacks=kept), reason=GuardReason.CHANGED_ELSEWHERE)


def _is_in_force(override: Override, time: float) -> bool:
    return override.mode in _FLAGS and (override.until is None or time < override.until)


def _override(state: GuardState, flag: bool, time: float) -> Step:
    reason = GuardReason.OVERRIDE_ON if flag else GuardReason.OVERRIDE_OFF
    if state.phase is Phase.OVERRIDE and state.flag is flag:
        return Step(state=state, reason=reason)
    obeyed = replace(
        state,
        phase=Phase.OVERRIDE,
        flag=flag,
        since=time,
        streak=0,
        next_probe=None if flag else state.next_probe,
        probe_load=None,
        fallbacks=() if state.phase is Phase.LATCHED else state.fallbacks,
        healthy_for=0.0,
        saved=None,
    )
    return Step(state=obeyed, reason=reason)


def _released(state: GuardState, time: float) -> GuardState:
    """Leave the flag as it is, and go on by oneself from there."""
    released = replace(state, since=time, streak=0, streak_end=time, fallback_tpot=None)
    if state.flag:
        return replace(
            released,
            phase=Phase.ACTIVE,
            failures=0,
            next_probe=None,
            fallback_load=None,
            told=(),
        )
    due = time if state.next_probe is None else state.next_probe
    return replace(released, phase=Phase.FALLBACK, next_probe=due)
