"""Learning a baseline from intervals, gathered by load."""

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.baselines import vllm_page

from specgauge.baseline.bins import MOST_INTERVALS, bin_of, describe, fill, gather, levels
from specgauge.baseline.learning import Learning, begin, is_done, learn
from specgauge.baseline.observation import Observation
from specgauge.engines.reader import Reader
from specgauge.errors import BaselineError
from specgauge.model.quantity import Page


def seen(load: float, tpot: float = 0.005, *, tokens: float = 200.0, **more: bool) -> Observation:
    """Make one interval at a load."""
    spent = tokens * tpot
    return Observation(seconds=spent / load, tokens=tokens, spent=spent, concurrency=load, **more)


@pytest.mark.parametrize(
    ("load", "number"),
    [(0.01, 0), (1.0, 0), (1.18, 0), (1.2, 1), (1.41, 1), (2.0, 2), (2.83, 3), (64.0, 12)],
)
def test_bins_lie_half_a_doubling_apart(load: float, number: int) -> None:
    """Below one request in decode there is one bin: B does not depend on the load there."""
    assert bin_of(load) == number


@given(st.floats(1.2, 1e6))
def test_no_bin_is_wider_than_its_factor(load: float) -> None:
    """Loads of one bin are at most a factor of the square root of two apart."""
    centre = 2.0 ** (bin_of(load) / 2.0)
    assert abs(math.log2(load / centre)) <= 0.25 + 1e-9


def test_uneven_intervals_teach_nothing_and_full_bins_rest() -> None:
    """What came and went within an interval has no load; enough is enough."""
    bins = gather({}, [seen(4.0, uneven=True)])
    assert bins == {}
    bins = gather({}, [seen(4.0)] * (MOST_INTERVALS + 5))
    assert [len(held) for held in bins.values()] == [MOST_INTERVALS]


@pytest.mark.parametrize(
    ("held", "full", "usable"),
    [
        pytest.param([seen(4.0)], False, False, id="one-interval"),
        pytest.param([seen(4.0)] * 3, False, True, id="three"),
        pytest.param([seen(4.0)] * 10, True, True, id="ten"),
        pytest.param([seen(4.0, tokens=20.0)] * 10, False, True, id="few-tokens"),
        pytest.param([seen(4.0, tokens=5.0)] * 10, False, False, id="hardly-any"),
        pytest.param([seen(4.0, 0.004), seen(4.0, 0.006)] * 10, False, True, id="loose"),
        pytest.param([seen(4.0, 0.001), seen(4.0, 0.009)] * 5, False, False, id="too-loose"),
    ],
)
def test_a_bin_is_full_when_it_holds_enough_and_agrees(
    held: list[Observation], full: bool, usable: bool
) -> None:
    """Tokens, intervals and the interval of B must all be good."""
    filling = fill(held)
    assert (filling.full, filling.usable) == (full, usable)


def test_levels_are_the_bins_that_say_enough() -> None:
    """A bin that is not full is marked; one that says too little is named and left out."""
    made, left_out = levels(
        gather({}, [*[seen(1.0, 0.004)] * 12, *[seen(4.0)] * 4, seen(32.0, 0.007)])
    )
    assert [one.decode_concurrency for one in made] == pytest.approx([1.0, 4.0])
    assert [one.notes for one in made] == [
        (),
        ("not full: 800 tokens in 4 intervals, within 0.0%",),
    ]
    assert left_out == ("left out the load of 32 requests: 200 tokens in 1 interval",)
    assert describe(fill([seen(1.0)])) == "200 tokens in 1 interval"


@given(
    st.floats(0.002, 0.02),
    st.floats(0.0, 0.001),
    st.lists(st.floats(3.4, 4.7), min_size=3, max_size=30),
)
def test_a_straight_curve_is_met_exactly(flat: float, slope: float, loads: list[float]) -> None:
    """However the loads lie within a bin, its point lies on a straight B."""
    held = [seen(load, flat + slope * load) for load in loads]
    filling = fill(held)
    assert filling.tpot == pytest.approx(flat + slope * filling.concurrency)


def test_the_interval_covers_the_true_b() -> None:
    """Of 400 bins of 20 noisy intervals, about 95 % hold the truth within their interval."""
    chance = random.Random(7)  # noqa: S311 - a simulation
    hits = 0
    for _ in range(400):
        filling = fill([seen(4.0, 0.005 * chance.gauss(1.0, 0.05)) for _ in range(20)])
        assert filling.half_width is not None
        hits += abs(filling.tpot - 0.005) <= filling.half_width * filling.tpot
    assert 0.92 <= hits / 400 <= 0.98


