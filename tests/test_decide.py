"""The guard's decisions: every rule at its border, and timelines with known right answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgauge.guard.cooldown import wait
from specgauge.guard.decide import begin, decide
from specgauge.guard.fall import windows_in
from specgauge.guard.policy import Policy
from specgauge.model.guard import (
    Assessment,
    Decision,
    GuardReason,
    GuardState,
    Outcome,
    Override,
    Phase,
    Surroundings,
)
from specgauge.model.verdict import VerdictReason

POLICY = Policy()
DAY = POLICY.day
LOAD, TPOT = 32.0, 0.02
HEALTHY, DEGRADED = Outcome.HEALTHY, Outcome.DEGRADED
MISSING = (Outcome.NO_DATA, Outcome.INCONCLUSIVE, Outcome.ERROR)


def window(
    end: float, outcome: Outcome = HEALTHY, *, lasting: float = 15.0, **more: Any
) -> Assessment:
    numbers = {"decode_concurrency": LOAD, "tpot_seconds": TPOT, **more.pop("numbers", {})}
    return Assessment(
        start=end - lasting,
        end=end,
        outcome=outcome,
        reason=f"said_{outcome}",
        numbers=numbers if outcome in {HEALTHY, DEGRADED} else {},
        **more,
    )


def severe(end: float, **more: Any) -> Assessment:
    return window(end, DEGRADED, severe=True, **more)


@dataclass
class Guard:
    """A guard in a test: it begins active unless told otherwise, and keeps what it decided."""

    policy: Policy = POLICY
    state: GuardState = field(default_factory=lambda: active(0.0))
    decisions: list[Decision] = field(default_factory=list)
    writes: list[tuple[float, bool]] = field(default_factory=list)

    def see(self, assessment: Assessment, **around: Any) -> Decision:
        before = self.state.flag
        around = {"time": assessment.end, **around}
        self.state, decision = decide(self.state, assessment, Surroundings(**around), self.policy)
        self.decisions.append(decision)
        if self.state.flag is not None and self.state.flag is not before:
            self.writes.append((around["time"], self.state.flag))
        return decision

    def see_all(self, outcomes: Sequence[Outcome], start: float = 0.0, every: float = 15.0) -> None:
        for number, outcome in enumerate(outcomes, 1):
            self.see(window(start + number * every, outcome, lasting=every))


def active(time: float, policy: Policy = POLICY) -> GuardState:
    return begin(read_back=True, saved=None, time=time, policy=policy)


def fallen(policy: Policy = POLICY, **more: Any) -> Guard:
    """Give a guard that fell back at 15 s."""
    guard = Guard(policy=policy)
    assert guard.see(severe(15.0, **more)).state is Phase.FALLBACK
    return guard


def on_trial(policy: Policy = POLICY, **around: Any) -> Guard:
    """Give a guard whose probe began at 315 s."""
    guard = fallen(policy)
    assert guard.see(window(315.0, Outcome.NO_DATA), **around).state is Phase.PROBING
    return guard


def idle(end: float) -> Assessment:
    return window(end, Outcome.NO_DATA)


# The beginning


def saved(phase: Phase, *, flag: bool, **more: Any) -> GuardState:
    values: dict[str, Any] = {"time": 990.0, "since": 900.0, "phase": phase, "flag": flag, **more}
    return GuardState(**values)


@pytest.mark.parametrize(
    ("read_back", "left", "phase", "due"),
    [
        pytest.param(True, None, Phase.ACTIVE, None, id="on"),
        pytest.param(False, None, Phase.FALLBACK, 1300.0, id="off gets a whole cool-down"),
        pytest.param(None, None, Phase.STARTING, None, id="unknown"),
        pytest.param(
            False,
            saved(Phase.FALLBACK, flag=False, next_probe=1100.0),
            Phase.FALLBACK,
            1100.0,
            id="off goes on cooling down",
        ),
        pytest.param(
            False,
            saved(Phase.FALLBACK, flag=False, next_probe=9000.0),
            Phase.FALLBACK,
            1300.0,
            id="a cool-down longer than the policy's is cut",
        ),
        pytest.param(
            False,
            saved(Phase.FALLBACK, flag=False, next_probe=9000.0, failures=2),
            Phase.FALLBACK,
            2200.0,
            id="the policy's after two failures",
        ),
        pytest.param(
            False,
            saved(Phase.FALLBACK, flag=False),
            Phase.FALLBACK,
            1300.0,
            id="off without a probe planned",
        ),
        pytest.param(
            False, saved(Phase.LATCHED, flag=False), Phase.LATCHED, None, id="stays latched"
        ),
        pytest.param(
            True, saved(Phase.LATCHED, flag=False), Phase.ACTIVE, None, id="unlatched by hand"
        ),
        pytest.param(True, saved(Phase.ACTIVE, flag=True), Phase.ACTIVE, None, id="stays active"),
        pytest.param(
            True, saved(Phase.PROBING, flag=True), Phase.PROBING, None, id="goes on probing"
        ),
        pytest.param(
            False, saved(Phase.ACTIVE, flag=True), Phase.FALLBACK, 1300.0, id="turned off by hand"
        ),
        pytest.param(
            False, saved(Phase.OVERRIDE, flag=False), Phase.OVERRIDE, None, id="overridden"
        ),
        pytest.param(
            False,
            saved(Phase.LATCHED, flag=False, time=990.0 - DAY),
            Phase.FALLBACK,
            1300.0,
            id="older than a day",
        ),
        pytest.param(
            False,
            saved(Phase.LATCHED, flag=False, time=1001.0),
            Phase.FALLBACK,
            1300.0,
            id="from the future",
        ),
    ],
)
def test_begins_with_the_flag_as_it_was_read(
    read_back: bool | None, left: GuardState | None, phase: Phase, due: float | None
) -> None:
    """What is read back counts; what was saved counts only when it is fresh and agrees."""
    state = begin(read_back, left, 1000.0, POLICY)
    assert (state.phase, state.flag, state.next_probe) == (phase, read_back, due)
    assert state.time == 1000.0


def test_manual_recovery_plans_no_probe() -> None:
    """Where only an operator turns it on, no probe is announced, whatever was saved."""
    manual = replace(POLICY, probes=False)
    left = saved(Phase.FALLBACK, flag=False, next_probe=1100.0)
    assert begin(False, None, 1000.0, manual).next_probe is None  # noqa: FBT003 - as read
    assert begin(False, left, 1000.0, manual).next_probe is None  # noqa: FBT003 - as read


def test_a_restart_drops_evidence_and_keeps_the_day() -> None:
    """Half a row of windows does not outlive the process; the fallbacks of the day do."""
    left = saved(Phase.ACTIVE, flag=True, streak=1, fallbacks=(990.0 - DAY, 500.0))
    state = begin(read_back=True, saved=left, time=1000.0, policy=POLICY)
    assert (state.streak, state.fallbacks) == (0, (500.0,))


def test_a_trial_goes_on_after_a_restart_on_new_evidence() -> None:
    """A sidecar that restarts in a trial forgets neither the trial nor its failures."""
    left = saved(Phase.PROBING, flag=True, failures=2)
    guard = Guard(state=begin(read_back=True, saved=left, time=1000.0, policy=POLICY))
    assert guard.see(window(1010.0, DEGRADED)).state is Phase.PROBING
    assert guard.see(window(1020.0, DEGRADED)).state is Phase.FALLBACK
    assert guard.state.next_probe == 1020.0 + wait(3, POLICY)


@pytest.mark.parametrize(("flag", "phase"), [(True, Phase.ACTIVE), (False, Phase.FALLBACK)])
def test_a_later_read_back_is_adopted(*, flag: bool, phase: Phase) -> None:
    """A flag that answers only after the start is taken over then, and written by nobody."""
    guard = Guard(state=begin(read_back=None, saved=None, time=0.0, policy=POLICY))
    assert guard.see(window(15.0)).reason == GuardReason.READ_BACK_UNKNOWN
    decision = guard.see(window(30.0), confirmed=flag, frozen=True)
    assert (decision.reason, decision.changed) == (GuardReason.READ_BACK_ADOPTED, True)
    assert (decision.state, decision.flag) == (phase, flag)


def test_a_later_read_back_finds_what_was_saved() -> None:
    """What was saved waits for the flag, and counts as if it had been read at once."""
    left = saved(Phase.LATCHED, flag=False)
    guard = Guard(state=begin(read_back=None, saved=left, time=1000.0, policy=POLICY))
    assert guard.see(idle(1015.0)).flag is None
    assert guard.see(idle(1030.0), confirmed=False).state is Phase.LATCHED


@pytest.mark.parametrize("outcome", [HEALTHY, *MISSING])
def test_an_unknown_flag_is_not_written_without_a_loss(outcome: Outcome) -> None:
    """While the flag is unknown nothing but a loss moves it."""
    guard = Guard(state=begin(read_back=None, saved=None, time=0.0, policy=POLICY))
    guard.see_all([outcome] * 400)
    assert (guard.state.phase, guard.state.flag) == (Phase.STARTING, None)


def test_an_unknown_flag_is_turned_off_by_a_loss() -> None:
    """A loss is a decision, whether or not the flag can be read."""
    guard = Guard(state=begin(read_back=None, saved=None, time=0.0, policy=POLICY))
    assert guard.see(window(15.0, DEGRADED)).reason == GuardReason.NOT_YET_IN_A_ROW
    assert guard.see(window(30.0, DEGRADED)).state is Phase.FALLBACK
    assert guard.writes == [(30.0, False)]


@pytest.mark.parametrize(
    ("left", "probes", "due"),
    [
        pytest.param({"phase": Phase.FALLBACK, "next_probe": 1100.0}, True, 1100.0, id="planned"),
        pytest.param({"phase": Phase.FALLBACK, "next_probe": 9e9}, True, 1290.0, id="too late"),
        pytest.param({"phase": Phase.OVERRIDE}, True, 1290.0, id="override"),
        pytest.param({"phase": Phase.LATCHED}, True, None, id="latched"),
        pytest.param({"phase": Phase.FALLBACK}, False, None, id="manual"),
    ],
)
def test_a_flag_that_cannot_be_read_comes_back(
    left: dict[str, Any], due: float | None, *, probes: bool
) -> None:
    """Where nothing can be read back, what an earlier run turned off is probed all the same."""
    policy = replace(POLICY, probes=probes)
    state = begin(None, saved(flag=False, **left), 1000.0, policy)
    guard = Guard(policy=policy, state=state)
    for end in range(1010, 1400, 10):
        guard.see(idle(end))
    assert guard.writes == ([] if due is None else [(due, True)])


# Falling back


@pytest.mark.parametrize(
    ("outcomes", "falls"),
    [
        pytest.param([DEGRADED, DEGRADED], True, id="two in a row"),
        pytest.param([DEGRADED], False, id="one"),
        pytest.param([DEGRADED, HEALTHY, DEGRADED], False, id="healthy resets"),
        *[pytest.param([DEGRADED, one, DEGRADED], True, id=f"{one} between") for one in MISSING],
        *[pytest.param([one] * 50, False, id=f"only {one}") for one in MISSING],
        pytest.param([HEALTHY] * 50, False, id="only healthy"),
    ],
)
def test_enough_degraded_windows_turn_it_off(outcomes: list[Outcome], *, falls: bool) -> None:
    """Missing data and doubt neither count nor reset; only a healthy window begins a new row."""
    guard = Guard()
    guard.see_all(outcomes)
    assert guard.state.flag is not falls
    assert guard.decisions[-1].changed is falls


def test_the_fall_says_why_and_on_which_numbers() -> None:
    """A change carries what caused it, and the state what must be stood or bettered later."""
    guard = fallen()
    decision = guard.decisions[-1]
    assert (decision.before, decision.reason) == (Phase.ACTIVE, "said_degraded")
    assert decision.evidence == {"decode_concurrency": LOAD, "tpot_seconds": TPOT}
    assert decision.next_probe == 315.0
    assert (guard.state.fallback_load, guard.state.fallback_tpot) == (LOAD, TPOT)
    assert guard.state.fallbacks == (15.0,)


def test_numbers_that_are_none_are_not_remembered() -> None:
    """What cannot be reckoned with is unknown, not zero."""
    guard = fallen(numbers={"decode_concurrency": float("nan"), "tpot_seconds": -1.0})
    assert (guard.state.fallback_load, guard.state.fallback_tpot) == (None, None)


def test_overlapping_windows_count_once() -> None:
    """A sliding window says the same thing every second; only new evidence counts."""
    guard = Guard()
    for end in range(15, 30):
        assert guard.see(window(end, DEGRADED)).state is Phase.ACTIVE
    assert guard.state.streak == 1
    assert guard.see(window(30.0, DEGRADED)).state is Phase.FALLBACK


def test_a_longer_window_takes_the_place_of_those_it_overlaps() -> None:
    """A window that is worth two is enough, also where one that it overlaps was counted before."""
    guard = Guard()
    assert guard.see(window(20.0, DEGRADED)).reason == GuardReason.NOT_YET_IN_A_ROW
    few = {"requests": 19.0}
    found = guard.see(window(30.0, DEGRADED, lasting=30.0, numbers=few))
    assert found.reason == GuardReason.NOT_YET_IN_A_ROW
    assert guard.state.streak == 1
    many = {"requests": 20.0}
    found = guard.see(window(31.0, DEGRADED, lasting=30.0, numbers=many))
    assert found.state is Phase.FALLBACK


@pytest.mark.parametrize(
    ("seconds", "requests", "playbook", "worth"),
    [
        pytest.param(15.0, 100.0, False, 1, id="one"),
        pytest.param(44.9, 100.0, False, 2, id="two and a rest"),
        pytest.param(60.0, 29.0, False, 2, id="the requests of two"),
        pytest.param(60.0, 0.0, False, 1, id="never nothing"),
        pytest.param(60.0, 100.0, True, 1, id="the playbook's own"),
    ],
)
def test_how_many_windows_one_is_worth(
    seconds: float, requests: float, playbook: bool, worth: int
) -> None:
    """As many as it holds in time and in requests; a window of the playbook is always one."""
    policy = Policy(playbook=playbook)
    assert windows_in(seconds, {"first_tokens": requests}, policy) == worth


def test_a_longer_window_takes_no_place_from_before_the_row() -> None:
    """What began before the healthy window that ended the last row is in no later row."""
    guard = Guard()
    guard.see(window(15.0, DEGRADED))
    guard.see(window(25.0))
    guard.see(window(26.0, DEGRADED))
    assert guard.state.row_from == 10.0
    numbers = {"requests": 40.0}
    found = guard.see(window(39.0, DEGRADED, lasting=30.0, numbers=numbers))
    assert found.reason == GuardReason.NOT_YET_IN_A_ROW
    found = guard.see(window(40.0, DEGRADED, lasting=30.0, numbers=numbers))
    assert found.state is Phase.FALLBACK


def test_a_longer_window_may_hold_one_that_was_even() -> None:
    """What a short window shows by chance does not outweigh the longer one around it."""
    guard = Guard()
    guard.see(window(15.0, DEGRADED))
    even = replace(window(25.0), reason=VerdictReason.WITHIN_MARGIN)
    guard.see(even)
    assert guard.state.streak == 0
    numbers = {"requests": 40.0}
    found = guard.see(window(31.0, DEGRADED, lasting=30.0, numbers=numbers))
    assert found.state is Phase.FALLBACK


def test_one_severe_window_is_enough() -> None:
    """A loss that is far from doubt does not wait for a second window, nor for the next border."""
    guard = Guard()
    guard.see(window(15.0, DEGRADED))
    assert guard.see(severe(16.0)).state is Phase.FALLBACK


def test_a_new_row_may_begin_beside_the_healthy_window() -> None:
    """After a reset, windows count again from where the healthy one began."""
    guard = Guard()
    guard.see(window(15.0, DEGRADED))
    guard.see(window(16.0))
    guard.see(window(17.0, DEGRADED))
    assert guard.state.streak == 1
    assert guard.see(window(32.0, DEGRADED)).state is Phase.FALLBACK


@pytest.mark.parametrize(
    ("around", "checks", "reason"),
    [
        pytest.param({"standard_up": False}, True, GuardReason.NO_FALLBACK_CAPACITY, id="down"),
        pytest.param(
            {"standard_up": True, "standard_has_room": False},
            True,
            GuardReason.NO_FALLBACK_CAPACITY,
            id="full",
        ),
        pytest.param({"standard_up": False}, False, "said_degraded", id="not asked for"),
        pytest.param({"standard_up": True}, True, "said_degraded", id="room unknown"),
        pytest.param({}, True, "said_degraded", id="none watched"),
        pytest.param(
            {"others_falling_back": True}, True, GuardReason.MEMBERS_FALLING_BACK, id="others"
        ),
    ],
)
def test_traffic_needs_somewhere_to_go(
    around: dict[str, Any], reason: str, *, checks: bool
) -> None:
    """Falling back waits while the other pool cannot take the traffic, and then goes on."""
    guard = Guard(policy=replace(POLICY, require_standard_capacity=checks))
    decision = guard.see(severe(15.0), **around)
    held = reason != "said_degraded"
    assert (decision.reason, decision.changed) == (reason, not held)
    assert guard.see(severe(16.0)).flag is False


def test_a_failed_trial_needs_room_as_well() -> None:
    """A trial that fails goes on while the other pool is down."""
    guard = on_trial()
    decision = guard.see(window(330.0, DEGRADED), standard_up=False)
    assert (decision.state, decision.reason) == (Phase.PROBING, GuardReason.NO_FALLBACK_CAPACITY)
    assert guard.see(window(331.0, DEGRADED), standard_up=True).state is Phase.FALLBACK


# Cool-down and trial


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 300), (1, 600), (2, 1200), (3, 2400), (4, 3600), (10**9, 3600)]
)
def test_the_cool_down_doubles_up_to_its_cap(failures: int, seconds: float) -> None:
    """Every failed trial doubles the wait, up to an hour."""
    assert wait(failures, POLICY) == seconds


def test_a_cool_down_above_the_cap_is_kept() -> None:
    """A cap below the cool-down does not shorten it."""
    assert wait(3, replace(POLICY, cooldown=7200.0)) == 7200.0


def test_off_until_the_cool_down_ends() -> None:
    """Nothing moves within the cool-down, whatever pages say; then a trial begins."""
    guard = fallen()
    for end in range(20, 315, 5):
        decision = guard.see(window(end, DEGRADED if end % 2 else HEALTHY))
        assert (decision.reason, decision.next_probe) == (GuardReason.COOLING_DOWN, 315.0)
    decision = guard.see(idle(315.0))
    assert (decision.state, decision.reason) == (Phase.PROBING, GuardReason.PROBE_DUE)
    assert decision.next_probe is None


def test_a_probe_is_planned_where_none_is_known() -> None:
    """Recovery that was manual when it fell back, and is not now, plans from the fall."""
    guard = fallen(replace(POLICY, probes=False))
    assert guard.see(idle(5000.0)).reason == GuardReason.MANUAL_RECOVERY
    guard.policy = POLICY
    assert guard.see(idle(5001.0)).reason == GuardReason.PROBE_DUE


def test_a_trial_ends_with_the_first_loss() -> None:
    """One degraded window that began after the trial did is enough, and the next wait doubles."""
    guard = on_trial()
    assert guard.see(window(329.0, DEGRADED)).reason == GuardReason.PROBE_TOO_SHORT
    decision = guard.see(window(330.0, DEGRADED))
    assert (decision.state, decision.reason) == (Phase.FALLBACK, GuardReason.PROBE_FAILED)
    assert decision.next_probe == 330.0 + 600.0
    assert guard.state.fallbacks == (15.0,)


def test_a_trial_goes_on_without_evidence() -> None:
    """Without traffic a trial neither fails nor succeeds."""
    guard = on_trial()
    guard.see_all([*MISSING] * 1000, start=315.0)
    assert guard.state.phase is Phase.PROBING
    assert {one.reason for one in guard.decisions[2:]} == {f"said_{one}" for one in MISSING}


def test_a_trial_succeeds_with_a_healthy_window_after_its_time() -> None:
    """After `probe_for` the first healthy window at enough load makes it active again."""
    guard = on_trial()
    for end in (330.0, 345.0, 360.0, 374.0):
        assert guard.see(window(end)).reason == GuardReason.PROBE_TOO_SHORT
    decision = guard.see(window(375.0))
    assert (decision.state, decision.reason) == (Phase.ACTIVE, GuardReason.PROBE_SUCCEEDED)
    assert (guard.state.failures, guard.state.fallback_load) == (0, None)
    assert guard.writes == [(15.0, False), (315.0, True)]


@pytest.mark.parametrize(
    ("standard", "numbers", "reason"),
    [
        pytest.param({}, {}, GuardReason.PROBE_SUCCEEDED, id="same load"),
        pytest.param(
            {}, {"decode_concurrency": 0.69 * LOAD}, GuardReason.PROBE_LOAD_TOO_LOW, id="drained"
        ),
        pytest.param(
            {}, {"decode_concurrency": 0.71 * LOAD}, GuardReason.PROBE_SUCCEEDED, id="no speedup"
        ),
        pytest.param(
            {"decode_concurrency": 50.0}, {}, GuardReason.PROBE_LOAD_TOO_LOW, id="the other is full"
        ),
        pytest.param(
            {"decode_concurrency": 45.0},
            {"speedup_ratio": 1.5, "speedup_ratio_low": 1.4},
            GuardReason.PROBE_SUCCEEDED,
            id="faster holds fewer of the same arrivals",
        ),
        pytest.param(
            {"decode_concurrency": 8.0},
            {"decode_concurrency": 8.0, "speedup_ratio": 1.5},
            GuardReason.PROBE_LOAD_TOO_LOW,
            id="all of a low load, not the one at which it cost",
        ),
        pytest.param(
            {},
            {"decode_concurrency": 0.8 * LOAD, "speedup_ratio": 1.2},
            GuardReason.PROBE_LOAD_TOO_LOW,
            id="would not stand the load at which it cost",
        ),
        pytest.param(
            {},
            {"decode_concurrency": 0.8 * LOAD, "speedup_ratio": 1.3},
            GuardReason.PROBE_SUCCEEDED,
            id="would stand it",
        ),
        pytest.param({}, {"speedup_ratio": 0.98}, GuardReason.PROBE_NOT_CLEAR, id="merely even"),
        pytest.param(
            {},
            {"speedup_ratio": 1.05, "speedup_ratio_low": 0.99},
            GuardReason.PROBE_NOT_CLEAR,
            id="perhaps even",
        ),
        pytest.param(
            {}, {"decode_concurrency": -1.0}, GuardReason.PROBE_SUCCEEDED, id="load unknown"
        ),
    ],
)
def test_a_trial_is_judged_at_the_load_that_would_return(
    standard: dict[str, float], numbers: dict[str, float], reason: str
) -> None:
    """A drained pool always looks fast, so a light load proves little."""
    guard = on_trial(standard=standard)
    decision = guard.see(window(375.0, numbers=numbers))
    assert decision.reason == reason
    assert decision.flag is True


def test_without_a_known_load_any_load_is_enough() -> None:
    """A flag found off tells of no load, so nothing is held against a healthy trial."""
    state = begin(read_back=False, saved=None, time=0.0, policy=POLICY)
    guard = Guard(state=state)
    guard.see(idle(300.0))
    assert guard.see(window(360.0)).reason == GuardReason.PROBE_SUCCEEDED


def test_a_load_that_stays_low_is_the_load() -> None:
    """After an hour, of which a whole cool-down was seen to go well, the load has really fallen."""
    guard = on_trial()
    quiet = {"decode_concurrency": 4.0, "speedup_ratio": 2.0}
    for end in range(330, 3700, 5):
        decision = guard.see(window(end, numbers=quiet))
        if decision.state is Phase.ACTIVE:
            break
    assert (decision.time, decision.reason) == (3615.0, GuardReason.PROBE_SUCCEEDED)


def test_time_without_evidence_proves_nothing() -> None:
    """The cool-down's worth of healthy windows is counted in evidence, overlaps once."""
    guard = on_trial()
    quiet = {"decode_concurrency": 4.0, "speedup_ratio": 2.0}
    for end in (4000.0, 4005.0, 4006.0):
        assert guard.see(window(end, numbers=quiet)).state is Phase.PROBING
    assert guard.state.healthy_for == 21.0


