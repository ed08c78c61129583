"""`specgauge doctor` answers what operators have reported, to the digit."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests import planted as p
from tests.baselines import document as baseline_document
from tests.baselines import level, vllm_page

from specgauge.cli.main import main
from specgauge.preflight.doctor.cost import residual
from specgauge.preflight.doctor.names import Server, Status
from specgauge.preflight.doctor.queries import judge_names, read_expressions

DATA = Path(__file__).parent / "data" / "doctor"
Capture = pytest.CaptureFixture[str]


def first(capsys: Capture, *arguments: object) -> Any:
    """Run the command; gives its first finding."""
    assert main(["doctor", "--json", *map(str, arguments)]) == 1
    return json.loads(capsys.readouterr().out)["findings"][0]


def test_only_the_first_position_is_any_good(capsys: Capture) -> None:
    """An average of 17 % is told as a chain that breaks, with what one token would yield."""
    found = first(capsys, DATA / "chain-collapse.prom", "--symptom", "slower")
    assert found["code"] == "chain_collapse"
    numbers = found["numbers"]
    assert numbers["acceptance_ratio"] == pytest.approx(0.1654)
    assert numbers["acceptance_length"] == pytest.approx(1.827)
    assert numbers["position_acceptance_ratio"] == [0.62, 0.155, 0.039, 0.01, 0.003]
    conditional = [round(one, 6) for one in numbers["position_conditional_acceptance_ratio"]]
    assert conditional == [0.62, 0.25, 0.251613, 0.25641, 0.3]
    assert numbers["length_at_one"] == pytest.approx(1.62)
    assert found["fix"].startswith("lower k to 1 or check the drafter's multi-step path")


def test_long_prompts_hide_in_the_average(capsys: Capture) -> None:
    """Per-request objects are pooled by tokens, averaged by request, and split by context."""
    found = first(capsys, "--requests", DATA / "requests-by-context.json", "--symptom", "prompts")
    assert found["code"] == "context_length"
    assert found["numbers"]["pooled"] == pytest.approx(0.605)
    assert found["numbers"]["mean_over_requests"] == pytest.approx(0.686)
    assert found["numbers"]["segments"] == pytest.approx([0.74, 0.2])


def test_the_draft_eats_the_kv_cache(capsys: Capture) -> None:
    """Capacity is compared in tokens, beside what waits and was preempted."""
    pages = (DATA / "kv-cache-before.prom", DATA / "kv-cache-after.prom")
    found = first(capsys, "--window", "60", *pages, "--symptom", "slower")
    assert found["code"] == "kv_capacity_shrunk"
    numbers = found["numbers"]
    assert (numbers["kv_capacity_before"], numbers["kv_capacity_after"]) == (432000, 304000)
    assert round(100 * numbers["kv_capacity_change_ratio"], 2) == -29.63
    assert (numbers["requests_waiting_rise"], numbers["preemptions"]) == (25, 40)


def test_blocks_that_are_not_known_have_no_value(tmp_path: Path, capsys: Capture) -> None:
    """Some releases write None for the number of blocks: nothing is compared then."""
    after = (DATA / "kv-cache-after.prom").read_bytes().replace(b'"19000"', b'"None"')
    before = (DATA / "kv-cache-before.prom").read_bytes()
    main(["doctor", "--json", *p.window(tmp_path, before, after)])
    codes = [one["code"] for one in json.loads(capsys.readouterr().out)["findings"]]
    assert "kv_capacity_shrunk" not in codes


def test_what_is_left_after_the_fallback(tmp_path: Path, capsys: Capture) -> None:
    """5.8 s after a fallback against 5.4 s without speculation is a residual of 7.41 %."""
    told = json.loads((DATA / "after-fallback.json").read_text())
    expected = [residual(told["baseline_ms"], now) for now in told["ticks_ms"]]
    assert [round(100 * one, 2) for one in expected] == [7.41] * 3
    plain = baseline_document(level(1.0, 0.0054), level(8.0, 0.0054))
    early, late = (
        vllm_page(tokens=tokens, firsts=tokens / 100, spent=0.0058 * 0.99 * tokens, drafts=9)
        for tokens in (1000, 9000)
    )
    path = p.written(tmp_path, "baseline.json", json.dumps(plain))
    found = first(capsys, *p.window(tmp_path, early, late, 20.0), "--baseline", path)
    assert found["code"] == "residual_without_drafts"
    assert round(100 * found["numbers"]["residual_ratio"], 2) == 7.41
    assert "pool that was started without speculation" in " ".join(found["fix"].split())


def test_adapters_hide_in_the_average(capsys: Capture) -> None:
    """The fleet's acceptance is right; no adapter gets a figure of its own."""
    found = first(capsys, DATA / "adapters.prom", "--symptom", "prompts")
    assert found["code"] == "adapters"
    assert found["numbers"] == {
        "acceptance_ratio": pytest.approx(0.72),
        "acceptance_length": pytest.approx(3.16),
        "adapters": 2,
    }


def test_adapters_alone_are_no_alarm(capsys: Capture) -> None:
    """A page with adapters and a good acceptance has nothing wrong with it."""
    assert main(["doctor", str(DATA / "adapters.prom")]) == 0
    assert "Nothing found." in capsys.readouterr().out


def test_names_of_old_guides() -> None:
    """Each name of a copied rule file is told for what it is."""
    text = (DATA / "old-guide-rules.yaml").read_text()
    told = judge_names(read_expressions(text), "rules", Server())
    assert {(one.place, one.status) for one in told} == {
        ("A", Status.V0_ONLY),
        ("B", Status.UNKNOWN),
        ("C", Status.UNKNOWN),
        ("D", Status.OK),
        ("E", Status.RENAMED),
    }
    instead = {one.place: one.instead for one in told}
    assert instead["E"] == "vllm:kv_cache_usage_perc"
    assert "num_accepted_tokens_per_pos_total" in instead["B"]
    assert instead["C"].startswith("1 + rate(vllm:spec_decode_num_accepted_tokens_total")
    assert instead["D"] == ""
