"""From the view to families of series: one series for a value, none for an absent one."""

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.judging import base, level, line
from tests.sidecars import read_samples
from tests.small_pages import diffusion_page, v0_page, v1_page

from specgauge.derive.interpolate import curve
from specgauge.errors import SourceError
from specgauge.model import names
from specgauge.model.baseline import Baseline
from specgauge.model.derived import FIELDS, Check, Speculation
from specgauge.model.outcome import ScrapeResult
from specgauge.model.settings import TargetSettings
from specgauge.model.view import TargetView, View
from specgauge.serve.collector import ViewCollector
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.tracker import Moment, Tracker

T = 'target="spec"'
M = f'model_name="small",{T}'
E = f'engine="0",{M}'


def watched(
    pages: Iterable[bytes], name: str = "spec", comparison: ComparisonTerms | None = None
) -> TargetView:
    tracker = Tracker(TargetSettings(name=name, url="http://engine:8000"), 60.0, comparison)
    for time, page in enumerate(pages):
        tracker.page(page, complete=True, at=Moment(time=time, unix=time), seconds=0.25)
    return tracker.view


def emit(*targets: TargetView, histograms: bool = True, positions: bool = True) -> dict[str, float]:
    view = View(targets=targets)
    registry = CollectorRegistry()
    registry.register(ViewCollector(lambda: view, histograms=histograms, positions=positions))
    return read_samples(generate_latest(registry).decode())


def series_named(found: dict[str, float], pattern: str) -> dict[str, float]:
    return {key: value for key, value in found.items() if re.match(f"specgauge_{pattern}", key)}


def test_counters_by_engine() -> None:
    """Counters carry the engine, so that a fleet is summed exactly in PromQL."""
    found = emit(watched([v1_page({"0": 1000, "1": 1000}), v1_page({"0": 2000, "1": 1500})]))
    assert series_named(found, "drafts_total") == {
        f"specgauge_drafts_total{{{E}}}": 1000,
        f'specgauge_drafts_total{{engine="1",{M}}}': 500,
    }
    assert found[f"specgauge_decode_seconds_total{{{E}}}"] == pytest.approx(10)
    assert found[f"specgauge_first_tokens_total{{{E}}}"] == 40
    assert (
        found[f'specgauge_requests_finished_total{{engine="0",finished_reason="stop",{M}}}'] == 40
    )
    last = f'engine="1",model_name="small",position="3",{T}'
    assert found[f"specgauge_accepted_tokens_per_position_total{{{last}}}"] == 100


def test_gauges_are_those_of_the_model() -> None:
    """A gauge has the value of its field; a list has one series a position."""
    view = watched([v1_page(1000), v1_page(2000)])
    found = emit(view)
    values = view.models["small"].values
    for field, name in names.GAUGES.items():
        value = values[field]
        if isinstance(value, int | float):
            assert found[f"{name.name}{{{M}}}"] == value
        else:
            shown = series_named(found, f"{field}{{")
            assert list(shown.values()) == list(value)
    assert set(names.GAUGES) <= set(FIELDS)


def test_absent_value_is_an_absent_series() -> None:
    """Nothing is drafted: there are no ratios, neither 0 nor NaN, and the state says why."""
    found = emit(watched([v1_page(1000, speculative=False), v1_page(2000, speculative=False)]))
    assert series_named(found, "(acceptance|draft|position|num_spec)") == {}
    assert found[f"specgauge_tokens_per_step{{{M}}}"] == 3
    assert set(re.findall(r'quantity="(\w+)"', str(series_named(found, "derivation")))) == {
        "tpot_seconds"
    }


@pytest.mark.parametrize(
    ("pages", "model", "expected"),
    [
        pytest.param([v1_page(1000), v1_page(2000)], "small", "active", id="active"),
        pytest.param([v1_page(1000), v1_page(1000)], "small", "idle", id="idle"),
        pytest.param(
            [v1_page(n, speculative=False) for n in (1000, 2000)], "small", "absent", id="absent"
        ),
        pytest.param(
            [diffusion_page(1000), diffusion_page(2000)],
            "canvas",
            "not_speculative",
            id="diffusion",
        ),
    ],
)
def test_state_set_has_one_state(pages: list[bytes], model: str, expected: str) -> None:
    """Of the states one is 1 and all others are 0."""
    found = series_named(emit(watched(pages)), "speculation_state")
    key = f'specgauge_speculation_state{{model_name="{model}",state="%s",{T}}}'
    assert found == {key % state: float(state == expected) for state in Speculation}


