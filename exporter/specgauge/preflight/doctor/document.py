"""The `specgauge.doctor/v1` document: findings as JSON, and what was not looked at and why."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from specgauge.preflight.doctor.advice import advice
from specgauge.preflight.doctor.case import Case, Probe
from specgauge.preflight.doctor.finding import Figure, Ranked

SCHEMA = "specgauge.doctor/v1"


def document(case: Case, ranked: Sequence[Ranked], lacking: str) -> dict[str, Any]:
    """Build the whole document."""
    return {
        "schema": SCHEMA,
        "symptom": None if case.symptom is None else str(case.symptom),
        "dialect": None if case.dialect is None else str(case.dialect),
        "engine_version": case.release,
        "findings": [finding(one) for one in ranked],
        "lacking": lacking or None,
        "not_measured": dict(case.not_measured),
        "probe": None if case.probe is None else probe(case.probe),
    }


def finding(one: Ranked) -> dict[str, Any]:
    """Build one finding's object."""
    known = advice()[one.finding.code]
    return {
        "code": str(one.finding.code),
        "severity": str(one.severity),
        "confidence": round(one.finding.confidence, 2),
        "title": known.title,
        "evidence": one.finding.evidence,
        "numbers": {name: _plain(value) for name, value in one.finding.numbers.items()},
        "fix": one.finding.fix or known.fix,
        "link": known.link,
        "where": one.finding.where or None,
    }


def probe(one: Probe) -> dict[str, Any]:
    """Build the probe's object; what was not to be had is null."""
    own = {field.name: getattr(one, field.name) for field in fields(one) if field.name != "page"}
    for name in ("acceptance_ratio", "acceptance_length", "tokens_per_step"):
        own[name] = one.page.values.get(name) if one.page is not None else None
    return own


def _plain(value: Figure) -> Any:
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return list(value)
