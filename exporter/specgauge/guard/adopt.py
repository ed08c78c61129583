"""Where the guard begins: what is read back counts, what was saved only explains it.

Writes nothing and asks for nothing to be written: the flag begins as it was found.
"""

from dataclasses import replace

from specgauge.guard.cooldown import carry, probe_after, wait
from specgauge.guard.policy import Policy
from specgauge.model.guard import GuardState, Phase


def begin(
    read_back: bool | None, saved: GuardState | None, time: float, policy: Policy
) -> GuardState:
    """Begin with the flag as it was read back, None where that is not known.

    `saved` is on the guard's own clock. It counts when it is of the last day and says of the flag
    what was read back; while that is unknown it is kept aside and nothing is written.
    """
    fresh = saved if saved is not None and _is_fresh(saved, time, policy) else None
    # Whatever evidence is there at the start may count.
    ground = GuardState(time=time, since=time, streak_end=time - policy.day)
    if read_back is None:
        return replace(ground, saved=fresh)
    if fresh is not None and fresh.flag is read_back:
        return _resume(fresh, time, policy)
    if read_back:
        return replace(ground, phase=Phase.ACTIVE, flag=True)
    due = probe_after(time, 0, policy)
    return replace(ground, phase=Phase.FALLBACK, flag=False, next_probe=due)


def saved_due(state: GuardState, policy: Policy) -> float | None:
    """Say when to probe a flag that cannot be read back and that an earlier run turned off."""
    saved = state.saved
    if saved is None or saved.flag is not False or saved.phase is Phase.LATCHED:
        return None
    due = probe_after(saved.time, saved.failures, policy)
    if due is None or saved.next_probe is None:
        return due
    return min(due, saved.next_probe)


def _is_fresh(saved: GuardState, time: float, policy: Policy) -> bool:
    return saved.phase is not Phase.STARTING and 0.0 <= time - saved.time <= policy.day


def _resume(saved: GuardState, time: float, policy: Policy) -> GuardState:
    """Go on where an earlier run stopped; evidence and dry runs begin anew."""
    kept = replace(
        carry(saved, time, policy),
        streak=0,
        streak_end=time - policy.day,
        healthy_for=0.0,
        saved=None,
        shadow=None,
    )
    if kept.phase is Phase.PROBING:
        return replace(kept, since=time, streak_end=time)
    if kept.phase is not Phase.FALLBACK and kept.next_probe is None:
        return kept
    due = time + wait(kept.failures, policy)  # whatever the file says, it is not later
    if kept.next_probe is not None:
        due = min(due, kept.next_probe)
    return replace(kept, next_probe=due if policy.probes else None)
