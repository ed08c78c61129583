"""The doctor's rules are right for the kind: each is moved over its threshold and back."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.planted import core, failed, recorded_lines, v1_line

from specgauge.derive.speedup import Piece
from specgauge.engines.compatibility import RELEASES
from specgauge.engines.vllm import NEWEST_RELEASE, TABLE
from specgauge.model.baseline import Curve, Level
from specgauge.model.derived import Derived, Method, Speculation
from specgauge.model.outcome import ExitCode, ScrapeResult
from specgauge.model.quantity import Dialect, Kind
from specgauge.model.verdict import Judgement, Verdict, VerdictReason
from specgauge.preflight.doctor.acceptance import collapses
from specgauge.preflight.doctor.case import Case, Failure, Gpu, Model, Probe, Stretch
from specgauge.preflight.doctor.codes import Code, Symptom
from specgauge.preflight.doctor.cost import draft_cost, spread_over_load
from specgauge.preflight.doctor.diagnose import diagnose, exit_code
from specgauge.preflight.doctor.drafting import Drafting, of_log, of_page
from specgauge.preflight.doctor.finding import Severity
from specgauge.preflight.doctor.logs import Fault, Mark, read_log
from specgauge.preflight.doctor.names import Server, Status, known_release, release_order, status_of
from specgauge.preflight.doctor.queries import judge_names, read_expressions
from specgauge.preflight.doctor.requests import read_requests
from specgauge.preflight.doctor.setup import Setup, of_arguments, of_command, of_config
from specgauge.preflight.doctor.shown import Shown, shown

SERVED = {"generation_tokens": 1000, "requests_running": 4, "requests_waiting": 0}


def model(**values: Any) -> Model:
    """Make a model that has served, with these figures."""
    derived = Derived(
        model_name="target",
        engines=("0",),
        speculation=Speculation.ACTIVE,
        speculation_reason=None,
        method=Method.COUNTERS,
        values={**SERVED, **values},
        absent={},
        warnings=(),
        violations=(),
        per_engine=(),
    )
    return Model(derived=derived, windowed=True)


def accepted(ratio: float, drafts: int = 1000, **values: Any) -> Model:
    """Make a model with this acceptance."""
    return model(acceptance_ratio=ratio, drafts=drafts, draft_tokens=4 * drafts, **values)


def judged(one: Model, speedup: float, **values: float) -> Model:
    """Give a model a verdict by this speedup against a flat baseline."""
    verdict = Verdict.PAYS if speedup > 1.05 else Verdict.COSTS
    judgement = Judgement(
        model_name="target",
        verdict=verdict if abs(speedup - 1.0) > 0.05 else Verdict.EVEN,
        reason=VerdictReason.BELOW_ONE,
        ratios={"concurrency": speedup, "throughput": speedup},
        values=values,
    )
    flat = Curve(levels=(Level(decode_concurrency=64.0, tpot=0.01),))
    return Model(derived=one.derived, windowed=True, judgement=judgement, curve=flat)


def codes(case: Case, *, causes: bool = True) -> list[Code]:
    """Name what is found, the causes alone unless told otherwise."""
    return [
        one.finding.code for one in diagnose(case) if not causes or one.severity is Severity.CAUSE
    ]


@pytest.mark.parametrize(
    ("ratio", "drafts", "found"),
    [
        (0.05, 1000, True),
        (0.2, 100, True),
        (0.29, 100_000, True),
        (0.31, 100_000, False),
        (0.55, 1000, False),
        (0.1, 99, False),
    ],
)
def test_a_draft_is_named_below_three_tenths(ratio: float, drafts: int, found: bool) -> None:
    """Below 0.3 the draft is the cause, once enough was drafted to know."""
    assert (Code.LOW_ACCEPTANCE in codes(Case(models=(accepted(ratio, drafts),)))) is found


@pytest.mark.parametrize(
    ("first", "second", "k", "found"),
    [
        *((first, q * first, k, True)
          for first, q, k in itertools.product((0.4, 0.62, 0.9), (0.1, 0.3, 0.5), (2, 3, 5))),
        *((first, q * first, k, False)
          for first, q, k in itertools.product((0.4, 0.62, 0.9), (0.6, 0.9, 1.0), (2, 3, 5))),
        (0.2, 0.05, 3, False),
    ],
)  # fmt: skip
def test_a_chain_collapses_by_its_shape(first: float, second: float, k: int, found: bool) -> None:
    """Whatever its length, a chain collapses where the second step is far worse than the first."""
    conditional = (first, *(second,) * (k - 1))
    survival = tuple(itertools.accumulate(conditional, lambda a, b: a * b))
    one = Drafting(
        source="page",
        where="",
        ratio=0.2,
        drafts=10_000,
        survival=survival,
        conditional=conditional,
    )
    assert collapses(one) is found


def test_a_chain_that_recovers_has_not_collapsed() -> None:
    """A bad second position alone, with good ones behind, is no broken chain."""
    one = Drafting(
        source="page", where="", ratio=0.3, drafts=10_000,
        survival=(0.8, 0.3, 0.27), conditional=(0.8, 0.375, 0.9),
    )  # fmt: skip
    assert not collapses(one)


@pytest.mark.parametrize("cost", [0.2, 0.4, 0.49, 0.5, 0.8, 1.5])
@pytest.mark.parametrize("k", [1, 3, 5, 8])
def test_a_draft_is_too_expensive_from_a_half_on(cost: float, k: int) -> None:
    """The bound is (step cost - 1) / k; on a card that is not busy all of it is the draft's."""
    rho = 1.0 + k * cost + 1e-9
    one = judged(accepted(0.55, num_speculative_tokens=k), 0.7, step_cost_ratio=rho,
                 decode_concurrency=2.0, acceptance_length=1.5)  # fmt: skip
    assert (Code.DRAFT_TOO_EXPENSIVE in codes(Case(models=(one,)))) is (cost >= 0.5)


