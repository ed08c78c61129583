"""Reports as documents for programs; every key stands in docs/draft.md."""

from datetime import datetime
from typing import Any

from specgauge.preflight.draft.cost import ASSUMPTIONS, FORMULA, Cost, Size
from specgauge.preflight.draft.finding import Finding
from specgauge.preflight.draft.folder import Model
from specgauge.preflight.draft.judge import Report

CHECK_SCHEMA = "specgauge.draft-check/v1"
SUGGEST_SCHEMA = "specgauge.draft-suggest/v1"


def report_document(report: Report, *, created: datetime, created_by: str) -> dict[str, Any]:
    """Write a report as one JSON object, with its schema and when it was made."""
    return {
        "schema": CHECK_SCHEMA,
        "created": created.isoformat(),
        "created_by": created_by,
        **report_body(report),
    }


def report_body(report: Report) -> dict[str, Any]:
    """Write a report without its schema."""
    pair = report.pair
    return {
        "verdict": str(report.fit),
        "engine": str(report.engine),
        "release": pair.rules.release,
        "method": pair.method,
        "target": _model(pair.target, report.cost.target),
        "draft": None if pair.draft is pair.target else _model(pair.draft, report.cost.draft),
        "findings": [_finding(one) for one in report.findings],
        "checked": [str(one) for one in report.checked],
        "not_measured": [
            {"check": str(one.area), "reason": one.reason} for one in report.unmeasured
        ],
        "cost": _cost(report.cost),
        "speculative_config": dict(report.speculative_config),
    }


def _model(model: Model, size: Size | None) -> dict[str, Any]:
    config, vocabulary = model.config, model.vocabulary
    return {
        "source": model.source,
        "folder": str(model.folder),
        "architecture": config.architectures[0] if config.architectures else None,
        "vocab_size": config.vocab_size,
        "tokenizer": None
        if vocabulary is None
        else {
            "vocab_size": vocabulary.base,
            "added_tokens": len(vocabulary.added),
            "highest_id": vocabulary.highest,
        },
        "hidden_size": config.hidden_size,
        "layers": config.layers,
        "max_length": config.max_length,
        "dtype": config.dtype,
        "quantisation": config.quantisation,
        "bytes": None if size is None else size.total,
        "bytes_from": None if size is None else size.told_by,
    }


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "code": str(one.code),
        "severity": str(one.severity),
        "message": one.message,
        "numbers": dict(one.numbers),
        "engine_says": one.engine_says,
        "fix": one.fix,
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "size_ratio": cost.size_ratio,
        "draft_cost_ratio": cost.ratio,
        "estimated": True,
        "assumptions": list(ASSUMPTIONS),
        "formula": FORMULA,
        "break_even": [
            {
                "num_speculative_tokens": row.tokens,
                "acceptance_length": row.length,
                "acceptance_ratio": row.share,
                "acceptance_per_token": row.per_token,
                "best_speedup": row.best_speedup,
            }
            for row in cost.rows
        ],
    }
