"""Advice: what speaks for and against speculation, what to try first, and the command around it."""

import json
from asyncio import to_thread
from pathlib import Path
from typing import Any

import pytest
from tests.memory_folders import LLAMA, SMALL, make_folder
from tests.recorded import load_page, load_truth
from tests.servers import answer, serving
from tests.small_pages import v1_page

from specgauge.cli.main import main
from specgauge.derive.interpolate import curve
from specgauge.model.baseline import Level
from specgauge.preflight.advise.expect import expect
from specgauge.preflight.advise.finding import Advice, Code, FirstMethod, Weight
from specgauge.preflight.advise.judge import Answer, judge
from specgauge.preflight.advise.lookup import Lookup, replay
from specgauge.preflight.advise.observed import Limits, Observed
from specgauge.preflight.advise.pieces import STATED
from specgauge.serve.demo.recording import recorded_baseline

Capture = pytest.CaptureFixture[str]
TINY = Path(__file__).parent / "vllm" / "models" / "target"
FOUR = ("--num-speculative-tokens", "4")
GOOD = {
    "model_name": "m",
    "seconds": 30.0,
    "requests": 100.0,
    "decode_concurrency": 4.0,
    "requests_waiting": 0.0,
    "preemptions": 0.0,
    "kv_use": 0.2,
    "output_tokens": 200.0,
    "temperature": 0.0,
    "version": "0.32.0",
}
WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]
COPYING = replay(WORDS, WORDS * 100, Lookup())


def advised(**change: Any) -> Answer:
    """Judge a good candidate with something changed."""
    more = {name: change.pop(name) for name in ("tally", "expected") if name in change}
    observed = Observed(**{**GOOD, **change})
    return judge(observed, draft_tokens=3, limits=Limits(), **more)


def test_a_good_candidate() -> None:
    """Few requests, long answers, an empty cache and no heat: nothing speaks against it."""
    found = advised()
    assert found.advice is Advice.CANDIDATE
    assert [one.code for one in found.reasons if one.weight is Weight.FOR] == [
        *(Code.ROOM_IN_LOAD, Code.KV_HEADROOM, Code.LONG_OUTPUTS, Code.LOW_TEMPERATURE)
    ]
    assert found.reasons[0].code is Code.PROMPTS_NOT_GIVEN


@pytest.mark.parametrize(
    ("change", "code", "advice"),
    [
        pytest.param({"requests_waiting": 3.0}, Code.SATURATED, Advice.POOR, id="queue"),
        pytest.param({"preemptions": 2.0}, Code.SATURATED, Advice.POOR, id="preempted"),
        pytest.param({"decode_concurrency": 65.0}, Code.MANY_REQUESTS, Advice.POOR, id="busy"),
        pytest.param({"kv_use": 0.95}, Code.TIGHT_KV, Advice.POOR, id="full cache"),
        pytest.param({"kv_use": 0.8, "kv_change": -0.2}, Code.TIGHT_KV, Advice.POOR, id="draft"),
        pytest.param({"output_tokens": 31.0}, Code.SHORT_OUTPUTS, Advice.POOR, id="short"),
        pytest.param({"temperature": 1.1}, Code.HIGH_TEMPERATURE, Advice.POOR, id="hot"),
        pytest.param({"temperature": 0.8}, Code.HIGH_TEMPERATURE, Advice.CANDIDATE, id="warm"),
        pytest.param(
            {"temperature": None}, Code.TEMPERATURE_NOT_GIVEN, Advice.CANDIDATE, id="no heat told"
        ),
        pytest.param({"version": None}, Code.UNPINNED_VERSION, Advice.CANDIDATE, id="no release"),
        pytest.param(
            {"version": "0.33.1.dev7+g1a2b3c"},
            Code.UNPINNED_VERSION,
            Advice.CANDIDATE,
            id="between",
        ),
        pytest.param({"requests": 5.0}, Code.FEW_REQUESTS, Advice.CANDIDATE, id="few"),
        pytest.param(
            {"decode_concurrency": None},
            Code.LOAD_NOT_MEASURED,
            Advice.NOT_MEASURED,
            id="load unknown",
        ),
        pytest.param(
            {"kv_use": None}, Code.KV_NOT_MEASURED, Advice.NOT_MEASURED, id="cache unknown"
        ),
        pytest.param(
            {"kv_change": -1.0}, Code.KV_NOT_MEASURED, Advice.NOT_MEASURED, id="no cache is left"
        ),
        pytest.param(
            {"output_tokens": None}, Code.OUTPUTS_NOT_MEASURED, Advice.NOT_MEASURED, id="no answers"
        ),
        pytest.param(
            {"speculation": "active", "kv_use": 0.99},
            Code.ALREADY_SPECULATING,
            Advice.NOT_MEASURED,
            id="already",
        ),
    ],
)
def test_what_speaks_against_it(change: dict[str, Any], code: Code, advice: Advice) -> None:
    """One figure that is bad makes a poor candidate; one that is missing, none at all."""
    found = advised(**change)
    assert found.advice is advice
    assert code in {one.code for one in found.reasons}


