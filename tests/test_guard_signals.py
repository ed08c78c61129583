"""Latency, errors, the floor's interval, the article's guard, and several models at once."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.looking import POLICY, accepting, ask, look, switched

from specgauge.guard.assess import Memory, assess
from specgauge.guard.floor import wilson
from specgauge.guard.merge import merge
from specgauge.guard.policy import Objective, Policy
from specgauge.model.guard import Assessment, Outcome, Signal, Switch

# Latency

LATENCY = replace(
    switched(latency=Switch.ON, speedup=Switch.OFF, acceptance_floor=Switch.OFF),
    objective=Objective(tpot_seconds=0.02, ttft_seconds=1.0, e2e_seconds=10.0),
)
SLOW = {"tpot_seconds": 0.03}
STANDARD = {"tpot_seconds": 0.01, "tokens": 8000.0, "decode_concurrency": 8.0}


@pytest.mark.parametrize(
    ("verdict", "numbers", "standard", "degraded"),
    [
        pytest.param("costs", SLOW, {}, True, id="costs"),
        pytest.param("costs", {"ttft_seconds": 2.0}, {}, True, id="costs, first token late"),
        pytest.param("costs", {"e2e_seconds": 20.0}, {}, True, id="costs, whole request late"),
        pytest.param("costs", {"tpot_seconds": 0.02}, {}, False, id="as promised"),
        pytest.param("pays", SLOW, STANDARD, False, id="slow though it pays"),
        pytest.param("even", SLOW, STANDARD, False, id="slow though it costs nothing"),
        pytest.param("wide", SLOW, {}, False, id="not known why"),
        pytest.param("wide", SLOW, STANDARD, True, id="the other pool is faster"),
        pytest.param("wide", {"ttft_seconds": 9.0}, STANDARD, False, id="queueing"),
        pytest.param(
            "wide",
            {"requests_waiting": 50.0, "kv_cache_usage_ratio": 1.0},
            STANDARD,
            False,
            id="pressure alone",
        ),
        pytest.param("wide", SLOW, {**STANDARD, "tpot_seconds": 0.029}, False, id="much alike"),
        pytest.param("wide", SLOW, {**STANDARD, "tokens": 400.0}, False, id="other pool idle"),
        pytest.param(
            "wide", SLOW, {**STANDARD, "decode_concurrency": 2.0}, False, id="busier than it"
        ),
        pytest.param("wide", SLOW, {"tpot_seconds": 0.01}, False, id="its load not known"),
        pytest.param("costs", {**SLOW, "tokens": 400.0}, {}, False, id="too few tokens"),
        pytest.param("no baseline", {**SLOW, **accepting(0.5)}, {}, False, id="acceptance well"),
        pytest.param("no baseline", {**SLOW, **accepting(0.0)}, {}, True, id="acceptance lost"),
    ],
)
def test_latency(
    verdict: str, numbers: dict[str, float], standard: dict[str, float], degraded: bool
) -> None:
    """An objective must be missed, and speculation the plausible cause."""
    found = ask(look(verdict, numbers=numbers, standard=standard), LATENCY)
    assert (found.outcome is Outcome.DEGRADED) == degraded
    assert (found.reason == "latency_objective_missed") == degraded
    assert (found.signal is Signal.LATENCY) == degraded


def test_latency_is_off_by_default() -> None:
    """What was not asked for is not looked at."""
    policy = replace(POLICY, objective=LATENCY.objective)
    found = ask(look("wide", numbers=SLOW, standard=STANDARD), policy)
    assert (found.outcome, found.rehearsed) == (Outcome.INCONCLUSIVE, ())


# Errors

ERRORS = switched(errors=Switch.ON)


@pytest.mark.parametrize(
    ("ours", "theirs", "degraded"),
    [
        pytest.param((50, 100), (0, 100), True, id="half fails here, none there"),
        pytest.param((50, 100), (50, 100), False, id="both alike"),
        pytest.param((100, 100), (100, 100), False, id="both down"),
        pytest.param((4, 20), (0, 1000), False, id="too few errors"),
        pytest.param((5, 19), (0, 1000), False, id="too few answers"),
        pytest.param((50, 100), (0, 19), False, id="too few there"),
        pytest.param((5, 100), (1, 100), False, id="chance"),
        pytest.param((15, 100), (1, 100), True, id="sure"),
        pytest.param((0, 100), (50, 100), False, id="worse there"),
    ],
)
def test_errors(ours: tuple[float, float], theirs: tuple[float, float], degraded: bool) -> None:
    """Only an excess over the standard pool at the same time is speculation's."""
    one = look(
        "pays",
        numbers={"errors": float(ours[0]), "served": float(ours[1])},
        standard={"errors": float(theirs[0]), "served": float(theirs[1])},
    )
    found = ask(one, ERRORS)
    assert found.outcome is (Outcome.DEGRADED if degraded else Outcome.HEALTHY)
    assert (found.reason == "excess_errors") == degraded
    assert ask(one).outcome is Outcome.HEALTHY


