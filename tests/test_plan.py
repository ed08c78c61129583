"""The plan of a recording: what it accepts, what it doubts, and that a seed decides all of it."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgauge.baseline.plan import (
    Lengths,
    Load,
    Plan,
    closed_levels,
    convergence,
    doubts,
    draw_gaps,
    draw_lengths,
    draw_order,
    open_levels,
    parse_lengths,
    stagger,
)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param([], [1, 2, 4, 8, 16, 32, 64], id="default"),
        pytest.param(["1,2, 4"], [1, 2, 4], id="list"),
        pytest.param(["8", "4", "8"], [4, 8], id="one by one, sorted, once each"),
    ],
)
def test_concurrencies_are_read(texts: list[str], expected: list[int]) -> None:
    """A grid comes from lists, from single values, or is the default one."""
    assert [one.concurrency for one in closed_levels(texts)] == expected


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "5000", "²"])
def test_no_concurrency(text: str) -> None:
    """Whatever is no whole number of streams is refused by name."""
    with pytest.raises(ValueError, match="is no concurrency"):
        closed_levels([text])


def test_a_level_has_a_name() -> None:
    """People are told a level by what makes it."""
    assert str(Load(concurrency=8)) == "concurrency 8"


def test_rates_are_read() -> None:
    """Request rates may be fractions."""
    assert [str(one) for one in open_levels(["2,0.5"])] == ["0.5 requests/s", "2 requests/s"]


@pytest.mark.parametrize("text", ["0", "-1", "x", "inf", "nan"])
def test_no_rate(text: str) -> None:
    """Whatever is no rate above zero is refused by name."""
    with pytest.raises(ValueError, match="is no request rate"):
        open_levels([text])


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [pytest.param("32-352", 32, 352, id="range"), pytest.param("192", 192, 192, id="one length")],
)
def test_lengths_are_read(text: str, low: int, high: int) -> None:
    """A range of output lengths reads back as it is written."""
    lengths = parse_lengths(text)
    assert (lengths, str(lengths)) == (Lengths(low=low, high=high), text)


@pytest.mark.parametrize("text", ["", "1", "-5", "9-3", "a-b", "3-", "1-9"])
def test_no_lengths(text: str) -> None:
    """A range needs two ends in order, and two tokens to have a time between them."""
    with pytest.raises(ValueError, match="is no range"):
        parse_lengths(text)


def plan_of(*levels: Load, lengths: Lengths | None = None) -> Plan:
    return Plan(levels=levels, lengths=lengths or Lengths())


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        pytest.param(plan_of(*closed_levels([])), [], id="default"),
        pytest.param(plan_of(*closed_levels(["1,4"])), ["add 2"], id="gap"),
        pytest.param(plan_of(*open_levels(["1,2"])), [], id="rates"),
        pytest.param(plan_of(*open_levels(["1,3"])), ["add 1.73"], id="gap in rates"),
        pytest.param(
            plan_of(*closed_levels(["1"]), lengths=Lengths(low=9, high=9)), ["waves"], id="fixed"
        ),
        pytest.param(
            plan_of(*open_levels(["1"]), lengths=Lengths(low=9, high=9)), [], id="fixed, open loop"
        ),
    ],
)
def test_a_worse_plan_is_doubted(plan: Plan, told: list[str]) -> None:
    """Levels far apart and fixed lengths are named, with what to do instead."""
    found = doubts(plan)
    assert len(found) == len(told)
    assert all(part in line for part, line in zip(told, found, strict=True))


def test_a_window_is_cut_into_twice_the_repeats() -> None:
    """There is as much patience again after the least number of repeats."""
    plan = Plan(levels=(Load(concurrency=1),), window=30.0, repeats=3)
    assert (plan.pieces, plan.piece_seconds) == (6, 5.0)


def test_lengths_are_drawn_over_the_whole_range() -> None:
    """Every length of the range comes, evenly, and a seed decides the order."""
    lengths = Lengths(low=10, high=19)
    drawn = list(itertools.islice(draw_lengths(lengths, 7), 2000))
    assert set(drawn) == set(range(10, 20))
    assert statistics.fmean(drawn) == pytest.approx(14.5, rel=0.05)
    assert drawn == list(itertools.islice(draw_lengths(lengths, 7), 2000))
    assert drawn != list(itertools.islice(draw_lengths(lengths, 8), 2000))


def test_arrivals_are_a_poisson_process() -> None:
    """Gaps have the mean of the rate and its spread, and a seed decides them."""
    gaps = list(itertools.islice(draw_gaps(4.0, 1), 4000))
    assert statistics.fmean(gaps) == pytest.approx(0.25, rel=0.06)
    assert statistics.pstdev(gaps) == pytest.approx(0.25, rel=0.1)
    assert gaps[:9] == list(itertools.islice(draw_gaps(4.0, 1), 9))


@given(count=st.integers(1, 30), seed=st.integers())
def test_each_round_has_every_prompt_once(count: int, seed: int) -> None:
    """No prompt comes again before all the others have been sent."""
    order = draw_order(count, seed)
    for _ in range(3):
        assert sorted(itertools.islice(order, count)) == list(range(count))


@given(streams=st.integers(1, 64), seconds=st.floats(0.0, 60.0), seed=st.integers())
def test_starts_are_spread(streams: int, seconds: float, seed: int) -> None:
    """Starts lie evenly within the time, and first answers end evenly over an answer's length."""
    starts = stagger(streams, seconds, seed)
    assert [one.delay for one in starts] == [seconds * n / streams for n in range(streams)]
    assert sorted(one.share for one in starts) == [(n + 0.5) / streams for n in range(streams)]


@pytest.mark.parametrize(
    ("tops", "bottoms", "reached"),
    [
        pytest.param([1.0, 1.01, 0.99], [100.0] * 3, False, id="wide for three"),
        pytest.param([1.0, 1.001, 0.999], [100.0] * 3, True, id="tight"),
        pytest.param([1.0, 1.0], [100.0] * 2, False, id="too few"),
        pytest.param([1.0, 1.01, 0.99] * 3, [100.0] * 9, True, id="narrowed by more"),
    ],
)
def test_a_level_ends_when_its_mean_is_known(
    tops: list[float], bottoms: list[float], reached: bool
) -> None:
    """Enough pieces whose ratio of sums has an interval of at most two percent."""
    found = convergence(tops, bottoms, repeats=3, tolerance=0.02)
    assert found.reached is reached
    assert found.half_width is not None


@pytest.mark.parametrize(
    ("tops", "bottoms"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([1.0], [1.0], id="one piece"),
        pytest.param([0.0, 0.0], [1.0, 1.0], id="no time"),
        pytest.param([1.0, 1.0], [0.0, 0.0], id="no tokens"),
    ],
)
def test_no_interval_where_there_is_no_mean(tops: list[float], bottoms: list[float]) -> None:
    """Without two pieces and something in them the width is not known."""
    found = convergence(tops, bottoms, repeats=3, tolerance=0.02)
    assert (found.half_width, found.reached) == (None, False)
