"""The whole checklist: every gate's result, what follows from them, and the document of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from specgauge.preflight.checklist.case import Case
from specgauge.preflight.checklist.deployment import Deployment
from specgauge.preflight.checklist.evidence import format_age
from specgauge.preflight.checklist.gates import GATES, Gate
from specgauge.preflight.checklist.reading import clean
from specgauge.preflight.checklist.result import Proof, Reason, Result, Status

SCHEMA = "specgauge.checklist/v1"
_LONGEST = 1000


class Outcome(StrEnum):
    """What follows from all gates together."""

    READY = "ready"
    NOT_READY = "not_ready"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Gates with their results, in the order of the table; `now` is Unix seconds."""

    now: float
    deployment: Deployment
    lines: tuple[tuple[Gate, Result], ...]

    @property
    def outcome(self) -> Outcome:
        """Say whether every gate that counts has passed."""
        found = {result.status for _, result in self.lines}
        if Status.FAIL in found:
            return Outcome.NOT_READY
        return Outcome.NOT_MEASURED if Status.NOT_MEASURED in found else Outcome.READY

    def count(self, status: Status) -> int:
        """Count the gates that ended so."""
        return sum(result.status is status for _, result in self.lines)


def judge(case: Case, *, only: Collection[str] = (), waived: Mapping[str, str]) -> Report:
    """Look at every gate that is asked for; those that are waived are not looked at."""
    lines = []
    for gate in GATES:
        if only and gate.name not in only:
            continue
        if gate.name in waived:
            says = f"waived: {waived[gate.name]}"
            result = Result(status=Status.WAIVED, reason=Reason.WAIVED, says=says)
        else:
            result = gate.judge(case)
        lines.append((gate, _tidy(result)))
    return Report(now=case.now, deployment=case.deployment, lines=tuple(lines))


def _tidy(result: Result) -> Result:
    """Make everything that is said fit for a terminal and a page."""
    proofs = tuple(_tidy_proof(one) for one in result.proofs)
    says, fix = clean(result.says, _LONGEST), clean(result.fix, _LONGEST)
    return replace(result, says=says, fix=fix, proofs=proofs)


def _tidy_proof(proof: Proof) -> Proof:
    name, version, spoken = proof.model_name, proof.engine_version, proof.speculation
    return replace(
        proof,
        source=clean(proof.source, _LONGEST),
        model_name=None if name is None else clean(name),
        engine_version=None if version is None else clean(version),
        speculation=None if spoken is None else clean(spoken),
    )


def document(report: Report, *, created_by: str) -> dict[str, Any]:
    """Write the report as `specgauge.checklist/v1`."""
    runs = report.deployment
    return {
        "schema": SCHEMA,
        "created": timestamp(report.now),
        "created_by": created_by,
        "outcome": str(report.outcome),
        "counts": {str(status): report.count(status) for status in Status},
        "deployment": {
            "model_name": runs.model_name,
            "other_names": list(runs.models[1:]),
            "engine_version": runs.version,
            "method": runs.speculation.method,
            "num_speculative_tokens": runs.speculation.k,
            "draft": runs.speculation.draft,
        },
        "gates": [_gate(gate, result, report.now) for gate, result in report.lines],
    }


def _gate(gate: Gate, result: Result, now: float) -> dict[str, Any]:
    return {
        "gate": gate.name,
        "title": gate.title,
        "article": gate.article,
        "takes": gate.takes,
        "status": str(result.status),
        "reason": str(result.reason),
        "says": result.says,
        "fix": result.fix or None,
        "evidence": [_proof(one, now) for one in result.proofs],
    }


def _proof(proof: Proof, now: float) -> dict[str, Any]:
    created = proof.created
    return {
        "source": proof.source,
        "created": None if created is None else timestamp(created),
        "age_seconds": None if created is None else round(now - created, 3),
        "model_name": proof.model_name,
        "engine_version": proof.engine_version,
        "speculation": proof.speculation,
        "numbers": dict(proof.numbers),
    }


def cite(proof: Proof, now: float) -> str:
    """Cite a piece of evidence on one line: where it is, whose, of when."""
    parts = [
        proof.source,
        proof.model_name,
        None if proof.engine_version is None else f"vLLM {proof.engine_version}",
        proof.speculation,
        None if proof.created is None else _when(proof.created, now),
    ]
    return ", ".join(part for part in parts if part)


def _when(created: float, now: float) -> str:
    if created > now:
        return timestamp(created)
    return f"{timestamp(created)} ({format_age(now - created)} ago)"


def timestamp(unix: float) -> str:
    """Write a time in UTC, to the second."""
    return datetime.fromtimestamp(unix, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
