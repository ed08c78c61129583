"""Times and flows: each formula on its own deltas, and what cannot be believed told as such."""

from dataclasses import replace

import pytest
from tests.recorded import Watched, measure, measure_life, only
from tests.written import Engine, sample, write_page

from specgauge.derive.latency import buckets, quantile
from specgauge.derive.window import windows
from specgauge.model.derived import Derived, Reason, Warn
from specgauge.model.quantity import Quantity

ZERO = Engine(
    drafts=0,
    drafted=0,
    accepted=0,
    tokens=0,
    prompts=0,
    firsts=0,
    steps=0,
    iterations=0,
    finished=0,
    running=0,
    waiting=0,
    usage=0.0,
)
BUSY = replace(
    ZERO,
    drafts=80,
    drafted=320,
    accepted=200,
    tokens=310.0,
    prompts=1000.0,
    firsts=10.0,
    first_seconds=2.0,
    steps=100.0,
    step_seconds=4.0,
    iterations=50.0,
    finished=9.0,
    running=3.0,
    waiting=1.0,
    usage=0.25,
)


def over(engine: Engine, seconds: float = 2.0) -> Derived:
    """Measure what an engine did since it was at zero."""
    return only(measure([write_page(ZERO), write_page(engine)], seconds))


def test_every_formula() -> None:
    """Three hundred tokens after ten first ones, in a hundred steps of forty milliseconds."""
    found = over(BUSY).values
    assert found["tokens_per_step"] == 3.0
    assert found["draft_coverage_ratio"] == 0.8
    assert found["tpot_seconds"] == 4.0 / 300
    assert found["step_seconds"] == 0.04
    assert found["ttft_seconds"] == 0.2
    assert found["decode_concurrency"] == 2.0
    assert found["decode_tokens_per_second"] == 150.0
    assert found["generation_tokens_per_second"] == 155.0
    assert found["prompt_tokens_per_request"] == 100.0
    assert found["output_tokens_per_request"] == 31.0
    assert found["generation_tokens"] == 310
    assert (found["requests_running"], found["requests_waiting"]) == (3, 1)
    assert found["kv_cache_usage_ratio"] == 0.25


def test_one_page_has_no_rates() -> None:
    """What needs a window says so; means since the start are given and marked."""
    found = only(measure_life(write_page(BUSY)))
    for field in (
        "decode_concurrency",
        "decode_tokens_per_second",
        "generation_tokens_per_second",
    ):
        assert found.absent[field] == Reason.NEEDS_WINDOW
    assert found.values["tpot_seconds"] == 4.0 / 300
    assert Warn.LIFETIME_VALUE in found.warnings


ABSENT = {
    "no steps": (replace(BUSY, steps=0), "step_seconds", Reason.NO_TOKENS),
    "no steps to carry drafts": (
        replace(BUSY, steps=0),
        "draft_coverage_ratio",
        Reason.NO_TOKENS,
    ),
    "no tokens after the first": (replace(BUSY, tokens=10.0), "tpot_seconds", Reason.NO_TOKENS),
    "no requests": (replace(BUSY, firsts=0.0), "ttft_seconds", Reason.NO_REQUESTS),
    "no prompt counter": (
        replace(BUSY, prompts=None),
        "prompt_tokens_per_request",
        Reason.NOT_EXPOSED,
    ),
    "no latency histogram": (replace(BUSY, steps=None), "tpot_seconds", Reason.NOT_EXPOSED),
    "no first tokens": (replace(BUSY, firsts=None), "tpot_seconds", Reason.NOT_EXPOSED),
    "no generation counter": (replace(BUSY, tokens=None), "tpot_seconds", Reason.NOT_EXPOSED),
    "no gauge": (replace(BUSY, running=None), "requests_running", Reason.NOT_EXPOSED),
    "gauge below zero": (replace(BUSY, running=-1.0), "requests_running", "negative_value"),
    "no preemption counter": (BUSY, "preemptions", Reason.NOT_EXPOSED),
    "first tokens in no time": (
        replace(BUSY, first_seconds=0.001),
        "ttft_seconds",
        Reason.IMPLAUSIBLE_TTFT,
    ),
    "everything built on such": (
        replace(BUSY, first_seconds=0.001),
        "tpot_seconds",
        Reason.IMPLAUSIBLE_TTFT,
    ),
    "more first tokens than tokens": (
        replace(BUSY, firsts=311.0, first_seconds=99.0),
        "tokens_per_step",
        Reason.IMPLAUSIBLE_TTFT,
    ),
    "many more first tokens than requests": (
        replace(BUSY, tokens=9000.0, firsts=200.0, first_seconds=99.0),
        "output_tokens_per_request",
        Reason.IMPLAUSIBLE_TTFT,
    ),
}


