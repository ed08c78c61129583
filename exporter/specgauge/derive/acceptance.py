"""How much of what was drafted the target kept; every ratio is a ratio of sums.

Formulas: ratio = accepted / drafted; length = 1 + accepted / drafts, the bonus token included;
survival at position i = accepted there / drafts; conditional = over the position before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from specgauge.model.derived import Absent, Method, Reason, Value
from specgauge.model.ledger import ModelWindow
from specgauge.model.quantity import Dialect, Kind, Layout, Measure, Quantity

Count = int | float | Absent
"""A number of tokens or drafts, or why it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What every ratio is made of: drafts, the tokens drafted in them, and those kept."""

    drafts: Count
    drafted: Count
    accepted: Count


FULL_DRAFTS = 0.995
"""Share of K * drafts from which every draft is taken to have had K tokens."""

DIFFUSION_K = 128
"""From so many positions on, "drafts" are a diffusion model's canvas and nobody's speculation."""

_SUM_TOLERANCE = 0.01

_DRAFTS: Measure = (Quantity.DRAFTS, Kind.COUNTER, "")
_DRAFT_TOKENS: Measure = (Quantity.DRAFT_TOKENS, Kind.COUNTER, "")
_ACCEPTED: Measure = (Quantity.ACCEPTED_TOKENS, Kind.COUNTER, "")
_SPECULATION = frozenset(
    {
        Quantity.DRAFTS,
        Quantity.DRAFT_TOKENS,
        Quantity.ACCEPTED_TOKENS,
        Quantity.ACCEPTED_PER_POSITION,
        Quantity.EMITTED_TOKENS,
        Quantity.ACCEPTANCE_GAUGE,
        Quantity.EFFICIENCY_GAUGE,
    }
)
ACCEPTANCE_FIELDS = (
    "num_speculative_tokens",
    "acceptance_ratio",
    "acceptance_length",
    "draft_length",
    "position_acceptance_ratio",
    "position_conditional_acceptance_ratio",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "accepted_tokens_per_position",
)

_POSITION_FIELDS = (
    "num_speculative_tokens",
    "position_acceptance_ratio",
    "position_conditional_acceptance_ratio",
    "accepted_tokens_per_position",
)


def speculates(window: ModelWindow) -> bool:
    """Tell whether the page shows any series of speculation for the model."""
    return bool(window.exposed & _SPECULATION)


def is_diffusion(window: ModelWindow) -> bool:
    """Tell a diffusion language model, which reports on the data path of speculation."""
    return _is_diffusion(window.layout, window.model)


def silenced(layout: Layout) -> frozenset[str]:
    """Name the models whose draft counters must not be taken for speculation."""
    if layout.dialect is Dialect.VLLM_UNKNOWN:
        return frozenset(layout.engines)
    return frozenset(model for model in layout.engines if _is_diffusion(layout, model))


def _is_diffusion(layout: Layout, model: str) -> bool:
    highest = max(layout.positions.get(model, ()), default=-1)
    return Quantity.DIFFUSION in layout.exposed[model] or highest + 1 >= DIFFUSION_K


def positions(window: ModelWindow) -> int:
    """Give K as the page shows it: the highest position and one; 0 where there is none."""
    return max(window.layout.positions.get(window.model, ()), default=-1) + 1


def method_of(window: ModelWindow) -> Method:
    """Say where the acceptance comes from."""
    if window.layout.dialect is not Dialect.VLLM_V0:
        return Method.COUNTERS
    return Method.V0_LIFETIME if window.seconds is None else Method.V0_INTERVAL


def acceptance(window: ModelWindow) -> dict[str, Value | Absent]:
    """Derive every field of acceptance of one model."""
    refused = refusal(window)
    if refused:
        found: dict[str, Value | Absent] = dict.fromkeys(ACCEPTANCE_FIELDS, Absent(reason=refused))
        gauge = window.gauges.get(Quantity.ACCEPTANCE_GAUGE)
        if gauge is not None and method_of(window) is Method.V0_LIFETIME:
            found["acceptance_ratio"] = gauge if gauge <= 1.0 else Absent(reason=Reason.ABOVE_ONE)
        return found
    counted, k = counts(window), positions(window)
    survived = _positions(window, counted)
    return {
        "num_speculative_tokens": _shown_positions(window, k),
        "acceptance_ratio": ratio(counted),
        "acceptance_length": length(counted),
        "draft_length": _over_drafts(counted),
        "position_acceptance_ratio": _survival(survived, counted.drafts),
        "position_conditional_acceptance_ratio": _conditional(survived, counted, k),
        "drafts": counted.drafts,
        "draft_tokens": counted.drafted,
        "accepted_tokens": counted.accepted,
        "accepted_tokens_per_position": survived,
    }


def _shown_positions(window: ModelWindow, k: int) -> int | Absent:
    """Give K, unless a position was there before that is not now."""
    vanished = window.faults.get(Quantity.ACCEPTED_PER_POSITION) == Reason.NOT_EXPOSED
    return Absent(reason=Reason.NOT_EXPOSED) if vanished or not k else k


def counts(window: ModelWindow) -> Counts:
    """Count one model's drafts, drafted and accepted tokens."""
    refused = refusal(window)
    if refused:
        unknown = Absent(reason=refused)
        return Counts(drafts=unknown, drafted=unknown, accepted=unknown)
    return Counts(
        drafts=_count(window, Quantity.DRAFTS),
        drafted=_count(window, Quantity.DRAFT_TOKENS),
        accepted=_count(window, Quantity.ACCEPTED_TOKENS),
    )


