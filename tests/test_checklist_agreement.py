"""The checklist reads the documents of other commands as those write them today."""

import json
from datetime import UTC, datetime
from typing import Any

from tests.checklists import DAY, NOW, judged, live, ready

from specgauge.derive.statistics import Estimate
from specgauge.preflight.checklist.evidence import COMPARE, SWEEP, Evidence, Kind, read_evidence
from specgauge.preflight.checklist.result import Reason, Status
from specgauge.preflight.compare.bouts import CellKey, LoadLevel, Role
from specgauge.preflight.compare.cells import Cell, Figures
from specgauge.preflight.compare.decide import decide
from specgauge.preflight.compare.document import Report
from specgauge.preflight.compare.document import document as compare_document
from specgauge.preflight.compare.gates import Terms
from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.document import described
from specgauge.preflight.sweep.document import document as sweep_document
from specgauge.preflight.sweep.result import conclude
from specgauge.preflight.sweep.schema import Repeat, Run, Server, State

CREATED = datetime.fromtimestamp(NOW - DAY, tz=UTC)
CONFIG = {"method": "eagle3", "model": "/models/head", "num_speculative_tokens": 4}


def read(kind: Kind, document: dict[str, Any]) -> Evidence:
    """Read a document that has gone through a file."""
    found = read_evidence(kind, json.dumps(document).encode(), "e.json")
    assert isinstance(found, Evidence)
    return found


def swept(*, complete: bool = True) -> Evidence:
    """Sweep over no speculation and k = 4, which takes half the time."""
    candidates = (
        Candidate(name="eagle3-k4", k=4, method="eagle3", draft="/models/head", config=CONFIG),
        Candidate(name="none"),
    )
    repeats = tuple(Repeat(decode_seconds=one, decode_tokens=1000.0) for one in (1.0, 1.01, 0.99))
    runs = [
        Run(
            candidate=one.name,
            concurrency=8,
            round=1,
            repeats=repeats
            if one.k
            else tuple(
                Repeat(decode_seconds=2 * each.decode_seconds, decode_tokens=1000.0)
                for each in repeats
            ),
        )
        for one in candidates
    ]
    server = Server(engine_version="0.25.1", model_name="target")
    states = [State(name=one.name, status="measured", server=server) for one in candidates]
    document = sweep_document(
        conclude(candidates, runs, states, ()),
        states=states,
        runs=runs,
        settings={"candidates": [described(one) for one in candidates], "model": "target"},
        created=CREATED,
        complete=complete,
    )
    return read(SWEEP, document)


def test_sweep() -> None:
    """A finished sweep that recommends what runs passes; one that goes on is no evidence yet."""
    result = judged("k_chosen", ready(sweep=swept()))
    assert (result.status, result.reason) == (Status.PASS, Reason.MET)
    assert result.proofs[0].numbers["repeats"] == 3
    assert judged("k_chosen", ready(sweep=swept(complete=False))).reason is Reason.INCOMPLETE
    assert judged("k_chosen", ready(sweep=swept(), live=live(k=3))).reason is Reason.OTHER_K


def compared(*loads: tuple[Role, float], partial: bool = False) -> Evidence:
    """Compare pools at some loads, with a speedup each."""
    cells = [
        Cell(
            key=CellKey(load=LoadLevel(name=str(role), role=role, concurrency=10.0 * (n + 1))),
            repeats=3,
            pairs=400,
            baseline=Figures(requests=400),
            speculative=Figures(requests=400, server={"draft_length": 4.0}),
            ratios={
                name: Estimate(value=speedup, low=0.97 * speedup, high=1.03 * speedup)
                for name in ("tpot_mean", "e2e_mean", "e2e_p95", "e2e_p99")
            },
        )
        for n, (role, speedup) in enumerate(loads)
    ]
    report = Report(
        outcome=decide(cells, Terms()),
        terms=Terms(),
        created=CREATED.isoformat(),
        created_by="specgauge",
        facts={"speculative": {"model.name": "target", "engine.version": "0.25.1"}},
        partial=partial,
    )
    return read(COMPARE, compare_document(report))


def test_comparison_that_promotes() -> None:
    """Where every cell pays, every gate that goes by it passes."""
    found = compared((Role.IDLE, 1.9), (Role.STEADY, 1.8), (Role.BURST, 1.1))
    for gate in ("comparison", "speedup_expected", "speedup_burst", "p99"):
        result = judged(gate, ready(compare=found))
        assert (gate, result.status) == (gate, Status.PASS), result.says


def test_comparison_that_loses_in_a_burst() -> None:
    """A loss in a burst fails the decision, the burst and the P99, and not the steady load."""
    found = compared((Role.IDLE, 1.9), (Role.STEADY, 1.8), (Role.BURST, 0.8))
    ended = {
        gate: judged(gate, ready(compare=found)).status
        for gate in ("comparison", "speedup_expected", "speedup_burst", "p99")
    }
    assert [gate for gate, one in ended.items() if one is not Status.FAIL] == ["speedup_expected"]


def test_comparison_that_was_ended() -> None:
    """A partial comparison is no evidence."""
    found = compared((Role.STEADY, 1.8), partial=True)
    assert judged("speedup_expected", ready(compare=found)).reason is Reason.INCOMPLETE