def test_the_split_of_a_step_follows_the_baseline() -> None:
    """Where the baseline itself slows down with load, checking is dear and not the draft."""
    steep = Curve(levels=tuple(Level(decode_concurrency=c, tpot=0.004 + 1e-4 * c)
                               for c in (1.0, 32.0, 128.0)))  # fmt: skip
    busy = draft_cost(4.0, 4, 1.0, 128.0, steep)
    idle = draft_cost(4.0, 4, 1.0, 1.0, steep)
    assert (busy.bound, idle.bound) == (0.75, 0.75)
    assert busy.verification == pytest.approx((0.004 + 0.064) / (0.004 + 0.0128))
    assert busy.own < 0.0 < idle.own
    assert idle.is_the_drafts
    assert not busy.is_the_drafts
    alone = draft_cost(3.0, 4, None, 64.0, Curve(levels=steep.levels[:1]))
    assert (alone.verification, alone.own) == (1.0, 0.5)


def load(speedups: Sequence[tuple[float, float]]) -> list[Piece]:
    """Make pieces at these loads with these speedups against 10 ms a token."""
    return [
        Piece(tokens=c * 100.0 * s, spent=c, seconds=1.0) for c, s in speedups for _ in range(4)
    ]


@pytest.mark.parametrize(
    ("speedups", "release", "parallel", "fix"),
    [
        ([(1.0, 2.0), (30.0, 0.8)], "0.25.1", 1, '"num_speculative_tokens_per_batch_size": [[1'),
        ([(1.0, 2.0), (5.0, 1.4), (60.0, 0.6)], None, 1, '"num_speculative_tokens_per_batch_size"'),
        ([(2.0, 1.2), (30.0, 0.8)], "0.23.0", 1, "0.23.0 has no schedule by batch size"),
        ([(2.0, 1.2), (30.0, 0.8)], "0.28.0", 2, "off under data parallelism"),
    ],
)
def test_a_loss_at_high_load_points_to_the_schedule(
    speedups: list[tuple[float, float]], release: str | None, parallel: int, fix: str
) -> None:
    """What helps depends on the release and on data parallelism."""
    base = judged(accepted(0.55, num_speculative_tokens=4), 1.3)
    one = Model(derived=base.derived, windowed=True, judgement=base.judgement,
                curve=base.curve, pieces=load(speedups))  # fmt: skip
    setup = Setup(source="--command", data_parallel=parallel)
    top, *_ = diagnose(Case(models=(one,), release=release, setup=setup, symptom=Symptom.SLOWER))
    assert top.finding.code is Code.LOAD_DEPENDENT_LOSS
    assert fix in top.finding.fix


@pytest.mark.parametrize(
    "speedups",
    [
        [(1.0, 2.0), (30.0, 1.0)],
        [(1.0, 0.8), (30.0, 0.6)],
        [(30.0, 0.6)],
        [],
    ],
)
def test_a_loss_or_gain_at_any_load_is_no_matter_of_load(
    speedups: list[tuple[float, float]],
) -> None:
    """A gain that only shrinks, or a loss everywhere, is another matter."""
    flat = Curve(levels=(Level(decode_concurrency=64.0, tpot=0.01),))
    found = spread_over_load(load(speedups), flat)
    assert found is None or found.low_speedup < 1.0 or found.high_speedup >= 0.95


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"kv_cache_usage_ratio": 0.96}, Code.KV_CACHE_EXHAUSTED),
        ({"kv_cache_usage_ratio": 0.5, "preemptions": 3}, Code.KV_CACHE_EXHAUSTED),
        ({"kv_cache_usage_ratio": 0.97, "preemptions": 3, "requests_waiting": 9},
         Code.KV_CACHE_EXHAUSTED),
        ({"kv_cache_usage_ratio": 0.94, "requests_waiting": 9}, Code.QUEUEING),
        ({"kv_cache_usage_ratio": 0.94, "requests_waiting": 0}, None),
        ({"requests_waiting": 1, "requests_running": 64}, None),
    ],
)  # fmt: skip
def test_memory_is_judged_by_headroom(values: dict[str, float], code: Code | None) -> None:
    """KV usage, preemptions and waiting requests tell; in that order."""
    found = codes(Case(models=(model(**values),), symptom=Symptom.SLOWER))
    assert found[:1] == ([] if code is None else [code])


def test_a_card_that_is_full_is_only_a_hint() -> None:
    """VLLM always takes its share of the card: that explains nothing by itself."""
    card = Gpu(name="H200", used=98, total=100)
    case = Case(models=(accepted(0.6),), gpus=(card, Gpu(name="H200", used=50, total=100)))
    assert codes(case) == []
    assert codes(case, causes=False) == [Code.GPU_MEMORY_FULL]


@pytest.mark.parametrize("result", list(ScrapeResult))
def test_every_refusal_is_told(result: ScrapeResult) -> None:
    """Whatever came instead of a page, there is a finding for it and the right exit code."""
    case = Case(looked=True, failure=Failure(result=result, detail="http://x/metrics: no"))
    ranked = diagnose(case)
    assert len(ranked) == 1
    gone = result in {ScrapeResult.UNREACHABLE, ScrapeResult.TIMEOUT, ScrapeResult.TLS}
    assert exit_code(case, ranked) is (ExitCode.UNREADABLE if gone else ExitCode.FAILED)


def test_a_server_that_failed_to_start_explains_why_nothing_answers() -> None:
    """The engine's own words come before the closed port that follows from them."""
    failure = Failure(result=ScrapeResult.UNREACHABLE, detail="refused")
    case = Case(
        symptom=Symptom.NO_METRICS,
        looked=True,
        failure=failure,
        log=read_log(failed("ValueError", "No available memory for the cache blocks.")),
    )
    assert codes(case) == [Code.OUT_OF_MEMORY, Code.SERVER_UNREACHABLE]
    off = Case(looked=True, setup=Setup(source="log", stats_off=True),
               failure=Failure(result=ScrapeResult.NO_ENGINE_METRICS, detail="none"))  # fmt: skip
    assert "--disable-log-stats" in diagnose(off)[0].finding.evidence