def test_a_low_load_is_enough_where_no_fall_is_near() -> None:
    """Without a fall in the last hour a cool-down of healthy windows will do."""
    guard = Guard(state=begin(read_back=False, saved=None, time=0.0, policy=POLICY))
    guard.see(idle(300.0), standard={"decode_concurrency": 50.0})
    quiet = {"decode_concurrency": 4.0}
    ends = [guard.see(window(end, numbers=quiet)).state for end in range(315, 601, 15)]
    assert ends.index(Phase.ACTIVE) == len(ends) - 1


def test_the_highest_load_at_which_it_cost_is_remembered() -> None:
    """A trial that fails at a higher load raises what the next has to stand; a lower does not."""
    guard = on_trial()
    guard.see(window(330.0, DEGRADED, numbers={"decode_concurrency": 48.0}))
    assert guard.state.fallback_load == 48.0
    guard.see(idle(930.0))
    assert guard.state.probe_load == 48.0
    guard.see(window(945.0, DEGRADED, numbers={"decode_concurrency": 8.0}))
    assert guard.state.fallback_load == 48.0


def test_evidence_from_before_the_trial_does_not_count_later_either() -> None:
    """A guard that has just become active again does not fall on windows from before the trial."""
    guard = on_trial()
    guard.see(window(375.0))
    assert guard.see(window(376.0, DEGRADED, lasting=70.0)).reason == GuardReason.NOT_YET_IN_A_ROW
    assert guard.state.streak == 0


