"""Which dialect a page speaks, and that the same engine reads the same in every one of them."""

import pytest
from tests.recorded import load_page, measure, measure_life, only
from tests.rewritten import (
    as_openmetrics,
    as_ray,
    as_rust_frontend,
    keep_types,
    relabel,
    rename,
    without,
)
from tests.written import Engine, sample, write_page

from specgauge.engines.reader import Reader
from specgauge.model.derived import Derived, Reason, Speculation, Warn
from specgauge.model.quantity import Dialect, Layout, Quantity

BEFORE, AFTER = (load_page(f"vllm/0.32.0-ngram/{at}.prom") for at in ("before", "after"))
PLAIN = load_page("vllm/0.32.0-none/after.prom")
EXPECTED = only(measure([BEFORE, AFTER], 30.0))


def layout(page: bytes) -> Layout:
    """Describe one page."""
    return Reader().read(page).layout


def line(name: str, **labels: str) -> bytes:
    """Write one sample of one model."""
    return sample(name, {"model_name": "m", **labels}, 1.0).encode() + b"\n"


V0_GAUGE = line("vllm:spec_decode_draft_acceptance_rate")
TOKENS = line("vllm:generation_tokens_total")
DIALECTS = {
    "engine label": (line("vllm:generation_tokens_total", engine="0"), Dialect.VLLM_V1),
    "creation time": (TOKENS + line("vllm:generation_tokens_created"), Dialect.VLLM_V1),
    "drafts": (line("vllm:spec_decode_num_drafts_total"), Dialect.VLLM_V1),
    "only a start of the process": (TOKENS + b"process_start_time_seconds 1\n", Dialect.VLLM_V0),
    "no mark": (TOKENS, Dialect.VLLM_V0),
    "swapped requests": (TOKENS + line("vllm:num_requests_swapped"), Dialect.VLLM_V0),
    "swapped requests and an engine label": (
        line("vllm:num_requests_swapped", engine="0"),
        Dialect.VLLM_V0,
    ),
    "V0 gauge": (V0_GAUGE, Dialect.VLLM_V0),
    "V0 gauge and creation time": (
        V0_GAUGE + line("vllm:generation_tokens_created"),
        Dialect.VLLM_V0,
    ),
    "V0 gauge and drafts": (
        V0_GAUGE + line("vllm:spec_decode_num_drafts_total"),
        Dialect.VLLM_UNKNOWN,
    ),
    "Ray prefix": (line("ray_vllm_generation_tokens_total"), Dialect.VLLM_V1_RAY),
    "Ray label": (line("vllm:generation_tokens_total", ReplicaId="a"), Dialect.VLLM_V1_RAY),
}


@pytest.mark.parametrize(("page", "dialect"), DIALECTS.values(), ids=DIALECTS)
def test_dialect_is_told_by_the_series(page: bytes, dialect: Dialect) -> None:
    """The marks of an engine generation decide, never a version."""
    assert layout(page).dialect is dialect


def test_contradicting_marks_leave_acceptance_unknown() -> None:
    """Counters that could be of either generation are not divided."""
    page = V0_GAUGE + write_page(Engine(model="m", drafts=10, drafted=30, accepted=20, tokens=40))
    found = only(measure_life(page))
    assert found.absent["acceptance_ratio"] == Reason.CONFLICTING_DIALECTS


def same_as_expected(found: Derived, *, but: frozenset[str] = frozenset()) -> None:
    """Compare with what the Python frontend's pages give."""
    expected = {field: value for field, value in EXPECTED.values.items() if field not in but}
    assert {k: v for k, v in found.values.items() if k not in but} == expected
    assert found.speculation is EXPECTED.speculation


REWRITTEN = {
    "underscore for colon": [rename(page, "vllm:", "vllm_") for page in (BEFORE, AFTER)],
    "underscore under TYPE lines with a colon": [
        rename(page, "vllm:", "vllm_", types=False) for page in (BEFORE, AFTER)
    ],
    "OpenMetrics": [as_openmetrics(page) for page in (BEFORE, AFTER)],
    "OpenMetrics with underscore under TYPE lines with a colon": [
        as_openmetrics(rename(page, "vllm:", "vllm_", types=False)) for page in (BEFORE, AFTER)
    ],
    "Ray": [as_ray(page, "a") for page in (BEFORE, AFTER)],
    "Ray with the colon": [as_ray(page, "a", "ray_vllm:") for page in (BEFORE, AFTER)],
    "only the older latency name": [
        page.replace(b"inter_token_latency", b"time_per_output_token")
        for page in (
            without(BEFORE, "request_time_per_output"),
            without(AFTER, "request_time_per_output"),
        )
    ],
    "both latency names": [
        page + page.replace(b"vllm:inter_token_latency", b"vllm:time_per_output_token")
        for page in (BEFORE, AFTER)
    ],
    "both names of the cache gauge": [
        page + page.replace(b"kv_cache_usage_perc", b"gpu_cache_usage_perc")
        for page in (BEFORE, AFTER)
    ],
    "no labels of an engine": [
        keep_types(page) + relabel(page, {}, ["engine"]) for page in (BEFORE, AFTER)
    ],
    "labels in another order": [
        b"".join(
            row.replace(b'engine="0",model_name="tiny"', b'model_name="tiny",engine="0"')
            for row in page.splitlines(keepends=True)
        )
        for page in (BEFORE, AFTER)
    ],
    "counters with and without _total": [
        page
        + b"".join(
            row.replace(b"_total{", b"{")
            for row in page.splitlines(keepends=True)
            if row.startswith(b"vllm:") and b"_total{" in row
        )
        for page in (BEFORE, AFTER)
    ],
    "Ray with and without _total": [
        page
        + b"".join(
            row.replace(b"_total{", b"{")
            for row in page.splitlines(keepends=True)
            if row.startswith(b"ray_vllm_") and b"_total{" in row
        )
        for page in (as_ray(BEFORE, "a"), as_ray(AFTER, "a"))
    ],
    "Rust frontend": [as_rust_frontend(page) for page in (BEFORE, AFTER)],
}
ABSENT_WITHOUT = {"only the older latency name": frozenset({"request_tpot_seconds"})}


