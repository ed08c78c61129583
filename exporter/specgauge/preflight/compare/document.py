"""The outcome as `specgauge.compare/v1`; values in, JSON values out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from specgauge.derive.statistics import Estimate
from specgauge.preflight.compare.bouts import CellKey
from specgauge.preflight.compare.cells import Figures, Spread
from specgauge.preflight.compare.decide import Judged, Outcome, Ruling
from specgauge.preflight.compare.fields import Likeness
from specgauge.preflight.compare.gates import Terms
from specgauge.preflight.compare.plan import Contest
from specgauge.preflight.compare.quality import Match, Passes, Quality

SCHEMA = "specgauge.compare/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that is told of a comparison; `contest` is None where pages were given."""

    outcome: Outcome
    terms: Terms
    created: str
    created_by: str
    contest: Contest | None = None
    likeness: Likeness | None = None
    facts: Mapping[str, Mapping[str, object]] | None = None
    prompts: Mapping[str, str] | None = None
    partial: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def document(report: Report) -> dict[str, Any]:
    """Write a comparison with every number that it rests on."""
    outcome, like = report.outcome, report.likeness
    return {
        "schema": SCHEMA,
        "created": report.created,
        "created_by": report.created_by,
        "partial": report.partial,
        **_ruling(outcome.overall),
        "by_class": {name: _ruling(one) for name, one in outcome.by_class.items()},
        "thresholds": {
            "min_speedup": report.terms.steady,
            "min_speedup_burst": report.terms.burst,
            "min_speedup_idle": report.terms.idle,
            "margin": report.terms.margin,
        },
        "workload": _workload(report),
        "facts": {side: dict(facts) for side, facts in (report.facts or {}).items()},
        "differences": [
            {
                "field": one.field,
                "baseline": one.baseline,
                "speculative": one.speculative,
                "expected": one.expected,
            }
            for one in (like.differences if like else ())
        ],
        "not_compared": list(like.not_compared) if like else [],
        "cells": [_cell(one) for one in outcome.cells],
        "missing": [_key(key) for key in outcome.missing],
        "quality": {name: _quality(one) for name, one in outcome.quality.items()},
        "notes": list(report.notes),
    }


def _ruling(one: Ruling) -> dict[str, Any]:
    return {
        "decision": one.decision,
        "why": one.why,
        "below_load": one.below,
        "reasons": list(one.reasons),
    }


def _workload(report: Report) -> dict[str, Any] | None:
    plan = report.contest
    if plan is None:
        return None
    return {
        "loads": {one.name: one.concurrency for one in plan.loads},
        "temperatures": list(plan.temperatures),
        "prompts_sha256": dict(report.prompts or {}),
        "output_tokens": str(plan.lengths),
        "repeats": plan.repeats,
        "window_seconds": plan.window,
        "warmup_seconds": plan.warmup,
        "seed": plan.seed,
    }


def _key(key: CellKey) -> dict[str, Any]:
    return {
        "load": key.load.name,
        "role": key.load.role,
        "concurrency": key.load.concurrency,
        "temperature": key.temperature,
        "traffic_class": key.traffic_class,
    }


def _cell(one: Judged) -> dict[str, Any]:
    cell = one.cell
    return {
        **_key(cell.key),
        "verdict": one.verdict,
        "repeats": cell.repeats,
        "pairs": cell.pairs,
        "speedup": {name: _estimate(found) for name, found in cell.ratios.items()},
        "gates": [
            {"gate": gate.name, "state": gate.state, "reason": gate.reason, "told": gate.told}
            for gate in one.gates
        ],
        "baseline": _figures(cell.baseline),
        "speculative": _figures(cell.speculative),
        "died": dict(cell.died),
        "notes": list(cell.notes),
    }


def _estimate(found: Estimate) -> dict[str, float | None]:
    return {"value": found.value, "low": found.low, "high": found.high}


def _figures(one: Figures) -> dict[str, Any]:
    return {
        "requests": one.requests,
        "failed_requests": one.failed,
        "retries": one.retries,
        "out_of_memory": one.out_of_memory,
        "errors": dict(one.errors),
        **{f"{name}_seconds": _spread(found) for name, found in one.latencies.items()},
        "tokens_per_second": one.tokens_per_second,
        "requests_per_second": one.requests_per_second,
        "server": dict(one.server),
        "finished": dict(one.finished),
    }


def _spread(found: Spread) -> dict[str, float | None]:
    return {one.name: getattr(found, one.name) for one in fields(found)}


def _quality(one: Quality) -> dict[str, Any]:
    return {
        "exact_match": _match(one.between),
        "baseline_against_itself": None if one.itself is None else _match(one.itself),
        "differs_more_than_itself": one.differs_more,
        "pass_rate": None if one.passes is None else _passes(one.passes),
        "unanswered": one.failed,
    }


def _match(one: Match) -> dict[str, Any]:
    positions: Sequence[int] = one.first_divergence
    return {
        "equal": one.equal,
        "of": one.of,
        "share": one.share,
        "first_divergence_min": min(positions, default=None),
        "first_divergence_median": one.median_divergence,
    }


def _passes(one: Passes) -> dict[str, Any]:
    difference = one.difference
    return {
        "baseline": one.baseline,
        "baseline_of": one.baseline_of,
        "speculative": one.speculative,
        "speculative_of": one.speculative_of,
        "difference_low": None if difference is None else difference[0],
        "difference_high": None if difference is None else difference[1],
        "chance": one.chance,
        "why": list(one.why),
    }
