"""Which of several windows of one model is shown, and which a guard acts on. Judges nothing."""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from specgauge.derive.speedup import Basis
from specgauge.model.verdict import Judgement, Verdict, VerdictReason

_CONCURRENCY = str(Basis.CONCURRENCY)

_HIDING = frozenset({VerdictReason.WITHIN_MARGIN, VerdictReason.UNEVEN_LOAD})
"""What one window may say by chance while longer ones that end with it cost."""

Window = TypeVar("Window")


def choose(
    usual: Window,
    longer: Iterable[Window],
    judged: Callable[[Window], Judgement],
    *,
    worth: Callable[[Window], int] | None = None,
    severe: float = 0.0,
) -> tuple[Window, Window]:
    """Choose the window to show and the one to act on, of the usual one and longer ones.

    Shown is the shortest that is clear. A guard acts on the one that costs and is worth most, of
    several the shortest, unless the usual one's interval ends below `severe`: that is enough by
    itself. Where none costs, the same of those that lean that way. Where nobody acts, `worth` is
    None.
    """
    first = judged(usual)
    vague = first.reason is VerdictReason.INTERVAL_TOO_WIDE
    mild = _costs(first) and first.highs.get(_CONCURRENCY, math.inf) >= severe
    hidden = first.reason in _HIDING and points(first) < 1.0
    if worth is None or not (vague or mild or hidden):
        shown = _first_clear(longer, judged, first) if vague else None
        return (usual, usual) if shown is None else (shown, shown)
    found = list(longer)
    shown = (_first_clear(found, judged, first) if vague else None) or usual
    heavy = [one for one in (shown, *found) if _costs(judged(one)) and points(first) < 1.0]
    heavy = heavy or [one for one in (usual, *found) if judged(one).leans]
    return shown, max(heavy, key=worth) if heavy else shown


def _first_clear(
    longer: Iterable[Window], judged: Callable[[Window], Judgement], usual: Judgement
) -> Window | None:
    return next((one for one in longer if _clears(judged(one), usual)), None)


def points(judgement: Judgement) -> float:
    """Give the speedup that a window points to; 1 where it cannot be known."""
    return judgement.ratios.get(_CONCURRENCY, 1.0)


def _costs(judgement: Judgement) -> bool:
    return judgement.verdict is Verdict.COSTS


def _clears(longer: Judgement, usual: Judgement) -> bool:
    """Tell whether a longer window's answer stands: the usual one must point the same way.

    Else it would tell of what was before a change.
    """
    now = points(usual)
    return (_costs(longer) and now < 1.0) or (longer.verdict is Verdict.PAYS and now > 1.0)
