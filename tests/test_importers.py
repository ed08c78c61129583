"""What other tools measured, as levels of a baseline."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.baselines import document

from specgauge.baseline.guidellm import NOT_OURS
from specgauge.baseline.importers import Imported, import_results
from specgauge.errors import BaselineError


def bench(**more: Any) -> dict[str, Any]:
    """Write a result as `vllm bench serve --save-result` does."""
    return {
        "date": "20261120-101112",
        "endpoint_type": "openai",
        "backend": "openai",
        "label": None,
        "model_id": "target",
        "tokenizer_id": "target",
        "num_prompts": 66,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 8,
        "duration": 8.0,
        "completed": 64,
        "total_input_tokens": 16000,
        "total_output_tokens": 12864,
        "request_throughput": 8.0,
        "output_throughput": 1608.0,
        "mean_ttft_ms": 70.0,
        "median_ttft_ms": 69.0,
        "p99_ttft_ms": 108.0,
        "mean_tpot_ms": 4.8,
        "median_tpot_ms": 4.7,
        "p99_tpot_ms": 5.2,
        "mean_itl_ms": 4.8,
        **more,
    }


def taken(*documents: object) -> Imported:
    """Import documents, one a file."""
    return import_results([(f"{n}.json", json.dumps(one)) for n, one in enumerate(documents)])


def refusal(*texts: str) -> tuple[str, ...]:
    """Import texts that must be refused; gives the lines."""
    with pytest.raises(BaselineError) as caught:
        import_results([(f"{n}.json", text) for n, text in enumerate(texts)])
    return caught.value.problems


def test_a_bench_result_becomes_a_level() -> None:
    """Milliseconds become seconds; the load follows from Little's law and says so."""
    found = taken(bench())
    (one,) = found.levels
    assert one.client is not None
    assert one.server is None
    assert one.decode_concurrency == pytest.approx(0.0048 * (12864 - 64) / 8.0)
    assert (one.concurrency, one.request_rate, one.repeats) == (8.0, None, 1)
    assert (one.requests, one.failed_requests) == (64, 2)
    assert one.prompt_tokens_per_request == pytest.approx(250.0)
    assert one.output_tokens_per_request == pytest.approx(201.0)
    tpot = one.client.tpot_seconds
    assert (tpot.mean, tpot.p50, tpot.p99) == pytest.approx((0.0048, 0.0047, 0.0052))
    assert one.client.ttft_seconds.mean == pytest.approx(0.07)
    assert found.created == datetime(2026, 11, 20, 10, 11, 12, tzinfo=UTC)
    assert found.facts == {"engine.name": "vllm", "model.name": "target"}
    assert found.missing == ("levels.server",)
    assert any(note.startswith("decode_concurrency: estimated") for note in found.notes)
    assert any("over requests, not over tokens" in note for note in found.notes)


def test_a_detailed_result_is_exact() -> None:
    """With every request's gaps TPOT is over tokens and the load is measured."""
    found = taken(
        bench(completed=3, output_lens=[3, 1, 101], itls=[[0.01, 0.01], [], [0.004] * 100])
    )
    (one,) = found.levels
    assert one.client is not None
    assert one.client.tpot_seconds.mean == pytest.approx(0.42 / 102)
    assert one.decode_concurrency == pytest.approx(0.42 / 8.0)
    assert "tpot_seconds.mean: over tokens, from the gaps of every request" in found.notes


@pytest.mark.parametrize(
    "lists",
    [
        pytest.param({"output_lens": [3], "itls": ["x"]}, id="no-list-of-gaps"),
        pytest.param({"output_lens": [3], "itls": [["x"]]}, id="no-gap"),
        pytest.param({"output_lens": ["x"], "itls": [[0.1]]}, id="no-length"),
        pytest.param({"output_lens": [1], "itls": [[]]}, id="no-decode"),
        pytest.param({"output_lens": 3, "itls": [[0.1]]}, id="no-lists"),
    ],
)
def test_details_that_are_none_fall_back_to_the_mean(lists: dict[str, object]) -> None:
    """Lists of something else are not believed."""
    (one,) = taken(bench(**lists)).levels
    assert one.client is not None
    assert one.client.tpot_seconds.mean == pytest.approx(0.0048)


