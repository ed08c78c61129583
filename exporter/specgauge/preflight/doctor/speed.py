"""Rules on time: why each token takes longer than the baseline's, by a verdict's own figures."""

from collections.abc import Iterator

from specgauge.derive.interpolate import tpot_at
from specgauge.model.derived import Speculation
from specgauge.model.verdict import Judgement, Verdict, VerdictReason
from specgauge.preflight.doctor.acceptance import FEW
from specgauge.preflight.doctor.case import Case, Model
from specgauge.preflight.doctor.codes import Code, Symptom
from specgauge.preflight.doctor.cost import DraftCost, draft_cost, residual, spread_over_load
from specgauge.preflight.doctor.finding import LIKELY, MEASURED, POSSIBLE, SEEN, Figure, Finding
from specgauge.preflight.doctor.names import release_order

TOO_EXPENSIVE = 0.5
"""From this share of a plain step on a drafted token costs too much."""

_SCHEDULES_FROM = (0, 24)
_MARGIN = 0.05
_BUSY = 1.5
_ELSEWHERE = frozenset(
    {
        VerdictReason.BASELINE_MISMATCH,
        VerdictReason.WORKLOAD_MISMATCH,
        VerdictReason.OUTSIDE_RANGE,
    }
)


def speed_rules(case: Case) -> Iterator[Finding]:
    """Judge each model that has a verdict."""
    for model in case.models:
        judged = model.judgement
        if judged is None:
            continue
        yield from _load(case, model)
        if judged.reason in _ELSEWHERE and judged.verdict is Verdict.UNKNOWN:
            yield _not_comparable(judged)
        if judged.verdict is Verdict.PAYS:
            yield from _misread(case, model)
        if _loses(case, judged):
            yield from _loss(case, model, judged)


def _loses(case: Case, judged: Judgement) -> bool:
    """Tell whether a loss is to be explained; with the symptom told, also the lack of a gain."""
    asked = case.symptom is Symptom.SLOWER and judged.verdict is Verdict.EVEN
    return judged.verdict is Verdict.COSTS or asked


def _loss(case: Case, model: Model, judged: Judgement) -> Iterator[Finding]:
    speculation = model.derived.speculation
    if speculation in {Speculation.INACTIVE, Speculation.ABSENT}:
        yield _without_drafts(model, judged)
        return
    coverage = model.derived.values.get("draft_coverage_ratio")
    share = coverage if isinstance(coverage, int | float) else None
    if share is not None and share < FEW:
        yield _few(model, judged, share)
        return
    yield from _dear(case, model, judged, share)
    yield from _breakeven(model, judged)


def _without_drafts(model: Model, judged: Judgement) -> Finding:
    """Report what is left where nothing is drafted: speculation cannot be switched off further."""
    left = residual(1.0, 1.0 / judged.ratios["concurrency"])
    return Finding(
        code=Code.RESIDUAL_WITHOUT_DRAFTS,
        confidence=MEASURED,
        evidence=f"no draft was made and each token took {left:.2%} longer than the baseline's; "
        "nothing more can be switched off in this server",
        numbers={**_figures(judged), "residual_ratio": left},
        where=model.derived.model_name,
    )


def _few(model: Model, judged: Judgement, share: float) -> Finding:
    return Finding(
        code=Code.FEW_DRAFTS_STILL_COST,
        confidence=SEEN,
        evidence=f"only {share:.1%} of the steps carried a draft, yet each token came "
        f"{judged.ratios['concurrency']:.2f} times as fast as without speculation",
        numbers={**_figures(judged), "draft_coverage_ratio": share},
        where=model.derived.model_name,
    )


def _dear(case: Case, model: Model, judged: Judgement, coverage: float | None) -> Iterator[Finding]:
    """Tell a dear draft from a card that is busy with checking."""
    price = _price(model, judged, coverage)
    if price is None or price.bound < TOO_EXPENSIVE:
        return
    sure = LIKELY + 0.05 if price.is_the_drafts else POSSIBLE + 0.1
    yield Finding(
        code=Code.DRAFT_TOO_EXPENSIVE,
        confidence=MEASURED if price.own >= TOO_EXPENSIVE else sure,
        evidence=f"a step costs {judged.values['step_cost_ratio']:.2f} plain steps, so a drafted "
        f"token costs up to {price.bound:.2f} of one (too much from {TOO_EXPENSIVE:g} on)",
        numbers={
            **_figures(judged),
            "draft_cost_at_most": price.bound,
            "draft_cost_beyond_verification": max(price.own, 0.0),
            "verification_cost": price.verification,
        },
        where=model.derived.model_name,
    )
    if price.own < TOO_EXPENSIVE and price.verification >= _BUSY:
        load = judged.values["decode_concurrency"]
        yield Finding(
            code=Code.LOAD_DEPENDENT_LOSS,
            confidence=LIKELY,
            evidence=f"at {load:.0f} requests at once checking k + 1 tokens each may itself cost "
            f"{price.verification:.1f} plain steps, by the baseline's own slope: at this load "
            "the card is busy without a draft",
            numbers={**_figures(judged), "verification_cost": price.verification},
            where=model.derived.model_name,
            fix=_schedule(case, model, None),
        )