@pytest.mark.parametrize(
    ("symptom", "case", "code"),
    [
        (None, Case(looked=True), ExitCode.OK),
        (Symptom.SLOWER, Case(models=(accepted(0.6),), looked=True), ExitCode.NO_VERDICT),
        (Symptom.SLOWER, Case(models=(judged(accepted(0.6), 1.0),)), ExitCode.OK),
        (Symptom.PROMPTS, Case(models=(accepted(0.6, 50),)), ExitCode.NO_VERDICT),
        (Symptom.PROMPTS, Case(models=(accepted(0.6),)), ExitCode.OK),
        (Symptom.CLUMPS, Case(), ExitCode.NO_VERDICT),
        (Symptom.CLUMPS, Case(models=(model(tokens_per_step=1.0),)), ExitCode.OK),
        (Symptom.VOCABULARY, Case(models=(accepted(0.6),)), ExitCode.NO_VERDICT),
        (Symptom.NO_METRICS, Case(), ExitCode.NO_VERDICT),
        (Symptom.ZERO, Case(), ExitCode.NO_VERDICT),
        (Symptom.ZERO, Case(looked=True, models=(accepted(0.6),)), ExitCode.OK),
    ],
)
def test_too_little_is_no_all_clear(symptom: Symptom | None, case: Case, code: ExitCode) -> None:
    """Where the symptom cannot be judged by what was given, the answer is no verdict."""
    asked = Case(**{**{n: getattr(case, n) for n in Case.__dataclass_fields__}, "symptom": symptom})
    assert exit_code(asked, diagnose(asked)) is code


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.quantity)
def test_every_name_is_fine_in_its_releases(entry: object) -> None:
    """A name is fine in the releases that show it, and not the same as ever outside."""
    for one in entry.names:  # type: ignore[attr-defined]
        suffix = {Kind.COUNTER: "_total", Kind.BUCKET: "_sum"}.get(entry.kind, "")  # type: ignore[attr-defined]
        for span in one.spans:
            dialect = Dialect.VLLM_V0 if span.engine == "V0" else Dialect.VLLM_V1
            last = span.last or NEWEST_RELEASE
            for release in RELEASES:
                inside = release_order(span.first) <= release_order(release) <= release_order(last)
                if inside:
                    told, _ = status_of(one.name + suffix, Server(dialect=dialect, release=release))
                    assert told is Status.OK, (one.name, release)


@pytest.mark.parametrize(
    ("name", "server", "status", "instead"),
    [
        ("time_per_output_token_seconds_bucket", Server(release="0.28.0"), Status.RENAMED,
         "vllm:inter_token_latency_seconds_bucket (once"),
        ("time_per_output_token_seconds_bucket", Server(release="0.9.2"), Status.OK, ""),
        ("inter_token_latency_seconds_sum", Server(release="0.9.2"), Status.TOO_NEW,
         "time_per_output_token_seconds_sum"),
        ("kv_cache_usage_perc", Server(release="0.8.5"), Status.TOO_NEW, "gpu_cache_usage_perc"),
        ("kv_cache_usage_perc", Server(names=frozenset({"gpu_cache_usage_perc"})), Status.TOO_NEW,
         "gpu_cache_usage_perc"),
        ("gpu_cache_usage_perc", Server(names=frozenset({"kv_cache_usage_perc"})), Status.RENAMED,
         "kv_cache_usage_perc"),
        ("gpu_cache_usage_perc", Server(names=frozenset({"gpu_cache_usage_perc"})), Status.OK, ""),
        ("gpu_cache_usage_perc", Server(release="0.10.2"), Status.OK, ""),
        ("generation_tokens", Server(), Status.RENAMED, "vllm:generation_tokens_total"),
        ("e2e_request_latency_seconds", Server(), Status.RENAMED, "_bucket"),
        ("prefix_cache_hits", Server(), Status.RENAMED, "prefix_cache_hits_total"),
        ("iteration_tokens_total_bucket", Server(), Status.OK, ""),
        ("spec_decode_efficiency", Server(), Status.V0_ONLY,
         "/ (rate(vllm:spec_decode_num_draft_tokens_total[5m]) + rate("),
        ("spec_decode_efficiency", Server(dialect=Dialect.VLLM_V0, release="0.8.5"), Status.OK, ""),
        ("spec_decode_num_drafts_total", Server(dialect=Dialect.VLLM_V0), Status.TOO_NEW, ""),
        ("spec_decode_num_emitted_tokens_total", Server(), Status.V0_ONLY, "num_drafts_total"),
        ("spec_decode_draft_latency", Server(), Status.UNKNOWN, "no release tells"),
        ("num_requests_swapped", Server(), Status.V0_ONLY, "num_preemptions_total"),
        ("baseline_e2e_p95_seconds", Server(), Status.UNKNOWN, "specgauge"),
        ("lora_requests_info", Server(), Status.OK, ""),
        ("nixl_bytes_transferred", Server(), Status.OK, ""),
        ("request_num_preemptions_sum", Server(release="0.28.0"), Status.TOO_NEW, ""),
        ("made_up_total", Server(), Status.UNKNOWN, ""),
        ("generation_tokens_total",
         Server(dialect=Dialect.VLLM_V0, names=frozenset({"generation_tokens_total"})),
         Status.OTHER_MEANING, "request_generation_tokens_sum"),
    ],
)  # fmt: skip
def test_a_name_is_told_for_what_it_is(
    name: str, server: Server, status: Status, instead: str
) -> None:
    """Release, dialect and page together say what a name is, and what to ask for instead."""
    found = status_of(name, server)
    assert found[0] is status
    assert instead in found[1]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('sum(rate(vllm:generation_tokens_total{model_name=~"vllm:x"}[5m]))',
         ["vllm:generation_tokens_total"]),
        ('{__name__="vllm:num_requests_running"} > 1', ["vllm:num_requests_running"]),
        ("ray_vllm_num_requests_running + vllm_num_requests_waiting",
         ["ray_vllm_num_requests_running", "vllm_num_requests_waiting"]),
        ("vllm:acceptance:ratio_rate5m > 0.5", []),
        ("label_values(vllm:cache_config_info, model_name)", ["vllm:cache_config_info"]),
        ('{__name__=~"vllm:.*"}', []),
    ],
)  # fmt: skip
def test_names_are_found_in_expressions(text: str, names: list[str]) -> None:
    """Names are found by their prefix; strings, patterns and recording rules are not names."""
    expressions = read_expressions(json.dumps({"panels": [{"expr": text}]}))
    assert [one.name for one in judge_names(expressions, "f", Server())] == names