def test_results_of_several_loads_are_several_levels() -> None:
    """Levels come in order of load, whatever the order of the files."""
    found = taken(bench(max_concurrency=32, mean_tpot_ms=6.0), bench(), bench(max_concurrency=1))
    assert [one.concurrency for one in found.levels] == [8.0, 1.0, 32.0]
    assert len({one.decode_concurrency for one in found.levels}) == 2


def test_repeats_of_a_load_are_pooled() -> None:
    """Two repeats give a mean over tokens; three give its interval too."""
    two = taken(bench(), bench(mean_tpot_ms=5.2)).levels
    assert [one.repeats for one in two] == [2]
    assert two[0].client is not None
    assert two[0].client.tpot_seconds.mean == pytest.approx(0.005)
    assert two[0].client.tpot_seconds.p99 is None
    assert two[0].client.tpot_seconds.ci95 is None
    assert two[0].window_seconds == pytest.approx(16.0)
    (three,) = taken(bench(), bench(mean_tpot_ms=5.0), bench(mean_tpot_ms=5.2)).levels
    assert three.client is not None
    low, high = three.client.tpot_seconds.ci95 or (0.0, 0.0)
    assert low < 0.005 < high


def test_results_appended_to_one_file_are_read_one_by_one() -> None:
    """`--append-result` writes documents behind each other."""
    text = f"{json.dumps(bench())}\n{json.dumps(bench(max_concurrency=16))}\n\n"
    assert len(import_results([("all.json", text)]).levels) == 2
    bad = f"{json.dumps(bench())}\n{json.dumps({'a': 1})}"
    assert refusal(bad)[0].startswith("0.json (result 2): ")


def test_an_open_loop_keeps_its_rate() -> None:
    """A request rate is kept where there is one; without any load named, levels stay apart."""
    (one,) = taken(bench(request_rate=6.5, max_concurrency=None)).levels
    assert (one.concurrency, one.request_rate) == (None, 6.5)
    free = bench(max_concurrency=None)
    assert len(taken(free, free).levels) == 2


def test_what_the_result_tells_of_the_load_is_kept() -> None:
    """Temperature and data set count, and SGLang's results say that they are SGLang's."""
    found = taken(
        bench(
            backend="sglang",
            temperature=0.0,
            dataset_name="sharegpt",
            date="lately",
            failed=1,
            p95_tpot_ms=5.0,
            mean_e2el_ms=1000.0,
        )
    )
    assert found.facts == {
        "engine.name": "sglang",
        "model.name": "target",
        "workload.name": "sharegpt",
        "workload.temperature": 0.0,
    }
    assert found.created is None
    assert found.levels[0].failed_requests == 1
    assert found.levels[0].client is not None
    assert found.levels[0].client.e2e_seconds.mean == pytest.approx(1.0)


def flat(**more: Any) -> dict[str, Any]:
    """Write a measuring script's flat result."""
    return {
        "ttft_p50_ms": 120.0,
        "ttft_p95_ms": 200.0,
        "tpot_p50_ms": 24.0,
        "tpot_p95_ms": 30.0,
        "e2e_p50_ms": 6000.0,
        "e2e_p95_ms": 9000.0,
        "total_tokens": 50000,
        "avg_tokens_per_sec": 40.0,
        **more,
    }