def test_diffusion_exports_no_draft_counters() -> None:
    """Draft counters that are no speculation would be taken for one."""
    found = emit(watched([diffusion_page(1000), diffusion_page(2000)]))
    assert series_named(found, "(drafts|draft_tokens|accepted)") == {}
    assert series_named(found, "decode_steps_total")


def test_derivation_tells_the_former_engine_apart() -> None:
    """A dashboard can see that a figure was recovered and not counted."""
    pages = [v0_page([], 0), v0_page([500], 500), v0_page([500, 1225], 1225)]
    found = series_named(emit(watched(pages)), "derivation_info")
    assert set(re.findall(r'method="(\w+)"', str(found))) == {
        "v0_interval",
        "v0_finished_requests",
    }


def test_switches_leave_out_what_they_name() -> None:
    """Without positions and histograms the page has everything else."""
    view = watched([v1_page(1000), v1_page(2000)])
    everything, less = emit(view), emit(view, histograms=False, positions=False)
    gone = set(everything) - set(less)
    assert gone == set(
        series_named(
            everything,
            r"(\w*position_|time_to_first|step_latency|e2e|request_time)\w*",
        )
    )
    assert set(less) < set(everything)


def test_histograms_are_summed_over_engines() -> None:
    """A histogram has no engine; its buckets are the sums at the bounds that all engines have."""
    pages = [v1_page({"0": 1000, "1": 1000}), v1_page({"0": 2000, "1": 1500})]
    first = b'engine="1",model_name="small",le="%b"'
    other = [page.replace(first % b"0.025", first % b"0.5") for page in pages]
    for one in (pages, other):
        found = emit(watched(one))
        assert found[f"specgauge_step_latency_seconds_count{{{M}}}"] == 1500
        assert found[f"specgauge_step_latency_seconds_sum{{{M}}}"] == pytest.approx(15)
        bucket = 'specgauge_step_latency_seconds_bucket{le="%s",' + M + "}"
        assert found[bucket % "+Inf"] == 1500
        assert found.get(bucket % "0.025") == (1500 if one is pages else None)


def test_http_requests_are_summed_by_code() -> None:
    """The web server's requests belong to the target, whatever their handler."""
    lines = b'http_requests_total{status="2xx",handler="/v1",method="POST"} %d\n' * 2
    lines = lines.replace(b"/v1", b"/v2", 1)
    found = emit(watched([v1_page(25) + lines % (1, 2), v1_page(50) + lines % (4, 6)]))
    assert series_named(found, "http_requests_total") == {
        f'specgauge_http_requests_total{{code="2xx",{T}}}': 7
    }


def test_engine_that_gains_a_label_stays_one_series() -> None:
    """A server replaced by a release with engine labels must not make two series of one name."""
    old = [page.replace(b'engine="0",', b"") for page in (v1_page(1000), v1_page(2000))]
    found = emit(watched([*old, v1_page(500), v1_page(1000)]))
    assert found[f"specgauge_drafts_total{{{E}}}"] == 1000 + 500 + 500
    assert found[f"specgauge_engine_seen_timestamp_seconds{{{E}}}"] == 3
    assert len(series_named(found, "engine_restarts_total")) == 1


def test_about_the_target_before_and_after_failure() -> None:
    """Every result stands at 0 from the start; what the last page said goes with the page."""
    fresh = emit(Tracker(TargetSettings(name="spec", url="http://a"), 60.0).view)
    key = f'specgauge_scrapes_total{{result="%s",{T}}}'
    assert series_named(fresh, "scrapes") == {key % result: 0 for result in ScrapeResult}
    assert fresh[f"specgauge_target_up{{{T}}}"] == 0
    assert series_named(fresh, "(scrape_duration|last_scrape|engine)") == {}
    tracker = Tracker(TargetSettings(name="spec", url="http://a"), 60.0)
    for time, page in enumerate([v1_page(1000), v1_page(2000)]):
        tracker.page(page, complete=True, at=Moment(time=time, unix=time), seconds=0.25)
    up = emit(tracker.view)
    tracker.failure(SourceError(ScrapeResult.TIMEOUT, "slow"), 3.0)
    down = emit(tracker.view)
    assert down[f"specgauge_target_up{{{T}}}"] == 0
    assert down[key % "timeout"] == 1
    assert down[f"specgauge_scrape_duration_seconds{{{T}}}"] == 3
    gauges = {f"{name.name}" for name in names.GAUGES.values()}
    gone = {key.partition("{")[0] for key in set(up) - set(down)}
    assert gone == gauges | {
        "specgauge_speculation_state",
        "specgauge_derivation_info",
        "specgauge_engine_info",
    }
    totals = {name.name for name in names.ALL if name.kind == "counter"} - {names.SCRAPES.name}
    for key, value in up.items():
        if key.partition("{")[0] in totals:
            assert down[key] == value