# Too many, and whether it helped


def cycle(guard: Guard, start: float) -> None:
    """Fall back at once and recover, within ten minutes."""
    guard.see(severe(start + 15.0))
    guard.see(idle(start + 315.0))
    guard.see(window(start + 375.0))


def test_too_many_fallbacks_a_day_latch() -> None:
    """The fallback beyond the day's is the last, until an operator acts."""
    guard = Guard(policy=replace(POLICY, max_fallbacks_per_day=2))
    cycle(guard, 0.0)
    cycle(guard, 600.0)
    assert guard.state.phase is Phase.ACTIVE
    cycle(guard, 1200.0)
    assert [one.state for one in guard.decisions[-3:]] == [Phase.LATCHED] * 3
    assert guard.decisions[-3].reason == GuardReason.TOO_MANY_FALLBACKS
    assert guard.see(idle(1200.0 + 3 * DAY)).state is Phase.LATCHED
    assert guard.state.next_probe is None


def test_fallbacks_are_counted_over_a_day() -> None:
    """A fallback of yesterday is not held against today."""
    guard = Guard(policy=replace(POLICY, max_fallbacks_per_day=2))
    cycle(guard, 0.0)
    cycle(guard, 600.0)
    cycle(guard, DAY + 1.0)
    assert guard.state.phase is Phase.ACTIVE


