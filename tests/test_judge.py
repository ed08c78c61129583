"""From a window and a baseline to the verdict: every rule at its border, every reason reachable."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.judging import FLAT, base, derived, line, piece

from specgauge.derive.interpolate import REACH
from specgauge.derive.judge import SHAPE_REQUESTS, Shape, Terms, fits, judge
from specgauge.derive.speedup import Piece
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Derived, Reason
from specgauge.model.verdict import Judgement, Verdict, VerdictReason

BASELINE = base()
TERMS = Terms()
EVEN = (Verdict.EVEN, VerdictReason.WITHIN_MARGIN)
PAYS = (Verdict.PAYS, VerdictReason.ABOVE_ONE)
COSTS = (Verdict.COSTS, VerdictReason.BELOW_ONE)
TRADEOFF = (Verdict.EVEN, VerdictReason.LATENCY_TRADEOFF)


def ask(
    *pieces: Piece,
    window: Derived | None = None,
    baseline: Baseline | None = BASELINE,
    terms: Terms = TERMS,
    **more: Any,
) -> Judgement:
    return judge(window or derived(), pieces, baseline, terms=terms, **more)


def answer(found: Judgement) -> tuple[Verdict, VerdictReason]:
    return found.verdict, found.reason


def unknown(reason: VerdictReason) -> tuple[Verdict, VerdictReason]:
    return Verdict.UNKNOWN, reason


# The margin


@pytest.mark.parametrize(
    ("speedup", "margin", "expected"),
    [
        pytest.param(1.0, 0.05, EVEN, id="one"),
        pytest.param(1.05, 0.05, EVEN, id="upper border"),
        pytest.param(1.0501, 0.05, PAYS, id="just above"),
        pytest.param(0.95, 0.05, EVEN, id="lower border"),
        pytest.param(0.9499, 0.05, COSTS, id="just below"),
        pytest.param(1.0001, 0.0, PAYS, id="no margin, above"),
        pytest.param(0.9999, 0.0, COSTS, id="no margin, below"),
        pytest.param(1.19, 0.2, EVEN, id="wide margin"),
    ],
)
def test_point_of_a_single_window(
    speedup: float, margin: float, expected: tuple[Verdict, VerdictReason]
) -> None:
    """Where there is one interval the point decides, and the absent interval says so."""
    found = ask(piece(speedup), terms=Terms(margin=margin))
    assert answer(found) == expected
    assert (found.lows, found.highs) == ({}, {})
    assert found.absent["speedup_ratio_low"] == Reason.SINGLE_WINDOW
    assert found.absent["speedup_ratio_high"] == Reason.SINGLE_WINDOW


@pytest.mark.parametrize(
    ("speedups", "expected"),
    [
        pytest.param((1.3, 1.3), PAYS, id="above, sure"),
        pytest.param((0.7, 0.7), COSTS, id="below, sure"),
        pytest.param((1.2, 1.4), unknown(VerdictReason.INTERVAL_TOO_WIDE), id="above, not sure"),
        pytest.param((0.6, 0.8), unknown(VerdictReason.INTERVAL_TOO_WIDE), id="below, not sure"),
        pytest.param((0.5, 1.5), EVEN, id="the point inside, however wide"),
        pytest.param((1.06, 1.06), PAYS, id="just above, sure"),
        pytest.param((1.06, 1.0602, 1.061), PAYS, id="just above, nearly sure"),
        pytest.param((1.05, 1.06, 1.07), unknown(VerdictReason.INTERVAL_TOO_WIDE), id="straddles"),
    ],
)
def test_whole_interval_must_lie_beyond_the_margin(
    speedups: tuple[float, ...], expected: tuple[Verdict, VerdictReason]
) -> None:
    """`pays` and `costs` need the whole interval, `even` only the point."""
    found = ask(*(piece(one) for one in speedups))
    assert answer(found) == expected
    assert found.lows["concurrency"] <= found.ratios["concurrency"] <= found.highs["concurrency"]
    assert set(found.lows) == set(found.highs) == {"concurrency", "throughput"}


def test_doubt_about_the_baseline_can_leave_it_open() -> None:
    """What is doubted of the baseline widens the interval."""
    seen = (piece(1.06), piece(1.06))
    assert answer(ask(*seen, spread=0.009)) == PAYS
    assert answer(ask(*seen, spread=0.011)) == unknown(VerdictReason.INTERVAL_TOO_WIDE)


@given(st.floats(0.2, 5.0), st.integers(1, 20), st.floats(0.0, 0.3))
def test_never_on_the_wrong_side(speedup: float, count: int, margin: float) -> None:
    """`pays` is never said below 1 nor `costs` above it."""
    found = ask(*[piece(speedup)] * count, terms=Terms(margin=margin))
    assert not (found.verdict is Verdict.PAYS and speedup <= 1.0)
    assert not (found.verdict is Verdict.COSTS and speedup >= 1.0)


# Whole requests


@pytest.mark.parametrize(
    ("ttft", "n", "e2e"),
    [
        pytest.param(0.05, 201.0, (0.05 + 200 * 0.01) / (0.05 + 200 * 0.005), id="same start"),
        pytest.param(1.05, 101.0, (0.05 + 100 * 0.01) / (1.05 + 100 * 0.005), id="late start"),
        pytest.param(0.05, 1.0, 1.0, id="one token"),
        pytest.param(0.1, 0.5, 0.5, id="less than one token"),
    ],
)
def test_e2e_is_matched_in_length(ttft: float, n: float, e2e: float) -> None:
    """(TTFT_B + (n-1) B) / (TTFT + (n-1) TPOT), whatever answers were of the baseline's length."""
    found = ask(piece(2.0), window=derived(ttft_seconds=ttft, output_tokens_per_request=n))
    assert found.values["e2e_speedup_ratio"] == pytest.approx(e2e)


