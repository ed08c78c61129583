"""Hints at a smaller k from the acceptance of a server that runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.stub_engine import Histogram
from tests.sweep_server import DraftingEngine
from tests.swept import derived

from specgauge.cli.main import main
from specgauge.model.derived import Value
from specgauge.preflight.sweep.predict import Costs, document, hint


def told(survival: tuple[float, ...], **more: Value) -> Any:
    return derived({"position_acceptance_ratio": survival, **more})


@pytest.mark.parametrize(
    ("survival", "cost", "suggested"),
    [
        pytest.param((0.8, 0.6, 0.1, 0.05), 0.15, 2, id="the-last-are-not-worth-it"),
        pytest.param((0.9, 0.8, 0.75, 0.7), 0.05, 4, id="all-are"),
        pytest.param((0.1, 0.0, 0.0, 0.0), 0.3, 0, id="none-is"),
    ],
)
def test_a_smaller_k(survival: tuple[float, ...], cost: float, suggested: int) -> None:
    """The k whose tokens over cost are greatest; 0 where no draft pays."""
    found = hint(told(survival), Costs(token_cost=cost), k_max=None, method="ngram")
    assert (found.k, found.suggested) == (4, suggested)
    assert found.step_cost_ratio == pytest.approx(1.0 + 4 * cost)
    best = max(found.rows, key=lambda row: row.speedup)
    assert suggested in {0, best.k}
    assert found.assumptions == (
        "step_cost_grows_evenly",
        "same_load_and_prompts",
        "token_cost_assumed",
    )


def test_a_measured_cost_and_a_longer_draft() -> None:
    """A baseline tells what a step costs; beyond the k that runs everything goes on as it ended."""
    costs = Costs(measured={"m": 1.4})
    found = hint(told((0.8, 0.4), draft_coverage_ratio=0.5), costs, k_max=4, method=None)
    assert [row.survival for row in found.rows] == pytest.approx([0.8, 0.4, 0.2, 0.1])
    assert [row.extrapolated for row in found.rows] == [False, False, True, True]
    assert found.rows[1].tokens_per_step == pytest.approx(1.6)
    assert found.rows[3].step_cost == pytest.approx(1.8)
    assert found.assumptions == (
        "chain_drafter",
        "step_cost_grows_evenly",
        "same_load_and_prompts",
        "last_conditional_acceptance_goes_on",
    )
    zero = hint(told((0.0, 0.0)), costs, k_max=3, method=None)
    assert [row.survival for row in zero.rows] == [0.0, 0.0, 0.0]
    single = hint(told((0.5,)), Costs(measured={"m": 0.2}), k_max=3, method=None)
    assert [row.survival for row in single.rows] == [0.5, 0.25, 0.125]
    assert single.rows[2].step_cost > 0.0


def test_an_assumed_cost_is_that_of_steps_with_a_draft() -> None:
    """Where a quarter of the steps have a draft, a quarter of them pay for it."""
    survival = told((0.7, 0.5), draft_coverage_ratio=0.25)
    found = hint(survival, Costs(token_cost=0.2), k_max=None, method="ngram")
    assert [row.step_cost for row in found.rows] == pytest.approx([1.05, 1.1])
    assert found.suggested == 2


def test_no_hint() -> None:
    """A block drafter's shorter draft is another one; without drafts there is nothing to go by."""
    block = hint(told((0.8,)), Costs(), k_max=None, method="dflash")
    bare = hint(
        derived({}, {"position_acceptance_ratio": "no_drafts"}), Costs(), k_max=None, method=None
    )
    assert (block.absent, bare.absent) == ("not_a_chain", "no_survival: no_drafts")
    assert document([bare], seconds=None)["models"][0] == {
        "model_name": "m",
        "assumptions": [],
        "warnings": [],
        "absent": {"suggested_num_speculative_tokens": "no_survival: no_drafts"},
    }


BASELINE = {
    "schema": "specgauge.baseline/v1",
    "created": "2031-05-06T07:08:09Z",
    "method": "closed_loop",
    "model": {"name": "stub"},
    "levels": [{"decode_concurrency": 1.0, "server": {"tpot_seconds": 0.006}}],
}


@pytest.fixture
def pages(tmp_path: Path) -> list[str]:
    """Write two pages ten seconds apart, in which one request after another drafted four."""
    engine = DraftingEngine(k=4)
    names = [str(tmp_path / "before.prom"), str(tmp_path / "after.prom")]
    Path(names[0]).write_text(engine.page())
    engine.made = 1000
    engine.step = Histogram(count=1000, total=9.6)
    engine.ttft = Histogram(count=20, total=1.0)
    engine.generated = 1020 + sum(engine.accepted(one) for one in range(1000))
    Path(names[1]).write_text(engine.page())
    return names


def test_the_command(pages: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Two pages give a table, the hint and what it takes for granted."""
    assert main(["sweep", "predict", *pages, "--token-cost", "0.15", "--k-max", "6"]) == 0
    text = capsys.readouterr().out
    assert "try k = 2 (it runs with 4, a step costs 1.60)" in text
    assert "the cost of a drafted token is assumed" in text
    assert "~" in text
    assert main(["sweep", "predict", *pages, "--token-cost", "2"]) == 1
    assert "no draft pays at this cost" in capsys.readouterr().out
    assert main(["sweep", "predict", *pages, "--token-cost", "0"]) == 0
    assert "k is right as it is" in capsys.readouterr().out


def test_the_command_with_a_baseline(
    pages: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cost of a step is measured against the baseline, at the load that there is."""
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps(BASELINE))
    assert main(["sweep", "predict", *pages, "--baseline", str(file), "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["step_cost_ratio"] == pytest.approx(1.6)
    assert model["suggested_num_speculative_tokens"] == 2
    assert "token_cost_assumed" not in model["assumptions"]
    file.write_text(json.dumps(BASELINE | {"model": {"name": "other"}}))
    assert main(["sweep", "predict", *pages, "--baseline", str(file)]) == 0
    told_of = capsys.readouterr()
    assert "stub: the baseline tells no step cost: model.name" in told_of.err
    assert "is assumed" in told_of.out


def test_pages_without_drafts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without drafts there is no hint, and that is exit code 4."""
    page = tmp_path / "page.prom"
    page.write_text(DraftingEngine().page())
    assert main(["sweep", "predict", str(page), str(page)]) == 4
    assert "no hint: no_survival" in capsys.readouterr().out
    page.write_text('# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{a="b"} 1.0\n')
    assert main(["sweep", "predict", str(page), str(page)]) == 4
    assert "served nothing yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param([], 2, "give --url URL, or two pages", id="nothing"),
        pytest.param(["a", "b", "--url", "http://h"], 2, "give --url URL, or two", id="both"),
        pytest.param(["a"], 2, "give two pages", id="one-page"),
        pytest.param(["--url", "h:8000"], 2, "write http://HOST:PORT", id="no-scheme"),
        pytest.param(["--url", "http://127.0.0.1:9"], 3, "unreachable", id="nobody-there"),
        pytest.param(["not-there", "b"], 3, "not-there: ", id="no-file"),
    ],
)
def test_what_cannot_be_read(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and the exit code of its kind."""
    assert main(["sweep", "predict", *words]) == code
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1
