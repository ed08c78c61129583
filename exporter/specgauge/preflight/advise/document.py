"""The `specgauge.advise/v1` document: advice as JSON, unknown figures with their reason."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from specgauge.preflight.advise.expect import Expected
from specgauge.preflight.advise.finding import Reason
from specgauge.preflight.advise.judge import Answer
from specgauge.preflight.advise.lookup import Lookup, Tally
from specgauge.preflight.advise.observed import Observed

SCHEMA = "specgauge.advise/v1"

FIGURES: Mapping[str, str] = {
    "requests": "requests",
    "decode_concurrency": "decode_concurrency",
    "requests_waiting": "requests_waiting",
    "preemptions": "preemptions",
    "kv_use": "kv_cache_usage_ratio",
    "kv_change": "kv_cache_change_ratio",
    "prompt_tokens": "prompt_tokens_per_request",
    "output_tokens": "output_tokens_per_request",
    "tpot_seconds": "tpot_seconds",
    "temperature": "temperature",
    "version": "engine_version",
}
"""Figures that are told where they are known, by the name they have in the document."""


def document(answers: Iterable[Answer], lookup: Lookup, *, tokenizer: str | None) -> dict[str, Any]:
    """Build the whole document; `tokenizer` is how recorded answers were cut."""
    found = list(answers)
    return {
        "schema": SCHEMA,
        "lookup": {
            "num_speculative_tokens": lookup.draft_tokens,
            "prompt_lookup_min": lookup.shortest,
            "prompt_lookup_max": lookup.longest,
            "tokenizer": tokenizer,
        },
        "models": [_model(one) for one in found],
        "limits": asdict(found[0].limits) if found else {},
    }


def _model(one: Answer) -> dict[str, Any]:
    seen = one.observed
    return {
        "model_name": seen.model_name,
        "advice": str(one.advice),
        "first_method": None if one.first_method is None else str(one.first_method),
        "speculation": seen.speculation,
        "window_seconds": seen.seconds,
        **_observed(seen),
        "ngram": None if one.tally is None else tallied(one.tally),
        "expected": None if one.expected is None else _expected(one.expected),
        "findings": [_reason(reason) for reason in one.reasons],
    }


def _observed(seen: Observed) -> dict[str, Any]:
    """Write the figures that are known, and name the others."""
    values = {name: getattr(seen, field) for field, name in FIGURES.items()}
    known: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    known["absent"] = {name: "not_known" for name, value in values.items() if value is None}
    return known


def tallied(tally: Tally) -> dict[str, Any]:
    """Write what a replay counted."""
    found: dict[str, Any] = {
        "requests": tally.requests,
        "prompt_tokens": tally.prompt_tokens,
        "output_tokens": tally.output_tokens,
        "steps": tally.steps,
        "drafts": tally.drafts,
        "draft_tokens": tally.draft_tokens,
        "accepted_tokens": tally.accepted,
        "acceptance_ratio": tally.acceptance_ratio,
        "acceptance_length": tally.acceptance_length,
        "draft_coverage_ratio": tally.coverage,
        "tokens_per_step": tally.tokens_per_step,
        "position_acceptance_ratio": list(tally.positions_ratio),
    }
    absent = {name: "no_drafts" for name, value in found.items() if value is None}
    return {name: value for name, value in found.items() if value is not None} | {"absent": absent}


def _expected(one: Expected) -> dict[str, Any]:
    found = {
        "decode_concurrency": one.concurrency,
        "verification_cost_ratio": one.verification_cost,
        "breakeven_acceptance_ratio": one.breakeven_acceptance,
        "ngram_speedup_ratio": one.ngram_speedup,
        "extrapolated": one.extrapolated,
    }
    return {name: value for name, value in found.items() if value is not None}


def _reason(one: Reason) -> dict[str, Any]:
    found: dict[str, Any] = {"code": str(one.code), "weight": str(one.weight)}
    found |= {"text": one.text, "numbers": dict(one.numbers)}
    return found if one.fix is None else {**found, "fix": one.fix}
