"""What a server's speculation is doing, and for a silent one why, where that can be told."""

from specgauge.derive.acceptance import is_diffusion, speculates
from specgauge.model.derived import Hints, Speculation
from specgauge.model.ledger import ModelWindow
from specgauge.model.quantity import Dialect, Kind, Quantity

LOOKUP_METHODS = frozenset({"ngram", "ngram_gpu", "suffix"})
"""Methods that look their draft up in the text and have none where nothing matches."""

_DRAFTS_ALWAYS = frozenset(
    {"draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash", "dspark"}
)
_DRAFTED = (Quantity.DRAFTS, Quantity.DRAFT_TOKENS, Quantity.EMITTED_TOKENS)


def speculation(window: ModelWindow, hints: Hints) -> tuple[Speculation, str | None]:
    """Give the state and, for `inactive`, the reason."""
    if is_diffusion(window):
        return Speculation.NOT_SPECULATIVE, None
    if not speculates(window):
        return Speculation.ABSENT, None
    if _drafted(window):
        return Speculation.ACTIVE, None
    flow = _tokens(window)
    if flow == 0:
        return Speculation.IDLE, None
    configured = Quantity.ACCEPTED_PER_POSITION in window.exposed
    if flow and (configured or window.lifetime_drafts > 0):
        return Speculation.INACTIVE, _why_inactive(hints)
    return Speculation.UNKNOWN, None


def _drafted(window: ModelWindow) -> bool:
    """Tell whether drafts were made in the window, in whichever way the page counts them."""
    if window.layout.dialect is Dialect.VLLM_V0:
        collected = (Quantity.V0_RECOVERED, Quantity.V0_LOST)
        if any(window.sums.get((q, Kind.COUNTER, ""), 0.0) > 0 for q in collected):
            return True
        return window.seconds is None and window.lifetime_drafts > 0
    return any(window.sums.get((q, Kind.COUNTER, ""), 0.0) > 0 for q in _DRAFTED)


def _tokens(window: ModelWindow) -> float | None:
    """Count what the engine put out; None where the page does not say."""
    for quantity, kind in (
        (Quantity.V0_ENGINE_OUTPUTS, Kind.COUNTER),
        (Quantity.GENERATION_TOKENS, Kind.COUNTER),
        (Quantity.STEP_LATENCY, Kind.COUNT),
    ):
        total = window.sums.get((quantity, kind, ""))
        if total is not None and quantity not in window.faults:
            return total
    return None


def _why_inactive(hints: Hints) -> str:
    """Tell by the method: one that drafts at every step stops only where K is scheduled to be 0."""
    if hints.method in LOOKUP_METHODS:
        return "no_match"
    method = hints.method or ""
    return "k_zero_at_load" if method in _DRAFTS_ALWAYS or method.endswith("mtp") else "unknown"