def test_errors_of_the_other_pool_not_known() -> None:
    """What the other pool does not tell is not none."""
    one = look("pays", numbers={"errors": 50.0, "served": 100.0}, standard={"served": 100.0})
    assert ask(one, ERRORS).outcome is Outcome.HEALTHY


def crash(
    times: list[float], policy: Policy, *, theirs: tuple[float, ...] = (), watched: bool = True
) -> Assessment:
    """Let this pool restart at these times, the other at its own, a page every 50 s."""
    memory = Memory()
    for time in sorted({*times, *theirs, *range(0, int(times[-1]), 50)}):
        one = look(
            "pays",
            end=time,
            restarted=time in times,
            standard={"restarts": float(time in theirs), "tokens": 1.0} if watched else {},
        )
        memory, found = assess(memory, one, policy, time=time)
    return found


@pytest.mark.parametrize(
    ("times", "more", "reason"),
    [
        pytest.param([110.0, 210.0, 310.0], {}, "excess_errors", id="three in a row"),
        pytest.param([110.0, 210.0], {}, "engine_restarted", id="two"),
        pytest.param([110.0, 210.0, 1120.0], {}, "engine_restarted", id="long apart"),
        pytest.param([110.0, 210.0, 310.0], {"watched": False}, "engine_restarted", id="no other"),
        pytest.param(
            [110.0, 210.0, 310.0], {"theirs": (115.0,)}, "engine_restarted", id="the other too"
        ),
    ],
)
def test_crash_loop(times: list[float], more: dict[str, Any], reason: str) -> None:
    """A pool that restarts again and again while the other runs is degraded in spite of grace."""
    graced = replace(ERRORS, startup_grace=60.0)
    assert crash(times, graced, **more).reason == reason
    ungraced = crash(times, ERRORS, **more).reason
    assert ungraced == ("excess_errors" if reason == "excess_errors" else "speedup_above_one")


def test_crash_loop_where_errors_are_off() -> None:
    """Without the signal restarts only start a new grace."""
    policy = replace(POLICY, startup_grace=60.0)
    assert crash([110.0, 210.0, 310.0], policy).reason == "engine_restarted"


def test_one_restart_seen_in_several_looks_counts_once() -> None:
    """A window that still holds a restart is no second one."""
    memory = Memory()
    for time in range(5):
        one = look("pays", end=float(time), restarted=True, standard={"restarts": 1.0})
        memory, _ = assess(memory, one, ERRORS, time=float(time))
    assert (len(memory.restarts.ours), len(memory.restarts.theirs)) == (1, 1)


# The floor's interval


@pytest.mark.parametrize(
    ("share", "n", "expected"),
    [
        pytest.param(0.5, 50.0, (0.366, 0.634), id="50"),
        pytest.param(0.5, 1000.0, (0.469, 0.531), id="1000"),
        pytest.param(0.0, 100.0, (0.0, 0.037), id="none"),
        pytest.param(1.0, 100.0, (0.963, 1.0), id="all"),
    ],
)
def test_wilson(share: float, n: float, expected: tuple[float, float]) -> None:
    """It agrees with the tables."""
    assert wilson(share, n) == pytest.approx(expected, abs=5e-4)


@given(st.floats(0.0, 1.0), st.floats(1.0, 1e6))
def test_wilson_holds_its_share(share: float, n: float) -> None:
    """The interval holds the share that was seen, and stays among shares."""
    low, high = wilson(share, n)
    assert 0.0 <= low <= share + 1e-9
    assert share - 1e-9 <= high <= 1.0


# The article's guard

