"""The guard's thinking over time, without a clock: looks go in, decisions and history come out."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from tests.looking import look, switched

from specgauge.guard.policy import Policy
from specgauge.model.guard import (
    Decision,
    GuardState,
    Look,
    Outcome,
    Override,
    Phase,
    Switch,
)
from specgauge.serve.pools import Room
from specgauge.serve.watchman import Circumstances, Watchman

POLICY = Policy(startup_grace=0.0, consecutive=1, cooldown=60.0, probe_for=30.0)
COSTS = {"speedup_ratio": 0.7, "speedup_ratio_low": 0.66, "speedup_ratio_high": 0.74}
PAYS = {"speedup_ratio": 1.6, "speedup_ratio_low": 1.5, "speedup_ratio_high": 1.7}


class Story:
    """A watchman and a time that goes on by a window at each look."""

    def __init__(self, policy: Policy = POLICY, *, adopted: bool | None = True) -> None:
        self.man = Watchman(policy, time=0.0)
        self.time = 0.0
        if adopted is not None:
            self.man.adopt(read_back=adopted, saved=None, time=0.0)

    def see(
        self,
        *verdicts: str,
        looks: Mapping[str, Look] | None = None,
        error: str = "",
        room: Room | None = None,
        **around: Any,
    ) -> Decision:
        """Look at one window after the other; gives the last decision."""
        for verdict in verdicts or ("",):
            self.time += 15.0
            numbers = COSTS if verdict == "costs" else PAYS
            one = {"m": look(verdict, end=self.time, numbers=numbers)} if verdict else {}
            around = {"confirmed": self.man.state.flag, **around}
            found = self.man.consider(
                one if looks is None else looks,
                Circumstances(room=room or Room(), **around),
                time=self.time,
                unix=1e9 + self.time,
                error=error,
            )
        return found


def test_a_fallback_and_a_way_back() -> None:
    """Transitions, assessments and history tell the same story."""
    story = Story()
    story.see("pays", "costs", "pays", "pays", "pays", "pays")
    assert story.man.phase == "probing"
    story.see("pays", "pays", "pays")
    assert story.man.phase == "active"
    assert story.man.transitions == {
        ("active", "fallback", "speedup_below_one"): 1,
        ("fallback", "probing", "probe_due"): 1,
        ("probing", "active", "probe_succeeded"): 1,
    }
    assert sum(story.man.assessments.values()) == 9
    assert story.man.assessments[Outcome.DEGRADED] == 1
    assert [past.decision.state for past in story.man.history] == ["fallback", "probing", "active"]
    assert [past.unix for past in story.man.history] == [1e9 + 30, 1e9 + 90, 1e9 + 120]


def test_counters_begin_at_zero() -> None:
    """Every outcome is there before anything was seen, and nothing else is."""
    man = Watchman(POLICY, time=0.0)
    assert man.assessments == dict.fromkeys(Outcome, 0)
    assert (man.phase, man.state.flag, man.last) == (Phase.STARTING, None, None)
    assert (list(man.history), dict(man.transitions)) == ([], {})


def test_quiet_decisions_are_no_news() -> None:
    """What moves nothing is the last decision and is not kept."""
    story = Story()
    decision = story.see("pays")
    assert story.man.last is not None
    assert story.man.last.decision is decision
    assert (story.man.news, len(story.man.history)) == (False, 0)
    story.see("costs")
    assert (story.man.news, len(story.man.history)) == (True, 1)


def test_history_keeps_the_latest() -> None:
    """It holds no more than two hundred, the oldest go."""
    story = Story()
    for turn in range(210):
        mode = "off" if turn % 2 else "on"
        story.see(override=Override(mode=mode))
    assert len(story.man.history) == 200
    assert story.man.history[-1].decision.reason == "override_off"


def test_page_that_is_missing() -> None:
    """Without a page nothing moves, and models that were seen are not forgotten."""
    story = Story()
    story.see("pays")
    decision = story.see(error="timeout")
    assert (decision.outcome, decision.reason, decision.changed) == (
        *("no_data", "no_page"),
        False,
    )
    assert set(story.man._memory) == {"m"}
    assert story.see(error="error: a fault").outcome is Outcome.ERROR


def test_models_that_disagree() -> None:
    """One that costs beside one that pays turns nothing off; together they do."""
    story = Story()
    pays, costs = look("pays", end=15.0, numbers=PAYS), look("costs", end=15.0, numbers=COSTS)
    decision = story.see(looks={"a": pays, "b": costs})
    assert (decision.outcome, decision.reason) == ("inconclusive", "models_disagree")
    costs = replace(costs, start=15.0, end=30.0)
    assert story.see(looks={"a": costs, "b": costs}).state is Phase.FALLBACK


def test_model_that_is_gone_is_forgotten() -> None:
    """A server that serves another model now is judged by that one."""
    story = Story()
    story.see("pays")
    story.see(looks={"other": look("pays", end=30.0, numbers=PAYS)})
    assert set(story.man._memory) == {"other"}


@pytest.mark.parametrize("confirmed", [False, None, True])
def test_pages_while_the_flag_is_off(confirmed: bool | None) -> None:
    """Neither a flag that is wanted off nor one that reads off lets a page speak."""
    wanted_off = Story(adopted=False)
    assert wanted_off.see("costs", confirmed=confirmed).outcome is Outcome.NO_DATA
    wanted_on = Story()
    outcome = wanted_on.see("costs", confirmed=confirmed).outcome
    assert (outcome is Outcome.NO_DATA) is (confirmed is False)


def test_until_the_flag_is_known() -> None:
    """It begins with nothing wanted, keeps what was saved aside, and adopts what it reads."""
    story = Story(adopted=None)
    saved = GuardState(phase=Phase.FALLBACK, flag=False, next_probe=1000.0, failures=3)
    story.man.restore(saved, 0.0)
    assert (story.man.phase, story.man.state.flag, story.man.state.saved) == (
        *(Phase.STARTING, None),
        saved,
    )
    assert story.see("pays", confirmed=None).reason == "read_back_unknown"
    assert story.see("pays", confirmed=False).reason == "read_back_adopted"
    assert (story.man.phase, story.man.state.failures) == (Phase.FALLBACK, 3)


def test_frozen_says_a_step_once() -> None:
    """However often evidence comes and goes, what is held back is told once in a freeze."""
    story = Story()
    for verdict in ("costs", "pays", "costs", "even", "costs"):
        story.see(verdict, frozen=True)
    story.see(frozen=True, error="timeout")
    story.see("costs", frozen=True)
    assert [(past.decision.wanted, past.decision.reason) for past in story.man.history] == [
        ("fallback", "frozen")
    ]
    assert (story.man.phase, story.man.news) == (Phase.ACTIVE, False)
    story.see("pays")
    story.see("costs", frozen=True)
    assert len(story.man.history) == 2
    assert story.see("costs").state is Phase.FALLBACK


def test_dry_run_says_each_step() -> None:
    """A dry run goes through its steps, each of which is news, while nothing moves."""
    story = Story(replace(POLICY, dry_run=True))
    for _ in range(30):
        story.see("costs")
    wanted = [past.decision.wanted for past in story.man.history]
    assert wanted[:4] == ["fallback", "probing", "fallback", "probing"]
    assert all(one != other for one, other in pairwise(wanted))
    assert not any(past.decision.changed for past in story.man.history)
    assert (story.man.phase, story.man.state.flag) == (Phase.ACTIVE, True)
    assert story.man.transitions == {}


def test_other_pool_stands_in() -> None:
    """A pool that is as slow as speculation was is told of once per fallback."""
    slow = Room(up=True, has_room=True, numbers={"tpot_seconds": 0.005})
    story = Story()
    story.see("costs", room=slow)
    assert story.see("even", room=slow).warnings == ()
    assert story.see("even", room=slow).warnings == ("fallback_ineffective",)
    assert story.see("even", room=slow).warnings == ()
    assert [len(past.decision.warnings) for past in story.man.history] == [0, 1]


@pytest.mark.parametrize(
    ("tpot", "speculating", "models", "warned"),
    [
        pytest.param(0.005, False, 1, True, id="as slow"),
        pytest.param(0.003, False, 1, False, id="faster"),
        pytest.param(0.005, True, 1, False, id="still drafting"),
        pytest.param(0.005, None, 1, False, id="not known to have stopped"),
        pytest.param(0.005, False, 2, False, id="two models"),
    ],
)
def test_server_that_does_without_drafts(
    tpot: float, speculating: bool | None, models: int, warned: bool
) -> None:
    """Where no other pool is watched, the server without drafts tells whether it helped."""
    story = Story()
    story.see("costs")
    for _ in range(3):
        plain = look(
            "even", end=story.time + 15.0, speculating=speculating, numbers={"tpot_seconds": tpot}
        )
        story.see(looks={str(place): plain for place in range(models)})
    warnings = [one for past in story.man.history for one in past.decision.warnings]
    assert warnings == (["fallback_ineffective"] if warned else [])


def test_standard_pool_without_room() -> None:
    """It holds while the traffic has nowhere to go."""
    for room in (Room(up=False), Room(up=True, has_room=False)):
        story = Story()
        decision = story.see("costs", room=room)
        assert (decision.reason, decision.changed) == ("no_fallback_capacity", False)
        assert story.see("costs", room=Room(up=True, has_room=True)).state is Phase.FALLBACK


def test_hold_is_told_once() -> None:
    """That it holds although it costs is kept as it begins, not for every page, and again later."""
    story, full = Story(), Room(up=False)
    story.see("pays", room=full)
    story.see("costs", "costs", "", "costs", room=full)
    told = [past.decision.reason for past in story.man.history]
    assert told == ["no_fallback_capacity"]
    assert story.man.warnings["no_fallback_capacity"] == 3
    story.see("pays", "costs", room=full)
    assert len(story.man.history) == 2
    story.see("costs", room=Room(up=True))
    assert story.man.phase is Phase.FALLBACK
    assert len(story.man.history) == 3


def test_hold_in_a_dry_run_is_told_once() -> None:
    """So is a hold of the shadow; what it would do afterwards is told as ever."""
    story = Story(replace(POLICY, dry_run=True))
    story.see("costs", "costs", room=Room(up=False))
    assert [past.decision.wanted for past in story.man.history] == [None]
    decision = story.see("costs")
    assert (decision.wanted, decision.shadow) == (Phase.FALLBACK, Phase.FALLBACK)
    decision = story.see("costs")
    assert (decision.wanted, decision.shadow, decision.state) == (None, "fallback", "active")


def test_probe_that_an_operator_asked_for() -> None:
    """It begins before the cool-down ends, and its reason says who wanted it."""
    story = Story()
    story.see("costs")
    decision = story.see("pays", probe_asked=True)
    assert (decision.state, decision.reason) == (Phase.PROBING, "probe_asked")


def test_probe_that_is_asked_of_a_dry_run() -> None:
    """Its shadow begins one, also after it has told of steps of its own."""
    story = Story(replace(POLICY, dry_run=True), adopted=False)
    story.see("pays")
    decision = story.see("pays", probe_asked=True)
    assert (decision.wanted, decision.reason) == (Phase.PROBING, "probe_asked")
    assert decision.state is Phase.FALLBACK


def test_look_that_brings_its_own_standard_pool() -> None:
    """Ready evidence that tells of the standard pool is not written over."""
    told = {"served": 1000.0, "errors": 0.0}
    failing = {"served": 1000.0, "errors": 300.0}
    mine = look("even", end=15.0, standard=told, numbers=failing)
    policy = replace(POLICY, signals=switched(errors=Switch.ON).signals)
    alike = Room(up=True, numbers=failing)
    for room in (Room(), alike):
        decision = Story(policy).see(looks={"m": mine}, room=room)
        assert (decision.reason, decision.state) == ("excess_errors", "fallback")
    plain = replace(mine, standard={})
    assert Story(policy).see(looks={"m": plain}, room=alike).changed is False


def test_members_that_fall_back() -> None:
    """It stays on while enough others are off already."""
    decision = Story().see("costs", others_falling_back=True)
    assert (decision.reason, decision.changed) == ("members_falling_back", False)
