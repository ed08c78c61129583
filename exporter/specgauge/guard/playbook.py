"""The article's guard under its own numbers, for back-tests; not how one should decide.

Acceptance below 0.4, or latency more than 20 % above the baseline. What is not copied: missing
data read as 0, one path that counts failures and another that fires at once, p95 out of buckets
seconds wide, and latency held against a baseline of another load. So latency is the time per
token at matched load where that is known, else whatever pair of figures is.
"""

from specgauge.guard.finding import Finding
from specgauge.guard.policy import Policy
from specgauge.model.guard import GuardReason, Look, Outcome, Signal
from specgauge.model.verdict import VerdictReason

ACCEPTANCE = 0.4
REGRESSION = 0.2
_ROUNDING = 1e-9


def judge_playbook(look: Look, policy: Policy) -> Finding:
    """Judge by acceptance and latency alone; counts that are known must reach their minimum.

    The article reads a gauge, which comes without counts; a ratio given alone is taken as given.
    """
    acceptance = look.numbers.get("acceptance_ratio")
    if look.numbers.get("drafts", policy.min_drafts) < policy.min_drafts:
        acceptance = None
    if acceptance is not None and acceptance < ACCEPTANCE:
        numbers = {"acceptance_ratio": acceptance}
        return _say(Outcome.DEGRADED, GuardReason.ACCEPTANCE_BELOW_FLOOR, numbers, floor=True)
    worse = regression(look)
    if look.numbers.get("tokens", policy.min_tokens) < policy.min_tokens:
        worse = None
    if worse is not None and worse > REGRESSION + _ROUNDING:
        return _say(Outcome.DEGRADED, VerdictReason.BELOW_ONE, {"latency_regression": worse})
    if acceptance is None:
        return _say(Outcome.NO_DATA, GuardReason.TOO_FEW_DRAFTS, {}, floor=True)
    return _say(Outcome.HEALTHY, GuardReason.ACCEPTANCE_HELD, {}, floor=True)


def regression(look: Look) -> float | None:
    """Give by what share latency is above the baseline's; None where the two are not known."""
    speedup = look.numbers.get("speedup_ratio", 0.0)
    if speedup > 0.0:
        return 1.0 / speedup - 1.0
    for name in ("tpot_seconds", "e2e_seconds"):
        ours, theirs = look.numbers.get(name), look.numbers.get(f"baseline_{name}", 0.0)
        if ours is not None and theirs > 0.0:
            return ours / theirs - 1.0
    return None


def _say(
    outcome: Outcome, reason: str, numbers: dict[str, float], *, floor: bool = False
) -> Finding:
    signal = Signal.ACCEPTANCE_FLOOR if floor else Signal.SPEEDUP
    return Finding(signal=signal, outcome=outcome, reason=reason, numbers=numbers)