def test_gauges_of_a_whole_life_are_no_queue() -> None:
    """Preemptions since the engine started say nothing about now."""
    assert advised(seconds=None, preemptions=9.0).advice is Advice.CANDIDATE
    assert advised(kv_use=0.85).advice is Advice.CANDIDATE
    assert advised(output_tokens=40.0).advice is Advice.CANDIDATE


LEVELS = curve(
    [Level(decode_concurrency=c, tpot=t) for c, t in ((1, 0.004), (10, 0.005), (20, 0.01))]
)


@pytest.mark.parametrize(
    ("load", "cost", "extrapolated"),
    [
        pytest.param(1.0, (0.004 + 0.001 * 4 / 9) / 0.004, False, id="within"),
        pytest.param(0.05, (0.004 + 0.001 * 4 / 9) / 0.004, False, id="mostly idle"),
        pytest.param(4.0, 0.01 / (0.004 + 0.001 * 3 / 9), False, id="to the top"),
        pytest.param(20.0, 0.05 / 0.01, True, id="along the last line"),
    ],
)
def test_what_checking_costs(load: float, cost: float, extrapolated: bool) -> None:
    """A step's price is that of a step with as many requests as it has tokens."""
    found = expect(LEVELS, load, 4, None)
    assert found is not None
    assert found.verification_cost == pytest.approx(cost)
    assert found.breakeven_acceptance == pytest.approx((cost - 1) / 4)
    assert found.extrapolated is extrapolated
    assert found.ngram_speedup is None


def test_a_baseline_of_one_level_or_that_falls() -> None:
    """One level has no line, so it tells no price; a last line that falls is held."""
    one = curve([Level(decode_concurrency=2, tpot=0.005)])
    assert expect(one, 2.0, 4, None) is None
    falls = curve([Level(decode_concurrency=c, tpot=t) for c, t in ((1, 0.006), (2, 0.005))])
    found = expect(falls, 2.0, 4, None)
    assert found is not None
    assert found.breakeven_acceptance == 0.0


def test_a_load_that_is_mostly_idle() -> None:
    """A mean below one request is that of idle time: a step has a request in it."""
    reasons = advised(decode_concurrency=0.08).reasons
    (room,) = [one for one in reasons if one.code is Code.ROOM_IN_LOAD]
    assert room.numbers["step_tokens"] == 4.0


def test_ngram_first_where_answers_repeat() -> None:
    """Copied answers call for n-gram, unless checking its drafts costs more than it gains."""
    assert COPYING.tokens_per_step == pytest.approx(4.8, abs=0.3)
    found = advised(tally=COPYING)
    assert found.first_method is FirstMethod.NGRAM
    priced = expect(LEVELS, 1.0, 4, COPYING)
    assert priced is not None
    assert priced.ngram_speedup == pytest.approx(4.3, abs=0.3)
    assert advised(tally=COPYING, expected=priced).first_method is FirstMethod.NGRAM
    dear = expect(LEVELS, 20.0, 4, COPYING)
    found = advised(tally=COPYING, expected=dear, decode_concurrency=20.0)
    assert found.first_method is FirstMethod.MODEL
    assert {Code.VERIFICATION_TOO_DEAR, Code.OUTSIDE_BASELINE} <= {
        one.code for one in found.reasons
    }


def test_a_draft_first_where_nothing_repeats() -> None:
    """Answers without repetition call for a draft; a few of them for more answers."""
    found = advised(tally=replay([1, 2, 3], list(range(10, 90)), Lookup()))
    assert found.first_method is FirstMethod.MODEL
    codes = {one.code for one in found.reasons}
    assert {Code.NGRAM_SELDOM_MATCHES, Code.FEW_ANSWERS} <= codes
    assert advised(tally=replay([1], [2], Lookup())).first_method is None


