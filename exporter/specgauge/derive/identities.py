"""The identities that an honest page's counters keep, held against the sums of an interval.

A broken one is told and counted; what it makes unusable is decided where it would be used.
"""

from specgauge.derive.acceptance import (
    falls,
    is_diffusion,
    position_counts,
    positions,
    speculates,
)
from specgauge.model.derived import Check
from specgauge.model.ledger import ModelWindow
from specgauge.model.quantity import Dialect, Kind, Measure, Quantity

_DRAFTS: Measure = (Quantity.DRAFTS, Kind.COUNTER, "")
_DRAFT_TOKENS: Measure = (Quantity.DRAFT_TOKENS, Kind.COUNTER, "")
_ACCEPTED: Measure = (Quantity.ACCEPTED_TOKENS, Kind.COUNTER, "")


def violations(window: ModelWindow) -> tuple[Check, ...]:
    """Name the identities that the window's sums break; a diffusion model has none to keep."""
    if not speculates(window) or is_diffusion(window) or window.layout.dialect is Dialect.VLLM_V0:
        return ()
    drafts, drafted, accepted = (
        None if measure[0] in window.faults else window.sums.get(measure)
        for measure in (_DRAFTS, _DRAFT_TOKENS, _ACCEPTED)
    )
    k = positions(window)
    most = None if drafts is None or not k else k * drafts
    doubted = Quantity.ACCEPTED_PER_POSITION in window.faults
    kept = [] if doubted else position_counts(window)
    falling = len(kept) == k and falls(kept, drafts)
    broken = {
        Check.ACCEPTED_WITHIN_DRAFTED: _above(accepted, drafted),
        Check.POSITIONS_FALL: bool(kept) and not falling,
        Check.POSITIONS_SUM: bool(kept) and accepted is not None and sum(kept) != accepted,
        Check.DRAFTED_WITHIN_K: _above(drafted, most),
    }
    return tuple(check for check, is_broken in broken.items() if is_broken)


def _above(value: float | None, bound: float | None) -> bool:
    """Tell whether both are known and the value exceeds its bound."""
    return value is not None and bound is not None and value > bound