@pytest.mark.parametrize(("engine", "field", "reason"), ABSENT.values(), ids=ABSENT)
def test_absent_with_its_reason(engine: Engine, field: str, reason: str) -> None:
    """What cannot be known is absent, and says why."""
    found = over(engine)
    assert field not in found.values
    assert found.absent[field] == reason
    assert (Warn.IMPLAUSIBLE_TTFT in found.warnings) is (reason == Reason.IMPLAUSIBLE_TTFT)


def test_first_tokens_without_finished_requests_to_compare() -> None:
    """Where requests are not counted by their ends, nothing speaks against the first tokens."""
    found = over(replace(BUSY, finished=None, tokens=9000.0, firsts=200.0, first_seconds=9.0))
    assert found.values["ttft_seconds"] == 0.045


def test_preemptions_are_counted() -> None:
    """Preempted requests of the window."""
    labels = {"model_name": "target", "engine": "0"}
    pages = [
        write_page(ZERO, extra=[sample("vllm:num_preemptions_total", labels, n)]) for n in (1, 4)
    ]
    assert only(measure(pages)).values["preemptions"] == 3


def test_v0_chunked_prefills_are_told() -> None:
    """V0 observed a first token for every chunk of a prefill."""
    lines = [
        sample("vllm:num_requests_swapped", {"model_name": "m"}, 0.0),
        *(
            sample(f"vllm:{name}", {"model_name": "m"}, value)
            for name, value in {
                "time_to_first_token_seconds_count": 200.0,
                "time_to_first_token_seconds_sum": 90.0,
                "e2e_request_latency_seconds_count": 50.0,
                "e2e_request_latency_seconds_sum": 90.0,
                "generation_tokens_total": 100.0,
            }.items()
        ),
    ]
    found = only(measure_life("".join(f"{line}\n" for line in lines).encode()))
    assert found.absent["ttft_seconds"] == Reason.IMPLAUSIBLE_TTFT


UNEVEN = {
    "even": (BUSY, 2.0, False),
    "half of the window idle": (replace(BUSY, step_seconds=2.0), 2.0, True),
    "too short to be uneven": (replace(BUSY, step_seconds=0.2), 0.5, False),
    "nothing to compare with": (replace(BUSY, iterations=None), 2.0, False),
    "no steps": (replace(BUSY, steps=0.0), 2.0, False),
}


@pytest.mark.parametrize(("engine", "seconds", "uneven"), UNEVEN.values(), ids=UNEVEN)
def test_uneven_load_is_told(engine: Engine, seconds: float, *, uneven: bool) -> None:
    """Steps fuller than the time was: part of the window was idle."""
    assert (Warn.UNEVEN_LOAD in over(engine, seconds).warnings) is uneven


def test_latency_below_the_first_bucket_is_told() -> None:
    """A median that no bucket resolves."""
    name = "vllm:e2e_request_latency_seconds_bucket"
    labels = {"model_name": "target", "engine": "0"}

    def page(*counts: float) -> bytes:
        ladder = zip(("0.3", "1.0", "+Inf"), counts, strict=True)
        return write_page(
            replace(ZERO, finished=None),
            extra=[sample(name, {**labels, "le": le}, count) for le, count in ladder],
        )

    assert Warn.BELOW_FIRST_BUCKET in only(measure([page(0, 0, 0), page(6, 9, 10)])).warnings
    assert Warn.BELOW_FIRST_BUCKET not in only(measure([page(0, 0, 0), page(4, 9, 10)])).warnings


def test_buckets_are_of_the_window() -> None:
    """Bounds in rising order, with what the window added."""
    watched = Watched(write_page(ZERO))
    watched.see(write_page(BUSY), 1.0)
    (window,) = windows(watched.start, watched.ledger, watched.page, 1.0).values()
    assert buckets(window, Quantity.TTFT) == {0.001: 0.0, 10.0: 10.0, float("inf"): 10.0}
    assert buckets(window, Quantity.REQUEST_TPOT) == {}


LADDER = {0.1: 10.0, 0.5: 30.0, float("inf"): 40.0}
QUANTILES = {
    "within the first bucket": (LADDER, 0.125, 0.05),
    "within the second": (LADDER, 0.5, 0.3),
    "at a bound": (LADDER, 0.25, 0.1),
    "above the last finite bound": (LADDER, 0.9, None),
    "nothing observed": ({0.1: 0.0, float("inf"): 0.0}, 0.5, None),
    "no buckets": ({}, 0.5, None),
    "beyond all of them": (LADDER, 1.5, None),
    "counts that fall": ({0.1: 10.0, 0.5: 3.0}, 0.9999, 0.09999),
}


@pytest.mark.parametrize(("ladder", "q", "value"), QUANTILES.values(), ids=QUANTILES)
def test_quantile_is_interpolated(
    ladder: dict[float, float], q: float, value: float | None
) -> None:
    """Linear within a bucket, and nothing where no bucket says."""
    found = quantile(ladder, q)
    assert found == (None if value is None else pytest.approx(value))
