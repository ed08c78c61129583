"""`specgauge doctor` on recorded servers with a cause planted in them, and on healthy ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import planted as p
from tests.recorded import load_page
from tests.rewritten import as_rust_frontend, without

from specgauge.cli.main import main
from specgauge.serve.demo.recording import RecordingName

Plant = Callable[[Path], p.Arguments]
Capture = pytest.CaptureFixture[str]

VOCABULARY_V1 = (
    "Target and draft model should have the same vocabulary size. Target model "
    "vocab_size=128256. Draft model vocab_size=32000. Using models with different tokenizers can "
    "cause out-of-bounds errors during speculative decoding."
)
V0_RATE = "rate(vllm:spec_decode_num_accepted_tokens_total[5m])"
SERVE = "vllm serve target --port 8000 "


def doctor(capsys: Capture, *arguments: str) -> tuple[int, Any]:
    """Run the command in this process; gives the exit code and the document."""
    code = main(["doctor", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def after(capture: str) -> bytes:
    """Load a CPU capture's last page."""
    return load_page(f"vllm/{capture}/after.prom")


def ends(capture: str) -> tuple[bytes, bytes]:
    """Load a CPU capture's first and last page."""
    return load_page(f"vllm/{capture}/before.prom"), after(capture)


def cell(mode: str, load: int) -> Plant:
    """Plant nothing: one load of one H200 server against the baseline."""
    return lambda folder: [*p.window(folder, *p.cell(mode, load)), *p.baseline(folder)]


def alone(capture: str) -> Plant:
    """Plant nothing: a CPU capture's last page."""
    return lambda folder: p.page(folder, after(capture))


def whole(capture: str) -> Plant:
    """Plant nothing: a CPU capture from its first page to its last."""
    return lambda folder: p.window(folder, *ends(capture))


def collapsed(folder: Path) -> p.Arguments:
    """Plant a chain whose first token is kept and the others hardly ever."""
    return p.page(folder, p.drafting(after("0.32.0-draft"), 2609, (1600, 400, 100)))


def nothing_kept(folder: Path) -> p.Arguments:
    """Plant a head of another model: drafts without end, and none is kept."""
    before, last, seconds = p.cell("eagle", 8)
    drafts = int(p.value_of(last, "spec_decode_num_drafts_total"))
    clean = p.drafting(before, 0, (0, 0, 0, 0))
    return p.window(folder, clean, p.drafting(last, drafts, (0, 0, 0, 0)), seconds)


def exhausted(folder: Path) -> p.Arguments:
    """Plant a busy server without a free KV block."""
    before, last, seconds = p.cell("eagle", 128)
    kept = p.value_of(before, "num_preemptions_total")
    full = {"kv_cache_usage_perc": 0.99, "num_requests_waiting": 25, "num_requests_running": 100}
    last = p.edited(last, {**full, "num_preemptions_total": kept + 40})
    return [*p.window(folder, before, last, seconds), *p.baseline(folder)]


def shrunk(folder: Path) -> p.Arguments:
    """Plant the page before the draft was loaded, and one after, when requests wait."""
    last = load_page("h200/draft/c128-after.prom").replace(b'"46631"', b'"31000"')
    last = p.edited(last, {"num_requests_waiting": 40, "kv_cache_usage_perc": 0.97})
    return p.window(folder, load_page("h200/none/c1-before.prom"), last)


def residual(folder: Path) -> p.Arguments:
    """Plant a server that drafts nothing any more and is 9 % slower than one without."""
    before, last, seconds = p.cell("none", 8)
    zeros = p.drafting(p.cell("eagle", 8)[0], 0, (0, 0, 0, 0))
    series = b"".join(
        line for line in zeros.splitlines(keepends=True) if line.startswith(b"vllm:spec_decode")
    )
    spent = [p.value_of(one, "inter_token_latency_seconds_sum") for one in (before, last)]
    slower = {"inter_token_latency_seconds_sum": spent[0] + 1.09 * (spent[1] - spent[0])}
    pages = before + series, p.edited(last, slower) + series
    return [*p.window(folder, *pages, seconds), *p.baseline(folder)]


def undrafted(folder: Path) -> p.Arguments:
    """Tokens flow and nothing is drafted."""
    before, last = ends("0.32.0-ngram")
    return p.window(folder, before, p.drafting(last, 0, (0, 0, 0, 0)))


def padded(folder: Path) -> p.Arguments:
    """Plant a lookup method whose misses are filled up and rejected."""
    page = p.drafting(after("0.32.0-ngram"), 2691, (461, 336, 293, 254))
    return [*p.page(folder, page), "--speculative-config", p.NGRAM, "--release", "0.32.0"]