@pytest.mark.parametrize(
    ("tpot", "warns"),
    [
        pytest.param(TPOT, True, id="no better"),
        pytest.param(0.981 * TPOT, True, id="by less than two in a hundred"),
        pytest.param(0.97 * TPOT, False, id="better"),
        pytest.param(None, False, id="unknown"),
    ],
)
def test_says_once_when_falling_back_did_not_help(tpot: float | None, *, warns: bool) -> None:
    """Two windows after the fall the other pool is compared with how it was before."""
    guard = fallen()
    standard = {} if tpot is None else {"tpot_seconds": tpot}
    for end in range(20, 300, 5):
        decision = guard.see(idle(end), standard=standard)
        said = warns and end == 45
        assert decision.warnings == ((GuardReason.FALLBACK_INEFFECTIVE,) if said else ())
        assert decision.state is Phase.FALLBACK


def test_a_latched_fall_is_looked_after_and_a_failed_trial_says_it_no_second_time() -> None:
    """It is said once per fallback, whatever trials follow it."""
    latched = Guard(policy=replace(POLICY, max_fallbacks_per_day=0))
    assert latched.see(severe(15.0)).state is Phase.LATCHED
    slow = {"tpot_seconds": TPOT}
    assert latched.see(idle(45.0), standard=slow).warnings
    guard = fallen()
    assert guard.see(idle(45.0), standard=slow).warnings
    guard.see(idle(315.0))
    guard.see(window(330.0, DEGRADED))
    assert not guard.see(idle(400.0), standard=slow).warnings
    assert guard.state.told == (GuardReason.FALLBACK_INEFFECTIVE,)