def ratio(counted: Counts) -> float | Absent:
    """Divide accepted by drafted tokens, or say why there is no such ratio."""
    drafts, drafted, accepted = counted.drafts, counted.drafted, counted.accepted
    if isinstance(accepted, Absent):
        return accepted
    if isinstance(drafted, Absent):
        return drafted
    if accepted > drafted:
        return Absent(reason=Reason.ABOVE_ONE)
    if drafted <= 0:
        some = not isinstance(drafts, Absent) and drafts > 0
        return Absent(reason=Reason.ALL_INVALID if some else Reason.NO_DRAFTS)
    return accepted / drafted


def length(counted: Counts) -> float | Absent:
    """Give the mean tokens of a step that carried a draft, the bonus token included."""
    drafts, drafted, accepted = counted.drafts, counted.drafted, counted.accepted
    if isinstance(drafts, Absent):
        return drafts
    if isinstance(accepted, Absent):
        return accepted
    if drafts <= 0:
        return Absent(reason=Reason.NO_DRAFTS)
    if not isinstance(drafted, Absent) and accepted > drafted:
        return Absent(reason=Reason.ABOVE_ONE)
    return 1.0 + accepted / drafts


def refusal(window: ModelWindow) -> Reason | None:
    """Say why nothing at all can be said about acceptance, if so."""
    if is_diffusion(window):
        return Reason.NOT_SPECULATIVE
    if not speculates(window):
        return Reason.NOT_EXPOSED
    if window.layout.dialect is Dialect.VLLM_UNKNOWN:
        return Reason.CONFLICTING_DIALECTS
    if window.layout.dialect is Dialect.VLLM_V0 and not _v0_known(window):
        return Reason.V0_NOT_RECOVERABLE
    return None


def _v0_known(window: ModelWindow) -> bool:
    """Tell whether every collection of the window was recovered, and that there was one."""
    recovered = window.sums.get((Quantity.V0_RECOVERED, Kind.COUNTER, ""), 0.0)
    lost = window.sums.get((Quantity.V0_LOST, Kind.COUNTER, ""), 0.0)
    outputs = window.sums.get((Quantity.V0_ENGINE_OUTPUTS, Kind.COUNTER, ""), 0.0)
    return window.seconds is not None and not lost and (recovered > 0 or not outputs)


