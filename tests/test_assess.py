"""What one look says: every rule, its border and its place in the order."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drafted import Traffic, chance, looks
from tests.looking import KNOWN, POLICY, VERDICTS, accepting, ask, look, switched

from specgauge.guard.assess import Memory, assess
from specgauge.guard.policy import Policy
from specgauge.model.guard import Assessment, Blind, Look, Outcome, Signal, Switch

GRACE = Policy()
STARVED = accepting(0.01)


def said(found: Assessment) -> tuple[Outcome, str]:
    return found.outcome, found.reason


def after_past(*, until: float = 200.0) -> Memory:
    """Remember steady traffic at an acceptance of 0.55, by the policy of the tests."""
    memory = Memory()
    for time, one in looks(Traffic(rate=5.0), chance(1), until=until):
        memory, _ = assess(memory, one, POLICY, time=time)
    return memory


# What is no evidence


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param("", (Outcome.NO_DATA, "needs_window"), id="no word"),
        pytest.param("timeout", (Outcome.NO_DATA, "no_page"), id="timeout"),
        pytest.param("http_status", (Outcome.NO_DATA, "no_page"), id="status"),
        pytest.param("error: several series", (Outcome.ERROR, "evaluation_failed"), id="ours"),
    ],
)
def test_no_page_is_no_data_and_only_our_own_fault_is_an_error(
    error: str, expected: tuple[Outcome, str]
) -> None:
    """A page that is missing says nothing; an evaluation that failed is told apart."""
    found = ask(None, error=error)
    assert said(found) == expected
    assert found.detail == error.removeprefix("error: ")


@pytest.mark.parametrize(
    ("one", "more", "reason"),
    [
        pytest.param(look("costs"), {"flag_on": False}, "flag_off", id="flag off"),
        pytest.param(look("costs", speculating=False), {}, "not_speculating", id="no drafts"),
        pytest.param(look("costs"), {"policy": GRACE}, "startup_grace", id="first page"),
        pytest.param(
            look("costs", restarted=True), {"policy": GRACE}, "engine_restarted", id="restart"
        ),
        pytest.param(
            look("costs", restarted=True, speculating=False),
            {"policy": GRACE, "flag_on": False},
            "flag_off",
            id="flag off before all others",
        ),
    ],
)
def test_looks_that_say_nothing(one: Look, more: dict[str, Any], reason: str) -> None:
    """What cannot be evidence is no data, whatever its numbers are."""
    assert said(ask(one, **{"policy": POLICY, **more})) == (Outcome.NO_DATA, reason)


@pytest.mark.parametrize(
    ("restart", "time", "reason"),
    [
        pytest.param(None, 59.9, "startup_grace", id="in grace"),
        pytest.param(None, 60.0, "speedup_below_one", id="grace over"),
        pytest.param(100.0, 159.9, "engine_restarted", id="after a restart"),
        pytest.param(100.0, 160.0, "speedup_below_one", id="restart long ago"),
    ],
)
def test_grace(restart: float | None, time: float, reason: str) -> None:
    """Sixty seconds from the first page and from each reset nothing is judged."""
    memory, _ = assess(Memory(), look("costs", end=0.0), GRACE, time=0.0)
    if restart is not None:
        again = look("costs", end=restart, restarted=True)
        memory, _ = assess(memory, again, GRACE, time=restart)
    assert assess(memory, look("costs", end=time), GRACE, time=time)[1].reason == reason


def test_clock_that_goes_back() -> None:
    """It is told once; the grace that was left goes along, and no more."""
    memory, _ = assess(Memory(), look("costs", end=1000.0), GRACE, time=1000.0)
    memory, _ = assess(memory, None, GRACE, time=1050.0)
    memory, found = assess(memory, look("costs", end=400.0), GRACE, time=400.0)
    assert said(found) == (Outcome.NO_DATA, "clock_went_back")
    memory, found = assess(memory, look("costs", end=409.0), GRACE, time=409.0)
    assert found.reason == "startup_grace"
    _, found = assess(memory, look("costs", end=410.0), GRACE, time=410.0)
    assert found.reason == "speedup_below_one"


def test_clock_that_goes_back_before_the_first_page() -> None:
    """Without a page there is no grace to take along."""
    memory, _ = assess(Memory(), None, GRACE, time=1000.0)
    memory, found = assess(memory, look("costs"), GRACE, time=900.0)
    assert found.reason == "clock_went_back"
    assert assess(memory, look("costs"), GRACE, time=960.0)[1].reason == "speedup_below_one"


# Speed


@pytest.mark.parametrize(
    ("verdict", "numbers", "expected", "severe"),
    [
        pytest.param("pays", {}, (Outcome.HEALTHY, "speedup_above_one"), False, id="pays"),
        pytest.param("even", {}, (Outcome.HEALTHY, "within_margin"), False, id="even"),
        pytest.param("costs", {}, (Outcome.DEGRADED, "speedup_below_one"), False, id="no interval"),
        pytest.param(
            "costs",
            {"speedup_ratio": 0.5},
            (Outcome.DEGRADED, "speedup_below_one"),
            False,
            id="a point is never severe",
        ),
        pytest.param(
            "costs",
            {"speedup_ratio_high": 0.8},
            (Outcome.DEGRADED, "speedup_below_one"),
            False,
            id="at the border",
        ),
        pytest.param(
            "costs",
            {"speedup_ratio_high": 0.79},
            (Outcome.DEGRADED, "speedup_below_one"),
            True,
            id="severe",
        ),
        pytest.param("wide", {}, (Outcome.INCONCLUSIVE, "interval_too_wide"), False, id="too wide"),
        pytest.param(
            "costs", {"tokens": 499.0}, (Outcome.NO_DATA, "too_few_tokens"), False, id="few tokens"
        ),
        pytest.param(
            "pays", {"tokens": 499.0}, (Outcome.NO_DATA, "too_few_tokens"), False, id="pays on few"
        ),
        pytest.param(
            "costs",
            {"requests": 4.0, "first_tokens": 4.0, "decode_concurrency": 4.9},
            (Outcome.NO_DATA, "too_few_requests"),
            False,
            id="few requests",
        ),
        pytest.param(
            "costs",
            {"requests": 0.0, "first_tokens": 0.0, "decode_concurrency": 5.0},
            (Outcome.DEGRADED, "speedup_below_one"),
            False,
            id="long streams that neither start nor end",
        ),
        pytest.param(
            "costs",
            {"requests": 0.0, "first_tokens": 5.0, "decode_concurrency": 1.0},
            (Outcome.DEGRADED, "speedup_below_one"),
            False,
            id="streams that started",
        ),
    ],
)
def test_speed(
    verdict: str, numbers: dict[str, float], expected: tuple[Outcome, str], severe: bool
) -> None:
    """The verdict decides once there is enough; a whole interval far below 1 is severe."""
    found = ask(look(verdict, numbers=numbers))
    assert (said(found), found.severe) == (expected, severe)
    outright = expected[0] in {Outcome.HEALTHY, Outcome.DEGRADED}
    assert found.signal is (Signal.SPEEDUP if outright else None)


def test_few_tokens_by_the_verdict() -> None:
    """A verdict for want of tokens is no data, not doubt."""
    one = look("wide", verdict_reason="too_few_tokens")
    assert said(ask(one)) == (Outcome.NO_DATA, "too_few_tokens")


# Acceptance decides only for want of a baseline

LOW = "acceptance_below_floor"


@pytest.mark.parametrize(
    ("reason", "covered", "expected"),
    [
        pytest.param("no_baseline", False, (Outcome.DEGRADED, LOW), id="no baseline"),
        pytest.param("outside_baseline_range", False, (Outcome.DEGRADED, LOW), id="outside"),
        pytest.param("baseline_mismatch", False, (Outcome.DEGRADED, LOW), id="mismatch"),
        pytest.param("workload_mismatch", False, (Outcome.DEGRADED, LOW), id="other shape"),
        pytest.param(
            "outside_baseline_range",
            True,
            (Outcome.INCONCLUSIVE, "outside_baseline_range"),
            id="covered",
        ),
        pytest.param(
            "interval_too_wide", False, (Outcome.INCONCLUSIVE, "interval_too_wide"), id="wide"
        ),
        pytest.param("uneven_load", False, (Outcome.INCONCLUSIVE, "uneven_load"), id="uneven"),
    ],
)
def test_where_acceptance_decides(
    reason: str, covered: bool, expected: tuple[Outcome, str]
) -> None:
    """It does where no baseline covers the load, and nowhere else."""
    one = look(verdict_reason=reason, covered=covered, numbers=STARVED)
    assert said(ask(one)) == expected


@pytest.mark.parametrize(
    ("numbers", "policy", "expected"),
    [
        pytest.param(accepting(0.1, k=1.0), POLICY, "no_baseline", id="0.1 at k=1 pays"),
        pytest.param(accepting(0.1, k=8.0), POLICY, "no_baseline", id="0.1 at k=8 pays"),
        pytest.param(accepting(0.01, k=1.0), POLICY, LOW, id="0.01 at k=1"),
        pytest.param(accepting(0.0, k=4.0), POLICY, LOW, id="none"),
        pytest.param(accepting(0.0, drafts=100.0), POLICY, LOW, id="none of just enough"),
        pytest.param(accepting(0.0, drafts=99.0), POLICY, "too_few_drafts", id="too few"),
        pytest.param(accepting(0.04, drafts=120.0), POLICY, "no_baseline", id="not sure"),
        pytest.param(
            accepting(0.3), replace(POLICY, floor=2.5), LOW, id="the user's floor, in tokens"
        ),
        pytest.param(accepting(0.01), replace(POLICY, floor=1.0), "no_baseline", id="lower floor"),
        pytest.param(
            {**STARVED, "requests": 4, "first_tokens": 4, "decode_concurrency": 1},
            POLICY,
            "too_few_requests",
            id="one odd request",
        ),
    ],
)
def test_floor(numbers: dict[str, float], policy: Policy, expected: str) -> None:
    """Acceptance must pay for the draft's own cost, so the floor depends on its length."""
    found = ask(look(numbers=numbers), policy)
    assert found.reason == expected
    assert (found.outcome is Outcome.DEGRADED) == (expected == LOW)