READER = Reader()


def page(n: float, **more: Any) -> Page:
    """Read the page of a server after n seconds of four requests at a time."""
    return READER.read(vllm_page(tokens=810 * n, firsts=10 * n, spent=4.0 * n, **more))


def learnt(*steps: tuple[float, Page]) -> Learning:
    """Feed pages with their times to a fresh beginning."""
    state = begin(page(0), 0.0, place="server")
    for time, one in steps:
        state = learn(state, one, time, usual=1.0)
    return state


def test_a_server_is_learnt_page_by_page() -> None:
    """Each second of steady traffic is one interval of one bin, until nothing new comes."""
    state = learnt(*[(float(n), page(n)) for n in range(1, 12)])
    assert state.model == "target"
    assert {number: len(held) for number, held in state.bins.items()} == {4: 11}
    assert state.newest == 1.0
    assert not is_done(state, 11.0, quiet=30.0)
    assert is_done(state, 31.0, quiet=30.0)


def test_nothing_is_done_before_anything_is_known() -> None:
    """An idle server is waited for."""
    state = learnt((1.0, page(0)), (2.0, page(0)))
    assert dict(state.left_out) == {"no_tokens": 2}
    assert not is_done(state, 1e6, quiet=1.0)
    state = learnt((1.0, page(1)))
    assert not is_done(state, 1e6, quiet=1.0)


def test_gaps_resets_and_uneven_load_are_left_out() -> None:
    """Only an even second of an engine that went on counts."""
    state = learnt(
        (1.0, page(1)),
        (5.0, page(5)),
        (6.0, page(0)),
        (7.0, page(1, iterations=10)),
        (8.0, page(2, iterations=20)),
    )
    assert dict(state.left_out) == {"gap": 1, "engine_reset": 1, "uneven_load": 2}
    assert len(state.bins[4]) == 1


def test_configured_speculation_is_remembered() -> None:
    """A server that could speculate but did not is no server without it."""
    state = begin(page(0, drafts=0), 0.0, place="server")
    state = learn(state, page(1, drafts=0), 1.0, usual=1.0)
    assert state.configured
    assert not learnt((1.0, page(1))).configured


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        pytest.param([page(1, drafts=5)], "server: speculation is active; ", id="at-once"),
        pytest.param([page(1), page(2, drafts=5)], "server: speculation is active; ", id="later"),
        pytest.param([page(1), page(2, steps=900)], "server: several tokens come a step", id="hid"),
    ],
)
def test_a_server_that_speculates_is_refused(pages: list[Page], message: str) -> None:
    """Whether the page counts its drafts or not."""

    def follow() -> None:
        state = begin(pages[0], 0.0, place="server")
        for number, one in enumerate(pages[1:], 1):
            state = learn(state, one, float(number), usual=1.0)

    with pytest.raises(BaselineError, match=message):
        follow()


def test_the_speculation_of_another_model_is_none_of_ours() -> None:
    """One server may serve two models, of which one speculates."""
    both = vllm_page(tokens=9, firsts=1, spent=1.0, drafts=5, model="a") + vllm_page(model="b")
    state = begin(Reader().read(both), 0.0, place="server", model="b")
    assert state.wanted == "b"


def test_a_server_without_a_model_yet_is_waited_for() -> None:
    """Before its first request a server names no model; one that went shows none any more."""
    reader = Reader()
    nothing = reader.read(b'vllm:cache_config_info{num_gpu_blocks="9"} 1\n')
    state = begin(nothing, 0.0, place="server")
    state = learn(state, nothing, 1.0, usual=1.0)
    assert state.model is None
    state = learn(state, reader.read(vllm_page(tokens=810, firsts=10, spent=4.0)), 2.0, usual=1.0)
    assert (state.model, len(state.bins)) == ("target", 1)
    other = reader.read(vllm_page(model="other"))
    assert learn(state, other, 3.0, usual=1.0).bins == state.bins


def test_half_widths_are_shares() -> None:
    """A half-width of 0.1 is 10 % of B."""
    held = [seen(4.0, 0.0045), seen(4.0, 0.0055)] * 3
    width = fill(held).half_width
    assert width is not None
    assert width == pytest.approx(2.5705818366 * 0.1 / math.sqrt(5), rel=1e-6)