def test_queries_are_found_wherever_they_stand() -> None:
    """Rows, variables, and a dashboard that stands as text in a ConfigMap are looked through."""
    inner = {"panels": [{"title": "Inner", "targets": [{"expr": "vllm:a"}]}]}
    outer = {
        "data": {"d.json": json.dumps(inner), "x.json": '{"expr" broken'},
        "templating": {"list": [{"name": "m", "query": "label_values(vllm:b, x)"}]},
    }
    found = read_expressions(json.dumps(outer))
    assert [(one.place, one.text) for one in found] == [
        ("Inner", "vllm:a"),
        ("m", "label_values(vllm:b, x)"),
    ]
    loop = "&a [*a]\n"
    with pytest.raises(ValueError, match="refers to itself"):
        read_expressions(loop)
    for text in ("", "just words", "{", "a: b: c", "\x00"):
        with pytest.raises(ValueError, match="neither JSON nor YAML"):
            read_expressions(text)


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (("Target and draft model should have the same vocabulary size. Target model "
         "vocab_size=151936. Draft model vocab_size=152064."), {"target": 151936, "draft": 152064}),
        ("Draft model vocab size 32000 != target model vocab size 128256",
         {"target": 128256, "draft": 32000}),
        ("draft vocabulary size (32000) is not the target vocabulary size (128256)",
         {"target": 128256, "draft": 32000}),
        ("Target and draft model should have the same vocabulary size", {}),
    ],
)  # fmt: skip
def test_vocabularies_are_recognised_by_many_wordings(words: str, numbers: dict[str, int]) -> None:
    """Whoever words it, the two sizes are read where they are told."""
    (found,) = read_log(failed("ValueError", words)).errors
    assert found.fault is Fault.VOCABULARY
    assert dict(found.numbers) == numbers


@pytest.mark.parametrize(
    ("lines", "fault", "names"),
    [
        (["vllm: error: unrecognized arguments: --speculative-model a --num-speculative-tokens 5"],
         Fault.FLAGS, ("--speculative-model", "--num-speculative-tokens")),
        (["TypeError: __init__() got an unexpected keyword argument 'disable_by_batch_size'"],
         Fault.FLAGS, ("disable_by_batch_size",)),
        (["speculative_config.disable_by_batch_size", "  Unexpected keyword argument [type=x]"],
         Fault.FLAGS, ("disable_by_batch_size",)),
        (["NotImplementedError: Unsupported speculative method: 'medusa'"],
         Fault.REFUSED_METHOD, ("medusa",)),
        (["torch.OutOfMemoryError: CUDA out of memory."], Fault.MEMORY, ()),
        (failed("ValueError", "To serve at least one request with the model's max seq len (8192), "
                "(1.0 GiB KV cache is needed, which is larger than the available KV cache memory"),
         Fault.MEMORY, ()),
        (failed("KeyError", "'model.layers.0'"), Fault.OTHER, ()),
    ],
)  # fmt: skip
def test_errors_are_recognised(lines: list[str], fault: Fault, names: tuple[str, ...]) -> None:
    """Each kind of error is told by the engine's wording."""
    (found,) = read_log(lines).errors
    assert (found.fault, found.names) == (fault, names)


def test_a_log_without_errors_has_none() -> None:
    """Ordinary lines, a clean shutdown and the word error in a prompt are no errors."""
    lines = [*recorded_lines("0.32.0-ngram"), core("Traceback (most recent call last):"),
             core("asyncio.exceptions.CancelledError"), "prompt: 'ValueError: help'"]  # fmt: skip
    assert read_log(lines).errors == ()


def test_a_log_tells_acceptance_as_the_page_does() -> None:
    """The lines of a recorded server add up to its counters."""
    found = of_log(read_log(recorded_lines("0.32.0-ngram")))
    assert found is not None
    assert found.ratio == pytest.approx(1344 / 2379)
    assert found.drafts == pytest.approx(627, rel=0.01)
    assert found.length == pytest.approx(1 + 1344 / 627, rel=0.01)
    assert found.survival[0] == pytest.approx(461 / 627, abs=0.01)
    chain = of_log(read_log([v1_line(827, 5000, 1.827, (0.62, 0.155, 0.039, 0.01, 0.003))]))
    assert chain is not None
    assert collapses(chain)
    none = of_log(read_log([v1_line(0, 900, 1.0, (0.0, 0.0, 0.0))]))
    assert none is not None
    assert (none.drafts, none.conditional) == (300.0, (0.0,))
    assert of_log(read_log(["nothing"])) is None
    old = of_log(read_log([("INFO 11-29 16:22:20 [metrics.py:508] Speculative metrics: Draft "
                           "acceptance rate: 0.483, System efficiency: 0.504, Number of "
                           "speculative tokens: 3, Number of accepted tokens: 7312, Number of "
                           "draft tokens: 15141, Number of emitted tokens: 10177.")]))  # fmt: skip
    assert old is not None
    assert (round(old.ratio, 3), old.comparable) == (0.483, False)


