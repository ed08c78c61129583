"""The `specgauge.verdict/v1` document: judgements as JSON, absent figures with their reasons."""

from collections.abc import Iterable
from typing import Any

from specgauge.model.verdict import Judgement

SCHEMA = "specgauge.verdict/v1"


def document(judgements: Iterable[Judgement]) -> dict[str, Any]:
    """Build the whole document."""
    return {"schema": SCHEMA, "models": [judgement(one) for one in judgements]}


def judgement(one: Judgement) -> dict[str, Any]:
    """Build one model's object."""
    found: dict[str, Any] = {
        "model_name": one.model_name,
        "verdict": str(one.verdict),
        "reason": str(one.reason),
    }
    if one.ratios:
        found["speedup_ratio"] = dict(one.ratios)
    if one.lows:
        found["speedup_ratio_low"] = dict(one.lows)
        found["speedup_ratio_high"] = dict(one.highs)
    return {
        **found,
        "confidence": one.confidence,
        **one.values,
        "extrapolated": one.extrapolated,
        "mismatches": list(one.mismatches),
        "warnings": list(one.warnings),
        "absent": dict(one.absent),
    }
