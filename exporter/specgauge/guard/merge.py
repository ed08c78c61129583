"""One assessment of a server whose flag is shared by several models; weighs nothing anew."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from specgauge.model.guard import Assessment, GuardReason, Outcome

_ORDER = (
    Outcome.DEGRADED,
    Outcome.HEALTHY,
    Outcome.ERROR,
    Outcome.INCONCLUSIVE,
    Outcome.NO_DATA,
)


def merge(assessments: Sequence[Assessment], *, time: float = 0.0) -> Assessment:
    """Speak for all models: degraded only where one is and none is healthy.

    Of several that say the same the severe one speaks, then the one with the most tokens; it is
    named, since the numbers are its own. `time` is the window's place where there is no model.
    """
    if not assessments:
        outcome, reason = Outcome.NO_DATA, GuardReason.NO_MODEL
        return Assessment(start=time, end=time, outcome=outcome, reason=reason)
    if len(assessments) == 1:
        return replace(assessments[0], model_name="")
    chief = min(assessments, key=_rank)
    outcomes = {one.outcome for one in assessments}
    disagree = {Outcome.DEGRADED, Outcome.HEALTHY} <= outcomes
    return Assessment(
        start=min(one.start for one in assessments),
        end=max(one.end for one in assessments),
        outcome=Outcome.INCONCLUSIVE if disagree else chief.outcome,
        reason=GuardReason.MODELS_DISAGREE if disagree else chief.reason,
        signal=chief.signal,
        model_name=chief.model_name,
        severe=chief.severe and not disagree,
        numbers=chief.numbers,
        rehearsed=_union(one.rehearsed for one in assessments),
        companions=_union(one.companions for one in assessments),
        detail=chief.detail,
    )


def _rank(one: Assessment) -> tuple[int, bool, float]:
    return _ORDER.index(one.outcome), not one.severe, -one.numbers.get("tokens", 0.0)


def _union(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in parts for name in part))