def test_a_log_tells_release_arguments_load_and_marks() -> None:
    """What a server logs of itself is taken as its flags, its load and its limits."""
    log = read_log(
        [
            "(APIServer pid=1) INFO 11-29 16:20:45 [utils.py:233] vLLM API server version 0.25.1",
            (
                "(APIServer pid=1) INFO 11-29 16:20:45 [utils.py:233] non-default args: "
                "{'model': 'x', "
                "'disable_log_stats': True, 'data_parallel_size': 2, 'enable_lora': False, "
                "'speculative_config': {'method': 'eagle', 'num_speculative_tokens': 3}}"
            ),
            (
                "INFO 11-29 16:20:45 [loggers.py:123] Engine 000: "
                "Avg prompt throughput: 1.0 tokens/s, "
                "Running: 3 reqs, Waiting: 7 reqs, GPU KV cache usage: 98.1%, Prefix cache hit "
                "0.0%"
            ),
            (
                "WARNING 11-29 16:20:45 [vllm.py:1606] Async scheduling not supported with "
                "speculative decoding and will be disabled."
            ),
            (
                "WARNING 11-29 16:20:45 [vllm.py:1071] Dynamic "
                "speculative decoding is not supported "
                "with data parallelism because"
            ),
            "WARNING Sequence group 3 is preempted by PreemptionMode.RECOMPUTE mode",
        ]
    )
    assert (log.release, log.most_waiting, log.most_kv) == ("0.25.1", 7, 0.981)
    assert log.marks == {Mark.ASYNC_OFF, Mark.SCHEDULE_OFF, Mark.PREEMPTED}
    setup = of_arguments(log.arguments or "")
    assert setup is not None
    assert (setup.method, setup.tokens, setup.data_parallel) == ("eagle", 3, 2)
    assert (setup.stats_off, setup.lora) == (True, False)
    case = Case(log=log, setup=setup, symptom=Symptom.SLOWER)
    assert codes(case)[:2] == [Code.SCHEDULE_OFF, Code.KV_CACHE_EXHAUSTED]
    usage = read_log(["Waiting: 0 reqs, GPU KV cache usage: 97.0%"])
    assert codes(Case(log=usage, symptom=Symptom.SLOWER)) == [Code.KV_CACHE_EXHAUSTED]
    odd = of_arguments("{'speculative_config': {1: 2, 'method': [1]}}")
    assert odd is not None
    assert codes(Case(setup=odd)) == []
    for broken in ("{'a': <x>}", "{" * 5000, "[1]", "{1: 2, 'speculative_config': 'no'}"):
        told = of_arguments(broken)
        assert told is None or not told.speculates
    text = of_arguments("{'speculative_config': '{\"method\": \"ngram\"}'}")
    assert text is not None
    assert text.method == "ngram"


def test_a_command_line_is_read() -> None:
    """Old flags, new flags, dotted flags and JSON end in one configuration."""
    old = of_command(
        "python -m x --speculative-model [ngram] \\\n --num_speculative_tokens=5 "
        "--speculative-disable-by-batch-size 8 --ngram-prompt-lookup-max 4"
    )
    assert old.old_flags[:2] == ("--speculative-model", "--num_speculative_tokens")
    assert (old.method, old.tokens, old.speculates) == ("ngram", 5, True)
    assert old.speculative["disable_by_batch_size"] == 8
    new = of_command("vllm serve x --spec-method eagle3 --spec-model e --spec-tokens 3 -dp 2 "
                     "--api-server-count=4 --disable-log-stats --enable-lora --stream-interval 8 "
                     "--override-generation-config '{\"temperature\": 0.7}'")  # fmt: skip
    assert (new.method, new.tokens, new.data_parallel, new.api_servers) == ("eagle3", 3, 2, 4)
    assert (new.stats_off, new.lora, new.stream_interval, new.temperature) == (True, True, 8, 0.7)
    dotted = of_command("vllm serve x --speculative-config.method ngram "
                        "--speculative-config.num_speculative_tokens 4")  # fmt: skip
    assert (dotted.method, dotted.tokens) == ("ngram", 4)
    assert of_command("vllm serve x --override-generation-config nope").temperature is None
    assert of_config('{"model": "m"}').method is None
    assert not of_command("vllm serve x --max-model-len 4k --stream-interval").speculates


@pytest.mark.parametrize(
    "text",
    ["vllm serve 'x", "--speculative-config {", "--speculative-config '[1]'", "x" * 100_001,
     "rm -rf /", ""],
)  # fmt: skip
def test_a_command_line_beyond_reading_is_refused(text: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(ValueError, match=r"^\S.+$"):
        of_command(text)


@pytest.mark.parametrize(
    ("key", "values", "code"),
    [
        ("prompt_tokens", (500, 30_000), Code.CONTEXT_LENGTH),
        ("temperature", (0.0, 1.0), Code.HIGH_TEMPERATURE),
        ("adapter", ("base", "tenant-a"), Code.ADAPTERS),
    ],
)
def test_segments_are_compared(key: str, values: tuple[object, object], code: Code) -> None:
    """A segment well below the best one is told, whatever splits the requests."""

    def lines(worst: float) -> str:
        rows = [
            {key: value, "n": 20, "metrics": {"speculative_decoding": {
                "num_draft_tokens": 100, "num_accepted_draft_tokens": 100 * ratio}}}
            for value, ratio in zip(values, (0.7, worst), strict=True)
        ]  # fmt: skip
        return "\n".join(json.dumps(row) for row in [*rows, {"n": 1}, 3])

    fallen = Case(segmented=read_requests(lines(0.2)), symptom=Symptom.PROMPTS)
    assert codes(fallen) == [code]
    steady = Case(segmented=read_requests(lines(0.6)), symptom=Symptom.PROMPTS)
    assert codes(steady) == []
    assert exit_code(steady, diagnose(steady)) is ExitCode.OK


def test_better_long_prompts_are_no_decay() -> None:
    """Short prompts that do worse than long ones are no matter of context length."""
    rows = [
        {"prompt_tokens": n, "num_draft_tokens": 500, "num_accepted_draft_tokens": a}
        for n, a in ((100, 50), (90_000, 400))
    ]
    assert codes(Case(segmented=read_requests(json.dumps(rows)))) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '{"requests": [{"n": 0}]}', "{\nx"])