# Freeze, dry run and operators


def test_frozen_nothing_flips() -> None:
    """While frozen the flag stays, and what would have been is told; then it goes on."""
    guard = Guard()
    decision = guard.see(severe(15.0), frozen=True)
    assert (decision.reason, decision.wanted) == (GuardReason.FROZEN, Phase.FALLBACK)
    assert (decision.state, decision.changed) == (Phase.ACTIVE, False)
    off = Override(mode="off")
    assert guard.see(idle(20.0), frozen=True, override=off).wanted is Phase.OVERRIDE
    assert guard.see(severe(25.0)).state is Phase.FALLBACK
    assert guard.see(idle(330.0), frozen=True).wanted is Phase.PROBING
    assert guard.see(idle(331.0)).state is Phase.PROBING


def test_frozen_lets_go_on_what_moves_no_flag() -> None:
    """A trial that succeeds moves no flag, so a freeze does not hold it."""
    guard = on_trial()
    assert guard.see(window(375.0), frozen=True).state is Phase.ACTIVE


def test_a_dry_run_tells_each_would_be_flip_once() -> None:
    """Its shadow falls, cools down and probes as the guard would; phase and flag stay."""
    guard = Guard(policy=replace(POLICY, dry_run=True))
    for end in range(15, 1200, 5):
        guard.see(window(end, DEGRADED))
    told = [(one.time, one.wanted, one.reason) for one in guard.decisions if one.wanted]
    assert told == [
        (30.0, Phase.FALLBACK, "said_degraded"),
        (330.0, Phase.PROBING, GuardReason.PROBE_DUE),
        (345.0, Phase.FALLBACK, GuardReason.PROBE_FAILED),
        (945.0, Phase.PROBING, GuardReason.PROBE_DUE),
        (960.0, Phase.FALLBACK, GuardReason.PROBE_FAILED),
    ]
    assert {(one.state, one.flag, one.changed) for one in guard.decisions} == {
        (Phase.ACTIVE, True, False)
    }
    assert all(one.next_probe is None for one in guard.decisions)