@pytest.mark.parametrize("gone", ["drafts", "draft_tokens", "accepted_tokens"])
def test_acceptance_that_is_not_known(gone: str) -> None:
    """Counts that the page lacks never decide."""
    found = ask(look(numbers=STARVED, without=(gone,)))
    assert found.outcome in {Outcome.NO_DATA, Outcome.INCONCLUSIVE}


def test_counts_that_contradict_each_other() -> None:
    """More accepted than proposed is a fault of the page, not of the draft."""
    found = ask(look(numbers={"draft_tokens": 100.0, "accepted_tokens": 200.0}))
    assert said(found) == (Outcome.INCONCLUSIVE, "no_baseline")


def test_numbers_of_the_floor() -> None:
    """The answer carries the floor and the interval that was held against it."""
    numbers = ask(look(numbers=STARVED)).numbers
    assert numbers["acceptance_floor"] == pytest.approx(1.2)
    assert numbers["acceptance_length_low"] < 1.04 < numbers["acceptance_length_high"]
    assert {"decode_concurrency", "tokens", "requests", "drafts"} <= numbers.keys()


def test_acceptance_that_holds_needs_a_past() -> None:
    """Without a past it is in doubt; with one that it holds against it is healthy."""
    assert said(ask(look())) == (Outcome.INCONCLUSIVE, "no_baseline")
    memory = after_past()
    assert said(assess(memory, look(), POLICY, time=201.0)[1]) == (
        Outcome.HEALTHY,
        "acceptance_held",
    )


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        pytest.param({}, Outcome.HEALTHY, id="as they are"),
        pytest.param({"acceptance_floor": Switch.OFF}, Outcome.HEALTHY, id="no floor asked"),
        pytest.param({"collapse": Switch.OFF}, Outcome.INCONCLUSIVE, id="no past asked"),
        pytest.param(
            {"collapse": Switch.OFF, "acceptance_floor": Switch.OFF},
            Outcome.INCONCLUSIVE,
            id="neither",
        ),
    ],
)
def test_what_healthy_acceptance_takes(switches: dict[str, Switch], expected: Outcome) -> None:
    """A signal that is switched off neither asks nor answers."""
    found = assess(after_past(), look(), switched(**switches), time=201.0)[1]
    assert found.outcome is expected