def test_requests_beyond_reading_are_refused(text: str) -> None:
    """Files without a drafted token are refused with the way to get one."""
    with pytest.raises(ValueError, match=r"line|num_draft_tokens"):
        read_requests(text)


@pytest.mark.parametrize(
    ("low", "good", "found"),
    [(0.02, 0.7, True), (0.25, 0.6, True), (0.35, 0.6, False), (0.2, 0.4, False)],
)
def test_acceptance_falls_in_part(low: float, good: float, found: bool) -> None:
    """Part of the time below 0.3 and part of it fine is told; a mediocre draft is not."""
    stretches = [
        Stretch(seconds=5.0, drafted=100, accepted=100 * ratio)
        for ratio in (low, good, good, low, good)
    ]
    base = accepted(0.4)
    one = Model(derived=base.derived, windowed=True, stretches=stretches)
    case = Case(models=(one,), symptom=Symptom.PROMPTS)
    assert (Code.ACCEPTANCE_FALLS_IN_PART in codes(case)) is found
    on_cpu = Case(models=(one,), symptom=Symptom.PROMPTS, pages=(Shown(on_cpu=True),))
    assert Code.CPU_SAMPLER not in codes(on_cpu)


def test_nothing_accepted_in_part_on_a_cpu_is_its_sampler() -> None:
    """Exactly nothing while the rest is fine is the CPU's sampler above temperature 0."""
    stretches = [Stretch(seconds=5.0, drafted=200, accepted=a) for a in (0, 120, 0, 120)]
    one = Model(derived=accepted(0.3).derived, windowed=True, stretches=stretches)
    assert codes(Case(models=(one,), release="0.32.0+cpu"))[0] is Code.CPU_SAMPLER


def probe(**values: object) -> Probe:
    """Make a probe of five good answers, a step's tokens a chunk."""
    plain: dict[str, object] = {
        "requests": 5, "failed": 0, "detail": "", "tokens": 640, "chunks": 215,
        "tokens_per_chunk": 3.0, "gap_p50": 0.01, "gap_p95": 0.012, "gap_p99": 0.02,
        "ttft_p50": 0.05, "tpot": 0.003, "in_one_piece": 0, "burst_share": 0.01,
        "page": model(tokens_per_step=3.0, step_seconds=0.01).derived,
    }  # fmt: skip
    return Probe(**{**plain, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "held"),
    [
        ({}, False),
        ({"tokens_per_chunk": 4.0}, False),
        ({"tokens_per_chunk": 6.0}, True),
        ({"tokens_per_chunk": 6.0, "page": None}, False),
        ({"tokens_per_chunk": None, "in_one_piece": 5}, True),
        ({"burst_share": 0.8}, True),
        ({"burst_share": None, "tokens_per_chunk": 9.0}, True),
        ({"burst_share": None}, False),
    ],
)
def test_chunks_are_held_back_beyond_a_step(values: dict[str, object], held: bool) -> None:
    """More than a step's tokens a chunk, or chunks together, is not the engine's doing."""
    case = Case(models=(model(tokens_per_step=3.0, num_speculative_tokens=4),),
                symptom=Symptom.CLUMPS, probe=probe(**values))  # fmt: skip
    found = codes(case)
    assert found[0] is (Code.CHUNKS_HELD_BACK if held else Code.CLUMPS_ARE_STEPS)


def test_a_step_of_one_token_makes_no_clumps() -> None:
    """Without speculation, and with a probe that is smooth, there is nothing to tell."""
    case = Case(models=(model(tokens_per_step=1.0),), symptom=Symptom.CLUMPS,
                probe=probe(tokens_per_chunk=1.0))  # fmt: skip
    assert codes(case) == []


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_asynchronous_scheduling_is_a_hint(method: str) -> None:
    """It is worth knowing that a lookup method switches it off, and no cause by itself."""
    setup = of_config(json.dumps({"method": method}))
    assert codes(Case(setup=setup, release="0.32.0"), causes=False) == [Code.ASYNC_SCHEDULING_OFF]
    assert codes(Case(setup=setup, release="0.13.0"), causes=False) == []


@pytest.mark.parametrize(
    ("config", "release", "code"),
    [
        ('{"disable_by_batch_size": 8}', "0.16.0", Code.SWITCH_WITHOUT_EFFECT),
        ('{"disable_by_batch_size": 8}', "0.17.0", Code.SWITCH_WITHOUT_EFFECT),
        ('{"synthetic_acceptance_rates": [0.5]}', "0.20.0", Code.SYNTHETIC_ACCEPTANCE),
        ('{"rejection_sample_method": "standard"}', "0.32.0", None),
        ('{"method": "eagle"}', None, None),
    ],
)
def test_a_configuration_is_judged(config: str, release: str | None, code: Code | None) -> None:
    """What a key means depends on the release; most mean no harm."""
    case = Case(setup=of_config(config), release=release)
    assert codes(case)[:1] == ([] if code is None else [code])
    v0 = Case(setup=of_config('{"disable_by_batch_size": 8}'), dialect=Dialect.VLLM_V0)
    assert codes(v0) == []