def test_longer_baseline_answers_do_not_flatter() -> None:
    """14 s for 1000 tokens against 11.2 s for 700 is 0.875 a token, not 1.25."""
    before = base(line((8.0, 0.014), ttft=1e-9, output_tokens_per_request=1000.0))
    window = derived(ttft_seconds=1e-9, output_tokens_per_request=700.0)
    found = ask(piece(0.875, load=8.0, tpot=0.014), baseline=before, window=window)
    assert found.ratios["concurrency"] == pytest.approx(0.875)
    assert found.values["e2e_speedup_ratio"] == pytest.approx(0.875, rel=0.01)
    assert answer(found) == COSTS


@pytest.mark.parametrize(
    ("speedup", "ttft", "expected"),
    [
        pytest.param(2.0, 1.05, PAYS, id="pays, whole requests alike"),
        pytest.param(2.0, 1.06, TRADEOFF, id="pays, whole requests slower"),
        pytest.param(0.8, 0.05, COSTS, id="costs, whole requests slower"),
        pytest.param(0.5, 0.01, COSTS, id="costs, quicker start not enough"),
        pytest.param(0.94, 0.001, COSTS, id="costs, little to win"),
    ],
)
def test_tokens_and_requests_must_agree(
    speedup: float, ttft: float, expected: tuple[Verdict, VerdictReason]
) -> None:
    """Where time per token and time of a request disagree it is a trade-off, not a verdict."""
    assert answer(ask(piece(speedup), window=derived(ttft_seconds=ttft))) == expected


def test_loss_of_tokens_won_back_at_the_start() -> None:
    """Slower tokens after a much quicker start are a trade-off up to the very border."""
    slow_start = base(line((1.0, 0.01), (100.0, 0.01), ttft=0.5))
    # 0.8 at 200 more tokens costs 0.5 s
    just = derived(ttft_seconds=1e-6)
    assert answer(ask(piece(0.8), baseline=slow_start, window=just)) == COSTS
    shorter = derived(ttft_seconds=1e-6, output_tokens_per_request=200.0)
    assert answer(ask(piece(0.8), baseline=slow_start, window=shorter)) == TRADEOFF


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        pytest.param(derived(without=["ttft_seconds"]), "no_requests", id="no TTFT"),
        pytest.param(derived(without=["output_tokens_per_request"]), "no_requests", id="no length"),
    ],
)
@pytest.mark.parametrize(("speedup", "expected"), [(0.8, COSTS), (1.2, PAYS)])
def test_unknown_e2e_stops_nothing(
    window: Derived, reason: str, speedup: float, expected: tuple[Verdict, VerdictReason]
) -> None:
    """An absent E2E ratio has its reason and hinders neither verdict."""
    found = ask(piece(speedup), window=window)
    assert answer(found) == expected
    assert found.absent["e2e_speedup_ratio"] == reason


def test_baseline_without_ttft() -> None:
    """What the baseline lacks is named."""
    found = ask(piece(2.0), baseline=base(line((1.0, 0.01), (100.0, 0.01))))
    assert found.absent["e2e_speedup_ratio"] == Reason.BASELINE_LACKS_TTFT


