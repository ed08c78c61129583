"""Which of several windows of one model is shown, and which a guard acts on. Judges nothing."""

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from specgauge.derive.speedup import Basis
from specgauge.model.verdict import Judgement, Verdict, VerdictReason

_CONCURRENCY = str(Basis.CONCURRENCY)

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
    itself. Where nobody acts, `worth` is None.
    """
    first = judged(usual)
    vague = first.reason is VerdictReason.INTERVAL_TOO_WIDE
    mild = _costs(first) and first.highs.get(_CONCURRENCY, math.inf) >= severe
    if not vague and (worth is None or not mild):
        return usual, usual
    clear = (one for one in longer if _clears(judged(one), first))
    found = list(islice(clear, None if worth else 1))
    shown = found[0] if vague and found else usual
    costs = [one for one in (shown, *found) if _costs(judged(one))]
    return shown, max(costs, key=worth) if worth and costs else shown


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
