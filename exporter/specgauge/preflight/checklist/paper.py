"""Lets a gate have a document that counts for what runs now, or the reason why it may not."""

from specgauge.preflight.checklist.case import Case
from specgauge.preflight.checklist.evidence import Evidence, Given, Kind, refuse
from specgauge.preflight.checklist.result import Reason, Result, Trouble, troubled, unmeasured


def given(case: Case, evidence: Given, kind: Kind) -> Evidence | Result:
    """Give a document that may be looked at, or say why there is none."""
    if evidence is None:
        fix = f"give {kind.option} what {kind.command} --json prints"
        return unmeasured(Reason.MISSING, f"no {kind.option} was given", fix=fix)
    if isinstance(evidence, Trouble):
        return troubled(evidence)
    refusal = refuse(evidence, case.deployment, case.terms, case.now)
    if refusal is None:
        return evidence
    return unmeasured(refusal.reason, refusal.detail, evidence.proof(), fix=refusal.fix)
