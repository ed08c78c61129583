"""Looks of the guard written by hand; right unless told so, and with enough of everything."""

from collections.abc import Mapping
from typing import Any

from specgauge.guard.assess import Memory, assess
from specgauge.guard.policy import DEFAULT_SIGNALS, Policy
from specgauge.model.guard import Assessment, Look, Signal, Switch
from specgauge.model.verdict import Verdict

KNOWN: Mapping[str, float] = {
    "tokens": 8000.0,
    "requests": 40.0,
    "first_tokens": 40.0,
    "decode_concurrency": 8.0,
    "drafts": 2600.0,
    "draft_tokens": 10400.0,
    "accepted_tokens": 5200.0,
    "acceptance_ratio": 0.5,
    "acceptance_length": 3.0,
    "tpot_seconds": 0.005,
}

VERDICTS: Mapping[str, Mapping[str, Any]] = {
    "costs": {"verdict": Verdict.COSTS, "verdict_reason": "speedup_below_one", "covered": True},
    "pays": {"verdict": Verdict.PAYS, "verdict_reason": "speedup_above_one", "covered": True},
    "even": {"verdict": Verdict.EVEN, "verdict_reason": "within_margin", "covered": True},
    "wide": {"verdict_reason": "interval_too_wide", "covered": True},
    "no baseline": {"verdict_reason": "no_baseline", "covered": False},
}

POLICY = Policy(startup_grace=0.0)


def look(
    verdict: str = "no baseline", *, end: float = 1000.0, without: tuple[str, ...] = (), **more: Any
) -> Look:
    """Write a look of 15 s; `numbers` in `more` add to what is known."""
    numbers = {**KNOWN, **more.pop("numbers", {})}
    numbers = {name: value for name, value in numbers.items() if name not in without}
    given = {"speculating": True, **VERDICTS[verdict], **more}
    return Look(start=end - 15.0, end=end, numbers=numbers, **given)


def accepting(ratio: float, *, drafts: float = 2600.0, k: float = 4.0) -> dict[str, float]:
    """Give the counts of a window with this acceptance."""
    proposed = drafts * k
    return {
        "drafts": drafts,
        "draft_tokens": proposed,
        "accepted_tokens": round(proposed * ratio),
        "acceptance_ratio": ratio,
        "acceptance_length": 1.0 + ratio * k,
    }


def switched(**switches: Switch) -> Policy:
    """Make a policy with some signals set otherwise."""
    given = {Signal(name): switch for name, switch in switches.items()}
    return Policy(startup_grace=0.0, signals={**DEFAULT_SIGNALS, **given})


def ask(one: Look | None, policy: Policy = POLICY, **more: Any) -> Assessment:
    """Assess one look with nothing remembered."""
    time = one.end if one is not None else 0.0
    return assess(Memory(), one, policy, **{"time": time, **more})[1]
