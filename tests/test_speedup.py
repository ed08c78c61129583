"""The speedup of pieces against a curve: its two bases, what they leave out, their laws."""

from itertools import chain

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.judging import FLAT, curves, line, piece, pieces_of

from specgauge.derive.interpolate import REACH, covers, tpot_at
from specgauge.derive.speedup import Piece, Speedup, cost, peaks, speedup
from specgauge.model.baseline import Curve

RISING = line((1.0, 0.004), (32.0, 0.008), ttft=0.02)
LOADS = st.floats(0.05, 300.0)


def compare(found: Curve, *pieces: Piece, doubt: float = 0.0) -> Speedup:
    made = speedup(found, pieces, confidence=0.95, doubt=doubt)
    assert made is not None
    return made


def as_without(found: Curve, load: float, seconds: float = 1.0) -> Piece:
    """Make what the baseline itself would show at a load."""
    return piece(1.0, load=load, tpot=tpot_at(found, load), seconds=seconds)


def test_formulas() -> None:
    """Both bases as sums over the pieces, each priced at its own load."""
    one = Piece(tokens=500.0, spent=2.0, seconds=1.0)
    two = Piece(tokens=1000.0, spent=32.0, seconds=4.0)
    found = compare(RISING, one, two)
    assert found.concurrency.value == pytest.approx(
        (500 * tpot_at(RISING, 2.0) + 1000 * tpot_at(RISING, 8.0)) / 34
    )
    # c/B(c) = 500/s and 250/s: c = rate (0.004 + (c - 1) 0.004/31), below 1 c = rate 0.004
    slope = 0.004 / 31
    load = 500 * (0.004 - slope) / (1 - 500 * slope)
    assert load / tpot_at(RISING, load) == pytest.approx(500)
    assert found.throughput.value == pytest.approx(
        (500 * tpot_at(RISING, load) + 1000 * tpot_at(RISING, 250 * 0.004)) / 34, rel=1e-3
    )
    assert found.tokens == 1500
    assert found.baseline_tpot == pytest.approx(found.concurrency.value * 34 / 1500)
    assert found.baseline_ttft == pytest.approx(0.02)
    assert (found.covered, found.extrapolated, found.saturates) == (1.0, False, False)
    assert found.upper.value > found.concurrency.value  # the load rose fourfold


def test_load_that_comes_and_goes_is_no_loss() -> None:
    """Half the time at 32 and half at rest is priced at 32, not at the mean of 16."""
    busy = as_without(RISING, 32.0)
    rest = Piece(tokens=0.0, spent=0.0, seconds=1.0)
    assert compare(RISING, busy, rest, busy, rest).concurrency.value == pytest.approx(1.0)
    mean = Piece(tokens=busy.tokens, spent=busy.spent, seconds=2.0)
    assert compare(RISING, mean).concurrency.value < 0.8


@given(curves(), st.lists(st.tuples(LOADS, st.floats(0.1, 5.0)), min_size=1, max_size=20))
def test_baseline_against_itself_is_one(found: Curve, loads: list[tuple[float, float]]) -> None:
    """What the curve itself would show reads 1 on the concurrency basis, with no width."""
    seen = [as_without(found, min(load, 0.999 * REACH * found.top), time) for load, time in loads]
    own = compare(found, *seen)
    assert own.concurrency.value == pytest.approx(1.0)
    if own.concurrency.high is not None:
        assert own.concurrency.high == pytest.approx(1.0, abs=1e-6)


@given(curves(falling=False), st.lists(st.tuples(LOADS, st.floats(0.1, 5.0)), min_size=1))
def test_baseline_against_itself_is_one_under_its_arrivals(
    found: Curve, loads: list[tuple[float, float]]
) -> None:
    """Where throughput does not fall with load, so it does on the throughput basis."""
    seen = [as_without(found, min(load, found.top), time) for load, time in loads]
    assert compare(found, *seen).throughput.value <= 1.0 + 1e-6
    rates = [one.decode_concurrency / one.tpot for one in found.levels]
    assume(all(a > 1.001 * b for a, b in zip(rates[1:], rates[:-1], strict=True)))
    assert compare(found, *seen).throughput.value == pytest.approx(1.0, rel=1e-4)


@given(curves(falling=False), LOADS, st.floats(0.1, 10.0))
def test_bases_are_never_on_different_sides_of_one(
    found: Curve, load: float, factor: float
) -> None:
    """With a baseline whose throughput does not fall, both say gain or both say loss."""
    assume(covers(found, load))
    one = compare(found, piece(factor, load=load, tpot=tpot_at(found, load)))
    concurrency, throughput = one.concurrency.value, one.throughput.value
    assert (concurrency - 1.0) * (throughput - 1.0) >= -1e-6 * max(concurrency, throughput)