def test_a_dry_run_obeys_nobody_and_a_freeze_is_told() -> None:
    """An operator's word is told as well, and a freeze holds the shadow too."""
    guard = Guard(policy=replace(POLICY, dry_run=True))
    assert guard.see(severe(15.0), frozen=True).reason == GuardReason.FROZEN
    assert guard.decisions[-1].wanted is Phase.FALLBACK
    decision = guard.see(idle(20.0), override=Override(mode="off"))
    assert (decision.wanted, decision.flag) == (Phase.OVERRIDE, True)


def test_a_dry_run_follows_the_flag_as_it_is() -> None:
    """It has no wish of its own, so a flag that others change is the flag."""
    dry = replace(POLICY, dry_run=True)
    guard = Guard(policy=dry, state=begin(read_back=None, saved=None, time=0.0, policy=dry))
    assert guard.see(idle(15.0)).reason == GuardReason.READ_BACK_UNKNOWN
    assert guard.see(idle(30.0), confirmed=True).reason == GuardReason.READ_BACK_ADOPTED
    decision = guard.see(idle(45.0), confirmed=False)
    assert (decision.state, decision.reason) == (Phase.FALLBACK, GuardReason.CHANGED_ELSEWHERE)
    assert guard.see(idle(60.0), confirmed=False).changed is False


def test_the_end_of_a_dry_run_forgets_the_shadow() -> None:
    """Once it may act it begins with new evidence, not with what it would have done."""
    guard = Guard(policy=replace(POLICY, dry_run=True))
    guard.see(severe(15.0))
    guard.policy = POLICY
    assert guard.see(window(30.0)).state is Phase.ACTIVE
    assert guard.state.shadow is None


@pytest.mark.parametrize(("mode", "flag"), [("on", True), ("off", False)])
def test_an_operator_goes_before_evidence(mode: str, *, flag: bool) -> None:
    """While an override lasts no evidence moves the flag."""
    guard = Guard()
    word = Override(mode=mode)
    decision = guard.see(severe(15.0), override=word, standard_up=False)
    assert (decision.state, decision.flag, decision.changed) == (Phase.OVERRIDE, flag, True)
    assert decision.reason == f"override_{mode}"
    assert guard.see(severe(30.0), override=word).changed is False
    other = Override(mode="off" if flag else "on")
    assert guard.see(severe(45.0), override=other).changed is True


def test_an_override_expires_on_the_guards_clock() -> None:
    """From its last instant on the guard decides by itself, from the flag as it was left."""
    guard = Guard()
    word = Override(mode="on", until=100.0)
    assert guard.see(window(99.9), override=word).state is Phase.OVERRIDE
    decision = guard.see(window(100.0), override=word)
    assert (decision.state, decision.reason) == (Phase.ACTIVE, GuardReason.OVERRIDE_EXPIRED)


@pytest.mark.parametrize("word", [None, Override(mode="auto")])
def test_a_healthy_pool_comes_back_soon_after_an_override(word: Override | None) -> None:
    """Off by an operator alone is followed by a trial at once, and counts as no fallback."""
    guard = Guard()
    guard.see(window(15.0), override=Override(mode="off"))
    decision = guard.see(idle(30.0), override=word)
    assert (decision.state, decision.reason) == (Phase.FALLBACK, GuardReason.OVERRIDE_LIFTED)
    assert guard.see(idle(31.0)).state is Phase.PROBING
    assert guard.state.fallbacks == ()


def test_an_override_does_not_shorten_a_cool_down() -> None:
    """Off on top of a fallback leaves what is left of the cool-down."""
    guard = fallen()
    guard.see(idle(20.0), override=Override(mode="off"))
    guard.see(idle(30.0))
    assert guard.see(idle(40.0)).next_probe == 315.0


@pytest.mark.parametrize(
    ("words", "phase"),
    [
        pytest.param([Override(mode="auto"), None], Phase.PROBING, id="auto"),
        pytest.param([Override(mode="on"), None], Phase.ACTIVE, id="on"),
        pytest.param([Override(mode="off"), None, None], Phase.PROBING, id="off"),
        pytest.param([None, None], Phase.LATCHED, id="nothing"),
        pytest.param([Override(mode="on", until=1.0), None], Phase.LATCHED, id="expired"),
    ],
)
def test_only_an_operator_unlatches(words: list[Override | None], phase: Phase) -> None:
    """Whoever unlatches gets a fresh day, and a trial or an active guard."""
    guard = Guard(policy=replace(POLICY, max_fallbacks_per_day=0))
    guard.see(severe(15.0))
    for number, word in enumerate(words):
        guard.see(idle(20.0 + number), override=word)
    assert guard.state.phase is phase
    assert len(guard.state.fallbacks) == (phase is Phase.LATCHED)


def test_auto_means_nothing_where_nothing_is_held() -> None:
    """An active guard or one that cools down is on its own already."""
    auto = Override(mode="auto")
    assert Guard().see(window(15.0), override=auto).changed is False
    assert fallen().see(idle(30.0), override=auto).reason == GuardReason.COOLING_DOWN


# Clocks


def test_a_clock_that_went_back_takes_everything_along() -> None:
    """A cool-down has as much left as before, and fallbacks are as old."""
    guard = fallen()
    guard.see(idle(100.0))
    guard.see(idle(-900.0))
    assert guard.state.next_probe == -1000.0 + 315.0
    assert guard.state.fallbacks == (15.0 - 1000.0,)
    assert guard.see(idle(-686.0)).state is Phase.FALLBACK
    assert guard.see(idle(-685.0)).state is Phase.PROBING


