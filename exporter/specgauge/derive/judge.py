"""From a window and a baseline to the verdict; every refusal to judge has its reason."""

from collections.abc import Sequence
from dataclasses import dataclass

from specgauge.derive.breakeven import breakeven_acceptance_length, step_cost_ratio, suggested_k
from specgauge.derive.speedup import Basis, Piece, Speedup, speedup
from specgauge.model.baseline import Baseline, Curve
from specgauge.model.derived import Absent, Derived, Reason, Value
from specgauge.model.verdict import Judgement, Verdict, VerdictReason

SHAPE_FACTOR = 1.5
"""Prompts or outputs that differ by more are another shape of load."""

SHAPE_REQUESTS = 100
"""From so many requests on the shape of the load is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a verdict needs to be sure: margin and confidence as shares, tokens as a count."""

    margin: float = 0.05
    confidence: float = 0.95
    min_tokens: float = 500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The load's shape over the last requests: tokens per request, and of how many requests."""

    requests: float
    prompt_tokens: float | None = None
    output_tokens: float | None = None


def judge(
    derived: Derived,
    pieces: Sequence[Piece],
    baseline: Baseline | None,
    *,
    shape: Shape | None = None,
    mismatches: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
    spread: float = 0.0,
    terms: Terms,
) -> Judgement:
    """Judge one model; `mismatches` are facts in which the baseline is another server's.

    `spread` widens the interval, as a share, for what is doubted about the baseline.
    """
    found = None  # so it stays where figures of another server, or of nobody, would be compared
    if baseline is not None and not mismatches and not _unreadable(derived):
        found = speedup(baseline.curve, pieces, confidence=terms.confidence, doubt=spread)
        if found is not None and found.covered < _MOST:
            found = None
    refusal = _refusal(derived, pieces, baseline, found, shape, mismatches, terms)
    if found is None:
        why = refusal or VerdictReason.OUTSIDE_RANGE
        return _without_figures(derived, why, mismatches, warnings, terms)
    if refusal is not None:
        verdict, reason = Verdict.UNKNOWN, refusal
    else:
        e2e = e2e_speedup(derived, found)
        verdict, reason = _weigh(found, e2e, terms, alone=len(pieces) == 1)
    return _judgement(derived, found, verdict, reason, mismatches, warnings, terms)


_FIGURES = (
    "speedup_ratio",
    "speedup_ratio_low",
    "speedup_ratio_high",
    "e2e_speedup_ratio",
    "step_cost_ratio",
    "breakeven_acceptance_length",
)


def _refusal(
    derived: Derived,
    pieces: Sequence[Piece],
    baseline: Baseline | None,
    found: Speedup | None,
    shape: Shape | None,
    mismatches: tuple[str, ...],
    terms: Terms,
) -> VerdictReason | None:
    """Say why nothing can be judged: the first rule that fires; None where none does."""
    tokens = sum(piece.tokens for piece in pieces if piece.spent > 0.0)
    few = tokens < terms.min_tokens or _unreadable(derived) is not None
    other = baseline is not None and shape is not None and not fits(baseline.curve, shape)
    rules = (
        (baseline is None, VerdictReason.NO_BASELINE),
        (bool(mismatches), VerdictReason.BASELINE_MISMATCH),
        (few, VerdictReason.TOO_FEW_TOKENS),
        (found is None, VerdictReason.OUTSIDE_RANGE),
        (other, VerdictReason.WORKLOAD_MISMATCH),
    )
    return next((reason for refused, reason in rules if refused), None)


def _unreadable(derived: Derived) -> str | None:
    """Say why the page's time per token cannot be believed; nothing where it can."""
    reason = derived.absent.get("tpot_seconds")
    return None if reason == Reason.NO_TOKENS else reason


_MOST = 0.5
"""So much of the decode time must lie within the baseline's reach."""


def _weigh(
    found: Speedup, e2e: float | Absent, terms: Terms, *, alone: bool
) -> tuple[Verdict, VerdictReason]:
    """Compare the whole interval with the margin; a window of a single piece by its point."""
    value = found.concurrency.value
    low = value if found.concurrency.low is None else found.concurrency.low
    high = value if found.concurrency.high is None else found.concurrency.high
    known = None if isinstance(e2e, Absent) else e2e
    if 1.0 - terms.margin <= value <= 1.0 + terms.margin:
        return Verdict.EVEN, VerdictReason.WITHIN_MARGIN
    if found.concurrency.low is None and not alone:  # of several only one was busy
        return Verdict.UNKNOWN, VerdictReason.INTERVAL_TOO_WIDE
    if low > 1.0 + terms.margin:
        if known is not None and known < 1.0:
            return Verdict.EVEN, VerdictReason.LATENCY_TRADEOFF
        return Verdict.PAYS, VerdictReason.ABOVE_ONE
    if high < 1.0 - terms.margin:
        return _costs(found, known, terms)
    return Verdict.UNKNOWN, VerdictReason.INTERVAL_TOO_WIDE