def test_a_page_shows_more_than_figures() -> None:
    """Names, adapters, the KV cache and a CPU are read; what is no sample is left."""
    text = """\
# TYPE vllm:x counter
vllm:x_total{engine="0"} 1
vllm:cache_config_info{block_size="16",num_gpu_blocks="100",engine="0"} 1
vllm:cache_config_info{block_size="16",num_gpu_blocks="50",engine="1",cpu_kvcache_space_bytes="9"} 1
vllm:lora_requests_info{running_lora_adapters="a, b",waiting_lora_adapters="c"} 1.7e9
vllm:lora_requests_info{running_lora_adapters
process_start_time_seconds 1
"""
    found = shown(text)
    assert found.names == {"x_total", "cache_config_info", "lora_requests_info"}
    assert found.adapters == {"a", "b", "c"}
    assert (found.kv_blocks, found.kv_tokens, found.on_cpu) == (150, 2400, True)
    assert not found.multiprocess
    assert shown("").kv_blocks is None


def test_a_page_without_counts_of_drafts_is_judged_all_the_same() -> None:
    """Early releases have no count of drafts: drafted tokens stand in, at eight a draft."""
    one = model(acceptance_ratio=0.1, draft_tokens=8000)
    found = of_page(one.derived)
    assert found is not None
    assert found.drafts == 1000.0
    assert of_page(model(acceptance_ratio=0.1).derived) is None
    assert of_page(model().derived) is None


def test_adapters_in_the_flags_are_enough() -> None:
    """Where adapters are configured, the average may hide one before its name is on the page."""
    setup = of_command("vllm serve x --enable-lora")
    case = Case(models=(accepted(0.7),), setup=setup, symptom=Symptom.PROMPTS)
    assert codes(case) == [Code.ADAPTERS]


def test_a_low_acceptance_that_pays_is_a_hint() -> None:
    """A cheap draft may be wrong most of the time and still pay."""
    one = judged(accepted(0.2, num_speculative_tokens=4), 1.4)
    assert codes(Case(models=(one,))) == []
    assert codes(Case(models=(one,)), causes=False) == [Code.LOW_ACCEPTANCE]


def test_what_is_accepted_is_held_against_what_a_step_costs() -> None:
    """Between 0.3 and break-even the advice is the k that the verdict suggests."""
    one = judged(accepted(0.4, num_speculative_tokens=4), 0.8, acceptance_length=2.0,
                 step_cost_ratio=2.5, breakeven_acceptance_length=2.5, decode_concurrency=1.0,
                 suggested_num_speculative_tokens=2.0)  # fmt: skip
    (top,) = diagnose(Case(models=(one,)))
    assert top.finding.code is Code.BELOW_BREAKEVEN
    assert top.finding.fix == "lower num_speculative_tokens to 2"


def test_another_servers_baseline_is_told() -> None:
    """A baseline that does not fit explains a loss by itself, as far as anybody knows."""
    base = accepted(0.6)
    judgement = Judgement(
        model_name="target",
        verdict=Verdict.UNKNOWN,
        reason=VerdictReason.BASELINE_MISMATCH,
        mismatches=("hardware.gpu",),
    )
    one = Model(derived=base.derived, windowed=True, judgement=judgement)
    case = Case(models=(one,), symptom=Symptom.SLOWER)
    assert codes(case) == [Code.NOT_COMPARABLE]
    assert "hardware.gpu" in diagnose(case)[0].finding.evidence


def test_what_a_case_lacks_leaves_its_rules_silent() -> None:
    """Figures that are missing, samples that are small, causes told twice: nothing breaks."""
    few = accepted(0.0, 60)
    assert codes(Case(models=(few,))) == []
    full = model(kv_cache_usage_ratio=0.99)
    bare = {n: v for n, v in full.derived.values.items() if n != "requests_waiting"}
    alone = Model(derived=replace(full.derived, values=bare), windowed=True)
    assert codes(Case(models=(alone,))) == [Code.KV_CACHE_EXHAUSTED]
    preempted = model(preemptions=3)
    assert "0% of" not in diagnose(Case(models=(preempted,)))[0].finding.evidence
    short = [Stretch(seconds=5.0, drafted=20, accepted=20 * r) for r in (0.0, 0.6)]
    brief = Model(derived=accepted(0.4).derived, windowed=True, stretches=short)
    assert codes(Case(models=(brief,))) == []
    warm = of_command("vllm serve x --override-generation-config '{\"temperature\": 1.2}'")
    assert codes(Case(models=(accepted(0.7),), setup=warm)) == []
    blank = json.dumps({"num_draft_tokens": 500, "num_accepted_draft_tokens": 400})
    assert read_requests(f"{blank}\n\n{blank}\n").pooled == 0.8


def test_errors_are_told_once_and_best() -> None:
    """Of several lines on one fault the one with numbers is told; old releases get their fix."""
    lines = [
        *failed("ValueError", "Target and draft model should have the same vocabulary"),
        *failed("ValueError", "Draft model vocab size 32000 != target model vocab size 128256"),
        *failed("ValueError", "Target and draft model should have the same vocabulary size"),
    ]
    case = Case(log=read_log(lines), symptom=Symptom.VOCABULARY, release="0.20.2")
    (top,) = diagnose(case)
    assert top.finding.numbers == {"draft_vocabulary": 32000, "target_vocabulary": 128256}
    assert "0.20.2 takes no other" in top.finding.fix
    late = Case(log=read_log(lines), release="0.28.0")
    assert diagnose(late)[0].finding.fix == ""


def test_a_finding_is_told_once_and_at_its_surest() -> None:
    """Two verdicts of equal models, one cause: told once with the higher confidence."""
    weak, strong = accepted(0.28, 150), accepted(0.05, 5000)
    found = diagnose(Case(models=(weak, strong)))
    assert [one.finding.confidence for one in found] == [0.85]
    again = diagnose(Case(models=(strong, weak)))
    assert [one.finding.confidence for one in again] == [0.85]


