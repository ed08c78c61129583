"""What acceptance alone says, for loads of which no baseline speaks; else it decides nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

from specgauge.guard.collapse import Collapse, Watched
from specgauge.guard.finding import Finding, requests_seen
from specgauge.guard.floor import Floor, measure_floor
from specgauge.guard.policy import Policy
from specgauge.guard.speed import wants_baseline
from specgauge.model.guard import GuardReason, Look, Outcome, Signal, Switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The floor and the fall of one look, and why there may be too little to judge by.

    `known` says that there is a past to compare with.
    """

    few: GuardReason | None
    floor: Floor | None = None
    collapse: Collapse | None = None
    known: bool = False

    @property
    def lost(self) -> bool:
        """Whether acceptance is below its floor or fell off."""
        return self.collapse is not None or (self.floor is not None and self.floor.below)


def weigh_acceptance(watched: Watched, look: Look, policy: Policy) -> Acceptance | None:
    """Measure what acceptance says; None where a baseline covers the load, or speed is known."""
    if not wants_baseline(look):
        return None
    if look.numbers.get("drafts", 0.0) < policy.min_drafts:
        return Acceptance(few=GuardReason.TOO_FEW_DRAFTS)
    if requests_seen(look) < policy.min_requests:
        return Acceptance(few=GuardReason.TOO_FEW_REQUESTS)
    return Acceptance(
        few=None,
        floor=measure_floor(look, policy),
        collapse=watched.collapse,
        known=watched.known,
    )


def acceptance_losses(found: Acceptance, policy: Policy) -> Iterator[Finding]:
    """Give what says `degraded`: acceptance below its floor, and a fall from its own past."""
    if found.floor is not None and found.floor.below:
        yield Finding(
            signal=Signal.ACCEPTANCE_FLOOR,
            outcome=Outcome.DEGRADED,
            reason=GuardReason.ACCEPTANCE_BELOW_FLOOR,
        )
    if found.collapse is not None:
        yield Finding(
            signal=Signal.COLLAPSE,
            outcome=Outcome.DEGRADED,
            reason=GuardReason.ACCEPTANCE_COLLAPSED,
            severe=found.collapse.steady and found.collapse.high < policy.severe,
        )


def acceptance_rest(found: Acceptance, look: Look, policy: Policy) -> Finding | None:
    """Say what acceptance leaves where nothing acts; None where neither signal is looked at.

    Healthy takes a past that it holds against and a floor that is passed; a floor that is
    switched off asks nothing.
    """
    floor_off, fall_off = (
        policy.signals.get(signal, Switch.OFF) is Switch.OFF
        for signal in (Signal.ACCEPTANCE_FLOOR, Signal.COLLAPSE)
    )
    if floor_off and fall_off:
        return None
    if found.few is not None:
        return _say(Outcome.NO_DATA, found.few)
    passed = floor_off or (found.floor is not None and found.floor.passed)
    if passed and found.known and found.collapse is None and not fall_off:
        return _say(Outcome.HEALTHY, GuardReason.ACCEPTANCE_HELD)
    return _say(Outcome.INCONCLUSIVE, look.verdict_reason)


def acceptance_numbers(found: Acceptance) -> dict[str, float]:
    """Name the numbers that the floor and the fall rest on."""
    numbers: dict[str, float] = {}
    if found.floor is not None:
        numbers["acceptance_length"] = found.floor.length
        numbers["acceptance_length_low"] = found.floor.low
        numbers["acceptance_length_high"] = found.floor.high
        numbers["acceptance_floor"] = found.floor.floor
    if found.collapse is not None:
        numbers["collapse_ratio"] = found.collapse.ratio
        numbers["collapse_ratio_high"] = found.collapse.high
        numbers["past_acceptance_length"] = found.collapse.before
        numbers["collapsed_acceptance_length"] = found.collapse.after
        numbers["collapse_seconds"] = found.collapse.seconds
    return numbers


def _say(outcome: Outcome, reason: str) -> Finding:
    return Finding(signal=Signal.COLLAPSE, outcome=outcome, reason=reason)
