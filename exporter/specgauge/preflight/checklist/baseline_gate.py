"""The gate of the baseline: one is there, recent, and of the server that runs."""

from specgauge.baseline.match import match
from specgauge.model.baseline import Baseline
from specgauge.preflight.checklist.case import BaselineConfig, Case
from specgauge.preflight.checklist.evidence import format_age
from specgauge.preflight.checklist.live import Live
from specgauge.preflight.checklist.result import (
    Proof,
    Reason,
    Result,
    Trouble,
    failed,
    passed,
    troubled,
    unmeasured,
)
from specgauge.preflight.checklist.terms import CLOCK_SLACK
from specgauge.units import format_duration

_RECORD = "record one with specgauge baseline record and name it in baseline.file"
_PARTIAL = "baseline_partial"
_RELEASE = "baseline_engine_release"


def judge_baseline(case: Case) -> Result:
    """Say whether the baseline is that of the running server."""
    if isinstance(case.baseline, Trouble):
        return troubled(case.baseline)
    if case.baseline.target is None and not case.baseline.files:
        return unmeasured(Reason.MISSING, "no baseline is configured", fix=_RECORD)
    if isinstance(case.live, Trouble):
        return troubled(case.live)
    if case.live.mismatches:
        says = f"the sidecar refuses it: {', '.join(case.live.mismatches)} differ"
        return failed(Reason.MISMATCH, says, case.live.proof(), fix=_RECORD)
    if case.baseline.target is not None:
        return _sibling(case.baseline, case.live)
    return _best(case, case.baseline, case.live)


def _sibling(config: BaselineConfig, live: Live) -> Result:
    """Ask no more of a live baseline than to be there: it is as recent as can be."""
    up = dict(live.siblings).get(config.target or "")
    if up is None:
        says = f"the sidecar watches no standard target {config.target}"
        return failed(Reason.MISMATCH, says, live.proof(), fix="reload the sidecar")
    if not up:
        says = f"the target {config.target}, the baseline, is down"
        return unmeasured(Reason.TARGET_DOWN, says, live.proof())
    return passed(f"the target {config.target} is the baseline, live", live.proof())


def _best(case: Case, config: BaselineConfig, live: Live) -> Result:
    """Of several files the one that belongs to the server counts."""
    results = [_of_file(case, one, live) for one in config.files]
    return next((one for one in results if one.status == "pass"), results[0])


def _of_file(case: Case, baseline: Baseline, live: Live) -> Result:
    facts: dict[str, object] = {
        "engine.name": "vllm",
        "engine.version": live.version,
        "model.name": live.model_name,
        "parallelism.data": live.engines,
    }
    proof = _proof(baseline)
    found = match(baseline, facts, now=case.now)
    if found.mismatches:
        pairs = (f"{name} ({baseline.facts[name]}, not {facts[name]})" for name in found.mismatches)
        says = f"{baseline.source} is of another server: {', '.join(pairs)}"
        return failed(Reason.MISMATCH, says, proof, fix=_RECORD)
    if _RELEASE in found.warnings:
        of = baseline.facts.get("engine.version")
        says = f"{baseline.source} is of release {of}, and {live.version} runs"
        return unmeasured(Reason.OTHER_RELEASE, says, proof, fix=_RECORD)
    if refusal := _age(case, baseline, proof):
        return refusal
    if _PARTIAL in found.warnings:
        says = f"{baseline.source} is partial: its recording was cut short"
        return unmeasured(Reason.INCOMPLETE, says, proof, fix=_RECORD)
    levels = len(baseline.curve.levels)
    says = f"{baseline.source}, {levels} levels up to {baseline.curve.top:.3g} in decode"
    return passed(says, proof)


def _age(case: Case, baseline: Baseline, proof: Proof) -> Result | None:
    """Refuse a baseline that is too old, or whose age is not known."""
    source, created = baseline.source, baseline.created
    if created is None:
        says = f"{source} does not say when it was recorded"
        return unmeasured(Reason.UNDATED, says, proof, fix=_RECORD)
    if created > case.now + CLOCK_SLACK:
        says = f"{source} was recorded {format_age(created - case.now)} from now"
        return unmeasured(Reason.FROM_THE_FUTURE, says, proof, fix="set the clocks")
    if case.now - created > case.terms.max_age:
        limit = format_duration(case.terms.max_age)
        says = f"{source} is {format_age(case.now - created)} old, and stale from {limit}"
        return unmeasured(Reason.STALE, says, proof, fix=_RECORD)
    return None


def _proof(baseline: Baseline) -> Proof:
    facts = baseline.facts
    name, version = facts.get("model.name"), facts.get("engine.version")
    levels = baseline.curve.levels
    return Proof(
        source=baseline.source,
        created=baseline.created,
        model_name=None if name is None else str(name),
        engine_version=None if version is None else str(version),
        speculation="none",
        numbers={"levels": float(len(levels)), "top_decode_concurrency": baseline.curve.top},
    )