def test_bursts_alone_prove_a_buffer() -> None:
    """Without tokens a chunk, chunks that come together are enough."""
    held = probe(tokens_per_chunk=None, burst_share=0.9)
    case = Case(probe=held, symptom=Symptom.CLUMPS)
    assert codes(case) == [Code.CHUNKS_HELD_BACK]
    assert "90% of the chunks" in diagnose(case)[0].finding.evidence


def test_a_verdict_without_ratios_has_no_speedup() -> None:
    """A loss whose verdict gives no break-even is told by what a step costs."""
    one = judged(accepted(0.5, num_speculative_tokens=2), 0.7, acceptance_length=1.5,
                 step_cost_ratio=1.4)  # fmt: skip
    assert codes(Case(models=(one,))) == [Code.BELOW_BREAKEVEN]


SPOKEN = "SpecDecoding metrics: Mean acceptance length:"


@pytest.mark.parametrize(
    "line",
    [
        f"{SPOKEN} 1.2.3, Accepted: 5 tokens, Drafted: 9 tokens",
        f"{SPOKEN} 2.0, Accepted: 5 tokens, Drafted: 9 tokens, Per-position acceptance rate: 1.2.3",
        "Running: 1 reqs, Waiting: 5 reqs, GPU KV cache usage: 1.2.3%",
        "Running: 1 reqs, Waiting: 99999999999999999999 reqs, GPU KV cache usage: 1.0%",
        "Target model vocab_size=9999999999999999999999. Draft model vocab_size=1",
        "non-default args: {((((",
        "x" * 100_000,
        "\x00\ufffd",
        "",
    ],
)
def test_lines_that_are_nearly_right_break_nothing(line: str) -> None:
    """A log is text that anybody may have written into."""
    log = read_log([line, line])
    assert (log.most_waiting, log.most_kv) == (0, 0.0)
    assert all(one.length in {None, 2.0} and not one.positions for one in log.speculated)
    assert of_arguments(log.arguments or "") is None


@pytest.mark.parametrize(
    "head",
    [
        "",
        "\x1b[1;36m(EngineCore_DP0 pid=17001)\x1b[0;0m ERROR 11-29 16:20:49 [core.py:718] ",
        "2026-11-29T16:20:49.123456789Z stderr F (EngineCore_DP0 pid=1) ",
        "vllm-1  | ERROR 11-29 16:20:49 [core.py:718] ",
    ],
)
def test_a_traceback_is_read_behind_any_head(head: str) -> None:
    """Colours, containers and clusters put things before the engine's own words."""
    lines = ["Traceback (most recent call last):", '  File "x.py", line 1, in y', "    z()",
             "RuntimeError: Engine core initialization failed."]  # fmt: skip
    log = read_log(head + line for line in lines)
    assert [one.words for one in log.errors] == [lines[-1]]


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("0.25.1", "0.25.1"),
        ("v0.25.1", "0.25.1"),
        ("0.32.0+cpu", "0.32.0+cpu"),
        ("0.8.5.post1", "0.8.5.post1"),
        ("0.1.dev1+g5fbf73f", None),
        ("main", None),
        ("", None),
        (None, None),
    ],
)
def test_a_build_without_a_release_has_none(text: str | None, release: str | None) -> None:
    """A build of a working copy tells no release, and nothing is concluded from it."""
    assert known_release(text) == release


def test_an_empty_log_is_too_little() -> None:
    """No line was read, so nothing is known."""
    for symptom in (None, Symptom.VOCABULARY):
        case = Case(log=read_log(["", "\n"]), symptom=symptom)
        assert exit_code(case, diagnose(case)) is ExitCode.NO_VERDICT


STOPPED = [
    (
        "(APIServer pid=386) INFO 11-30 01:02:39 [launcher.py:254] [shutdown] API server: shutdown "
        "triggered"
    ),
    *failed("vllm.v1.engine.exceptions.EngineDeadError", "EngineCore encountered an issue."),
]


def test_a_server_that_is_stopped_has_not_failed() -> None:
    """What an engine says while it is being stopped is no fault; after a new start it is."""
    assert read_log(STOPPED).errors == ()
    assert read_log(STOPPED[1:]).errors[0].fault is Fault.OTHER
    again = [core("Initializing a V1 LLM engine (v0.32.0) with config: x", "INFO"), *STOPPED[1:]]
    assert len(read_log([*STOPPED, *again]).errors) == 1
    killed = "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup"
    assert read_log([killed]).errors[0].words == killed


def test_what_every_start_says_is_no_fault() -> None:
    """An ordinary start with speculation on a CPU warns of much that means nothing."""
    lines = [
        "Triton is installed, but doesn't include CPU backend. Disabling Triton.",
        (
            "(Worker pid=32731) WARNING 11-29 20:05:29 [__init__.py:211] min_p and logit_bias "
            "parameters won't work with speculative decoding."
        ),
        "(APIServer pid=1) WARNING 11-29 20:04:57 [cpu.py:224] Triton is not installed.",
        "(APIServer pid=1) INFO 11-30 01:02:51 [api_utils.py:347]  version 0.32.0",
    ]
    log = read_log(lines)
    assert log.marks == {Mark.ON_CPU}
    assert log.release == "0.32.0"
    assert codes(Case(log=log), causes=False) == []


@pytest.mark.parametrize(
    ("dialect", "told"),
    [
        (Dialect.VLLM_V0, "V0 shows them from the first"),
        (Dialect.VLLM_V1, "V1 shows them from the"),
    ],
)
def test_what_is_not_on_is_told_by_its_engine(dialect: Dialect, told: str) -> None:
    """V1 has its series from the start and V0 has not."""
    one = model()
    absent = replace(one, derived=replace(one.derived, speculation=Speculation.ABSENT))
    case = Case(symptom=Symptom.ZERO, models=(absent,), dialect=dialect, looked=True)
    first, *_ = diagnose(case)
    assert first.finding.code is Code.SPECULATION_NOT_ON
    assert told in first.finding.evidence