@pytest.mark.parametrize(
    ("level", "advice"),
    [(1, Advice.CANDIDATE), (8, Advice.CANDIDATE), (32, Advice.CANDIDATE), (128, Advice.POOR)],
)
def test_the_loads_of_an_h200(tmp_path: Path, capsys: Capture, level: int, advice: Advice) -> None:
    """Recorded loads at which a head paid are candidates, and the one at which it cost is not."""
    (tmp_path / "baseline.json").write_text(recorded_baseline_text())
    for name in ("before", "after"):
        (tmp_path / name).write_bytes(load_page(f"h200/none/c{level}-{name}.prom"))
    seconds = load_truth("h200/none")["levels"][str(level)]["wall_s"]
    flags = ["--baseline", str(tmp_path / "baseline.json"), "--window", str(seconds), *FOUR]
    flags += ["--temperature", "0", str(tmp_path / "before"), str(tmp_path / "after")]
    code = main(["advise", "--json", *flags])
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["schema"] == "specgauge.advise/v1"
    assert document["models"][0]["advice"] == advice
    assert code == (0 if advice is Advice.CANDIDATE else 1)
    faster = load_truth("h200/none")["levels"][str(level)]["tpot_mean"]
    faster /= load_truth("h200/eagle")["levels"][str(level)]["tpot_mean"]
    assert (faster > 1.05) is (advice is Advice.CANDIDATE)


def recorded_baseline_text() -> str:
    """Write the recorded baseline as a file."""
    from specgauge.baseline.schema import dump  # noqa: PLC0415 - of this helper alone

    return dump(recorded_baseline())


async def test_a_server(capsys: Capture) -> None:
    """A URL is scraped twice, and its release is asked for."""
    first, last = (
        b"\n".join(
            line
            for line in v1_page(steps, speculative=False).split(b"\n")
            if b"preemptions" not in line
        )
        for steps in (25, 5025)
    )
    async with serving(answer(first)) as server:
        server.script(answer(first), answer(last), answer(b'{"version": "0.32.0"}'))
        flags = ("--url", server.url.removeprefix("http://"), "--window", "0.05", "--json")
        code = await to_thread(main, ["advise", *flags, "--concurrency", "4"])
    document = json.loads(capsys.readouterr().out)
    (model,) = document["models"]
    assert model["decode_concurrency"] == 4.0
    assert model["output_tokens_per_request"] == pytest.approx(75, abs=2)
    assert model["requests"] == pytest.approx(200, abs=1)
    assert (code, model["advice"]) == (0, "candidate")


def test_a_server_that_speculates(tmp_path: Path, capsys: Capture) -> None:
    """It is told to ask for a verdict, and nothing is advised."""
    for name, steps in (("a", 25), ("b", 2500)):
        (tmp_path / name).write_bytes(v1_page(steps))
    flags = ("--window", "30", str(tmp_path / "a"), str(tmp_path / "b"))
    assert main(["advise", *flags]) == 4
    shown = capsys.readouterr().out
    assert "not measured well enough" in shown
    assert "specgauge verdict --baseline" in shown


def test_a_server_that_has_served_nothing(tmp_path: Path, capsys: Capture) -> None:
    """A page with a configuration alone tells nothing of a load."""
    (tmp_path / "a").write_text('vllm:cache_config_info{block_size="16",num_gpu_blocks="9"} 1\n')
    assert main(["advise", str(tmp_path / "a")]) == 4
    assert capsys.readouterr().out.startswith("this server: not measured")