@given(curves(), pieces_of(LOADS), st.integers(1, 5))
def test_splitting_changes_no_sum(found: Curve, seen: list[Piece], parts: int) -> None:
    """An interval cut into equal parts, or a window into two, adds up to the same."""
    cut = [
        Piece(tokens=one.tokens / parts, spent=one.spent / parts, seconds=one.seconds / parts)
        for one in seen
        for _ in range(parts)
    ]
    whole = speedup(found, seen, confidence=0.95)
    split = speedup(found, cut, confidence=0.95)
    assume(whole is not None and split is not None)
    assert whole is not None
    assert split is not None
    # at the very edge of its reach a load may be rounded to either side
    assume(whole.covered == pytest.approx(split.covered))
    assert split.concurrency.value == pytest.approx(whole.concurrency.value)
    assert split.throughput.value == pytest.approx(whole.throughput.value, rel=1e-6)
    assert split.tokens == pytest.approx(whole.tokens)
    assert split.baseline_tpot == pytest.approx(whole.baseline_tpot)
    priced = [cost(found, one) for one in chain(seen[: len(seen) // 2], seen[len(seen) // 2 :])]
    assert sum(one.concurrency for one in priced if one) == pytest.approx(
        whole.concurrency.value * sum(one.piece.spent for one in priced if one)
    )


def test_pieces_above_the_reach_are_left_out_of_both_sums() -> None:
    """A piece beyond half as much again as the top counts as not covered, and for nothing else."""
    inside, outside = piece(2.0, load=150.0), piece(9.0, load=151.0)
    found = compare(FLAT, inside, outside)
    assert found.concurrency.value == pytest.approx(2.0)
    assert found.covered == pytest.approx(150 / 301)
    assert found.tokens == inside.tokens
    assert (found.extrapolated, found.concurrency.low) == (True, None)
    assert cost(FLAT, outside) is None
    assert speedup(FLAT, [outside], confidence=0.95) is None


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([], id="no pieces"),
        pytest.param([Piece(tokens=0.0, spent=0.0, seconds=1.0)], id="idle"),
        pytest.param([Piece(tokens=0.0, spent=1.0, seconds=1.0)], id="no tokens"),
        pytest.param([Piece(tokens=9.0, spent=0.0, seconds=1.0)], id="no time"),
    ],
)
def test_nothing_to_compare(seen: list[Piece]) -> None:
    """Without tokens or the time spent on them there is no speedup."""
    assert speedup(FLAT, seen, confidence=0.95) is None


def test_arrivals_that_the_baseline_could_not_serve() -> None:
    """A rate beyond the baseline's reach makes the throughput basis a lower bound."""
    found = compare(RISING, Piece(tokens=7000.0, spent=30.0, seconds=1.0))
    assert found.saturates
    assert found.throughput.value == pytest.approx(7000 * 0.008 / 30)


@pytest.mark.parametrize(
    ("load", "full", "peak"),
    [
        pytest.param(10.0, 0.0, 10.0, id="not known"),
        pytest.param(10.0, 10.0, 10.0, id="even"),
        pytest.param(10.0, 12.5, 10.0, id="just even"),
        pytest.param(10.0, 12.6, 18.9, id="uneven"),
        pytest.param(0.2, 1.0, 0.2, id="one request now and then"),
        pytest.param(0.2, 1.3, 1.95, id="two now and then"),
    ],
)
def test_peak_of_full_steps(load: float, full: float, peak: float) -> None:
    """Steps fuller than the time was on the mean tell of a load that came and went."""
    assert peaks([piece(1.0, load=load, full=full)] * 2) == [pytest.approx(peak)] * 2


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        pytest.param([10.0], [10.0], id="alone"),
        pytest.param([10.0, 5.0], [10.0, 5.0], id="half as much beside it"),
        pytest.param([10.0, 4.9, 10.0], [15.0, 4.9, 15.0], id="less than half beside it"),
        pytest.param([0.0, 8.0, 9.0, 8.0, 0.0], [0.0, 12.0, 9.0, 12.0, 0.0], id="a burst"),
    ],
)
def test_peak_at_an_edge(loads: list[float], expected: list[float]) -> None:
    """Beside an interval of far less load, the load came or went within this one."""
    found = peaks([piece(1.0, load=load) for load in loads])
    assert found == pytest.approx(expected)


def test_upper_is_the_most_that_the_baseline_may_cost() -> None:
    """Above the top as if it served no more in all, in uneven pieces at their peak."""
    above = compare(RISING, piece(1.0, load=40.0, tpot=0.008))
    assert above.upper.value == pytest.approx(1.25 * above.concurrency.value)
    uneven = compare(RISING, piece(1.0, load=10.0, tpot=0.008, full=20.0))
    assert uneven.upper.value == pytest.approx(tpot_at(RISING, 30.0) / 0.008)
    assert uneven.concurrency.value == pytest.approx(tpot_at(RISING, 10.0) / 0.008)


def test_interval_takes_in_the_baselines_own() -> None:
    """The baseline's interval and a further doubt widen it, in squares."""
    known = line((1.0, 0.01), (100.0, 0.01), tpot_low=0.0097, tpot_high=0.0103)
    found = compare(known, piece(2.0), piece(2.0), doubt=0.04)
    assert found.concurrency.high == pytest.approx(2.0 * 1.05)
    assert found.concurrency.low == pytest.approx(2.0 * 0.95)
    assert found.throughput.high == pytest.approx(2.0 * 1.05)
    assert compare(FLAT, piece(2.0), piece(2.0)).concurrency.high == pytest.approx(2.0)


def test_ttft_of_a_baseline_without() -> None:
    """A baseline that has no TTFT gives none."""
    assert compare(line((1.0, 0.01)), piece(1.0, load=1.0)).baseline_ttft is None