def swapped(folder: Path) -> p.Arguments:
    """Counters that fall: the engine began anew."""
    last, first = ends("0.28.0-draft")
    return p.window(folder, p.edited(first, {"num_requests_running": 1}), last)


def stale(folder: Path) -> p.Arguments:
    """Plant the same page twice, with requests under way."""
    page = load_page("vllm/0.32.0-ngram/during.prom")
    return p.window(folder, page, page)


CASES: dict[str, tuple[str | None, str, Plant]] = {
    "dear draft at one request": ("slower", "draft_too_expensive", cell("draft", 1)),
    "dear draft at eight": ("slower", "draft_too_expensive", cell("draft", 8)),
    "dear draft at 32": ("slower", "draft_too_expensive", cell("draft", 32)),
    "dear draft at 128": ("slower", "draft_too_expensive", cell("draft", 128)),
    "cheap head on a busy card": ("slower", "load_dependent_loss", cell("eagle", 128)),
    "weak draft at one request": ("slower", "low_acceptance", cell("draft-poor", 1)),
    "weak draft at eight": ("slower", "low_acceptance", cell("draft-poor", 8)),
    "weak draft at 128": (None, "low_acceptance", cell("draft-poor", 128)),
    "load that comes and goes": (
        "slower",
        "load_dependent_loss",
        lambda f: [*p.busy(f, 1.8, above=15.0), *p.baseline(f), "--release", "0.25.1"],
    ),
    "chain breaks after one token": ("slower", "chain_collapse", collapsed),
    "few drafts, one request": (
        "slower",
        "few_drafts_still_cost",
        lambda f: [*p.series(f, "ngram", *p.phase("t1-c1")), *p.cpu_baseline(f)],
    ),
    "few drafts, four requests": (
        None,
        "few_drafts_still_cost",
        lambda f: [*p.series(f, "ngram", *p.phase("t1-c4")), *p.cpu_baseline(f)],
    ),
    "temperature comes and goes": (
        "prompts",
        "acceptance_falls_in_part",
        lambda f: p.series(f, "ngram"),
    ),
    "log with good and bad minutes": (
        "prompts",
        "acceptance_falls_in_part",
        lambda f: p.log(f, *p.recorded_lines("0.32.0-ngram"),
                        p.v1_line(12, 400, 1.12, (0.1, 0.02, 0.0, 0.0))),
    ),
    "CPU build above temperature 0": (
        "zero",
        "cpu_sampler",
        lambda f: [*p.page(f, p.drafting(after("0.32.0-draft"), 2609, (0, 0, 0))),
                   *p.log(f, *p.started("0.32.0+cpu", model="target"))],
    ),
    "head of another model": ("zero", "nothing_accepted", nothing_kept),
    "full KV cache": ("slower", "kv_cache_exhausted", exhausted),
    "KV cache given to the draft": ("slower", "kv_capacity_shrunk", shrunk),
    "drafting already off": ("slower", "residual_without_drafts", residual),
    "out of memory at start": (
        "slower",
        "out_of_memory",
        lambda f: p.log(f, *p.started("0.25.1"), *p.failed(
            "torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB.")),
    ),
    "no room for the KV cache": (
        None,
        "out_of_memory",
        lambda f: p.log(f, *p.failed("ValueError", "No available memory for the cache blocks. Try "
                                     "increasing `gpu_memory_utilization`")),
    ),
    "vocabularies of two families": (
        "vocabulary",
        "vocabulary_mismatch",
        lambda f: p.log(f, *p.started("0.32.0"), *p.failed("ValueError", VOCABULARY_V1)),
    ),
    "vocabularies, as the articles have it": (
        "vocabulary",
        "vocabulary_mismatch",
        lambda f: p.log(f, "RuntimeError: Draft model vocab size 32000 != target model vocab size "
                        "128256"),
    ),
    "vocabularies, V0's assertion": (
        "vocabulary",
        "vocabulary_mismatch",
        lambda f: p.log(f, *p.failed("AssertionError", ""), p.core(
            "    assert all(vocab_sizes[0] == vocab_size for vocab_size in vocab_sizes)")),
    ),
    "draft model in a release without": (
        "vocabulary",
        "draft_model_refused",
        lambda f: p.log(f, *p.failed("NotImplementedError", "Speculative decoding with draft model "
                                     "is not supported yet. Please consider another method.")),
    ),
    "flags of an old guide": (
        "no-metrics",
        "unrecognised_flags",
        lambda f: p.log(f, "usage: vllm serve [model_tag] [options]", "vllm: error: unrecognized "
                        "arguments: --speculative-model draft --num-speculative-tokens 5"),
    ),
    "the playbook's own command": (
        "no-metrics",
        "unrecognised_flags",
        lambda _: ["--release", "0.25.1", "--command", SERVE + "--speculative-model draft "
                   "--num-speculative-tokens 5 --use-v2-block-manager"],
    ),
    "statistics switched off": (
        "no-metrics",
        "stats_disabled",
        lambda f: p.page(f, without(after("0.32.0-ngram"), "vllm:")),
    ),
    "a console's page": (
        "no-metrics",
        "not_metrics_page",
        lambda f: p.page(f, b"<!doctype html><title>Open WebUI</title>\n"),
    ),
    "another exporter's page": (
        "no-metrics",
        "foreign_metrics",
        lambda f: p.page(f, b"# TYPE node_load1 gauge\nnode_load1 0.5\n"),
    ),
    "an empty page": ("no-metrics", "empty_page", lambda f: p.page(f, b"")),
    "a page cut short": (
        "no-metrics",
        "damaged_page",
        lambda f: p.page(f, after("0.32.0-ngram")[:9000]),
    ),
    "log lines missing": (
        "no-metrics",
        "several_api_servers",
        lambda f: [*p.page(f, after("0.32.0-draft-api2")), *p.log(f, *p.started("0.32.0"), p.api(
            "AsyncLLM created with api_server_count more than 1; disabling stats logging to avoid "
            "incomplete stats."))],
    ),
    "speculation never reached the server": (
        "zero",
        "speculation_not_on",
        lambda f: [*p.page(f, after("0.32.0-none")), "--command",
                   f"{SERVE} --speculative-config '{p.EAGLE}'"],
    ),
    "Rust frontend without speculation": (
        "zero",
        "zeros_without_speculation",
        lambda f: p.page(f, as_rust_frontend(after("0.32.0-none"))),
    ),
    "alert by V0's gauge": (
        "no-metrics",
        "metric_v0_only",
        lambda f: [*p.page(f, after("0.32.0-ngram")),
                   *p.rules(f, "vllm:spec_decode_draft_acceptance_rate < 0.5")],
    ),
    "panel by a name that never was": (
        "no-metrics",
        "metric_unknown",
        lambda f: [*p.page(f, after("0.28.0-draft")),
                   *p.dashboard(f, 'vllm:spec_decode_per_position_acceptance_rate{position="0"}')],
    ),
    "panel by a renamed gauge": (
        "no-metrics",
        "metric_renamed",
        lambda f: [*p.page(f, after("0.20.2-ngram")),
                   *p.dashboard(f, "100 * avg(vllm:gpu_cache_usage_perc)")],
    ),
    "panel by a name of later": (
        "no-metrics",
        "metric_too_new",
        lambda f: [*p.page(f, after("0.9.2-ngram")), *p.rules(
            f, "rate(vllm:inter_token_latency_seconds_sum[5m])")],
    ),
    "V0's counters read as V1's": (
        "zero",
        "metric_other_meaning",
        lambda f: [*p.page(f, after("0.8.5-v0-draft")), *p.rules(f, f"{V0_RATE} < 1")],
    ),
    "page from a cache": ("zero", "stale_page", stale),
    "engine began anew": ("zero", "engine_restarted", swapped),
    "nobody asks": ("zero", "no_traffic", lambda f: p.window(f, *(ends("0.32.0-eagle")[1],) * 2)),
    "acceptance by lot": (
        "slower",
        "synthetic_acceptance",
        lambda f: [*cell("draft", 8)(f), "--speculative-config", ('{"method": "draft_model", '
                   '"rejection_sample_method": "synthetic", "num_speculative_tokens": 4}')],
    ),
    "no n-gram came again": (
        "zero",
        "no_ngram_match",
        lambda f: [*undrafted(f), "--speculative-config", p.NGRAM],
    ),
    "schedule with a zero": (
        "zero",
        "schedule_zero_at_load",
        lambda f: [*undrafted(f), "--speculative-config", ('{"method": "eagle", "model": "eagle", '
                   '"num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 64, 0]]}')],
    ),
    "sampling that is refused": (
        "prompts",
        "sampling_refused",
        lambda f: p.log(f, *p.started("0.32.0"), p.api(
            "VLLMValidationError: The min_p and logit_bias sampling parameters are not yet "
            "supported with speculative decoding.")),
    ),
    "nothing drafted, nobody knows why": ("zero", "drafts_not_made", undrafted),
    "misses that are filled up": ("prompts", "padded_drafts", padded),
    "schedule under data parallelism": (
        "slower",
        "schedule_off_under_data_parallel",
        lambda _: ["--release", "0.28.0", "--command", SERVE + "--data-parallel-size 2 "
                   "--speculative-config '{\"method\": \"eagle\", \"num_speculative_tokens_per_"
                   "batch_size\": [[1, 8, 4], [9, 64, 0]]}'"],
    ),
    "switch of V0 on V1": (
        "slower",
        "switch_without_effect",
        lambda _: ["--release", "0.13.0", "--speculative-config",
                   '{"method": "ngram", "disable_by_batch_size": 8}'],
    ),
    "steps that get longer": ("slower", "step_gap_misread", cell("eagle", 8)),
    "tokens a step at a time": ("clumps", "clumps_are_steps", cell("eagle", 1)),
    "tokens held by the server": (
        "clumps",
        "stream_interval",
        lambda f: [*cell("none", 8)(f), "--command", SERVE + "--stream-interval 16"],
    ),
    "warm default temperature": (
        "prompts",
        "high_temperature",
        lambda f: [*p.page(f, after("0.32.0-draft")), "--command",
                   SERVE + "--override-generation-config '{\"temperature\": 1.2}'"],
    ),
    "engine that died of something else": (
        "no-metrics",
        "engine_failed",
        lambda f: p.log(f, *p.failed("RuntimeError", "Engine core initialization failed.")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_planted_cause_comes_first(name: str, tmp_path: Path, capsys: Capture) -> None:
    """Of everything that is found the planted cause is told first, as a cause."""
    symptom, code, plant = CASES[name]
    told = [] if symptom is None else ["--symptom", symptom]
    ended, document = doctor(capsys, *plant(tmp_path), *told)
    found = [(one["code"], one["severity"]) for one in document["findings"]]
    assert found[:1] == [(code, "cause")], found
    assert ended == 1


UNTOLD = [
    name
    for name, (symptom, code, _) in CASES.items()
    if symptom is not None
    and name not in {"dear draft at 32", "cheap head on a busy card"}  # even: no loss unasked
    and code not in {
        "several_api_servers", "step_gap_misread", "clumps_are_steps", "no_traffic",
        "speculation_not_on", "zeros_without_speculation", "stream_interval",
        "schedule_zero_at_load",
    }
]  # fmt: skip


@pytest.mark.parametrize("name", UNTOLD)
def test_a_cause_is_a_cause_without_a_symptom(name: str, tmp_path: Path, capsys: Capture) -> None:
    """What is wrong whoever looks is found first without a word on what is felt."""
    _, code, plant = CASES[name]
    ended, document = doctor(capsys, *plant(tmp_path))
    assert (ended, document["findings"][0]["code"]) == (1, code)


HEALTHY: dict[str, Plant] = {
    **{
        f"{name} page": alone(name)
        for name in ("0.32.0-none", "0.20.2-none", "0.11.2-none", "0.32.0-ngram", "0.25.1-ngram",
                     "0.20.2-ngram", "0.13.0-ngram", "0.9.2-ngram", "0.8.5-v0-none",
                     "0.8.5-v0-ngram", "0.8.5-v0-draft")
    },
    **{
        f"{name} window": whole(name)
        for name in ("0.32.0-none", "0.32.0-ngram", "0.13.0-ngram")
    },
    **{f"eagle at {load}": cell("eagle", load) for load in (1, 8, 32)},
    **{f"none at {load}": cell("none", load) for load in (1, 8, 32, 128)},
    "none, a ramp": lambda f: [*p.ramp(f, RecordingName.STANDARD), *p.baseline(f)],
    "ngram, greedy": lambda f: [*p.series(f, "ngram", *p.phase("t0-c1")), *p.cpu_baseline(f)],
    "ngram, greedy, four at once": lambda f: [
        *p.series(f, "ngram", *p.phase("t0-c4")), *p.cpu_baseline(f)],
    "just started": lambda f: p.page(f, load_page("vllm/0.32.0-draft/before.prom")),
    "its log": lambda f: p.log(f, *p.started("0.25.1", speculative_config={"method": "ngram"}),
                               *p.recorded_lines("0.25.1-ngram")),
    "its own rules": lambda f: [*p.page(f, after("0.32.0-ngram")), *p.rules(
        f, V0_RATE, "vllm:kv_cache_usage_perc > 0.9", "specgauge_speedup_ratio < 1")],
    "its command": lambda f: [*p.page(f, after("0.32.0-ngram")), "--command",
                              f"{SERVE} --speculative-config '{p.NGRAM}'"],
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_server_has_nothing(name: str, tmp_path: Path, capsys: Capture) -> None:
    """Recorded servers that do well raise no alarm; hints are allowed."""
    ended, document = doctor(capsys, *HEALTHY[name](tmp_path))
    assert [one["code"] for one in document["findings"] if one["severity"] == "cause"] == []
    assert ended == 0