def test_a_flat_result_becomes_a_level_at_one_request() -> None:
    """Its median stands for the mean, and says so; what it lacks is named."""
    found = taken(flat(model="m"))
    (one,) = found.levels
    assert one.client is not None
    assert one.client.tpot_seconds.mean == pytest.approx(0.024)
    assert one.client.tpot_seconds.p95 == pytest.approx(0.030)
    assert one.client.e2e_seconds.p50 == pytest.approx(6.0)
    assert one.decode_concurrency == pytest.approx(0.98)
    assert one.window_seconds == pytest.approx(1250.0)
    assert found.facts == {"model.name": "m"}
    assert found.missing == ("levels.server", "levels.output_tokens_per_request")
    assert found.notes[0] == "concurrency: not given; taken for one request at a time"
    assert "median" in found.notes[1]


@pytest.mark.parametrize(
    ("part", "tpot"),
    [
        pytest.param({"tpot_mean_ms": 25.0, "concurrency": 4}, 0.025, id="mean"),
        pytest.param({"tpot_ms": 25.0}, 0.025, id="plain"),
        pytest.param(
            {"e2e_p50_ms": 14000, "ttft_p50_ms": 0, "mean_output_tokens": 1000, "concurrency": 8},
            14.0 / 999,
            id="length-matched",
        ),
        pytest.param(
            {"e2e_p50_ms": 14000, "ttft_p50_ms": 500, "mean_output_tokens": 1001},
            0.0135,
            id="without-the-first-token",
        ),
        pytest.param({"output_tok_s": 900.0, "concurrency": 32}, 32 / 900, id="throughput"),
    ],
)
def test_time_per_token_is_found_in_whatever_form(part: dict[str, Any], tpot: float) -> None:
    """Never a system's throughput for one request's: 32 at 900 tokens/s is 35.56 ms each."""
    (one,) = taken(part).levels
    assert one.client is not None
    assert one.client.tpot_seconds.mean == pytest.approx(tpot)


def test_flat_levels_in_a_list_are_several_levels() -> None:
    """A curve of two loads, under the key that scripts use."""
    parts = [{"concurrency": 1, "output_tok_s": 30.0}, {"concurrency": 32, "output_tok_s": 900.0}]
    for whole in (parts, {"baselines": parts, "current": []}):
        assert [one.concurrency for one in taken(whole).levels] == [1.0, 32.0]


def test_temperature_and_data_set_of_a_flat_result_are_kept() -> None:
    """They decide what may be compared."""
    found = taken(flat(temperature=0, dataset="mt-bench"))
    assert found.facts == {"workload.temperature": 0.0, "workload.name": "mt-bench"}


def guidellm(**metrics: Any) -> dict[str, Any]:
    """Write a GuideLLM report of one benchmark."""
    known = {
        "inter_token_latency_ms": {
            "successful": {"mean": 5.0, "median": 4.9, "percentiles": {"p95": 6.0, "p99": 7.0}}
        },
        "time_per_output_token_ms": {"successful": {"mean": 5.4}},
        "time_to_first_token_ms": {"successful": {"mean": 70.0}},
        "request_latency": {"successful": {"mean": 1.1}},
        "request_concurrency": {"successful": {"mean": 8.0}},
        "output_tokens_per_second": {"successful": {"mean": 1500.0}},
        "output_token_count": {"successful": {"mean": 200.0}},
    }
    return {"benchmarks": [{"duration": 30.0, "metrics": {**known, **metrics}}]}