def test_collapse_is_degraded_and_explains_where_it_does_not_decide() -> None:
    """Without a baseline it decides, with one it only stands in the words."""
    traffic = Traffic(rate=5.0, drift=lambda time: 0.2 if time > 180.0 else 1.0)
    memory = Memory()
    for time, one in looks(traffic, chance(1), until=200.0):
        memory, found = assess(memory, one, POLICY, time=time)
    assert said(found) == (Outcome.DEGRADED, "acceptance_collapsed")
    assert found.signal is Signal.COLLAPSE
    assert found.severe
    assert found.numbers["collapse_ratio"] < found.numbers["collapse_ratio_high"] < 0.8
    paying = assess(memory, look("pays"), POLICY, time=201.0)[1]
    assert said(paying) == (Outcome.HEALTHY, "speedup_above_one")
    assert paying.detail.startswith("acceptance length fell from 3.")
    assert "collapse_ratio" not in paying.numbers


# Switches


@pytest.mark.parametrize(
    ("one", "switches", "expected", "rehearsed"),
    [
        pytest.param(
            look("costs", numbers={"speedup_ratio_high": 0.5}),
            {"speedup": Switch.DRY_RUN},
            (Outcome.INCONCLUSIVE, "speedup_below_one"),
            ("speedup_below_one",),
            id="speed rehearsed",
        ),
        pytest.param(
            look("costs"),
            {"speedup": Switch.OFF},
            (Outcome.INCONCLUSIVE, "speedup_below_one"),
            (),
            id="speed off",
        ),
        pytest.param(
            look("pays"),
            {"speedup": Switch.DRY_RUN},
            (Outcome.HEALTHY, "speedup_above_one"),
            (),
            id="healthy in rehearsal too",
        ),
        pytest.param(
            look(numbers=STARVED),
            {"acceptance_floor": Switch.DRY_RUN},
            (Outcome.INCONCLUSIVE, "no_baseline"),
            ("acceptance_below_floor",),
            id="floor rehearsed",
        ),
        pytest.param(
            look(numbers=STARVED),
            {"acceptance_floor": Switch.OFF},
            (Outcome.INCONCLUSIVE, "no_baseline"),
            (),
            id="floor off",
        ),
        pytest.param(
            look("costs"),
            dict.fromkeys(Signal, Switch.OFF),
            (Outcome.INCONCLUSIVE, "all_signals_off"),
            (),
            id="all off",
        ),
    ],
)
def test_switches(
    one: Look, switches: dict[str, Switch], expected: tuple[Outcome, str], rehearsed: tuple[str]
) -> None:
    """What is rehearsed is told and does not act; what is off is not looked at."""
    found = ask(one, switched(**switches))
    assert (said(found), found.rehearsed, found.severe) == (expected, rehearsed, False)