def _count(window: ModelWindow, quantity: Quantity) -> Count:
    """Give a counter's growth as a count, or why it cannot be known."""
    fault = window.faults.get(quantity)
    if fault:
        return Absent(reason=fault)
    total = window.sums.get((quantity, Kind.COUNTER, ""))
    credited = window.layout.dialect is Dialect.VLLM_V0
    if total is None or not (quantity in window.exposed or credited):
        missing = quantity is Quantity.DRAFTS
        return Absent(reason=Reason.NUM_DRAFTS_MISSING if missing else Reason.NOT_EXPOSED)
    return whole_number(total)


def whole_number(value: float) -> int | float:
    """Write a count as the integer it is."""
    return int(value) if value == int(value) else value


def position_counts(window: ModelWindow) -> list[float]:
    """Give the accepted tokens of each position that the model has, in order."""
    known = sorted(window.layout.positions.get(window.model, ()))
    return [window.sums.get((Quantity.ACCEPTED_PER_POSITION, Kind.COUNTER, i), 0.0) for i in known]


def falls(counts: Sequence[float], drafts: float | None) -> bool:
    """Tell whether no position has more than the one before, and the first no more than drafts."""
    ladder = counts if drafts is None else [drafts, *counts]
    return all(before >= count for before, count in pairwise(ladder))


def _positions(window: ModelWindow, counted: Counts) -> list[int | float] | Absent:
    """Give the accepted tokens by position, unless they contradict themselves."""
    if Quantity.ACCEPTED_PER_POSITION not in window.exposed:
        return Absent(reason=Reason.NOT_EXPOSED)
    fault = window.faults.get(Quantity.ACCEPTED_PER_POSITION)
    if fault:
        return Absent(reason=fault)
    kept = position_counts(window)
    total = None if isinstance(counted.drafts, Absent) else counted.drafts
    if len(kept) != positions(window) or not falls(kept, total):
        return Absent(reason=Reason.NOT_MONOTONE)
    if not isinstance(counted.accepted, Absent):
        allowed = max(len(kept), _SUM_TOLERANCE * counted.accepted)
        if abs(sum(kept) - counted.accepted) > allowed:
            return Absent(reason=Reason.POSITION_SUM)
    return [whole_number(count) for count in kept]


def _over_drafts(counted: Counts) -> float | Absent:
    drafts, drafted = counted.drafts, counted.drafted
    if isinstance(drafts, Absent):
        return drafts
    if isinstance(drafted, Absent):
        return drafted
    if drafts <= 0:
        return Absent(reason=Reason.NO_DRAFTS)
    return drafted / drafts


def _survival(survived: list[int | float] | Absent, drafts: Count) -> list[float] | Absent:
    """Give unconditional acceptance by position; a lower bound where draft lengths vary."""
    if isinstance(survived, Absent):
        return survived
    if isinstance(drafts, Absent):
        return drafts
    if drafts <= 0:
        return Absent(reason=Reason.NO_DRAFTS)
    return [count / drafts for count in survived]


def _conditional(
    survived: list[int | float] | Absent, counted: Counts, k: int
) -> list[float] | Absent:
    """Give acceptance by position after the one before; for drafts of fixed length only."""
    drafts, drafted = counted.drafts, counted.drafted
    if isinstance(survived, Absent):
        return survived
    if isinstance(drafts, Absent):
        return drafts
    if isinstance(drafted, Absent):
        return drafted
    before: float = drafts
    if before <= 0:
        return Absent(reason=Reason.NO_DRAFTS)
    if drafted < FULL_DRAFTS * k * before:
        return Absent(reason=Reason.VARYING_DRAFT_LENGTH)
    found = []
    for count in survived:
        if before <= 0:
            break
        found.append(count / before)
        before = count
    return found
