"""How long the flag stays off, and how memory follows a clock that jumps; decides nothing."""

from dataclasses import replace

from specgauge.guard.policy import Policy
from specgauge.model.guard import GuardState

# Doubling so often already makes a millisecond longer than any cap worth configuring.
_MOST_STEPS = 64


def longest(policy: Policy) -> float:
    """Say how long the flag stays off at most before it is probed, in seconds."""
    return max(policy.cooldown, policy.backoff_max)


def wait(failures: int, policy: Policy) -> float:
    """Say how long the flag stays off after so many failed probes, in seconds."""
    seconds = policy.cooldown * max(1.0, policy.backoff_factor) ** min(failures, _MOST_STEPS)
    return min(seconds, longest(policy))


def probe_after(time: float, failures: int, policy: Policy) -> float | None:
    """Say when a flag that goes off at `time` is probed; None where only an operator may."""
    return time + wait(failures, policy) if policy.probes else None


def carry(state: GuardState, time: float, policy: Policy) -> GuardState:
    """Bring a state to `time`.

    A clock that went back takes every time along, so that a cool-down neither ends early nor
    lasts for ever; one that jumped ahead only makes things due. Fallbacks older than a day go.
    """
    kept = _shift(state, min(0.0, time - state.time))
    recent = tuple(at for at in kept.fallbacks if time - at < policy.day)
    return replace(kept, time=time, fallbacks=recent)


def _shift(state: GuardState, by: float) -> GuardState:
    """Move every time of a state; what is shadowed keeps its own and is carried by itself."""
    if not by:
        return state
    return replace(
        state,
        time=state.time + by,
        since=state.since + by,
        streak_end=state.streak_end + by,
        row_from=state.row_from + by,
        next_probe=None if state.next_probe is None else state.next_probe + by,
        fallbacks=tuple(at + by for at in state.fallbacks),
        saved=None if state.saved is None else _shift(state.saved, by),
    )