def _costs(found: Speedup, e2e: float | None, terms: Terms) -> tuple[Verdict, VerdictReason]:
    """Say whether a loss stands against the baseline's upper bound and the whole request."""
    upper = found.upper.value if found.upper.high is None else found.upper.high
    if upper >= 1.0 - terms.margin:
        above = VerdictReason.OUTSIDE_RANGE if found.extrapolated else VerdictReason.UNEVEN_LOAD
        return Verdict.UNKNOWN, above
    if e2e is not None and e2e > 1.0:
        return Verdict.EVEN, VerdictReason.LATENCY_TRADEOFF
    return Verdict.COSTS, VerdictReason.BELOW_ONE


def fits(curve: Curve, shape: Shape) -> bool:
    """Tell whether some level was recorded under a load of this shape."""
    if shape.requests < SHAPE_REQUESTS:
        return True
    return any(
        _near(level.prompt_tokens_per_request, shape.prompt_tokens)
        and _near(level.output_tokens_per_request, shape.output_tokens)
        for level in curve.levels
    )


def _near(recorded: float | None, seen: float | None) -> bool:
    if recorded is None or seen is None or recorded <= 0.0 or seen <= 0.0:
        return True
    return 1.0 / SHAPE_FACTOR <= seen / recorded <= SHAPE_FACTOR


def e2e_speedup(derived: Derived, found: Speedup) -> float | Absent:
    """Compare whole requests of the length seen: (TTFT_B + (n-1)*B) / (TTFT + (n-1)*TPOT).

    TPOT is that of the pieces which B was priced for, not of the whole window.
    """
    known = []
    for name in ("ttft_seconds", "output_tokens_per_request"):
        value = derived.values.get(name)
        if not isinstance(value, int | float):
            return Absent(reason=derived.absent.get(name, Reason.NOT_EXPOSED))
        known.append(float(value))
    ttft, n = known
    tpot = found.baseline_tpot / found.concurrency.value
    if found.baseline_ttft is None:
        return Absent(reason=Reason.BASELINE_LACKS_TTFT)
    rest = max(n - 1.0, 0.0)
    return (found.baseline_ttft + rest * found.baseline_tpot) / (ttft + rest * tpot)


def _without_figures(
    derived: Derived,
    reason: VerdictReason,
    mismatches: tuple[str, ...],
    warnings: tuple[str, ...],
    terms: Terms,
) -> Judgement:
    """Write down an answer that rests on no comparison."""
    own = {name: _known(derived, name) for name in ("acceptance_ratio", "acceptance_length")}
    return Judgement(
        model_name=derived.model_name,
        verdict=Verdict.UNKNOWN,
        reason=reason,
        confidence=terms.confidence,
        values={name: one for name, one in own.items() if not isinstance(one, Absent)},
        mismatches=mismatches,
        warnings=warnings,
        absent={
            **dict.fromkeys(_FIGURES, _unreadable(derived) or str(reason)),
            **{name: str(one.reason) for name, one in own.items() if isinstance(one, Absent)},
        },
    )


def _judgement(
    derived: Derived,
    found: Speedup,
    verdict: Verdict,
    reason: VerdictReason,
    mismatches: tuple[str, ...],
    warnings: tuple[str, ...],
    terms: Terms,
) -> Judgement:
    absent: dict[str, str] = {}
    values: dict[str, float] = {}
    k = derived.values.get("num_speculative_tokens")
    rho = step_cost_ratio(_known(derived, "tokens_per_step"), found.concurrency.value)
    figures = {
        "e2e_speedup_ratio": e2e_speedup(derived, found),
        "acceptance_ratio": _known(derived, "acceptance_ratio"),
        "acceptance_length": _known(derived, "acceptance_length"),
        "step_cost_ratio": rho,
        "breakeven_acceptance_length": breakeven_acceptance_length(
            rho, _known(derived, "draft_coverage_ratio"), k if isinstance(k, int) else None
        ),
        "decode_concurrency": _known(derived, "decode_concurrency"),
    }
    for name, figure in figures.items():
        if isinstance(figure, Absent):
            absent[name] = str(figure.reason)
        else:
            values[name] = figure
    survival = derived.values.get("position_acceptance_ratio")
    if "position_conditional_acceptance_ratio" in derived.values and not isinstance(rho, Absent):
        values["suggested_num_speculative_tokens"] = suggested_k(_shares(survival), rho)
    estimates = {Basis.CONCURRENCY: found.concurrency, Basis.THROUGHPUT: found.throughput}
    if found.concurrency.low is None:
        absent["speedup_ratio_low"] = absent["speedup_ratio_high"] = str(Reason.SINGLE_WINDOW)
    if found.saturates:
        warnings = (*warnings, "baseline_would_saturate")
    return Judgement(
        model_name=derived.model_name,
        verdict=verdict,
        reason=reason,
        ratios={str(basis): one.value for basis, one in estimates.items()},
        lows={str(b): one.low for b, one in estimates.items() if one.low is not None},
        highs={str(b): one.high for b, one in estimates.items() if one.high is not None},
        confidence=terms.confidence,
        values=values,
        extrapolated=found.extrapolated,
        mismatches=mismatches,
        warnings=warnings,
        absent=absent,
    )


def _shares(value: Value | None) -> Sequence[float]:
    return () if value is None or isinstance(value, int | float) else value


def _known(derived: Derived, name: str) -> float | Absent:
    value = derived.values.get(name)
    if isinstance(value, int | float):
        return float(value)
    return Absent(reason=derived.absent.get(name, Reason.NOT_EXPOSED))
