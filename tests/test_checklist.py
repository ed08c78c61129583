"""The gates of the checklist: each passes, fails or is not measured, for the right reason."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.checklists import (
    DAY,
    FRESH,
    NOW,
    RUNBOOK,
    STATED,
    WANTED,
    baseline_config,
    compare_cell,
    compare_document,
    draft_document,
    estimate,
    evidence,
    flip,
    guard_document,
    judged,
    live,
    memory_document,
    ready,
    rule,
    rules_answer,
    sweep_document,
    told,
)

from specgauge.preflight.checklist.case import (
    Answer,
    BaselineConfig,
    Case,
    Exercise,
    GuardConfig,
    Shown,
)
from specgauge.preflight.checklist.deployment import Speculation, needs_draft
from specgauge.preflight.checklist.evidence import COMPARE, DRAFT, MEMORY, SWEEP
from specgauge.preflight.checklist.gates import GATES, NAMES
from specgauge.preflight.checklist.report import timestamp
from specgauge.preflight.checklist.result import Reason, Status, Trouble
from specgauge.preflight.checklist.terms import Terms

GONE = Trouble(source="http://s", reason=Reason.UNREACHABLE, detail="no answer")

BROKEN = {"code": "weights_incomplete", "severity": "error"}


def guard(**more: Any) -> Answer:
    return Answer(source="http://s/api/v1/guard", body=guard_document(**more))


def flag(**more: Any) -> dict[str, Any]:
    return {
        "flag": {"key": "spec_on", "backend": "file", "desired": True, "confirmed": True, **more}
    }


def configured(**more: Any) -> GuardConfig:
    given: dict[str, Any] = {"key": "spec_on", "backend": "file", "obeyed_by": "the gateway"}
    return GuardConfig(**{**given, **more})


def draft(**more: Any) -> Case:
    return ready(draft=evidence(DRAFT, draft_document(**more)))


def sweep(**more: Any) -> Case:
    return ready(sweep=evidence(SWEEP, sweep_document(**more)))


def compare(*cells: dict[str, Any], **more: Any) -> Case:
    return ready(compare=evidence(COMPARE, compare_document(*cells, **more)))


def memory(**more: Any) -> Case:
    return ready(memory=evidence(MEMORY, memory_document(**more)))


def recommending(k: object, **more: Any) -> dict[str, Any]:
    return {"recommended": {"candidate": "eagle3-k4", "num_speculative_tokens": k, **more}}


@pytest.mark.parametrize("name", NAMES)
def test_everything_in_place_passes(name: str) -> None:
    """Each gate passes where all is as it should be, and cites what it rests on."""
    result = judged(name, ready())
    assert (result.status, result.fix) == (Status.PASS, "")
    assert result.says
    assert result.proofs


def test_names_are_stable() -> None:
    """CI knows gates by these names, in this order; each has a title, an article, its evidence."""
    assert NAMES == (
        "baseline", "draft", "k_chosen", "acceptance", "comparison", "speedup_expected",
        "speedup_burst", "p99", "memory", "guard_configured", "guard_exercised", "flag_obeyed",
        "routing", "rules", "dashboards", "report", "runbook", "pinned",
    )  # fmt: skip
    assert all(gate.title and gate.article and gate.takes for gate in GATES)


CASES: dict[str, dict[str, tuple[Callable[[], Case], str]]] = {
    "baseline": {
        "none": (lambda: ready(baseline=BaselineConfig()), "not_measured missing"),
        "unreadable": (
            lambda: ready(baseline=Trouble(source="b", reason=Reason.UNREADABLE, detail="bad")),
            "not_measured unreadable",
        ),
        "no sidecar": (lambda: ready(live=GONE), "not_measured unreachable"),
        "refused": (lambda: ready(live=live(mismatches=("hardware.gpu",))), "fail mismatch"),
        "other model": (
            lambda: ready(baseline=baseline_config(model={"name": "other"})),
            "fail mismatch",
        ),
        "other release": (
            lambda: ready(baseline=baseline_config(engine={"name": "vllm", "version": "0.24.0"})),
            "not_measured other_release",
        ),
        "stale": (
            lambda: ready(baseline=baseline_config(created=timestamp(NOW - 15 * DAY))),
            "not_measured stale",
        ),
        "undated": (
            lambda: ready(
                baseline=BaselineConfig(files=(replace(baseline_config().files[0], created=None),))
            ),
            "not_measured undated",
        ),
        "from the future": (
            lambda: ready(baseline=baseline_config(created=timestamp(NOW + DAY))),
            "not_measured from_the_future",
        ),
        "partial": (
            lambda: ready(baseline=baseline_config(partial=True)),
            "not_measured incomplete",
        ),
        "one of two": (
            lambda: ready(
                baseline=BaselineConfig(
                    files=(
                        *baseline_config(model={"name": "other"}).files,
                        *baseline_config().files,
                    )
                )
            ),
            "pass met",
        ),
        "live": (
            lambda: ready(
                live=live(siblings=(("plain", True),)), baseline=BaselineConfig(target="plain")
            ),
            "pass met",
        ),
        "live and down": (
            lambda: ready(
                live=live(siblings=(("plain", False),)), baseline=BaselineConfig(target="plain")
            ),
            "not_measured target_down",
        ),
        "live and unknown": (
            lambda: ready(baseline=BaselineConfig(target="plain")),
            "fail mismatch",
        ),
    },
    "draft": {
        "none": (lambda: ready(draft=None), "not_measured missing"),
        "needs none": (
            lambda: ready(live=live(method="ngram"), draft=None),
            "pass not_needed",
        ),
        "incompatible": (
            lambda: draft(
                verdict="incompatible",
                findings=[{"code": "vocab_size_differs", "severity": "error"}],
            ),
            "fail rejected",
        ),
        "compatible with an error": (lambda: draft(findings=[BROKEN]), "fail rejected"),
        "conditions with an error": (
            lambda: draft(
                verdict="with_conditions",
                findings=[BROKEN, {"code": "shorter", "severity": "condition"}],
            ),
            "fail rejected",
        ),
        "unknown": (lambda: draft(verdict="unknown"), "not_measured no_verdict"),
        "no verdict": (lambda: draft(verdict=None), "not_measured no_verdict"),
        "verdict of another kind": (
            lambda: draft(verdict=["compatible"]),
            "not_measured no_verdict",
        ),
        "conditions": (
            lambda: draft(
                verdict="with_conditions",
                findings=[{"code": "shorter", "severity": "condition"}],
            ),
            "fail conditions_open",
        ),
        "conditions that are met": (
            lambda: replace(
                draft(
                    verdict="with_conditions",
                    findings=[
                        {"code": "shorter", "severity": "condition"},
                        {"severity": "condition"},
                    ],
                ),
                stated=replace(STATED, draft_conditions=("shorter",)),
            ),
            "pass met",
        ),
        "conditions untold": (
            lambda: draft(verdict="with_conditions"),
            "not_measured incomplete",
        ),
    },
    "k_chosen": {
        "none": (lambda: ready(sweep=None), "not_measured missing"),
        "another k": (lambda: sweep(**recommending(2)), "fail other_k"),
        "no speculation": (
            lambda: sweep(
                recommended={"candidate": "none", "num_speculative_tokens": 0},
                states=[
                    {"name": "none", "server": {"engine_version": "0.25.1", "model_name": "target"}}
                ],
                cells=[{"candidate": "none", "repeats": 3}],
            ),
            "fail costs",
        ),
        "nothing": (lambda: sweep(**recommending(None)), "not_measured no_verdict"),
        "not a number": (lambda: sweep(**recommending("4")), "not_measured no_verdict"),
        "half a token": (lambda: sweep(**recommending(3.5)), "not_measured no_verdict"),
        "not complete": (lambda: sweep(complete=False), "not_measured incomplete"),
        "complete unsaid": (lambda: sweep(complete="yes"), "not_measured incomplete"),
        "few repeats": (
            lambda: sweep(cells=[{"candidate": "eagle3-k4", "repeats": 2}]),
            "not_measured low_sample",
        ),
        "no repeats": (lambda: sweep(cells=[]), "not_measured low_sample"),
        "k unknown": (lambda: ready(live=live(k=None)), "not_measured deployment_unknown"),
    },
    "acceptance": {
        "no sidecar": (lambda: ready(live=GONE), "not_measured unreachable"),
        "down": (lambda: ready(live=live(up=False)), "not_measured target_down"),
        "never scraped": (lambda: ready(live=live(at=None)), "not_measured undated"),
        "hung": (lambda: ready(live=live(at=NOW - 400)), "not_measured stale"),
        "recorded": (lambda: ready(live=live(at=NOW - 400), recorded=True), "pass met"),
        "recorded long ago": (
            lambda: ready(live=live(at=NOW - 15 * DAY), recorded=True),
            "not_measured stale",
        ),
        "from the future": (
            lambda: ready(live=live(at=NOW + 400)),
            "not_measured from_the_future",
        ),
        "synthetic": (
            lambda: ready(live=live(warnings=("synthetic_acceptance",))),
            "not_measured synthetic",
        ),
        "few drafts": (lambda: ready(live=live(drafts=999.0)), "not_measured low_sample"),
        "no drafts": (lambda: ready(live=live(drafts=None)), "not_measured low_sample"),
        "below break-even": (lambda: ready(live=live(acceptance_length=1.4)), "fail not_met"),
        "cannot pay": (
            lambda: ready(live=live(breakeven_length=None, breakeven_absent="cannot_pay")),
            "fail costs",
        ),
        "no break-even": (
            lambda: ready(live=live(breakeven_length=None)),
            "not_measured no_verdict",
        ),
        "no baseline, enough": (
            lambda: ready(live=live(verdict_reason="no_baseline", acceptance_ratio=0.56)),
            "pass met",
        ),
        "no baseline, at the threshold": (
            lambda: ready(live=live(verdict_reason="no_baseline", acceptance_ratio=0.55)),
            "fail not_met",
        ),
        "no baseline, unknown": (
            lambda: ready(live=live(verdict=None, acceptance_ratio=None)),
            "not_measured incomplete",
        ),
    },
    "comparison": {
        "none": (lambda: ready(compare=None), "not_measured missing"),
        "keep off": (lambda: compare(decision="keep_off", why="quality_fell"), "fail rejected"),
        "even": (lambda: compare(decision="even"), "fail rejected"),
        "below a load": (lambda: compare(decision="only_below_load"), "fail rejected"),
        "undecided": (lambda: compare(decision="undecided"), "not_measured no_verdict"),
        "no decision": (lambda: compare(decision=None, why=None), "not_measured incomplete"),
        "reason missing": (lambda: compare(why=None), "pass met"),
        "partial": (lambda: compare(partial=True), "not_measured incomplete"),
        "partial unsaid": (lambda: compare(partial=None), "not_measured incomplete"),
        "cells missing": (lambda: compare(missing=[{"load": "burst"}]), "not_measured incomplete"),
        "another difference": (
            lambda: compare(differences=[{"field": "model.quantization", "expected": False}]),
            "not_measured mismatch",
        ),
    },
    "speedup_expected": {
        "at the threshold": (
            lambda: compare(compare_cell("steady", estimate(1.3))),
            "fail not_met",
        ),
        "point alone": (lambda: compare(compare_cell("steady", estimate(1.31))), "pass met"),
        "below": (
            lambda: compare(compare_cell("steady", estimate(1.2, 1.1, 1.3))),
            "fail not_met",
        ),
        "interval over it": (
            lambda: compare(compare_cell("steady", estimate(1.4, 1.2, 1.6))),
            "not_measured no_verdict",
        ),
        "no steady load": (lambda: compare(compare_cell("burst")), "not_measured incomplete"),
        "worst class decides": (
            lambda: compare(
                compare_cell("steady"),
                compare_cell("steady", estimate(1.0, 0.9, 1.1), traffic_class="chat"),
            ),
            "fail not_met",
        ),
        "no ratio": (
            lambda: compare(compare_cell("steady", estimate(0.0))),
            "not_measured no_verdict",
        ),
        "interval upside down": (
            lambda: compare(compare_cell("steady", estimate(1.4, 1.6, 1.2))),
            "not_measured no_verdict",
        ),
        "interval somewhere else": (
            lambda: compare(compare_cell("steady", estimate(1.9, 0.5, 0.9))),
            "not_measured no_verdict",
        ),
        "half an interval": (
            lambda: compare(compare_cell("steady", estimate(1.9, 0.5))),
            "not_measured no_verdict",
        ),
    },
    "speedup_burst": {
        "exactly one": (
            lambda: compare(compare_cell("burst", estimate(1.0, 0.9, 1.1))),
            "pass met",
        ),
        "below": (
            lambda: compare(compare_cell("burst", estimate(0.9, 0.8, 0.99))),
            "fail not_met",
        ),
        "perhaps below": (
            lambda: compare(compare_cell("burst", estimate(0.97, 0.9, 1.04))),
            "not_measured no_verdict",
        ),
        "no burst": (lambda: compare(compare_cell("steady")), "not_measured incomplete"),
    },
    "p99": {
        "equal": (lambda: compare(compare_cell("idle", p99=estimate(1.0))), "pass met"),
        "worse": (
            lambda: compare(compare_cell("idle", p99=estimate(0.8, 0.7, 0.9))),
            "fail not_met",
        ),
        "perhaps worse": (
            lambda: compare(compare_cell("idle", p99=estimate(0.95, 0.8, 1.1))),
            "not_measured no_verdict",
        ),
        "few pairs": (lambda: compare(compare_cell("idle", pairs=99)), "not_measured no_verdict"),
        "not measured": (
            lambda: compare(compare_cell("idle", speedup=None) | {"speedup": {}}),
            "not_measured no_verdict",
        ),
        "no cells": (lambda: compare(cells="many"), "not_measured unattributed"),
        "tolerated": (
            lambda: replace(
                compare(compare_cell("idle", p99=estimate(0.96))), terms=Terms(max_p99_ratio=1.05)
            ),
            "pass met",
        ),
        "nothing tolerated": (
            lambda: ready(terms=Terms(max_p99_ratio=0.0)),
            "fail not_met",
        ),
    },
    "memory": {
        "none": (lambda: ready(memory=None), "not_measured missing"),
        "at the limit": (
            lambda: memory(setting={"utilization": 0.95, "num_speculative_tokens": 4}),
            "fail not_met",
        ),
        "cache full on paper": (lambda: memory(after={"kv_cache_use_ratio": 0.96}), "fail not_met"),
        "cache full now": (lambda: ready(live=live(kv_usage=0.95)), "fail not_met"),
        "does not fit": (
            lambda: memory(findings=[{"code": "weights_exceed_memory", "severity": "error"}]),
            "fail rejected",
        ),
        "a share below nothing": (
            lambda: memory(setting={"utilization": -1.0, "num_speculative_tokens": 4}),
            "not_measured incomplete",
        ),
        "no share": (
            lambda: memory(after={}, setting={"num_speculative_tokens": 4}),
            "not_measured incomplete",
        ),
        "of a server without drafts": (
            lambda: memory(after=None),
            "not_measured other_speculation",
        ),
        "cache now unknown": (lambda: ready(live=live(kv_usage=None)), "pass met"),
        "two servers": (
            lambda: memory(
                source="pages",
                after={
                    "models": ["target"],
                    "num_speculative_tokens": 4,
                    "kv_cache_usage_ratio": 0.3,
                },
                setting=None,
            ),
            "pass met",
        ),
    },
    "guard_configured": {
        "none": (lambda: ready(guard_config=None), "fail not_configured"),
        "no signal": (
            lambda: ready(guard_config=configured(deaf="all off")),
            "fail not_configured",
        ),
        "no sidecar": (lambda: ready(guard=GONE), "not_measured unreachable"),
        "another server": (lambda: ready(guard=guard(schema="x")), "not_measured wrong_schema"),
        "not in the sidecar": (lambda: ready(guard=guard(state=None)), "fail differs"),
        "another flag": (lambda: ready(guard=guard(**flag(key="other"))), "fail differs"),
        "another backend": (lambda: ready(guard=guard(**flag(backend="etcd"))), "fail differs"),
        "dry run": (lambda: ready(guard_config=configured(dry_run=True)), "pass met"),
    },
    "guard_exercised": {
        "no guard": (lambda: ready(guard_config=None), "not_measured not_configured"),
        "no sidecar": (lambda: ready(guard=GONE), "not_measured unreachable"),
        "never": (lambda: ready(guard=guard(history=[])), "not_measured not_exercised"),
        "long ago": (
            lambda: ready(guard=guard(history=[flip(NOW - 15 * DAY)])),
            "not_measured not_exercised",
        ),
        "tomorrow": (
            lambda: ready(guard=guard(history=[flip(NOW + DAY)])),
            "not_measured not_exercised",
        ),
        "turned on": (
            lambda: ready(guard=guard(history=[flip(NOW - 9, flag=True, state="active")])),
            "not_measured not_exercised",
        ),
        "only adopted": (
            lambda: ready(guard=guard(history=[flip(NOW - 9, reason="read_back_adopted")])),
            "not_measured not_exercised",
        ),
        "a state nobody knows": (
            lambda: ready(guard=guard(history=[flip(NOW - 9, state="asleep")])),
            "not_measured not_exercised",
        ),
        "rehearsed": (
            lambda: ready(
                guard=guard(
                    history=[
                        flip(NOW - 9, changed=False, flag=True, state="active", would_be="fallback")
                    ]
                )
            ),
            "pass met",
        ),
        "in the record": (
            lambda: ready(
                guard=guard(history=[]),
                audit=({**flip(NOW - 9), "target": "spec", "flag_key": "spec_on"},),
            ),
            "pass met",
        ),
        "in another's record": (
            lambda: ready(
                guard=guard(history=[]),
                audit=({**flip(NOW - 9), "target": "spec", "flag_key": "other"},),
            ),
            "not_measured not_exercised",
        ),
        "on the word": (lambda: ready(guard=guard(**flag(on_the_word=True))), "pass met"),
        "not read back": (
            lambda: ready(guard=guard(**flag(confirmed=None))),
            "not_measured not_confirmed",
        ),
        "read back otherwise": (
            lambda: ready(guard=guard(**flag(confirmed=False, last_error="403"))),
            "fail not_confirmed",
        ),
        "pending": (
            lambda: ready(guard=guard(**flag(pending_since=NOW - 9))),
            "fail not_confirmed",
        ),
        "exercised now": (
            lambda: ready(exercise=Exercise(source="s", at=NOW, done=True, told="off and on")),
            "pass met",
        ),
        "exercise failed": (
            lambda: ready(exercise=Exercise(source="s", at=NOW, done=False, told="403")),
            "fail not_confirmed",
        ),
    },
    "flag_obeyed": {
        "no guard": (lambda: ready(guard_config=None), "not_measured not_configured"),
        "nobody": (
            lambda: ready(guard_config=configured(obeyed_by=None, nobody_obeys="warned")),
            "fail nobody_obeys",
        ),
        "stated": (ready, "pass stated"),
        "by itself": (
            lambda: ready(guard_config=configured(obeyed_by=None, backend="haproxy")),
            "pass met",
        ),
    },
    "routing": {
        "not stated": (
            lambda: ready(stated=replace(STATED, routing=None)),
            "not_measured missing",
        ),
        "stated": (ready, "pass stated"),
    },
    "report": {
        "not stated": (
            lambda: ready(stated=replace(STATED, report_scheduled_by=None)),
            "not_measured missing",
        ),
        "stated": (ready, "pass stated"),
    },
    "rules": {
        "not asked": (lambda: ready(rules=None), "not_measured missing"),
        "no answer": (lambda: ready(rules=GONE), "not_measured unreachable"),
        "an error": (
            lambda: ready(rules=rules_answer(status="error")),
            "not_measured wrong_schema",
        ),
        "another server": (lambda: ready(rules=rules_answer(data=[])), "not_measured wrong_schema"),
        "none of ours": (
            lambda: ready(rules=rules_answer(rule("SomebodyElses", "warning"))),
            "fail not_loaded",
        ),
        "one missing": (
            lambda: ready(rules=rules_answer(rule("SpecgaugeTargetDown", "critical"))),
            "fail not_loaded",
        ),
        "another level": (
            lambda: ready(
                rules=rules_answer(
                    rule("SpecgaugeTargetDown", "warning"),
                    rule("SpecgaugeSpeculationCosts", "warning"),
                    rule(*WANTED.records),
                )
            ),
            "fail not_loaded",
        ),
        "sick": (lambda: ready(rules=_health("err")), "fail unhealthy"),
        "not evaluated": (lambda: ready(rules=_health("unknown")), "not_measured incomplete"),
    },
    "dashboards": {
        "not looked for": (lambda: ready(shown=None), "not_measured missing"),
        "no answer": (lambda: ready(shown=GONE), "not_measured unreachable"),
        "one missing": (
            lambda: ready(
                shown=Shown(source="m", hashes={**WANTED.dashboards, "specgauge-fleet": None})
            ),
            "fail not_loaded",
        ),
        "another": (
            lambda: ready(
                shown=Shown(source="m", hashes={**WANTED.dashboards, "specgauge-fleet": "x"})
            ),
            "fail differs",
        ),
    },
    "runbook": {
        "placeholder": (
            lambda: ready(wanted=replace(WANTED, runbook_url=WANTED.placeholder_url)),
            "fail placeholder",
        ),
        "set": (lambda: ready(rules=None), "pass stated"),
        "alerts lead elsewhere": (
            lambda: ready(wanted=replace(WANTED, runbook_url="https://other.example")),
            "fail differs",
        ),
        "alerts lead nowhere": (
            lambda: ready(
                rules=rules_answer(rule("SpecgaugeTargetDown", "critical", annotations={}))
            ),
            "fail differs",
        ),
    },
}


def _health(health: str) -> Answer:
    rules = [rule(name, level, health=health, lastError="") for name, level in WANTED.alerts]
    return rules_answer(*rules, *(rule(name) for name in WANTED.records))


@pytest.mark.parametrize(
    ("gate", "make", "expected"),
    [
        pytest.param(gate, *case, id=f"{gate}-{name}")
        for gate, cases in CASES.items()
        for name, case in cases.items()
    ],
)
def test_gate(gate: str, make: Callable[[], Case], expected: str) -> None:
    """Each gate ends as its evidence has it, and says what to do where it does not pass."""
    result = judged(gate, make())
    assert f"{result.status} {result.reason}" == expected
    assert result.says


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, "pass met", id="as expected"),
        pytest.param({"decode_concurrency": 13.0}, "not_measured low_sample", id="idle"),
        pytest.param({"decode_concurrency": 31.0}, "not_measured low_sample", id="busier"),
        pytest.param({"decode_concurrency": None}, "not_measured low_sample", id="no load"),
        pytest.param({"speedup": None}, "not_measured no_verdict", id="no verdict"),
        pytest.param({"speedup": 1.2, "speedup_high": 1.3}, "fail not_met", id="below"),
        pytest.param({"speedup_low": 1.2}, "not_measured no_verdict", id="interval over it"),
        pytest.param({"up": False}, "not_measured target_down", id="down"),
    ],
)
def test_live_speedup_at_the_expected_load(more: dict[str, Any], expected: str) -> None:
    """Without a comparison the sidecar's word counts, while the load is what is expected."""
    if more.get("speedup") == 1.2:
        more = {**more, "speedup_low": 1.1}
    case = ready(live=live(**more), compare=None, terms=Terms(expected_concurrency=20.0))
    assert told("speedup_expected", case) == expected