def test_signal_that_acts_beside_one_that_rehearses() -> None:
    """One loss acts, the other is told beside it."""
    policy = switched(errors=Switch.ON, speedup=Switch.DRY_RUN)
    one = look(
        "costs",
        numbers={"errors": 50.0, "served": 100.0},
        standard={"errors": 0.0, "served": 100.0},
    )
    found = ask(one, policy)
    assert said(found) == (Outcome.DEGRADED, "excess_errors")
    assert found.rehearsed == ("speedup_below_one",)


# Co-signals


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"requests_waiting": 3.0}, ("waiting",), id="waiting"),
        pytest.param({"preemptions": 1.0}, ("preempting",), id="preempting"),
        pytest.param({"kv_cache_usage_ratio": 0.95}, ("kv_cache_full",), id="full"),
        pytest.param({"kv_cache_usage_ratio": 0.949}, (), id="nearly full"),
        pytest.param(
            {"requests_waiting": 1.0, "preemptions": 2.0, "kv_cache_usage_ratio": 1.0},
            ("waiting", "preempting", "kv_cache_full"),
            id="all",
        ),
    ],
)
def test_companions_never_act(numbers: dict[str, float], expected: tuple[str, ...]) -> None:
    """Pressure on the cache and waiting are told and change no outcome."""
    found = ask(look("pays", numbers=numbers))
    assert (found.outcome, found.companions) == (Outcome.HEALTHY, expected)