def test_e2e_rests_on_the_pieces_that_were_priced() -> None:
    """Time beyond the baseline's reach is in neither side of the ratio."""
    found = ask(piece(2.0, load=150.0), piece(9.0, load=151.0), window=derived(tpot_seconds=1.0))
    assert found.reason is VerdictReason.OUTSIDE_RANGE
    found = ask(piece(2.0, load=152.0), *[piece(2.0, load=150.0)] * 2)
    assert found.values["e2e_speedup_ratio"] == pytest.approx(2.05 / 1.05)


# Refusals


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        pytest.param({"baseline": None}, VerdictReason.NO_BASELINE, id="no baseline"),
        pytest.param(
            {"mismatches": ("hardware.gpu",)}, VerdictReason.BASELINE_MISMATCH, id="another's"
        ),
        pytest.param(
            {"terms": Terms(min_tokens=1201.0)}, VerdictReason.TOO_FEW_TOKENS, id="too few tokens"
        ),
        pytest.param(
            {"window": derived(without=["tpot_seconds"], why="implausible_ttft")},
            VerdictReason.TOO_FEW_TOKENS,
            id="page not believed",
        ),
        pytest.param(
            {"baseline": base(line((6.66, 0.01)))}, VerdictReason.OUTSIDE_RANGE, id="out of reach"
        ),
        pytest.param(
            {
                "baseline": base(line((1.0, 0.01), (50.0, 0.01), output_tokens_per_request=200.0)),
                "shape": Shape(requests=100.0, output_tokens=301.0),
            },
            VerdictReason.WORKLOAD_MISMATCH,
            id="another load",
        ),
    ],
)
def test_refusals(case: dict[str, Any], reason: VerdictReason) -> None:
    """Each thing that forbids a verdict has its reason; what is known is still said."""
    found = ask(piece(1.2), **case)
    assert answer(found) == unknown(reason)
    assert (found.values["acceptance_ratio"], found.values["acceptance_length"]) == (0.5, 3.0)
    assert found.mismatches == case.get("mismatches", ())
    if reason not in {VerdictReason.TOO_FEW_TOKENS, VerdictReason.WORKLOAD_MISMATCH}:
        assert found.ratios == {}
        assert found.absent["speedup_ratio"] == reason


def test_order_of_refusals() -> None:
    """The first thing in the way is the one that is told."""
    everything: dict[str, Any] = {
        "mismatches": ("model.name",),
        "shape": Shape(requests=100.0, output_tokens=301.0),
    }
    far = [piece(0.5, load=400.0, seconds=0.01)]
    odd = base(line((1.0, 0.01), (50.0, 0.01), output_tokens_per_request=200.0))
    assert ask(*far, baseline=None, **everything).reason is VerdictReason.NO_BASELINE
    assert ask(*far, baseline=odd, **everything).reason is VerdictReason.BASELINE_MISMATCH
    del everything["mismatches"]
    assert ask(*far, baseline=odd, **everything).reason is VerdictReason.TOO_FEW_TOKENS
    many = [piece(0.5, load=400.0)]
    assert ask(*many, baseline=odd, **everything).reason is VerdictReason.OUTSIDE_RANGE


def test_page_that_is_not_believed_says_why() -> None:
    """Where the page contradicts itself its own reason stands for every absent figure."""
    window = derived(without=["tpot_seconds", "acceptance_ratio"], why="duplicate_series")
    found = ask(piece(2.0), window=window)
    assert found.absent["speedup_ratio"] == "duplicate_series"
    assert found.absent["acceptance_ratio"] == "duplicate_series"
    idle = derived(without=["tpot_seconds"], why="no_tokens")
    assert ask(window=idle).absent["speedup_ratio"] == VerdictReason.TOO_FEW_TOKENS


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (499.0, unknown(VerdictReason.TOO_FEW_TOKENS)),
        (500.0, PAYS),
    ],
)
def test_fewest_tokens(tokens: float, expected: tuple[Verdict, VerdictReason]) -> None:
    """Five hundred tokens whose time is known are enough, one less is not."""
    timeless = Piece(tokens=1000.0, spent=0.0, seconds=1.0)
    seen = Piece(tokens=tokens / 2, spent=tokens * 0.0025, seconds=1.0)
    assert answer(ask(seen, seen, timeless)) == expected


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        pytest.param(REACH * 100.0, PAYS, id="at the reach"),
        pytest.param(
            REACH * 100.0 + 0.001, unknown(VerdictReason.OUTSIDE_RANGE), id="beyond the reach"
        ),
    ],
)
def test_reach(load: float, expected: tuple[Verdict, VerdictReason]) -> None:
    """Half as much again as the top level is judged, more is not."""
    found = ask(piece(2.0, load=load))
    assert answer(found) == expected
    assert found.extrapolated is (expected == PAYS)