def test_live_speedup_is_not_taken_unasked() -> None:
    """Without an expected load nobody knows whether the load now is one."""
    assert told("speedup_expected", ready(compare=None)) == "not_measured missing"


def test_a_comparison_goes_before_the_live_speedup() -> None:
    """A comparison that is no evidence is not made good by a moment's figure."""
    case = replace(
        ready(compare=evidence(COMPARE, compare_document(created=timestamp(NOW - 15 * DAY)))),
        terms=Terms(expected_concurrency=20.0),
    )
    assert told("speedup_expected", case) == "not_measured stale"


@pytest.mark.parametrize(
    ("speculation", "expected"),
    [
        pytest.param(Speculation(method="ngram"), False, id="ngram"),
        pytest.param(Speculation(method="suffix"), False, id="suffix"),
        pytest.param(Speculation(method="eagle3"), True, id="a head"),
        pytest.param(Speculation(draft="d"), True, id="a draft"),
        pytest.param(Speculation(), None, id="unknown"),
    ],
)
def test_who_needs_a_draft(speculation: Speculation, expected: object) -> None:
    """N-gram and suffix propose from what is there already."""
    assert needs_draft(speculation) is expected


def test_numbers_are_shown() -> None:
    """A gate's sentence and its evidence carry the figures that were compared."""
    result = judged("p99", compare(compare_cell("idle", p99=estimate(0.8, 0.7, 0.9))))
    assert (
        result.says
        == "idle: 0.8x (0.7 to 0.9); wanted is P99 at most 1 times that without speculation"
    )
    (proof,) = result.proofs
    assert (proof.source, proof.model_name, proof.engine_version) == (
        "compare.json",
        "target",
        "0.25.1",
    )
    assert timestamp(proof.created or 0.0) == FRESH
    assert proof.numbers["e2e_p99_ratio"] == 0.8


def test_runbook_may_be_a_part_of_the_page() -> None:
    """Alerts lead to a heading below the runbook that is configured."""
    answer = rules_answer(
        rule("SpecgaugeTargetDown", "critical", annotations={"runbook_url": f"{RUNBOOK}#down"})
    )
    assert told("runbook", ready(rules=answer)) == "pass stated"