# Laws

COUNTS = st.floats(0.0, 20000.0)
SOME = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(KNOWN, COUNTS),
        "speedup_ratio": st.floats(0.1, 4.0),
        "speedup_ratio_high": st.floats(0.1, 4.0),
        "errors": COUNTS,
        "served": COUNTS,
        "ttft_seconds": st.floats(0.0, 10.0),
        "e2e_seconds": st.floats(0.0, 100.0),
        "requests_waiting": COUNTS,
        "kv_cache_usage_ratio": st.floats(0.0, 1.0),
    },
)
SWITCHES = st.fixed_dictionaries(dict.fromkeys(Signal, st.sampled_from(Switch)))


@st.composite
def drawn_looks(draw: st.DrawFn, *, step: bool = True) -> Look:
    return Look(
        start=0.0,
        end=15.0,
        speculating=draw(st.sampled_from([True, None])),
        numbers=draw(SOME),
        step=draw(SOME) if step else {},
        step_seconds=draw(st.floats(0.0, 20.0)),
        standard=draw(SOME),
        **draw(st.sampled_from(list(VERDICTS.values()))),
    )


@given(drawn_looks(), SWITCHES)
def test_never_degraded_on_too_little(one: Look, switches: dict[Signal, Switch]) -> None:
    """A loss of speed or acceptance is never found in less than the minimum."""
    found = ask(one, replace(POLICY, signals=switches))
    if found.outcome is not Outcome.DEGRADED or found.signal is Signal.ERRORS:
        return
    counts = [one.numbers.get(n, 0.0) for n in ("requests", "first_tokens", "decode_concurrency")]
    assert max(counts) >= POLICY.min_requests
    minimum = {Signal.SPEEDUP: "tokens", Signal.LATENCY: "tokens"}.get(
        found.signal or Signal.SPEEDUP, "drafts"
    )
    assert one.numbers.get(minimum, 0.0) >= getattr(POLICY, f"min_{minimum}")


@given(st.sampled_from(list(VERDICTS)), SWITCHES, st.text(max_size=10))
def test_never_degraded_without_data(
    verdict: str, switches: dict[Signal, Switch], error: str
) -> None:
    """No page and empty pages turn nothing off, whatever the verdict before them was."""
    policy = replace(POLICY, signals=switches)
    assert ask(None, policy, error=error).outcome in {Outcome.NO_DATA, Outcome.ERROR}
    empty = Look(start=0.0, end=15.0, **VERDICTS[verdict])
    assert ask(empty, policy).outcome in {Outcome.NO_DATA, Outcome.INCONCLUSIVE}


@given(
    st.sampled_from(["costs", "pays", "even", "wide"]),
    st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    SWITCHES,
)
def test_acceptance_never_decides_beside_a_baseline(
    verdict: str, ratios: tuple[float, float], switches: dict[Signal, Switch]
) -> None:
    """Where a baseline covers the load, any two acceptances give the same answer."""
    policy = replace(POLICY, signals=switches)
    first, other = (ask(look(verdict, numbers=accepting(one)), policy) for one in ratios)
    assert (said(first), first.severe) == (said(other), other.severe)


@given(st.lists(drawn_looks(), max_size=8), SWITCHES)
def test_deterministic(given_looks: list[Look], switches: dict[Signal, Switch]) -> None:
    """The same looks give the same answers and leave the same memory."""
    policy = replace(POLICY, signals=switches)
    runs = []
    for _ in range(2):
        memory, answers = Memory(), []
        for at, one in enumerate(given_looks):
            memory, found = assess(memory, one, policy, time=float(at))
            answers.append(found)
        runs.append((memory, answers))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("outcome", [Outcome.NO_DATA, Outcome.ERROR])
def test_a_pool_that_cannot_be_looked_at(outcome: Outcome) -> None:
    """A reason that is known stays what it is, with its own outcome."""
    found = ask(None, error=Blind(reason="no_series", detail="none is known", outcome=outcome))
    assert said(found) == (outcome, "no_series")
    assert found.detail == "none is known"