@pytest.mark.parametrize(
    ("outside", "expected"),
    [
        pytest.param(200.0, PAYS, id="half of the time"),
        pytest.param(200.1, unknown(VerdictReason.OUTSIDE_RANGE), id="more than half"),
    ],
)
def test_half_of_the_time_must_be_covered(
    outside: float, expected: tuple[Verdict, VerdictReason]
) -> None:
    """Where loads out of reach hold over half of the decode time nothing is said."""
    found = ask(piece(2.0, load=100.0), piece(2.0, load=100.0), piece(1.0, load=outside))
    assert answer(found) == expected
    assert bool(found.ratios) is (expected == PAYS)


@pytest.mark.parametrize(
    ("speedup", "load", "expected"),
    [
        pytest.param(0.75, 125.0, COSTS, id="stands against the bound"),
        pytest.param(0.76, 125.0, unknown(VerdictReason.OUTSIDE_RANGE), id="at the bound"),
        pytest.param(0.94, 100.0, COSTS, id="at the top level"),
        pytest.param(0.94, 102.0, unknown(VerdictReason.OUTSIDE_RANGE), id="a little above"),
        pytest.param(1.2, 125.0, PAYS, id="a gain needs no bound"),
        pytest.param(1.0, 125.0, EVEN, id="nor does even"),
    ],
)
def test_loss_above_the_top_level(
    speedup: float, load: float, expected: tuple[Verdict, VerdictReason]
) -> None:
    """Above its top level the baseline may be slower than it was there, up to B(top) c/top."""
    found = ask(piece(speedup, load=load))
    assert answer(found) == expected
    assert found.extrapolated is (load > 100.0)


def test_whole_interval_must_lie_below_the_bound_too() -> None:
    """Against the upper bound the interval counts, not the point alone."""
    sure = [piece(0.72, load=125.0), piece(0.72, load=125.0)]
    assert answer(ask(*sure)) == COSTS
    unsure = [piece(one, load=125.0) for one in (0.70, 0.72, 0.74)]
    found = ask(*unsure)
    assert found.highs["concurrency"] < 0.95
    assert answer(found) == unknown(VerdictReason.OUTSIDE_RANGE)


def test_loss_that_may_be_the_load_coming_and_going() -> None:
    """Intervals that were partly idle read as a loss; that alone is none."""
    rising = base(line((1.0, 0.005), (51.0, 0.015)))
    even = piece(0.8, load=10.0, tpot=0.0068)
    assert answer(ask(even, baseline=rising)) == COSTS
    uneven = piece(0.8, load=10.0, tpot=0.0068, full=30.0)
    assert answer(ask(uneven, baseline=rising)) == unknown(VerdictReason.UNEVEN_LOAD)
    lost = piece(0.3, load=10.0, tpot=0.0068, full=30.0, seconds=2.0)
    assert answer(ask(lost, baseline=rising)) == COSTS


def test_one_busy_moment_of_several() -> None:
    """A single busy interval among idle ones bounds nothing: it is even or not known."""
    idle = Piece(tokens=0.0, spent=0.0, seconds=1.0)
    assert answer(ask(idle, piece(2.0), idle)) == unknown(VerdictReason.INTERVAL_TOO_WIDE)
    assert answer(ask(idle, piece(0.5), idle)) == unknown(VerdictReason.INTERVAL_TOO_WIDE)
    assert answer(ask(idle, piece(1.04), idle)) == EVEN
    assert answer(ask(piece(2.0))) == PAYS


# The shape of the load


