"""Servers without speculation under loads that come and go are never called a gain or a loss."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.judging import base, derived, line
from tests.simulated import LENGTHS, LOADS, MOST, SHAPES, StepTime, arrivals, serve

from specgauge.derive.judge import Terms, judge
from specgauge.derive.speedup import Piece
from specgauge.model.baseline import Baseline
from specgauge.model.verdict import Judgement, Verdict, VerdictReason

SECONDS = 75
TERMS = Terms()
WINDOW = derived(without=["ttft_seconds"])


def own_curve(step_time: StepTime) -> Baseline:
    """Make the baseline of a server from its own step times."""
    loads = [load for load in (1, 2, 4, 8, 16, 32, 64, 128, 256) if load <= MOST]
    return base(line(*((float(load), step_time(load)) for load in loads)))


def verdicts(
    step_time: StepTime, baseline: Baseline, kind: str, lengths: tuple[int, int], seed: int,
    wobble: float = 0.0,
) -> list[Judgement]:  # fmt: skip
    """Judge every 15 s and every 60 s of a simulated server scraped once a second."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    times = arrivals(kind, chance, SECONDS)
    answers = [chance.randint(*lengths) for _ in times]
    seen = serve(
        step_time, times, answers, seconds=SECONDS, noise=lambda: 1.0 + wobble * chance.gauss(0, 1)
    )
    return [
        judge(WINDOW, seen[begin : begin + length], baseline, terms=TERMS)
        for length, step in ((15, 1), (60, 5))
        for begin in range(0, SECONDS - length + 1, step)
    ]


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from(LOADS),
    st.sampled_from(LENGTHS),
    st.sampled_from([0.0, 0.05]),
    st.integers(0, 2**32),
)
def test_never_a_gain_or_loss(
    shape: str, kind: str, lengths: tuple[int, int], wobble: float, seed: int
) -> None:
    """Whatever the load does within a scrape, it is even, or not known."""
    step_time = SHAPES[shape]
    found = verdicts(step_time, own_curve(step_time), kind, lengths, seed, wobble)
    assert {one.verdict for one in found} <= {Verdict.EVEN, Verdict.UNKNOWN}


@pytest.mark.parametrize("kind", LOADS)
@pytest.mark.parametrize("shape", SHAPES)
def test_even_where_a_request_lasts_for_seconds(shape: str, kind: str) -> None:
    """With answers of hundreds of tokens most windows that hold enough are even."""
    step_time = SHAPES[shape]
    known = [
        one
        for seed in range(3)
        for one in verdicts(step_time, own_curve(step_time), kind, (100, 800), seed)
        if one.reason is not VerdictReason.TOO_FEW_TOKENS
    ]
    assert sum(one.verdict is Verdict.EVEN for one in known) >= 0.7 * len(known)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [pytest.param(1.35, Verdict.COSTS, id="slower"), pytest.param(0.7, Verdict.PAYS, id="faster")],
)
@pytest.mark.parametrize("kind", ["steady", "on and off", "waves"])
def test_real_difference_is_seen(kind: str, factor: float, verdict: Verdict) -> None:
    """A server whose every step takes a third more or less is found out in most windows."""
    plain = SHAPES["large GPU"]
    known = [
        one.verdict
        for seed in range(5)
        for one in verdicts(lambda n: factor * plain(n), own_curve(plain), kind, (32, 352), seed)
        if one.reason is not VerdictReason.TOO_FEW_TOKENS
    ]
    opposite = {Verdict.COSTS: Verdict.PAYS, Verdict.PAYS: Verdict.COSTS}[verdict]
    assert known.count(verdict) >= 0.8 * len(known)
    assert opposite not in known


def bursts_between_scrapes(full: float) -> list[Piece]:
    """Make 32 requests at once for a fifth of every second, as scrapes would show it."""
    step_time = SHAPES["large GPU"](32)
    one = Piece(tokens=32 * 0.2 / step_time, spent=6.4, seconds=1.0, fullness=full)
    return [one] * 15


def test_why_fullness_is_looked_at() -> None:
    """Bursts of one rhythm with the scrapes read as a steady loss; how full steps were tells."""
    baseline = own_curve(SHAPES["large GPU"])
    hidden = judge(WINDOW, bursts_between_scrapes(0.0), baseline, terms=TERMS)
    assert (hidden.verdict, hidden.reason) == (Verdict.COSTS, VerdictReason.BELOW_ONE)
    known = judge(WINDOW, bursts_between_scrapes(32.0), baseline, terms=TERMS)
    assert (known.verdict, known.reason) == (Verdict.UNKNOWN, VerdictReason.UNEVEN_LOAD)