def test_guidellm_s_time_per_token_is_another_and_is_not_used() -> None:
    """Its TPOT takes the first token in; its inter-token latency is what we call TPOT."""
    found = taken(guidellm())
    (one,) = found.levels
    assert one.client is not None
    assert one.client.tpot_seconds.mean == pytest.approx(0.005)
    assert one.client.tpot_seconds.p99 == pytest.approx(0.007)
    assert one.client.ttft_seconds.mean == pytest.approx(0.07)
    assert one.client.e2e_seconds.mean == pytest.approx(1.1)
    assert one.decode_concurrency == pytest.approx(7.5)
    assert NOT_OURS in found.notes
    slim = taken(guidellm(output_tokens_per_second=None, inter_token_latency_ms={"mean": 5.0}))
    assert slim.levels[0].decode_concurrency == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "empty", id="empty"),
        pytest.param('{"a": ', "not JSON", id="truncated"),
        pytest.param("[" * 100_000, "not JSON", id="deep"),
        pytest.param('{"a": 1}', '{"a": 1} is none of: results of vllm bench serve', id="other"),
        pytest.param("[]", "[] is none of", id="no-parts"),
        pytest.param("[7]", "[7] is none of", id="no-objects"),
        pytest.param('{"benchmarks": [7]}', "is none of", id="no-report"),
        pytest.param(json.dumps(document()), "already is a baseline", id="ours"),
        pytest.param(
            json.dumps(bench(spec_decode_num_drafts=3856)),
            "spec_decode_num_drafts is 3856: measured with speculation, so no baseline",
            id="bench-with-speculation",
        ),
        pytest.param(
            json.dumps({"baseline": {"mean_acceptance_length": 2.1}}),
            "mean_acceptance_length is 2.1: measured with speculation",
            id="an-acceptance-is-no-baseline",
        ),
        pytest.param(
            json.dumps(flat(accept_ratio=0.6)), "accept_ratio is 0.6", id="flat-with-speculation"
        ),
        pytest.param(json.dumps(bench(completed=0)), "no request finished", id="nothing-done"),
        pytest.param(
            json.dumps(bench(mean_tpot_ms=0.0)),
            "mean_tpot_ms is 0; add tpot to --percentile-metrics, and more output tokens",
            id="tpot-of-zero",
        ),
        pytest.param(
            json.dumps(bench(mean_tpot_ms=None)),
            "mean_tpot_ms is missing; add tpot to --percentile-metrics",
            id="no-tpot",
        ),
        pytest.param(
            json.dumps(bench(duration=0)), "duration is 0: no time was measured", id="no-time"
        ),
        pytest.param(
            json.dumps(bench(duration=None)), "duration is missing: no time", id="time-not-told"
        ),
        pytest.param(
            json.dumps(bench(output_lens=[3, 3], itls=[[0.1, 0.1]] * 3)),
            "itls is of 3 requests, output_lens of 2: the result contradicts itself",
            id="lists-of-different-requests",
        ),
        pytest.param(
            json.dumps(bench(output_lens=[2], itls=[[0.1] * 3])),
            "itls has 3 gaps where output_lens has 1 tokens after the first: the result contra",
            id="more-gaps-than-tokens",
        ),
        pytest.param(
            json.dumps({"benchmarks": [{"metrics": {"inter_token_latency_ms": {"mean": 0.0}}}]}),
            "inter_token_latency_ms is 0; GuideLLM",
            id="guidellm-zero",
        ),
        pytest.param(json.dumps(flat(tpot_p50_ms=0)), "tpot_p50_ms is 0", id="flat-zero"),
        pytest.param(json.dumps(bench(duration=True)), "duration: a number is expected", id="bool"),
        pytest.param(
            json.dumps(bench(mean_tpot_ms=-1.0)),
            "mean_tpot_ms: must be from 1e-06 to 1e+09, is -1",
            id="negative",
        ),
        pytest.param(json.dumps(bench(duration=float("nan"))), "is nan", id="nan"),
        pytest.param(json.dumps({"ttft_p50_ms": 9.0}), "no time per token", id="only-ttft"),
        pytest.param(
            json.dumps({"e2e_p50_ms": 9.0, "mean_output_tokens": 1}),
            "no time per token",
            id="one-token",
        ),
        pytest.param(
            json.dumps({"output_tok_s": 1e9, "concurrency": 1e-6}),
            "tpot_seconds.mean: must be at least 1e-09",
            id="absurd",
        ),
        pytest.param(
            json.dumps(guidellm(inter_token_latency_ms={})), NOT_OURS, id="guidellm-tpot-alone"
        ),
        pytest.param(
            json.dumps(guidellm(output_tokens_per_second=3, request_concurrency=None)),
            "neither output_tokens_per_second nor request_concurrency",
            id="guidellm-without-load",
        ),
    ],
)
def test_what_cannot_be_a_baseline_is_refused_with_the_reason(text: str, message: str) -> None:
    """One line names the file and what is wrong with it."""
    (line,) = refusal(text)
    assert line.startswith("0.json")
    assert message in line