PLAYBOOK = Policy(playbook=True, consecutive=3)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        pytest.param({"acceptance_ratio": 0.39}, "acceptance_below_floor", id="below"),
        pytest.param({"acceptance_ratio": 0.4}, "acceptance_held", id="at the threshold"),
        pytest.param({"acceptance_ratio": 0.1, "drafts": 99.0}, "too_few_drafts", id="few drafts"),
        pytest.param({}, "too_few_drafts", id="nothing known is not 0"),
        pytest.param(
            {"acceptance_ratio": 0.8, "speedup_ratio": 1 / 1.21}, "speedup_below_one", id="21 %"
        ),
        pytest.param(
            {"acceptance_ratio": 0.8, "speedup_ratio": 1 / 1.2}, "acceptance_held", id="20 %"
        ),
        pytest.param(
            {"acceptance_ratio": 0.8, "speedup_ratio": 0.5, "tokens": 10.0},
            "acceptance_held",
            id="slow over few tokens",
        ),
        pytest.param({"speedup_ratio": 0.5}, "speedup_below_one", id="acceptance not known"),
        pytest.param(
            {"acceptance_ratio": 0.8, "tpot_seconds": 0.025, "baseline_tpot_seconds": 0.02},
            "speedup_below_one",
            id="time per token",
        ),
        pytest.param(
            {"acceptance_ratio": 0.8, "e2e_seconds": 16.0, "baseline_e2e_seconds": 10.0},
            "speedup_below_one",
            id="whole requests, where nothing else is known",
        ),
        pytest.param(
            {"acceptance_ratio": 0.8, "e2e_seconds": 16.0}, "acceptance_held", id="no baseline"
        ),
    ],
)
def test_playbook(numbers: dict[str, float], expected: str) -> None:
    """It judges by its own two numbers, and never by a number that is missing."""
    known = dict.fromkeys(look().numbers, 0.0)
    one = look(numbers=numbers, without=tuple(known.keys() - numbers.keys()))
    found = ask(one, PLAYBOOK)
    assert found.reason == expected
    degraded = expected in {"acceptance_below_floor", "speedup_below_one"}
    assert (found.outcome is Outcome.DEGRADED) == degraded
    assert not found.severe


# Several models


def answer(outcome: Outcome, reason: str = "", **more: Any) -> Assessment:
    return Assessment(**{"start": 0.0, "end": 15.0, "outcome": outcome, "reason": reason, **more})


@pytest.mark.parametrize(
    ("outcomes", "expected", "reason"),
    [
        pytest.param((), Outcome.NO_DATA, "no_model", id="no model"),
        pytest.param(("healthy",), Outcome.HEALTHY, "healthy", id="one"),
        pytest.param(("degraded", "no_data"), Outcome.DEGRADED, "degraded", id="the other silent"),
        pytest.param(("degraded", "degraded"), Outcome.DEGRADED, "degraded", id="all"),
        pytest.param(
            ("healthy", "degraded"), Outcome.INCONCLUSIVE, "models_disagree", id="disagree"
        ),
        pytest.param(("no_data", "healthy"), Outcome.HEALTHY, "healthy", id="one healthy"),
        pytest.param(("no_data", "inconclusive"), Outcome.INCONCLUSIVE, "inconclusive", id="doubt"),
        pytest.param(("inconclusive", "error"), Outcome.ERROR, "error", id="our own fault"),
    ],
)
def test_merge(outcomes: tuple[str, ...], expected: Outcome, reason: str) -> None:
    """Several models turn the flag off only where one is degraded and none is healthy."""
    merged = merge([answer(Outcome(one), one, severe=one == "degraded") for one in outcomes])
    assert (merged.outcome, merged.reason) == (expected, reason)
    assert merged.severe == (expected is Outcome.DEGRADED)


def test_merge_keeps_what_each_had_to_say() -> None:
    """The severe one speaks, then the one with more tokens; what else was told is kept."""
    one = answer(
        Outcome.DEGRADED, "a", numbers={"tokens": 9.0}, companions=("waiting",), model_name="m"
    )
    other = answer(
        Outcome.DEGRADED,
        "b",
        severe=True,
        start=-15.0,
        companions=("waiting", "preempting"),
        model_name="n",
    )
    more = answer(Outcome.DEGRADED, "c", numbers={"tokens": 10.0}, end=16.0, rehearsed=("x",))
    merged = merge([one, other, more])
    assert (merged.reason, merged.start, merged.end) == ("b", -15.0, 16.0)
    assert (merged.companions, merged.rehearsed) == (("waiting", "preempting"), ("x",))
    assert merge([one, more]).reason == "c"
    assert merged.model_name == "n"
    assert merge([one]).model_name == ""  # there is no other that it could be


def test_merge_without_models_says_when() -> None:
    """An answer about nothing still has its place in time."""
    assert merge([], time=7.0).end == 7.0
