"""Errors and restarts of the speculative pool in excess of the standard pool's.

Shares of answers 5xx are compared by the two-proportion z test on the pooled share, one-sided.
Where both pools fail alike, or none beside is watched, speculation is not to blame.
"""

import math
from dataclasses import dataclass

from specgauge.guard.finding import Finding
from specgauge.model.guard import GuardReason, Look, Outcome, Signal

MIN_ERRORS = 5.0
MIN_SERVED = 20.0
SURE = 3.0
"""Standard deviations; one chance in 740 a window where both fail alike."""

RESTARTS = 3
RESTARTS_WITHIN = 900.0
"""So many restarts in so many seconds, beyond twice the other pool's, are a crash loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """When either pool was seen to restart lately, and whether the last look said so."""

    ours: tuple[float, ...] = ()
    theirs: tuple[float, ...] = ()
    ours_now: bool = False
    theirs_now: bool = False


def remember_restarts(memory: Restarts, look: Look, time: float) -> Restarts:
    """Add restarts when they are first seen; a window that still holds one is no second."""
    theirs_now = look.standard.get("restarts", 0.0) > 0.0
    ours = memory.ours if memory.ours_now or not look.restarted else (*memory.ours, time)
    theirs = memory.theirs if memory.theirs_now or not theirs_now else (*memory.theirs, time)
    return Restarts(
        ours=tuple(at for at in ours if 0.0 <= time - at <= RESTARTS_WITHIN),
        theirs=tuple(at for at in theirs if 0.0 <= time - at <= RESTARTS_WITHIN),
        ours_now=look.restarted,
        theirs_now=theirs_now,
    )


def judge_restarts(memory: Restarts, look: Look) -> Finding | None:
    """Say `degraded` where this pool crashes again and again while the other one runs."""
    ours, theirs = len(memory.ours), len(memory.theirs)
    if not look.restarted or not look.standard or ours < RESTARTS + 2 * theirs:
        return None
    # Between two restarts all may be well: three of them are proof enough by themselves.
    return _excess({"restarts": float(ours), "standard_restarts": float(theirs)}, severe=True)


def judge_errors(look: Look) -> Finding | None:
    """Say `degraded` where a larger share of answers fails here than in the other pool."""
    errors, served = look.numbers.get("errors", 0.0), look.numbers.get("served", 0.0)
    standard = look.standard.get("served", 0.0)
    if errors < MIN_ERRORS or served < MIN_SERVED or standard < MIN_SERVED:
        return None
    if "errors" not in look.standard:
        return None
    here, there = errors / served, look.standard["errors"] / standard
    pooled = (errors + look.standard["errors"]) / (served + standard)
    deviation = math.sqrt(max(pooled * (1.0 - pooled), 0.0) * (1.0 / served + 1.0 / standard))
    if here - there <= SURE * deviation:
        return None
    return _excess({"error_ratio": here, "standard_error_ratio": there})


def _excess(numbers: dict[str, float], *, severe: bool = False) -> Finding:
    return Finding(
        signal=Signal.ERRORS,
        outcome=Outcome.DEGRADED,
        reason=GuardReason.EXCESS_ERRORS,
        numbers=numbers,
        severe=severe,
    )