def test_files_of_two_models_are_imported_apart() -> None:
    """A baseline speaks for one server; every contradiction is told."""
    one, other = json.dumps(bench()), json.dumps(bench(model_id="other", max_concurrency=1))
    assert refusal(one, other) == (
        '1.json: model.name is "other", in the files before it "target"; import them apart',
    )
    assert refusal() == ("no results are given",)


RESULTS = Path(__file__).parent / "pages" / "bench"


def real(name: str) -> tuple[dict[str, Any], Imported]:
    """Give a result that vLLM 0.32.0 wrote, and what we take it for."""
    text = (RESULTS / name).read_text()
    return json.loads(text), import_results([(name, text)])


@pytest.mark.parametrize("name", ["plain.json", "detailed.json"])
def test_a_real_bench_result_is_read(name: str) -> None:
    """What `vllm bench serve` wrote of a server becomes a level with its figures in our units."""
    wrote, found = real(name)
    (one,) = found.levels
    assert one.client is not None
    assert one.client.e2e_seconds.mean == pytest.approx(wrote["mean_e2el_ms"] / 1e3)
    assert one.client.ttft_seconds.p99 == pytest.approx(wrote["p99_ttft_ms"] / 1e3)
    assert (one.concurrency, one.requests, one.failed_requests) == (2.0, 12, 0)
    assert one.window_seconds == pytest.approx(wrote["duration"])
    assert one.output_tokens_per_request == wrote["total_output_tokens"] / 12
    assert one.prompt_tokens_per_request == wrote["total_input_tokens"] / 12
    assert (found.facts["engine.name"], found.facts["model.name"]) == ("vllm", "tiny")
    assert 0.5 < one.decode_concurrency < 2.0


def test_a_real_result_means_the_same_with_details() -> None:
    """Its mean over requests is what the gaps of every request give over tokens, or nearly so."""
    plain, detailed = real("plain.json"), real("detailed.json")
    for wrote, found in (plain, detailed):
        (one,) = found.levels
        assert one.client is not None
        assert one.client.tpot_seconds.mean == pytest.approx(wrote["mean_tpot_ms"] / 1e3, rel=0.15)
    gaps, lengths = detailed[0]["itls"], detailed[0]["output_lens"]
    exact = sum(map(sum, gaps)) / (sum(lengths) - len(lengths))
    (one,) = detailed[1].levels
    assert one.client is not None
    assert one.client.tpot_seconds.mean == pytest.approx(exact)


@pytest.mark.parametrize(
    ("done", "failed", "told"),
    [
        pytest.param(10, 90, True, id="most"),
        pytest.param(89, 11, True, id="just over a tenth"),
        pytest.param(90, 10, False, id="a tenth"),
        pytest.param(100, 0, False, id="none"),
    ],
)
def test_failed_requests_are_told(done: int, failed: int, *, told: bool) -> None:
    """Where over a tenth failed the load was another one, however the failures are given."""
    for given in ({"failed": failed}, {"num_prompts": done + failed}):
        found = taken(bench(completed=done, **given))
        assert found.levels[0].failed_requests == failed
        notes = [note for note in found.notes if "requests failed" in note]
        line = f"0.json: {failed} of 100 requests failed: the load was not the one asked for"
        assert [note.startswith(line) for note in notes] == [True] * told
