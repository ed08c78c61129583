"""The checklist reads the documents of other commands as those write them today."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.checklists import DAY, NOW, STATED, judged, live, ready
from tests.drafts import LLAMA, TEMPLATE, bpe, count, dense, write
from tests.memory_folders import HEAD, make_folder
from tests.memory_folders import LLAMA as SERVED
from tests.recorded import PAGES, load_page, load_truth

from specgauge import __version__
from specgauge.cli.main import main
from specgauge.derive.statistics import Estimate
from specgauge.preflight.checklist.case import Case
from specgauge.preflight.checklist.evidence import (
    COMPARE,
    DRAFT,
    MEMORY,
    SWEEP,
    Evidence,
    Kind,
    read_evidence,
)
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
            speculative=Figures(requests=400, server={"num_speculative_tokens": 4.0}),
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


Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *args: object) -> dict[str, Any]:
    """Run a command and give the document that it prints, which says when it was made."""
    main([*map(str, args), "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["created_by"] == f"specgauge {__version__}"
    assert datetime.fromisoformat(document["created"]).tzinfo is not None
    return document


def case(
    kind: Kind, document: dict[str, Any], *, models: Sequence[object] = (), **runs: Any
) -> Case:
    """Give a case a minute after a document was made, of a server of `models` that runs `runs`."""
    found = read(kind, document)
    assert found.created is not None
    now = found.created + 60.0
    config = {"method": runs.get("method"), "model": runs.pop("draft", None)}
    stated = replace(STATED, models=tuple(map(str, models)), speculative_config=config)
    given: dict[str, Any] = {kind.name: found}
    return ready(now=now, live=live(at=now - 1.0, **runs), stated=stated, **given)


@pytest.mark.parametrize(
    ("rows", "ended"),
    [
        pytest.param(0, (Status.PASS, Reason.MET), id="fits"),
        pytest.param(64, (Status.FAIL, Reason.REJECTED), id="other rows"),
    ],
)
def test_draft_check(
    tmp_path: Path, capsys: Capture, rows: int, ended: tuple[Status, Reason]
) -> None:
    """What `draft check` prints of folders makes the gate pass or fail."""
    tokenizer = bpe()
    target = {**LLAMA, "vocab_size": count(tokenizer)}
    small = {**target, "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 88}
    small["vocab_size"] += rows
    folders = [
        write(
            tmp_path / name,
            config,
            tokenizer=tokenizer,
            tokenizer_config={"eos_token": "<|endoftext|>"},
            template=TEMPLATE,
            tensors=dense(config),
        )
        for name, config in (("target", target), ("draft", small))
    ]
    document = printed(capsys, "draft", "check", *folders, "--release", "0.25.1")
    runs = {"method": "draft_model", "draft": str(folders[1])}
    result = judged("draft", case(DRAFT, document, models=folders[:1], **runs))
    assert (result.status, result.reason) == ended, result.says
    elsewhere = case(DRAFT, document, models=folders[:1], **{**runs, "draft": "/models/other"})
    assert judged("draft", elsewhere).reason is Reason.OTHER_SPECULATION


@pytest.mark.parametrize(
    ("share", "ended"),
    [
        pytest.param("0.9", (Status.PASS, Reason.MET), id="room"),
        pytest.param("0.97", (Status.FAIL, Reason.NOT_MET), id="full"),
        pytest.param("0.01", (Status.FAIL, Reason.REJECTED), id="does not fit"),
    ],
)
def test_memory_plan(
    tmp_path: Path, capsys: Capture, share: str, ended: tuple[Status, Reason]
) -> None:
    """What `memory` reckons of folders makes the gate pass or fail."""
    target = make_folder(tmp_path / "target", SERVED)
    draft = make_folder(tmp_path / "eagle", HEAD)
    what = ("--target", target, "--draft", draft, "--method", "eagle", "--gpu", "H200")
    asked = ("--utilization", share, "--num-speculative-tokens", "4")
    document = printed(capsys, "memory", *what, *asked)
    runs = {"method": "eagle", "draft": str(draft)}
    result = judged("memory", case(MEMORY, document, models=[target], **runs))
    assert (result.status, result.reason) == ended, result.says
    other = judged("memory", case(MEMORY, document, models=[target], **runs, k=3))
    assert other.reason is Reason.OTHER_SPECULATION


def test_memory_of_two_servers(capsys: Capture) -> None:
    """What `memory` measures says which k the second server has, and the first has none."""
    pages = [PAGES / "vllm" / f"0.32.0-{mode}" / "after.prom" for mode in ("none", "draft")]
    document = printed(capsys, "memory", "--before", pages[0], "--after", pages[1])
    assert document["before"]["absent"]["num_speculative_tokens"] == "not_exposed_by_engine"
    runs = {"model_name": "tiny", "version": "0.32.0"}
    result = judged("memory", case(MEMORY, document, **runs, k=3))
    assert (result.status, result.reason) == (Status.PASS, Reason.MET), result.says
    result = judged("memory", case(MEMORY, document, **runs, k=4))
    assert result.reason is Reason.OTHER_SPECULATION


@pytest.mark.parametrize(
    ("mode", "levels", "ended"),
    [
        pytest.param("eagle", (1, 8, 32), (Status.PASS, Reason.MET), id="pays"),
        pytest.param("eagle", (8, 128), (Status.FAIL, Reason.REJECTED), id="costs in a burst"),
        pytest.param("draft", (1, 8), (Status.FAIL, Reason.REJECTED), id="costs"),
    ],
)
def test_comparison_of_recorded_pages(
    tmp_path: Path,
    capsys: Capture,
    mode: str,
    levels: Sequence[int],
    ended: tuple[Status, Reason],
) -> None:
    """What `compare` says of real servers is of the k on their pages; the release it must be told.

    Pages tell none, a live server does.
    """
    flags: list[object] = ["--concurrency", ",".join(map(str, levels))]
    for pool, recorded in (("baseline", "none"), ("speculative", mode)):
        truth = load_truth(f"h200/{recorded}")["levels"]
        for level in levels:
            flags.append(f"--{pool}-page")
            for end in ("before", "after"):
                name = f"{recorded}/c{level}-{end}.prom"
                flags.append(tmp_path / name.replace("/", "-"))
                Path(str(flags[-1])).write_bytes(load_page(f"h200/{name}"))
            flags.append(truth[str(level)]["wall_s"])
    document = printed(capsys, "compare", *flags)
    assert judged("comparison", case(COMPARE, document)).reason is Reason.UNATTRIBUTED
    document["facts"]["speculative"]["engine.version"] = "0.25.1"
    result = judged("comparison", case(COMPARE, document))
    assert (result.status, result.reason) == ended, result.says
    other = judged("comparison", case(COMPARE, document, k=3))
    assert other.reason is Reason.OTHER_SPECULATION
