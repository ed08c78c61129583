"""One model's window in, everything that can be said of it out, with what cannot and why."""

import math
from collections.abc import Sequence

from specgauge.derive.acceptance import (
    FULL_DRAFTS,
    Count,
    Counts,
    acceptance,
    counts,
    length,
    method_of,
    positions,
    ratio,
    refusal,
    speculates,
)
from specgauge.derive.identities import violations
from specgauge.derive.latency import below_first_bucket, implausible_ttft, latency, uneven_load
from specgauge.derive.state import LOOKUP_METHODS, speculation
from specgauge.model.derived import (
    FIELDS,
    Absent,
    Check,
    Derived,
    EngineAcceptance,
    Hints,
    Method,
    Reason,
    Value,
    Warn,
)
from specgauge.model.ledger import ModelWindow
from specgauge.model.quantity import Dialect, Kind, Quantity

LOW_SAMPLE_DRAFTS = 100
"""Below so many drafts an acceptance is a guess."""

DEFAULT_ENGINE = "0"


def summarise(window: ModelWindow, hints: Hints) -> Derived:
    """Derive every field of one model."""
    counted = counts(window)
    derived = {**acceptance(window), **latency(window, counted.drafts)}
    found = {field: _finite(derived[field]) for field in FIELDS}
    state, why = speculation(window, hints)
    broken = violations(window)
    return Derived(
        model_name=window.model,
        engines=tuple(engine or DEFAULT_ENGINE for engine in window.engines),
        speculation=state,
        speculation_reason=why,
        method=method_of(window),
        values={f: v for f, v in found.items() if not isinstance(v, Absent)},
        absent={f: v.reason for f, v in found.items() if isinstance(v, Absent)},
        warnings=_warnings(window, hints, counted, broken),
        violations=broken,
        per_engine=_per_engine(window, counted),
    )


def _finite(value: Value | Absent) -> Value | Absent:
    """Refuse what only a page of absurd numbers can give: a quotient beyond every float."""
    whole = isinstance(value, Absent) or all(
        math.isfinite(part) for part in (value if isinstance(value, Sequence) else (value,))
    )
    return value if whole else Absent(reason=Reason.NOT_FINITE)


def _per_engine(window: ModelWindow, counted: Counts) -> tuple[EngineAcceptance, ...]:
    """Give each engine its own acceptance; a doubt about a sibling is none about it."""
    found = []
    for engine in window.engines:
        own = Counts(
            drafts=_own(window, engine, Quantity.DRAFTS, counted.drafts),
            drafted=_own(window, engine, Quantity.DRAFT_TOKENS, counted.drafted),
            accepted=_own(window, engine, Quantity.ACCEPTED_TOKENS, counted.accepted),
        )
        found.append(
            EngineAcceptance(
                engine=engine or DEFAULT_ENGINE,
                acceptance_ratio=ratio(own),
                acceptance_length=length(own),
            )
        )
    return tuple(found)


def _own(window: ModelWindow, engine: str, quantity: Quantity, of_model: Count) -> Count:
    """Give one engine's count, under the refusals that hold for its whole model."""
    fault = window.engine_faults.get((engine, quantity))
    if fault:
        return Absent(reason=fault)
    if isinstance(of_model, Absent) and (refusal(window) or quantity not in window.faults):
        return of_model
    total = window.by_engine.get(engine, {}).get((quantity, Kind.COUNTER, ""))
    return Absent(reason=Reason.NOT_EXPOSED) if total is None else total


def _warnings(
    window: ModelWindow, hints: Hints, counted: Counts, broken: tuple[Check, ...]
) -> tuple[str, ...]:
    """List the warnings, the weightiest first."""
    drafts = counted.drafts
    told = (
        (window.seconds is None, Warn.LIFETIME_VALUE),
        (_any_position(window), Warn.V0_ANY_POSITION),
        (not isinstance(drafts, Absent) and 0 < drafts < LOW_SAMPLE_DRAFTS, Warn.LOW_SAMPLE),
        (uneven_load(window), Warn.UNEVEN_LOAD),
        (Check.POSITIONS_FALL in broken, Warn.NOT_MONOTONE),
        (Check.ACCEPTED_WITHIN_DRAFTED in broken, Warn.ABOVE_ONE),
        (implausible_ttft(window), Warn.IMPLAUSIBLE_TTFT),
        (below_first_bucket(window), Warn.BELOW_FIRST_BUCKET),
        (Reason.DUPLICATE_SERIES in window.faults.values(), Warn.DUPLICATE_SERIES),
        (len(window.engines) < (hints.engines or 0), Warn.ENGINES_MISSING),
        (window.model in window.layout.mixed_buckets, Warn.MIXED_BUCKETS),
        (_padded(window, hints, counted), Warn.PADDED_DRAFTS),
        (_synthetic(window, hints), Warn.SYNTHETIC_ACCEPTANCE),
    )
    own = {Check.POSITIONS_FALL, Check.ACCEPTED_WITHIN_DRAFTED}
    violated = tuple(f"identity_violation:{check}" for check in broken if check not in own)
    return tuple(str(warn) for is_so, warn in told if is_so) + violated + window.notes


def _any_position(window: ModelWindow) -> bool:
    """Tell whether the ratio is V0's gauge, which counts positions after a rejection too."""
    gauge = window.gauges.get(Quantity.ACCEPTANCE_GAUGE)
    return method_of(window) is Method.V0_LIFETIME and gauge is not None and gauge <= 1.0


def _padded(window: ModelWindow, hints: Hints, counted: Counts) -> bool:
    """Tell whether a method that looks drafts up has full drafts throughout: misses padded."""
    drafts, drafted, k = counted.drafts, counted.drafted, positions(window)
    if hints.method not in LOOKUP_METHODS or not k:
        return False
    if isinstance(drafts, Absent) or isinstance(drafted, Absent):
        return False
    return drafts > 0 and drafted >= FULL_DRAFTS * k * drafts


def _synthetic(window: ModelWindow, hints: Hints) -> bool:
    """Tell whether the server was configured to make its acceptance up."""
    return (
        hints.method is not None
        and "synthetic" in hints.method
        and speculates(window)
        and window.layout.dialect is not Dialect.VLLM_V0
    )
