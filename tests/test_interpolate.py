"""The baseline as a curve: exact at its points, straight between, held at its ends."""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.judging import curves, level, line

from specgauge.derive.interpolate import (
    REACH,
    SAME_LOAD,
    covers,
    curve,
    load_for,
    spread_at,
    tpot_at,
    ttft_at,
    upper_bound_at,
)
from specgauge.model.baseline import Curve

CURVE = line((1.0, 0.004), (8.0, 0.005), (32.0, 0.008))
LOADS = st.floats(0.01, 1000.0)


@pytest.mark.parametrize(
    ("load", "tpot"),
    [
        pytest.param(0.01, 0.004, id="far below"),
        pytest.param(1.0, 0.004, id="lowest"),
        pytest.param(4.5, 0.0045, id="between"),
        pytest.param(8.0, 0.005, id="on a level"),
        pytest.param(20.0, 0.0065, id="between higher ones"),
        pytest.param(32.0, 0.008, id="top"),
        pytest.param(48.0, 0.008, id="reach"),
    ],
)
def test_time_per_token(load: float, tpot: float) -> None:
    """B is a straight line between levels and held at both ends."""
    assert tpot_at(CURVE, load) == pytest.approx(tpot, rel=1e-12)


def test_published_example() -> None:
    """30 tokens/s at 1 and 900 at 32 make 34.12 ms at 12: 400 tokens/s there are 1.137 times it."""
    found = line((1.0, 1 / 30), (32.0, 32 / 900))
    assert tpot_at(found, 12.0) == pytest.approx(0.03412, abs=5e-6)
    assert tpot_at(found, 12.0) / (12 / 400) == pytest.approx(1.137, abs=5e-4)
    assert covers(found, 48.0)
    assert not covers(found, 48.1)


@pytest.mark.parametrize(
    ("load", "expected"),
    [(0.0, True), (32.0, True), (REACH * 32.0, True), (REACH * 32.0 + 1e-6, False)],
)
def test_reach(load: float, expected: bool) -> None:
    """It speaks for every load below and for half as much again above."""
    assert covers(CURVE, load) is expected


@pytest.mark.parametrize(
    ("load", "tpot"), [(1.0, 0.004), (32.0, 0.008), (40.0, 0.01), (64.0, 0.016)]
)
def test_upper_bound(load: float, tpot: float) -> None:
    """Above the top the most it can be is a server that serves no more in all."""
    assert upper_bound_at(CURVE, load) == pytest.approx(tpot)


@given(curves())
def test_exact_at_every_level(found: Curve) -> None:
    """At a level B is what was measured there."""
    for one in found.levels:
        assert tpot_at(found, one.decode_concurrency) == pytest.approx(one.tpot, rel=1e-9)


@given(curves(), LOADS, LOADS)
def test_monotone_between_monotone_levels(found: Curve, one: float, other: float) -> None:
    """Where levels rise with load, so does everything between them; nothing overshoots."""
    times = [each.tpot for each in found.levels]
    assert min(times) * (1 - 1e-9) <= tpot_at(found, one) <= max(times) * (1 + 1e-9)
    rising = Curve(
        levels=tuple(
            level(each.decode_concurrency, tpot)
            for each, tpot in zip(found.levels, sorted(times), strict=True)
        )
    )
    low, high = sorted((one, other))
    assert tpot_at(rising, low) <= tpot_at(rising, high) * (1 + 1e-9)


@given(curves(), st.floats(0.1, 1e6))
def test_load_for_inverts_throughput(found: Curve, rate: float) -> None:
    """The load found yields the rate; where none within reach does, the limit is said."""
    load, reached = load_for(found, rate)
    assert 0.0 < load <= REACH * found.top * (1 + 1e-9)
    if reached:
        assert load / tpot_at(found, load) == pytest.approx(rate, rel=1e-6)
    else:
        assert load == REACH * found.top
        most = max(one.decode_concurrency / one.tpot for one in found.levels)
        assert rate >= max(most, load / tpot_at(found, load)) * (1 - 1e-9)


@given(curves(falling=False), LOADS)
def test_load_for_finds_the_load_again(found: Curve, load: float) -> None:
    """With throughput that rises, the load that made a rate is found from it."""
    assume(covers(found, load))
    rates = [one.decode_concurrency / one.tpot for one in found.levels]
    assume(all(after > 1.001 * before for before, after in pairwise(rates)))
    again, reached = load_for(found, load / tpot_at(found, load))
    assert reached or again == pytest.approx(REACH * found.top)
    assert again == pytest.approx(load, rel=1e-5)


def test_levels_are_put_in_order_and_merged() -> None:
    """Levels within 10 % of each other's load are one; figures that one lacks are the other's."""
    found = curve(
        [
            level(8.8, 0.006, ttft=0.04, tpot_low=0.0055, tpot_high=0.0065, concurrency=9.0),
            level(1.0, 0.004),
            level(8.0, 0.005, output_tokens_per_request=100.0),
            level(8.81, 0.02),
        ]
    )
    assert [one.decode_concurrency for one in found.levels] == pytest.approx([1.0, 25.61 / 3])
    merged = found.levels[1]
    assert merged.tpot == pytest.approx(0.031 / 3)
    assert (merged.ttft, merged.tpot_low, merged.output_tokens_per_request) == (0.04, 0.0055, 100.0)
    assert (merged.concurrency, merged.e2e, merged.prompt_tokens_per_request) == (9.0, None, None)


@pytest.mark.parametrize(
    ("loads", "merged"),
    [
        pytest.param([10.0, 11.0], [10.5], id="exactly 10 %"),
        pytest.param([10.0, 11.01], [10.0, 11.01], id="a little more"),
        pytest.param([10.0, 10.0], [10.0], id="twice the same"),
        pytest.param([10.0, 11.0, 11.4], [10.8], id="near the merged one"),
    ],
)
def test_which_levels_are_one(loads: list[float], merged: list[float]) -> None:
    """Up to 10 % above the level so far belongs to it."""
    found = curve([level(load, 0.005) for load in loads])
    assert [one.decode_concurrency for one in found.levels] == pytest.approx(merged)


@given(st.lists(st.floats(0.1, 500.0), min_size=1, max_size=30))
def test_no_two_levels_are_within_ten_percent(loads: list[float]) -> None:
    """After merging nothing is left to merge."""
    found = curve([level(load, 0.005) for load in loads])
    assert all(
        after.decode_concurrency > SAME_LOAD * before.decode_concurrency * (1 - 1e-9)
        for before, after in pairwise(found.levels)
    )


def test_no_levels_are_no_curve() -> None:
    """A curve of nothing is refused."""
    with pytest.raises(ValueError, match="at least one level"):
        curve([])


def test_other_figures() -> None:
    """TTFT and the baseline's own interval are interpolated between the levels that have them."""
    found = curve(
        [
            level(1.0, 0.004, tpot_low=0.0036, tpot_high=0.0044),
            level(11.0, 0.006, ttft=0.1),
            level(21.0, 0.008, tpot_low=0.0078, tpot_high=0.0082, ttft=0.3),
        ]
    )
    assert ttft_at(found, 1.0) == 0.1
    assert ttft_at(found, 16.0) == pytest.approx(0.2)
    assert spread_at(found, 1.0) == pytest.approx(0.1)
    assert spread_at(found, 11.0) == pytest.approx(0.0003 / 0.006)
    assert spread_at(CURVE, 8.0) == 0.0
    assert ttft_at(CURVE, 8.0) is None
