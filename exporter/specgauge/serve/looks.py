"""From a decision window to what the guard looks at. No socket, no clock; judges nothing."""

from collections.abc import Mapping

from specgauge.guard.speed import UNCOVERED
from specgauge.model.derived import Derived, Speculation
from specgauge.model.guard import Look
from specgauge.model.ledger import Interval, ModelWindow
from specgauge.model.quantity import Cell, Kind, Measure, Quantity
from specgauge.model.verdict import Judgement, Verdict, VerdictReason

_COUNTS: Mapping[tuple[Quantity, Kind], tuple[str, float]] = {
    (Quantity.GENERATION_TOKENS, Kind.COUNTER): ("tokens", 1.0),
    (Quantity.REQUESTS_FINISHED, Kind.COUNTER): ("requests", 1.0),
    (Quantity.TTFT, Kind.COUNT): ("first_tokens", 1.0),
    (Quantity.DRAFTS, Kind.COUNTER): ("drafts", 1.0),
    (Quantity.DRAFT_TOKENS, Kind.COUNTER): ("draft_tokens", 1.0),
    (Quantity.ACCEPTED_TOKENS, Kind.COUNTER): ("accepted_tokens", 1.0),
}
_SPECULATING = {
    Speculation.ACTIVE: True,
    Speculation.INACTIVE: False,
    Speculation.ABSENT: False,
    Speculation.NOT_SPECULATIVE: False,
}


def look(
    window: ModelWindow,
    derived: Derived,
    judgement: Judgement | None,
    interval: Interval,
    *,
    start: float,
    served: Mapping[str, float],
) -> Look:
    """Put together what one model showed from `start`, in seconds, to the end of `interval`.

    `served` are the server's own counts over the same window, see `answers`.
    """
    model = window.model
    scalars = {
        name: float(value)
        for name, value in derived.values.items()
        if isinstance(value, int | float)
    }
    numbers = {**scalars, **counts(window.sums), **served}
    verdict, reason = Verdict.UNKNOWN, VerdictReason.NO_BASELINE
    if judgement is not None:
        verdict, reason = judgement.verdict, judgement.reason
        numbers |= _judged(judgement)
    doubted = {cell.measure[:2] for cell in interval.doubts if cell.model == model}
    stepped: dict[Measure, float] = {}
    for cell, grown in interval.deltas.items():
        if cell.model == model and cell.measure[:2] not in doubted:
            stepped[cell.measure] = stepped.get(cell.measure, 0.0) + grown
    return Look(
        start=start,
        end=interval.end,
        model_name=model,
        speculating=_SPECULATING.get(derived.speculation),
        verdict=verdict,
        verdict_reason=str(reason),
        covered=judgement is not None and reason not in UNCOVERED,
        leans=judgement is not None and judgement.leans,
        numbers=numbers,
        step=counts(stepped),
        step_seconds=interval.seconds,
        restarted=any(name == model for name, _ in interval.reset),
    )


def answers(totals: Mapping[Cell, float], before: Mapping[Cell, float]) -> dict[str, float]:
    """Count the server's HTTP answers since `before`: `served` in all, `errors` of them 5xx.

    Empty where the server does not count them.
    """
    grown = {
        str(cell.measure[2]): total - before.get(cell, 0.0)
        for cell, total in totals.items()
        if cell.measure[0] is Quantity.HTTP_REQUESTS
    }
    if not grown:
        return {}
    errors = sum(count for code, count in grown.items() if code.startswith("5"))
    return {"served": sum(grown.values()), "errors": errors}


def counts(sums: Mapping[Measure, float]) -> dict[str, float]:
    """Add up the counts of a window; those that the page lacks stay out."""
    found: dict[str, float] = {}
    for (quantity, kind, _), grown in sums.items():
        name, sign = _COUNTS.get((quantity, kind), ("", 0.0))
        if name:
            found[name] = found.get(name, 0.0) + sign * grown
    if "tokens" in found:  # of decode, as everything about speed is
        found["tokens"] = max(found["tokens"] - found.get("first_tokens", 0.0), 0.0)
    return found


def _judged(judgement: Judgement) -> dict[str, float]:
    basis = "concurrency"
    ends = (
        ("speedup_ratio", judgement.ratios),
        ("speedup_ratio_low", judgement.lows),
        ("speedup_ratio_high", judgement.highs),
    )
    return {**judgement.values, **{name: of[basis] for name, of in ends if basis in of}}