def test_a_clock_that_went_back_keeps_a_row() -> None:
    """The next window of a row is the one after the jump, not the one a jump later."""
    guard = Guard()
    guard.see(window(1015.0, DEGRADED))
    guard.see(window(16.0, Outcome.NO_DATA))
    assert guard.see(window(31.0, DEGRADED)).state is Phase.FALLBACK


def test_a_clock_that_went_back_before_the_flag_was_read() -> None:
    """What waits for the flag is taken along as well."""
    left = saved(Phase.FALLBACK, flag=False, next_probe=1100.0)
    guard = Guard(state=begin(read_back=None, saved=left, time=1000.0, policy=POLICY))
    guard.see(idle(500.0))
    assert guard.see(idle(501.0), confirmed=False).next_probe == 600.0


def test_a_jump_ahead_ends_a_cool_down_and_no_trial() -> None:
    """Time alone brings a trial, never its success or its failure."""
    guard = fallen()
    assert guard.see(idle(1e6)).state is Phase.PROBING
    assert guard.see(idle(2e6)).state is Phase.PROBING
    assert guard.see(window(2e6 + 1.0, DEGRADED, lasting=1.5e6)).reason == (
        GuardReason.PROBE_TOO_SHORT
    )


# Timelines

ONE_IN_A_ROW = replace(POLICY, consecutive=1)
THREE = replace(POLICY, consecutive=3, cooldown=900.0, backoff_max=7200.0, probe_for=0.0)


@pytest.mark.parametrize(
    ("ticks", "fallen_at"),
    [
        pytest.param("EEEEE", None, id="every look fails"),
        pytest.param("DEDND", 5, id="errors and gaps between losses"),
        pytest.param("DDDH", 3, id="a later success does not cover it"),
        pytest.param("DDHDD", None, id="a success between begins anew"),
        pytest.param("DHDHDHDHDHDHDHDHDHDH", None, id="around the threshold"),
        pytest.param("DHDHDHDHDHDDDHHHHHHHHHH", 13, id="around it, then below"),
        pytest.param("H" * 20 + "DDDDD", 23, id="collapse"),
        pytest.param("HHHIIIIDIDIID", 13, id="slow drift"),
        pytest.param("H" + "N" * 600 + "H", None, id="idle night"),
        pytest.param("HHHNNNDDD", 9, id="engine restart, then a loss"),
    ],
)
def test_timelines_of_windows(ticks: str, fallen_at: int | None) -> None:
    """One window a minute, three in a row: it falls when it should and stays off after that."""
    letters = {one.name[0]: one for one in Outcome}
    guard = Guard(policy=THREE)
    guard.see_all([letters[letter] for letter in ticks], every=60.0)
    expected = [] if fallen_at is None else [(60.0 * fallen_at, False)]
    assert guard.writes == expected


@pytest.mark.parametrize("probes", [True, False], ids=["probes", "manual"])
def test_the_way_back(*, probes: bool) -> None:
    """Off, 15 minutes, on, a failed trial, off, 30 minutes, on for good; manual: off only."""
    guard = Guard(policy=replace(THREE, probes=probes))
    for minute in range(1, 60):
        end = 60.0 * minute
        flag = guard.state.flag
        mended = minute > 45
        if not flag:
            guard.see(idle(end))
        else:
            guard.see(window(end, HEALTHY if mended else DEGRADED, lasting=60.0))
    off, on, again, back = 180.0, 1080.0, 1140.0, 2940.0
    expected = [(off, False), (on, True), (again, False), (back, True)]
    assert guard.writes == (expected if probes else expected[:1])
    assert guard.state.phase is (Phase.ACTIVE if probes else Phase.FALLBACK)


def test_failing_trials_become_rare() -> None:
    """A draft that never pays is tried once an hour in the end, and is no second fallback."""
    guard = Guard()
    for end in range(15, 6 * 3600, 5):
        on = guard.state.flag
        guard.see(window(end, DEGRADED) if on else idle(end))
    ons = [time for time, flag in guard.writes if flag]
    waits = [b - a for a, b in pairwise(ons)]
    assert waits[:5] == [615.0, 1215.0, 2415.0, 3615.0, 3615.0]
    assert len(guard.state.fallbacks) == 1


def test_a_fallback_that_stays_slow_is_no_second_one() -> None:
    """A server that is slower than it should be with speculation off is not turned off again."""
    guard = fallen()
    for end in range(75, 300, 60):
        guard.see(window(end, DEGRADED), standard={"tpot_seconds": 0.9 * TPOT})
    assert guard.writes == [(15.0, False)]
    assert guard.state.fallbacks == (15.0,)


# Properties

AROUND = st.fixed_dictionaries(
    {
        "frozen": st.sampled_from([False] * 5 + [True]),
        "standard_up": st.sampled_from([None, True, True, False]),
        "standard_has_room": st.sampled_from([None, True, True, False]),
        "others_falling_back": st.sampled_from([False] * 5 + [True]),
        "confirmed": st.sampled_from([None, True, False]),
        "standard": st.sampled_from([{}, {"decode_concurrency": 20.0, "tpot_seconds": TPOT}]),
        "override": st.sampled_from(
            [None] * 20 + [Override(mode="on"), Override(mode="off", until=3000.0)]
            + [Override(mode="auto")]
        ),
    }
)  # fmt: skip
TICK = st.tuples(
    st.sampled_from([1.0, 5.0, 15.0, 60.0, 400.0]),
    st.sampled_from([HEALTHY, HEALTHY, DEGRADED, DEGRADED, *MISSING]),
    st.sampled_from([False] * 4 + [True]),
    st.sampled_from([4.0, 20.0, 32.0, 60.0]),
    AROUND,
)
BEGINS = st.sampled_from([True, False, None])