def _price(model: Model, judged: Judgement, coverage: float | None) -> DraftCost | None:
    k = model.derived.values.get("num_speculative_tokens")
    rho = judged.values.get("step_cost_ratio")
    load = judged.values.get("decode_concurrency")
    if not isinstance(k, int) or k < 1 or rho is None or not load or model.curve is None:
        return None
    return draft_cost(rho, k, coverage, load, model.curve)


def _load(case: Case, model: Model) -> Iterator[Finding]:
    """Find a run that gains at low load and loses at high load."""
    if model.curve is None or model.derived.speculation is not Speculation.ACTIVE:
        return
    found = spread_over_load(model.pieces, model.curve)
    if found is None or found.low_speedup <= 1.0 + _MARGIN or found.high_speedup >= 1.0 - _MARGIN:
        return
    yield Finding(
        code=Code.LOAD_DEPENDENT_LOSS,
        confidence=SEEN,
        evidence=f"at {found.low_load:.1f} requests at once tokens came {found.low_speedup:.2f} "
        f"times as fast as without speculation, at {found.high_load:.1f} {found.high_speedup:.2f} "
        "times",
        numbers={
            "low_concurrency": found.low_load,
            "high_concurrency": found.high_load,
            "low_speedup_ratio": found.low_speedup,
            "high_speedup_ratio": found.high_speedup,
        },
        where=model.derived.model_name,
        fix=_schedule(case, model, found.high_load),
    )


def _schedule(case: Case, model: Model, limit: float | None) -> str:
    """Say what this release and this way of running allow against a loss at high load."""
    several = len(model.derived.engines) > 1
    parallel = several or (case.setup is not None and case.setup.data_parallel > 1)
    if parallel:
        return (
            "route the burst to a pool without speculation: the schedule from batch size to k "
            "is off under data parallelism"
        )
    if case.release is not None and release_order(case.release)[:2] < _SCHEDULES_FROM:
        return (
            f"{case.release} has no schedule by batch size (0.24.0 has): upgrade, or route the "
            "burst to a pool without speculation"
        )
    k = model.derived.values.get("num_speculative_tokens")
    if limit is None or not isinstance(k, int):
        return ""
    top = max(int(limit / 2), 1)
    return (
        f'try "num_speculative_tokens_per_batch_size": [[1, {top}, {k}], [{top + 1}, 4096, 0]] in '
        "the speculative config (0.24.0 on), and settle the limit by experiment"
    )


def _breakeven(model: Model, judged: Judgement) -> Iterator[Finding]:
    """Hold what is accepted against what a step costs."""
    length = judged.values.get("acceptance_length")
    rho = judged.values.get("step_cost_ratio")
    needed = judged.values.get("breakeven_acceptance_length")
    if length is None or rho is None or (needed is not None and length >= needed):
        return
    best = judged.values.get("suggested_num_speculative_tokens")
    told = f"it takes {needed:.2f}" if needed is not None else "no length could"
    advice = "" if best is None else f"lower num_speculative_tokens to {best:.0f}"
    yield Finding(
        code=Code.BELOW_BREAKEVEN,
        confidence=LIKELY,
        evidence=f"a draft yields {length:.2f} tokens; to pay for a step that costs {rho:.2f} "
        f"plain ones {told}",
        numbers=_figures(judged),
        where=model.derived.model_name,
        fix="switch speculation off for this traffic, or raise acceptance" if best == 0 else advice,
    )


def _misread(case: Case, model: Model) -> Iterator[Finding]:
    """Tell somebody who sees the gap between steps grow that tokens come faster."""
    judged, step = model.judgement, model.derived.values.get("step_seconds")
    if judged is None or model.curve is None or not isinstance(step, int | float):
        return
    plain = tpot_at(model.curve, judged.values.get("decode_concurrency", 0.0))
    if case.symptom is not Symptom.SLOWER or step <= plain:
        return
    yield Finding(
        code=Code.STEP_GAP_MISREAD,
        confidence=MEASURED,
        evidence=f"a step takes {1e3 * step:.3g} ms where a token took {1e3 * plain:.3g} ms, but "
        f"each token comes {judged.ratios['concurrency']:.2f} times as fast",
        numbers={**_figures(judged), "step_seconds": step, "baseline_tpot_seconds": plain},
        where=model.derived.model_name,
    )


def _not_comparable(judged: Judgement) -> Finding:
    differs = ", ".join(judged.mismatches) or str(judged.reason)
    return Finding(
        code=Code.NOT_COMPARABLE,
        confidence=MEASURED,
        evidence=f"the baseline is no measure here: {differs}",
        numbers={"reason": str(judged.reason)},
        where=judged.model_name,
    )


def _figures(judged: Judgement) -> dict[str, Figure]:
    """Give the verdict's own numbers, by the names they have there."""
    wanted = ("acceptance_length", "step_cost_ratio", "breakeven_acceptance_length",
              "decode_concurrency", "suggested_num_speculative_tokens")  # fmt: skip
    found: dict[str, Figure] = {n: judged.values[n] for n in wanted if n in judged.values}
    return {**found, "speedup_ratio": judged.ratios["concurrency"]}
