"""What the page remembers: means over ever longer stretches, in bounded memory, unknown as null."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.judging import base, derived, line

from specgauge.model.baseline import Baseline
from specgauge.model.derived import Hints
from specgauge.model.guard import Phase
from specgauge.model.guard_view import FlagStatus, GuardView
from specgauge.model.outcome import ScrapeResult
from specgauge.model.verdict import Judgement, Verdict, VerdictReason
from specgauge.model.view import TargetView, View
from specgauge.serve.points import COLUMNS
from specgauge.serve.trend import MOST_SERIES, STRETCHES, Trend

START = 1_000_000_020.0  # on the border of a minute
FILE = base(line((1.0, 0.01), (64.0, 0.02)))


def view(
    unix: float,
    *,
    tpot: float | None = 0.005,
    model: str = "m",
    speedup: float | None = None,
    baseline: Baseline | None = None,
    flag: bool | None = None,
    load: float = 1.0,
    result: ScrapeResult = ScrapeResult.OK,
    judged: Mapping[str, float] | None = None,
    seconds: tuple[float, float] | None = None,
) -> View:
    """Make a view in which one target was scraped at a time."""
    verdict = Judgement(
        model_name=model,
        verdict=Verdict.PAYS,
        reason=VerdictReason.ABOVE_ONE,
        ratios={} if speedup is None else {"concurrency": speedup, "throughput": 9.0},
        values={"breakeven_acceptance_length": 1.5, **(judged or {})},
    )
    known = (
        derived(decode_concurrency=load, without=("tpot_seconds",))
        if tpot is None
        else derived(decode_concurrency=load, tpot_seconds=tpot)
    )
    target = TargetView(
        name="t",
        url="http://t",
        role="speculative",
        hints=Hints(),
        result=result,
        last_success=unix,
        models={model: known},
        judgements={model: verdict},
        baselines={} if baseline is None else {model: baseline},
        window_seconds=60.0,
        baseline_seconds={} if seconds is None else {(model, "concurrency"): seconds[0]},
        covered_seconds={} if seconds is None else {(model, "concurrency"): seconds[1]},
    )
    status = FlagStatus(key="k", backend="embedded", place="memory", desired=flag)
    guard = GuardView(target="t", dry_run=False, phase=Phase.ACTIVE, since=0.0, flag=status)
    return View(targets=(target,), guard=guard)


def points(trend: Trend, last: View, **more: Any) -> list[Mapping[str, float | None]]:
    """Give the points of the only series by the names of their columns."""
    document = trend.document(last, **more)
    json.dumps(document, allow_nan=False)
    (series,) = document["series"]
    return [dict(zip(document["columns"], row, strict=True)) for row in series["points"]]


def test_a_scrape_counts_once() -> None:
    """A view that is told twice, or whose target failed, adds nothing."""
    trend = Trend()
    for shown in (
        view(START),
        view(START, tpot=0.5),
        view(START + 1, tpot=0.5, result=ScrapeResult.TIMEOUT),
    ):
        trend.take(shown)
    (point,) = points(trend, view(START))
    assert point["tpot_seconds"] == 0.005


def test_columns_come_from_window_verdict_and_baseline() -> None:
    """A point has the window's figures, the verdict's, and the baseline at that load."""
    trend, shown = Trend(), view(START, speedup=2.0, baseline=FILE, flag=True, load=32.5)
    trend.take(shown)
    (point,) = points(trend, shown)
    assert point["unix"] == START + 0.5
    assert point["speedup_ratio"] == 2.0
    assert point["speedup_ratio_low"] is None
    assert point["breakeven_acceptance_length"] == 1.5
    assert point["baseline_tpot_seconds"] == pytest.approx(0.015)
    assert point["baseline_tpot_low_seconds"] == pytest.approx(0.015)
    assert point["flag"] == 1.0
    (series,) = trend.document(shown)["series"]
    assert [level["tpot_seconds"] for level in series["baseline"]] == [0.01, 0.02]


@pytest.mark.parametrize(
    ("baseline", "load"), [(None, 1.0), (FILE, 1000.0)], ids=["no baseline", "load out of reach"]
)
def test_what_is_not_known_is_null(baseline: Baseline | None, load: float) -> None:
    """Nothing is made up where there is no baseline, no speedup, no flag."""
    trend, shown = Trend(), view(START, tpot=None, baseline=baseline, load=load)
    trend.take(shown)
    (point,) = points(trend, shown)
    for name in ("tpot_seconds", "speedup_ratio", "baseline_tpot_seconds", "flag"):
        assert point[name] is None


def test_a_day_is_kept_coarser_with_age() -> None:
    """Over two days each moment is shown once, as finely as it is still kept."""
    trend = Trend()
    seconds = 2 * 86400
    for second in range(0, seconds, 5):
        trend.take(view(START + second, tpot=1.0 + second))
    last = view(START + seconds)
    found = points(trend, last)
    times = [point["unix"] or 0.0 for point in found]
    assert times == sorted(set(times))
    assert len(found) <= sum(most for _, most in STRETCHES)
    assert times[-1] == pytest.approx(START + seconds - 4.5)
    assert times[0] == pytest.approx(START + seconds - 86400, abs=120)
    for point in found:
        unix, value = point["unix"], point["tpot_seconds"]
        assert unix is not None
        assert value == pytest.approx(1.0 + unix - START, abs=31.0), "the mean of its stretch"
    recent = points(trend, last, since=START + seconds - 60)
    assert 0 < len(recent) <= 13


def test_what_is_judged_is_of_one_window() -> None:
    """Beside a speedup stand the load, acceptance and steps of its own window, or nothing."""
    trend = Trend()
    shown = view(START, speedup=2.0, judged={"decode_concurrency": 3.0, "step_cost_ratio": 1.25})
    trend.take(shown)
    (point,) = points(trend, shown)
    assert point["decode_concurrency"] == 3.0
    assert point["tokens_per_step"] == 2.5
    assert point["acceptance_length"] is None, "no drafts in the last seconds, whatever was before"
    other = Trend()
    other.take(view(START))
    (point,) = points(other, view(START))
    assert (point["acceptance_length"], point["breakeven_acceptance_length"]) == (3.0, None)


def test_a_load_that_moves_reads_as_no_loss() -> None:
    """What tokens would have cost is summed interval by interval, over the window alone."""
    trend = Trend()
    for second in range(200):
        spent = 2.0 * second
        usual = spent if second < 100 else 200.0 + 3.0 * (spent - 200.0)
        shown = view(START + second, tpot=0.004, baseline=FILE, load=2.0, seconds=(usual, spent))
        trend.take(shown)
    found = points(trend, view(START))
    of_curve = pytest.approx(0.01, rel=0.05)
    assert found[0]["baseline_tpot_seconds"] == of_curve, "the first is of the curve"
    assert found[90]["baseline_tpot_seconds"] == pytest.approx(0.004)
    assert found[130]["baseline_tpot_seconds"] == pytest.approx(0.004 * 2.0)
    assert found[199]["baseline_tpot_seconds"] == pytest.approx(0.012)
    anew = view(START + 200, tpot=0.004, baseline=FILE, load=2.0, seconds=(1.0, 1.0))
    trend.take(anew)
    assert points(trend, anew)[200]["baseline_tpot_seconds"] == of_curve


def test_unknown_values_are_left_out_of_means() -> None:
    """A stretch's mean is that of the values that were known in it."""
    trend = Trend()
    for second in range(700):
        trend.take(view(START + second, tpot=None if second % 2 else 0.004))
    coarse = points(trend, view(START + 700))[0]
    assert coarse["tpot_seconds"] == pytest.approx(0.004)


def test_memory_is_bounded() -> None:
    """A page with ever new models fills no memory: the first ones are kept."""
    trend = Trend()
    for number in range(MOST_SERIES + 5):
        trend.take(view(START + number, model=f"m{number}"))
    assert len(trend.document(view(START))["series"]) == MOST_SERIES
    assert len(COLUMNS) == len(set(COLUMNS))