def test_identity_checks_stand_at_zero() -> None:
    """An alert on a rate needs the series before the first violation."""
    found = series_named(emit(watched([v1_page(1000)])), "identity_violations_total")
    assert found == {
        f'specgauge_identity_violations_total{{check="{check}",{M}}}': 0 for check in Check
    }


def test_targets_stand_side_by_side() -> None:
    """Two targets with the same model are told apart by their name."""
    one, two = watched([v1_page(25), v1_page(50)], "a"), watched([v1_page(25), v1_page(75)], "b")
    found = series_named(emit(one, two), "drafts_total")
    assert sorted(found.values()) == [25, 50]


def test_labels_are_escaped() -> None:
    """A model may be called anything."""
    name = 'a"b\\c'
    view = watched([v1_page(25), v1_page(50)])
    (derived,) = view.models.values()
    renamed = replace(view, totals={}, models={name: replace(derived, model_name=name)})
    registry = CollectorRegistry()
    registry.register(ViewCollector(lambda: View(targets=(renamed,))))
    assert rb'model_name="a\"b\\c"' in generate_latest(registry)


def test_table_of_names() -> None:
    """Names are unique, counters end in _total, and each has a help that is a sentence."""
    assert len({one.name for one in names.ALL}) == len(names.ALL)
    for one in names.ALL:
        assert re.fullmatch(r"specgauge_[a-z0-9_]+", one.name)
        assert one.name.endswith("_total") is (one.kind == "counter")
        assert one.kind in {"counter", "gauge", "histogram"}
        assert one.help[-1] == "."
        assert not one.help.startswith(one.name)


FILE = base(
    curve([level(0.5, 0.004), level(8.125, 0.02 / 3, ttft=0.05)]),
    created=1.75e9,
    facts={"model.name": "small"},
)


def judged(baseline: Baseline = FILE, seconds: int = 3) -> dict[str, float]:
    """Give the series of a comparison with a baseline."""
    pages = [v1_page(1000 + 1000 * second) for second in range(seconds)]
    found = emit(watched(pages, comparison=ComparisonTerms(baselines=(baseline,))))
    return series_named(found, "(baseline|speedup|verdict|e2e_speedup|step_cost|break|suggest)")


def test_comparison_with_a_baseline() -> None:
    """Both bases with their intervals, what follows from them, the verdict and the baseline."""
    found = judged(base(line((10.0, 0.02 / 3), ttft=0.05), created=1.75e9))
    both = [f'basis="{basis}",{M}' for basis in ("concurrency", "throughput")]
    expected = {
        **{f"specgauge_speedup_ratio{{{labels}}}": 2.0 for labels in both},
        **{f"specgauge_speedup_ratio_low{{{labels}}}": 2.0 for labels in both},
        **{f"specgauge_speedup_ratio_high{{{labels}}}": 2.0 for labels in both},
        **{f"specgauge_baseline_decode_seconds_total{{{labels}}}": 40.0 for labels in both},
        **{f"specgauge_baseline_covered_decode_seconds_total{{{labels}}}": 20.0 for labels in both},
        f"specgauge_e2e_speedup_ratio{{{M}}}": (0.05 + 0.5) / (0.05 + 0.25),
        f"specgauge_step_cost_ratio{{{M}}}": 1.5,
        f"specgauge_breakeven_acceptance_length{{{M}}}": 1.5,
        f"specgauge_suggested_num_speculative_tokens{{{M}}}": 3.0,
        f'specgauge_verdict{{{M},verdict="pays"}}': 1.0,
        f'specgauge_verdict{{{M},verdict="costs"}}': 0.0,
        f'specgauge_verdict{{{M},verdict="even"}}': 0.0,
        f'specgauge_verdict{{{M},verdict="unknown"}}': 0.0,
        f'specgauge_baseline_tpot_seconds{{concurrency="10",{M}}}': 0.02 / 3,
        f'specgauge_baseline_ttft_seconds{{concurrency="10",{M}}}': 0.05,
        f"specgauge_baseline_created_timestamp_seconds{{{M}}}": 1.75e9,
    }
    assert found == {key: pytest.approx(value) for key, value in expected.items()}