@pytest.mark.parametrize(
    ("prompts", "outputs", "requests", "expected"),
    [
        pytest.param(200.0, 100.0, 100.0, True, id="the same"),
        pytest.param(300.0, 150.0, 100.0, True, id="half as much again"),
        pytest.param(301.0, 100.0, 100.0, False, id="longer prompts"),
        pytest.param(200.0, 151.0, 100.0, False, id="longer answers"),
        pytest.param(134.0, 67.0, 100.0, True, id="two thirds"),
        pytest.param(133.0, 100.0, 100.0, False, id="shorter prompts"),
        pytest.param(200.0, 66.0, 100.0, False, id="shorter answers"),
        pytest.param(5000.0, 9.0, SHAPE_REQUESTS - 1.0, True, id="too few requests to say"),
        pytest.param(None, None, 100.0, True, id="not known"),
        pytest.param(0.0, 100.0, 100.0, True, id="no prompt tokens counted"),
        pytest.param(1000.0, 400.0, 100.0, True, id="another level covers it"),
        pytest.param(1000.0, 100.0, 100.0, False, id="no single level covers it"),
    ],
)
def test_shape(
    prompts: float | None, outputs: float | None, requests: float, expected: bool
) -> None:
    """Some one level must have been recorded under prompts and answers as long as these."""
    found = line(
        (1.0, 0.01), (9.0, 0.01), prompt_tokens_per_request=200.0, output_tokens_per_request=100.0
    )
    long = line((30.0, 0.01), prompt_tokens_per_request=1000.0, output_tokens_per_request=400.0)
    both = type(found)(levels=(*found.levels, *long.levels))
    shape = Shape(requests=requests, prompt_tokens=prompts, output_tokens=outputs)
    assert fits(both, shape) is expected


def test_levels_that_do_not_tell_their_shape_fit_all() -> None:
    """A baseline that does not say what it was recorded under is not refused for it."""
    assert fits(FLAT, Shape(requests=500.0, prompt_tokens=9.0, output_tokens=9000.0))


# The numbers beside the answer


def test_numbers() -> None:
    """Step cost, break-even and the suggestion follow from acceptance and the speedup."""
    found = ask(piece(2.0), warnings=("baseline_stale",))
    assert answer(found) == PAYS
    assert found.ratios == {
        "concurrency": pytest.approx(2.0),
        "throughput": pytest.approx(2.0),
    }
    assert found.values["step_cost_ratio"] == pytest.approx(1.5)
    assert found.values["breakeven_acceptance_length"] == pytest.approx(1.5)
    assert found.values["suggested_num_speculative_tokens"] == 3
    assert found.values["decode_concurrency"] == 7.0  # the window's, idle time and all
    assert (found.confidence, found.warnings, found.extrapolated) == (
        0.95,
        ("baseline_stale",),
        False,
    )


def test_no_acceptance_is_the_break_even() -> None:
    """Where a step costs more than K + 1 tokens, or less than one, there is no such acceptance."""
    found = ask(piece(0.5))
    assert found.values["step_cost_ratio"] == pytest.approx(6.0)
    assert found.absent["breakeven_acceptance_length"] == Reason.CANNOT_PAY
    cheap = ask(piece(4.0))
    assert cheap.values["step_cost_ratio"] == pytest.approx(0.75)
    assert cheap.absent["breakeven_acceptance_length"] == Reason.BELOW_ONE
    unlimited = ask(piece(0.5), window=derived(without=["num_speculative_tokens"]))
    assert unlimited.values["breakeven_acceptance_length"] == pytest.approx(6.0)


def test_server_without_speculation() -> None:
    """Nothing is drafted: the speedup is known, what is made of drafts is not."""
    gone = (
        *("acceptance_ratio", "acceptance_length", "num_speculative_tokens"),
        *("position_acceptance_ratio", "position_conditional_acceptance_ratio"),
        "draft_coverage_ratio",
    )
    found = ask(piece(1.0), window=derived(without=gone, why="no_drafts", tokens_per_step=1.0))
    assert answer(found) == EVEN
    assert found.absent["acceptance_ratio"] == "no_drafts"
    assert found.absent["breakeven_acceptance_length"] == "no_drafts"
    assert "suggested_num_speculative_tokens" not in found.values


@pytest.mark.parametrize("gone", ["tokens_per_step", "position_conditional_acceptance_ratio"])
def test_no_suggestion_without_its_parts(gone: str) -> None:
    """K is suggested only for drafts of fixed length whose cost is known."""
    found = ask(piece(2.0), window=derived(without=[gone]))
    assert "suggested_num_speculative_tokens" not in found.values


def test_arrivals_that_the_baseline_could_not_serve() -> None:
    """The throughput basis is then a lower bound, and says so."""
    found = ask(piece(3.0, load=90.0))
    assert found.ratios["throughput"] == pytest.approx(3.0)
    assert found.warnings == ("baseline_would_saturate",)
