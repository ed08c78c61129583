"""Evidence that comes ready, from a timeline or another system, as a look; fetches nothing."""

import math
from collections.abc import Mapping

from specgauge.guard.speed import UNCOVERED
from specgauge.model.guard import GuardReason, Look
from specgauge.model.verdict import Verdict, VerdictReason

ROUNDING = 1e-6
"""What a number may lie beyond its interval by, as both were rounded."""

_SPEEDS = ("speedup_ratio", "speedup_ratio_low", "speedup_ratio_high", "e2e_speedup_ratio")
_COUNTS = (
    "tokens",
    "requests",
    "first_tokens",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "errors",
    "served",
)


def read_evidence(
    found: Mapping[str, object],
    *,
    end: float,
    window: float,
    spacing: float,
    margin: float,
) -> Look:
    """Make a look of named values over the `window` seconds before `end`.

    `spacing` is the time since the evidence before, in seconds: where windows overlap, so much of
    the counts is new. What is no finite number is unknown, but a speedup or an end of its interval
    that is none cannot be. Raises ValueError for a verdict or a reason that is none; without a
    verdict the interval is held against the margin. What cannot be is no judgement, whatever
    verdict came with it.
    """
    numbers = _numbers(found)
    _complete(numbers)
    verdict, reason = _verdict(found, numbers, margin)
    unreadable = any(found.get(name) is not None and name not in numbers for name in _SPEEDS)
    if unreadable or _is_impossible(numbers, verdict):
        verdict, reason = Verdict.UNKNOWN, GuardReason.EVIDENCE_IMPOSSIBLE
    new = min(max(spacing, 0.0), window)
    share = new / window if window > 0.0 else 1.0
    standard = found.get("standard")
    return Look(
        start=end - window,
        end=end,
        model_name=str(found.get("model_name") or ""),
        speculating=_flag(found.get("speculating")),
        verdict=verdict,
        verdict_reason=str(reason),
        covered=reason not in UNCOVERED,
        numbers=numbers,
        step={name: numbers[name] * share for name in _COUNTS if name in numbers},
        step_seconds=new,
        restarted=found.get("restarted") is True,
        standard=_numbers(standard) if isinstance(standard, Mapping) else {},
    )


def judge_numbers(numbers: Mapping[str, float], margin: float) -> tuple[Verdict, VerdictReason]:
    """Hold a speedup and its interval against the margin, as a verdict does.

    Without an interval the point decides. A loss of whole requests is needed for `costs`, a known
    gain of them turns it to `even`.
    """
    ratio = numbers.get("speedup_ratio")
    if ratio is None:
        return Verdict.UNKNOWN, VerdictReason.NO_BASELINE
    low = numbers.get("speedup_ratio_low", ratio)
    high = numbers.get("speedup_ratio_high", ratio)
    e2e = numbers.get("e2e_speedup_ratio")
    if abs(ratio - 1.0) <= margin:
        return Verdict.EVEN, VerdictReason.WITHIN_MARGIN
    if low > 1.0 + margin:
        trade = e2e is not None and e2e < 1.0
        pays = (Verdict.PAYS, VerdictReason.ABOVE_ONE)
        return (Verdict.EVEN, VerdictReason.LATENCY_TRADEOFF) if trade else pays
    if high < 1.0 - margin:
        trade = e2e is not None and e2e > 1.0
        costs = (Verdict.COSTS, VerdictReason.BELOW_ONE)
        return (Verdict.EVEN, VerdictReason.LATENCY_TRADEOFF) if trade else costs
    return Verdict.UNKNOWN, VerdictReason.INTERVAL_TOO_WIDE


def _is_impossible(numbers: Mapping[str, float], verdict: Verdict) -> bool:
    """Tell whether a speedup contradicts itself or the verdict, or is missing for a loss."""
    ratio = numbers.get("speedup_ratio")
    low, high = numbers.get("speedup_ratio_low", ratio), numbers.get("speedup_ratio_high", ratio)
    if any(numbers.get(name, 1.0) <= 0.0 for name in ("speedup_ratio", "e2e_speedup_ratio")):
        return True
    if low is not None and high is not None and (low > high + ROUNDING or high <= 0.0):
        return True
    if ratio is None or low is None or high is None:
        return verdict is Verdict.COSTS
    other_side = {Verdict.COSTS: ratio >= 1.0, Verdict.PAYS: ratio <= 1.0}
    outside = not low - ROUNDING <= ratio <= high + ROUNDING
    return outside or other_side.get(verdict, False)


def _verdict(
    found: Mapping[str, object], numbers: Mapping[str, float], margin: float
) -> tuple[Verdict, VerdictReason | GuardReason]:
    said = found.get("verdict")
    if said is None:
        return judge_numbers(numbers, margin)
    verdict = Verdict(str(said))
    given = found.get("verdict_reason", found.get("reason"))
    if given is not None:
        return verdict, VerdictReason(str(given))
    judged, reason = judge_numbers(numbers, margin)
    return verdict, reason if judged is verdict else _USUAL[verdict]


_USUAL = {
    Verdict.PAYS: VerdictReason.ABOVE_ONE,
    Verdict.COSTS: VerdictReason.BELOW_ONE,
    Verdict.EVEN: VerdictReason.WITHIN_MARGIN,
    Verdict.UNKNOWN: VerdictReason.INTERVAL_TOO_WIDE,
}


def _complete(numbers: dict[str, float]) -> None:
    """Work out the counts of tokens that drafts, their length and the acceptance imply."""
    drafts, k = numbers.get("drafts"), numbers.get("num_speculative_tokens")
    length = numbers.get("draft_length", k)
    if "draft_tokens" not in numbers and drafts is not None and length is not None:
        numbers["draft_tokens"] = drafts * length
    drafted, ratio = numbers.get("draft_tokens"), numbers.get("acceptance_ratio")
    if "accepted_tokens" not in numbers and drafted is not None and ratio is not None:
        numbers["accepted_tokens"] = drafted * ratio
    accepted = numbers.get("accepted_tokens")
    if "acceptance_length" not in numbers and drafts and accepted is not None:
        numbers["acceptance_length"] = 1.0 + accepted / drafts


def _numbers(found: Mapping[str, object]) -> dict[str, float]:
    known = ((name, _number(value)) for name, value in found.items())
    return {name: value for name, value in known if value is not None}


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number that no float can hold
        return None
    return number if math.isfinite(number) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