@pytest.mark.parametrize("name", REWRITTEN)
def test_the_same_engine_reads_the_same(name: str) -> None:
    """Whatever exports them, the same counters give the same quantities."""
    found = only(measure(REWRITTEN[name], 30.0))
    same_as_expected(found, but=ABSENT_WITHOUT.get(name, frozenset()))


def test_rust_page_before_the_first_draft() -> None:
    """Zeros without positions are no proof of speculation, nor against it."""
    page = as_rust_frontend(BEFORE)
    found = only(measure_life(page))
    assert found.speculation is Speculation.IDLE
    assert found.absent["num_speculative_tokens"] == Reason.NOT_EXPOSED
    assert found.absent["acceptance_ratio"] == Reason.NO_DRAFTS


def test_rust_page_without_speculation() -> None:
    """Its zeros while tokens flow leave the state unknown."""
    assert only(measure_life(as_rust_frontend(PLAIN))).speculation is Speculation.UNKNOWN


def test_renamed_series_are_missed_not_guessed() -> None:
    """A release that renames a counter leaves the quantity absent."""
    page = AFTER.replace(b"spec_decode_num_draft_tokens", b"spec_decode_num_proposed_tokens")
    found = only(measure_life(page))
    assert found.absent["acceptance_ratio"] == Reason.NOT_EXPOSED
    assert found.absent["draft_length"] == Reason.NOT_EXPOSED
    assert found.values["drafts"] == 627


DIFFUSION = {
    "by its counters": line("vllm:diffusion_num_denoising_steps_total", engine="0")
    + line("vllm:spec_decode_num_drafts_total", engine="0"),
    "by its canvas": write_page(Engine(drafts=1, drafted=200, accepted=64, positions=[1] * 200)),
}


@pytest.mark.parametrize("page", DIFFUSION.values(), ids=DIFFUSION)
def test_diffusion_is_not_speculation(page: bytes) -> None:
    """A diffusion model reports on the same path; it has no acceptance."""
    found = only(measure_life(page))
    assert found.speculation is Speculation.NOT_SPECULATIVE
    assert found.absent["acceptance_ratio"] == Reason.NOT_SPECULATIVE
    assert found.violations == ()


def test_engines_are_sorted_as_numbers() -> None:
    """Engine 10 comes behind engine 9, and names behind numbers."""
    page = write_page(*(Engine(engine=name, tokens=1.0) for name in ("10", "9", "b", "a", "1")))
    assert layout(page).engines == {"target": ("1", "9", "10", "a", "b")}


def test_page_that_has_served_nothing() -> None:
    """Only a cache configuration: an engine, but no model yet."""
    found = layout(b'vllm:cache_config_info{block_size="16",engine="0"} 1\n')
    assert found.engines == {}
    assert found.dialect is Dialect.VLLM_V1


def test_mixed_buckets_are_told() -> None:
    """Engines that count in different buckets cannot be shown as one histogram."""
    name = "vllm:e2e_request_latency_seconds_bucket"
    one, other = (line(name, engine="0", le=le) for le in ("1", "2"))
    assert layout(one + line(name, engine="1", le="1.0")).mixed_buckets == frozenset()
    page = other + line(name, engine="1", le="1")
    assert layout(page).mixed_buckets == {"m"}
    assert Warn.MIXED_BUCKETS in only(measure_life(page)).warnings


def test_groups_restart_together() -> None:
    """An engine is one group, unless every series of it names a process of its own."""
    whole = Reader().read(
        line("vllm:generation_tokens_total", engine="0")
        + line("vllm:kv_cache_usage_perc", engine="0", pid="7")
    )
    assert set(whole.layout.group.values()) == {("m", "0", ())}
    parted = Reader().read(
        b"".join(
            line("vllm:generation_tokens_total", engine="0", ReplicaId=replica)
            for replica in ("a", "b")
        )
        + b'http_requests_total{handler="/v1",status="2xx",instance="x"} 4\n'
    )
    assert set(parted.layout.group.values()) == {
        ("m", "0", (("ReplicaId", "a"),)),
        ("m", "0", (("ReplicaId", "b"),)),
        ("", "", (("instance", "x"),)),
    }


def test_speculative_cells_are_listed_once() -> None:
    """Cells of speculation are named once, however many series feed them."""
    page = layout(
        b"".join(
            line("vllm:spec_decode_num_drafts_total", engine="0", pid=pid) for pid in ("1", "2")
        )
        + TOKENS
    )
    assert [cell.measure[0] for cell in page.speculative] == [Quantity.DRAFTS]