def test_levels_of_the_baseline() -> None:
    """A level has its load as a label, and a TTFT only where it has one."""
    found = judged()
    assert series_named(found, "baseline_t") == {
        f'specgauge_baseline_tpot_seconds{{concurrency="0.5",{M}}}': 0.004,
        f'specgauge_baseline_tpot_seconds{{concurrency="8.125",{M}}}': 0.02 / 3,
        f'specgauge_baseline_ttft_seconds{{concurrency="8.125",{M}}}': 0.05,
    }


def test_levels_of_a_live_baseline() -> None:
    """A curve that is made anew every few seconds does not make new series each time."""
    for load in (127.6, 131.9):
        found = judged(replace(base(line((load, 0.02 / 3))), method="live"))
        assert list(series_named(found, "baseline_tpot")) == [
            f'specgauge_baseline_tpot_seconds{{concurrency="130",{M}}}'
        ]


def test_baseline_of_another_server() -> None:
    """Each fact that differs is a series; there is no speedup, and no verdict but `unknown`."""
    other = replace(FILE, facts={"model.name": "another", "parallelism.data": 2}, created=None)
    found = judged(other)
    assert series_named(found, "baseline_mismatch") == {
        f'specgauge_baseline_mismatch{{field="model.name",{M}}}': 1.0,
        f'specgauge_baseline_mismatch{{field="parallelism.data",{M}}}': 1.0,
    }
    assert series_named(found, "speedup|baseline_created") == {}
    assert found[f'specgauge_verdict{{{M},verdict="unknown"}}'] == 1.0
    assert set(series_named(found, "baseline_(covered_)?decode").values()) == {0.0}


def test_single_interval_has_no_bounds() -> None:
    """From one interval there is a speedup, and no series that bounds it."""
    found = judged(seconds=2)
    assert len(series_named(found, "speedup_ratio{")) == 2
    assert series_named(found, "speedup_ratio_(low|high)") == {}


def test_nothing_is_compared_without_a_baseline() -> None:
    """Without a baseline there is no series of a comparison, not even an unknown verdict."""
    assert series_named(emit(watched([v1_page(1000), v1_page(2000)])), "(base|speed|verd)") == {}


TOKENS = f"specgauge_generation_tokens_total{{{E}}}"


def replaced(page: bytes, name: str, value: str) -> bytes:
    """Put another value to every sample that begins so."""
    pattern = re.compile(rf"^({re.escape(name)}.*) \S+$".encode(), re.MULTILINE)
    return pattern.sub(rb"\1 " + value.encode(), page)


def test_counter_never_known_is_left_out() -> None:
    """What could not be read so far is not 0; once it can be, it counts from there."""
    bad = [replaced(v1_page(n), "vllm:generation_tokens_total", "NaN") for n in (1000, 2000)]
    assert TOKENS in emit(watched([v1_page(1000)]))
    assert TOKENS not in emit(watched(bad))
    assert emit(watched([*bad, v1_page(2000)]))[TOKENS] == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("vllm:time_to_first_token_seconds_count", "NaN", id="count"),
        pytest.param("vllm:time_to_first_token_seconds_sum", "NaN", id="sum"),
        pytest.param('vllm:time_to_first_token_seconds_bucket{engine="0"', "NaN", id="buckets"),
        pytest.param(
            'vllm:time_to_first_token_seconds_bucket{engine="0",model_name="small",le="0.1"',
            "99999",
            id="not cumulative",
        ),
    ],
)
def test_histogram_in_doubt_is_left_out(name: str, value: str) -> None:
    """A histogram with a part that is not known or contradicts the rest is none."""
    after = replaced(v1_page(2000), name, value)
    assert after != v1_page(2000)
    found = emit(watched([v1_page(1000), after]))
    assert not series_named(found, "time_to_first_token_seconds_(bucket|count|sum)")
    assert series_named(found, "e2e_request_latency_seconds_(bucket|count|sum)")


def test_histogram_without_a_sum_is_left_out() -> None:
    """Neither is one of which a part was never there."""
    pages = [
        b"".join(
            line
            for line in v1_page(n).splitlines(keepends=True)
            if not line.startswith(b"vllm:time_to_first_token_seconds_sum")
        )
        for n in (1000, 2000)
    ]
    assert not series_named(emit(watched(pages)), "time_to_first_token_seconds_(bucket|count|sum)")