def play(
    begins: bool | None, ticks: Sequence[Any], policy: Policy
) -> Iterator[tuple[GuardState, GuardState, Assessment, Surroundings, Decision]]:
    time, state = 1000.0, begin(begins, None, 1000.0, policy)
    for passed, outcome, is_severe, load, around in ticks:
        time += passed
        extreme = is_severe and outcome is DEGRADED
        numbers = {"decode_concurrency": load, "speedup_ratio": 0.7 if extreme else 1.1}
        assessment = window(time, outcome, severe=extreme, numbers=numbers)
        surroundings = Surroundings(time=time, **around)
        before = state
        state, decision = decide(before, assessment, surroundings, policy)
        yield before, state, assessment, surroundings, decision


def in_force(override: Override | None, time: float) -> bool:
    if override is None or override.mode == "auto":
        return False
    return override.until is None or time < override.until


@settings(max_examples=300, deadline=None)
@given(begins=BEGINS, ticks=st.lists(TICK, max_size=80))
def test_any_schedule_keeps_the_promises(begins: bool | None, ticks: list[Any]) -> None:
    """No fall without evidence or on missing data, no flip in a cool-down, flag as the phase."""
    policy = replace(POLICY, max_fallbacks_per_day=3)
    row: list[Assessment] = []
    for before, after, seen, around, decision in play(begins, ticks, policy):
        asked = in_force(around.override, around.time)
        adopted = decision.reason == GuardReason.READ_BACK_ADOPTED
        if seen.outcome is HEALTHY or before.phase not in {Phase.ACTIVE, Phase.STARTING}:
            row = []
        if seen.outcome is DEGRADED and (not row or seen.start >= row[-1].end):
            row.append(seen)
        fell = after.flag is False and before.flag is not False
        if fell and not asked and not adopted:
            assert seen.outcome is DEGRADED
            assert around.standard_up is not False
            assert around.standard_has_room is not False
            assert not around.others_falling_back
            if before.phase is Phase.PROBING:
                assert seen.start >= before.since
            else:
                assert seen.severe or len(row) >= policy.consecutive
        if after.flag is True and before.flag is False and not asked:
            assert before.phase is Phase.FALLBACK
            assert before.next_probe is not None
            assert around.time >= before.next_probe
        expected: dict[Phase, set[bool | None]] = {
            Phase.STARTING: {None},
            Phase.ACTIVE: {True},
            Phase.PROBING: {True},
            Phase.FALLBACK: {False},
            Phase.LATCHED: {False},
            Phase.OVERRIDE: {True, False},
        }
        assert after.flag in expected[after.phase]
        assert len(after.fallbacks) <= policy.max_fallbacks_per_day + 1
        if around.frozen and not adopted:
            assert after.flag is before.flag
        assert decision.changed is ((before.phase, before.flag) != (after.phase, after.flag))


@settings(max_examples=50, deadline=None)
@given(begins=BEGINS, ticks=st.lists(TICK, max_size=60))
def test_the_same_inputs_give_the_same_decisions(begins: bool | None, ticks: list[Any]) -> None:
    """Nothing but the inputs decides, and a dry run never moves a flag that nobody moved."""
    once = [one[-1] for one in play(begins, ticks, POLICY)]
    assert once == [one[-1] for one in play(begins, ticks, POLICY)]
    for before, after, _, around, _ in play(begins, ticks, replace(POLICY, dry_run=True)):
        assert after.flag is before.flag or after.flag is around.confirmed


# What others made of the flag


@pytest.mark.parametrize("phase", [Phase.ACTIVE, Phase.FALLBACK, Phase.LATCHED, Phase.OVERRIDE])
@pytest.mark.parametrize("reads", [True, False])
def test_auto_adopts_what_others_made(phase: Phase, reads: bool) -> None:
    """Whoever hands the flag back hands it back as it reads, where others have moved it."""
    state = GuardState(
        phase=phase, flag=not reads, time=100.0, since=90.0, streak_end=0.0, fallbacks=(50.0,)
    )
    around = Surroundings(
        time=100.0, confirmed=reads, changed_elsewhere=True, override=Override(mode="auto")
    )
    after, decision = decide(state, idle(100.0), around, Policy())
    assert (decision.reason, decision.changed) == (GuardReason.CHANGED_ELSEWHERE, True)
    assert (after.phase, after.flag) == (Phase.ACTIVE if reads else Phase.FALLBACK, reads)
    assert after.next_probe == (None if reads else 400.0)
    assert after.fallbacks == (() if phase is Phase.LATCHED else (50.0,))


@pytest.mark.parametrize(
    "around",
    [
        pytest.param({"override": None}, id="nobody asks"),
        pytest.param({"override": Override(mode="on")}, id="another order"),
        pytest.param({"changed_elsewhere": False}, id="our own write is under way"),
        pytest.param({"confirmed": None}, id="not set"),
        pytest.param({"confirmed": True}, id="as wanted"),
    ],
)
def test_what_others_made_is_not_followed(around: dict[str, Any]) -> None:
    """Without that order the guard keeps its own mind."""
    state = GuardState(phase=Phase.ACTIVE, flag=True, time=100.0, since=90.0, streak_end=0.0)
    given: dict[str, Any] = {
        "confirmed": False,
        "changed_elsewhere": True,
        "override": Override(mode="auto"),
    }
    after, decision = decide(
        state, idle(100.0), Surroundings(time=100.0, **(given | around)), Policy()
    )
    assert decision.reason != GuardReason.CHANGED_ELSEWHERE
    assert after.flag is True


@pytest.mark.parametrize("phase", [Phase.FALLBACK, Phase.LATCHED, Phase.OVERRIDE])
def test_no_saved_cooldown_is_longer_than_any(phase: Phase) -> None:
    """Whatever a saved state says, the next probe is no later than the cool-down from now."""
    policy = Policy()
    found = GuardState(
        phase=phase, flag=False, time=90.0, since=80.0, streak_end=0.0, next_probe=1e12, failures=1
    )
    begun = begin(read_back=False, saved=found, time=100.0, policy=policy)
    assert (begun.phase, begun.next_probe) == (phase, 700.0)
    sooner = replace(found, next_probe=130.0)
    assert begin(read_back=False, saved=sooner, time=100.0, policy=policy).next_probe == 130.0