def test_a_baseline_alone(tmp_path: Path, capsys: Capture) -> None:
    """With the expected load a baseline is enough; a draft's part of the cache is counted in."""
    (tmp_path / "b.json").write_text(recorded_baseline_text())
    target = make_folder(tmp_path / "target", LLAMA)
    draft = make_folder(tmp_path / "draft", SMALL)
    flags = ("--baseline", str(tmp_path / "b.json"), "--concurrency", "8")
    memory = ("--target", str(target), "--draft", str(draft), "--gpu", "H200")
    assert main(["advise", "--json", *flags, *memory]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["temperature"] == 0.0
    assert model["engine_version"] == "0.25.1"
    assert model["kv_cache_change_ratio"] == pytest.approx(-0.06, abs=0.01)
    assert model["expected"]["verification_cost_ratio"] == pytest.approx(1.24, abs=0.05)
    assert main(["advise", "--json", *flags, "--temperature", "1.5"]) == 1
    capsys.readouterr()


@pytest.mark.parametrize("tokenizer", [(), ("--tokenizer", str(TINY))], ids=["pieces", "own"])
def test_recorded_answers(tmp_path: Path, capsys: Capture, tokenizer: tuple[str, ...]) -> None:
    """Answers that copy their prompts make n-gram the method to try first."""
    text = "def area(width, height):\n    return width * height\n\n" * 3
    line = json.dumps({"prompt": f"Repeat this:\n{text}", "output": text})
    (tmp_path / "p.jsonl").write_text(f"{line}\n" * 20)
    (tmp_path / "b.json").write_text(recorded_baseline_text())
    flags = ["--baseline", str(tmp_path / "b.json"), "--concurrency", "4", *FOUR]
    flags += ["--prompts", str(tmp_path / "p.jsonl"), *tokenizer]
    assert main(["advise", *flags]) == 0
    shown = capsys.readouterr().out
    assert "try first: n-gram" in shown
    assert '{"method":"ngram","num_speculative_tokens":4' in shown
    assert "replayed 20 answers" in shown
    main(["advise", "--json", *flags])
    document = json.loads(capsys.readouterr().out)
    (model,) = document["models"]
    assert model["ngram"]["tokens_per_step"] > 3.0
    assert model["expected"]["ngram_speedup_ratio"] > 2.5
    assert document["lookup"]["tokenizer"] == (*tokenizer[1:], STATED)[0]


def test_recorded_tokens(tmp_path: Path, capsys: Capture) -> None:
    """Tokens that an engine returned are replayed as they are."""
    line = json.dumps({"prompt_token_ids": [1, 2, 3, 4, 5], "token_ids": [1, 2, 3, 4, 5] * 20})
    (tmp_path / "p.jsonl").write_text(line)
    (tmp_path / "b.json").write_text(recorded_baseline_text())
    flags = ["--baseline", str(tmp_path / "b.json"), "--concurrency", "4"]
    main(["advise", "--json", *flags, "--prompts", str(tmp_path / "p.jsonl")])
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["ngram"]["output_tokens"] == 100
    assert model["ngram"]["acceptance_ratio"] == 1.0


def test_answers_without_a_draft(tmp_path: Path, capsys: Capture) -> None:
    """What a replay cannot tell is absent with its reason, and a draft is named to try first."""
    (tmp_path / "p.jsonl").write_text('{"prompt": "p", "output": "one two three"}')
    (tmp_path / "b.json").write_text(recorded_baseline_text())
    flags = ["--baseline", str(tmp_path / "b.json"), "--concurrency", "4"]
    flags += ["--prompts", str(tmp_path / "p.jsonl")]
    main(["advise", "--json", *flags])
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["ngram"]["absent"] == {
        "acceptance_ratio": "no_drafts",
        "acceptance_length": "no_drafts",
    }
    main(["advise", *flags])
    assert "try first: a draft model or a head" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        ((), 2, "give --url, one page"),
        (("--url", "u", "page"), 2, "not both"),
        (("http://u",), 2, "with --url"),
        (("a", "b"), 2, "go together"),
        (("a", "--window", "3"), 2, "go together"),
        (("a", "b", "c"), 2, "give one page"),
        (("-", "-", "--window", "3"), 2, "give one page"),
        (("a", "--lookup-min", "4", "--lookup-max", "3"), 2, "is above"),
        (("a", "--tokenizer", "t"), 2, "of which there are none"),
        (("/no/such",), 3, "/no/such"),
        (("--baseline", "B"), 2, "--concurrency N"),
        (("--baseline", "/no/such"), 3, "/no/such"),
        (("a", "--prompts", "/no/such"), 2, "/no/such"),
        (("a", "--prompts", "BAD"), 2, "not UTF-8"),
        (("a", "--prompts", "P", "--tokenizer", "/no/such"), 3, "no such file"),
        (("a", "--prompts", "P", "--tokenizer", "T"), 3, "no tokenizer"),
        (("a", "--prompts", "P", "--tokenizer", "U"), 3, "not UTF-8"),
        (("a", "--prompts", "P", "--tokenizer", "x" * 5000), 3, "name too long"),
    ],
)
def test_what_cannot_be_asked(
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    """A command line that cannot be obeyed, or a file that cannot be read, gets one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "B").write_text(recorded_baseline_text())
    (tmp_path / "BAD").write_bytes(b"\xff\xfe")
    (tmp_path / "P").write_text('{"prompt": "p", "output": "o"}')
    for name, data in (("T", b'{"model": 3}'), ("U", b"\xff")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer.json").write_bytes(data)
    assert main(["advise", *flags]) == code
    error = capsys.readouterr().err
    assert told in error.lower() or told in error
    assert len(error.splitlines()) == 1
