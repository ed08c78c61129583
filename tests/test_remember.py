"""The guard's memory as text: what was written comes back, and nothing else is believed."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgauge.guard.remember import SCHEMA, SLACK, recall, remember
from specgauge.model.guard import GuardReason, GuardState, Override, Phase

STATE = GuardState(
    phase=Phase.FALLBACK,
    flag=False,
    time=1000.0,
    since=900.0,
    streak_end=899.0,
    failures=2,
    next_probe=1500.0,
    fallback_load=31.5,
    fallback_tpot=0.02,
    fallbacks=(100.0, 900.0),
    told=(GuardReason.FALLBACK_INEFFECTIVE,),
)
UNIX = 1.7e9
TEXT = remember(STATE, time=1000.0, unix=UNIX, config="abc")


def test_comes_back_on_the_same_clock() -> None:
    """What was written at one instant and is read at it is the same."""
    found = recall(TEXT, time=1000.0, unix=UNIX)
    assert (found.state, found.reason, found.config) == (STATE, "", "abc")


def test_comes_back_on_another_clock() -> None:
    """A new process has another clock; the time between is told by the wall."""
    state = recall(TEXT, time=5.0, unix=UNIX + 60.0).state
    assert state is not None
    assert (state.time, state.since, state.next_probe) == (-55.0, -155.0, 445.0)
    assert state.fallbacks == (-955.0, -155.0)


def test_a_wall_clock_that_went_back_a_little_is_no_time_at_all() -> None:
    """Clocks are set by seconds now and then; that is not the future."""
    state = recall(TEXT, time=1000.0, unix=UNIX - SLACK).state
    assert state == STATE


def test_what_waits_for_the_flag_is_passed_on() -> None:
    """A guard that never read its flag leaves what it found, not that it found nothing."""
    waiting = GuardState(time=1000.0, since=1000.0, streak_end=0.0, saved=STATE)
    text = remember(waiting, time=1010.0, unix=UNIX + 10.0, config="abc")
    assert recall(text, time=1010.0, unix=UNIX + 10.0).state == STATE


def test_a_shadow_is_not_written() -> None:
    """What a dry run would have done is gone with it."""
    text = remember(replace(STATE, shadow=STATE), time=1000.0, unix=UNIX, config="abc")
    assert recall(text, time=1000.0, unix=UNIX).state == STATE


def test_it_says_whose_it_is() -> None:
    """The flag it is about comes back with it; what an earlier release left names none."""
    text = remember(STATE, time=1000.0, unix=UNIX, config="abc", flag_key="pool/a")
    assert recall(text, time=1000.0, unix=UNIX).flag_key == "pool/a"
    found = recall(without("flag_key"), time=1000.0, unix=UNIX)
    assert (found.state, found.flag_key) == (STATE, "")


def changed(**more: Any) -> str:
    document = json.loads(TEXT)
    for name, value in more.items():
        place = document["state"] if name in document["state"] else document
        place[name] = value
    return json.dumps(document)


def without(name: str) -> str:
    document = json.loads(TEXT)
    (document["state"] if name in document["state"] else document).pop(name)
    return json.dumps(document)


def with_more() -> str:
    document = json.loads(TEXT)
    document["state"]["mood"] = "good"
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "not JSON", id="empty"),
        pytest.param(TEXT[: len(TEXT) // 2], "not JSON", id="truncated"),
        pytest.param("[" * 100_000, "not JSON", id="too deep"),
        pytest.param("[]", "does not say what it is", id="a list"),
        pytest.param("{}", "does not say what it is", id="nothing in it"),
        pytest.param('{"schema": 5}', "does not say what it is", id="schema is a number"),
        pytest.param(changed(schema="specgauge.guard/v2"), "guard/v2", id="other version"),
        pytest.param(changed(schema="specgauge.baseline/v1"), "baseline/v1", id="foreign"),
        pytest.param(changed(saved_unix=UNIX + 61.0), "61 seconds in the future", id="future"),
        pytest.param(changed(saved_unix="yesterday"), "saved_unix", id="time is a text"),
        pytest.param(changed(saved_unix=float("nan")), "not JSON", id="NaN"),
        pytest.param(changed(since=float("inf")), "not JSON", id="infinite"),
        pytest.param(TEXT.replace("31.5", "1e999"), "fallback_load", id="too large for a float"),
        pytest.param(changed(config=None), "config", id="no configuration"),
        pytest.param(changed(state=[]), "state", id="state is a list"),
        pytest.param(changed(phase="asleep"), "phase", id="unknown phase"),
        pytest.param(changed(phase=["active"]), "phase", id="phase is a list"),
        pytest.param(changed(phase="active"), "contradict", id="active with the flag off"),
        pytest.param(changed(phase="starting"), "contradict", id="starting with a flag"),
        pytest.param(changed(flag=1), "flag", id="flag is a number"),
        pytest.param(changed(streak=-1), "streak", id="negative count"),
        pytest.param(changed(streak=True), "streak", id="count is true"),
        pytest.param(changed(failures=1.5), "failures", id="half a failure"),
        pytest.param(changed(since=5.0), "since", id="since later"),
        pytest.param(changed(fallback_load=-1), "fallback_load", id="negative load"),
        pytest.param(changed(next_probe="soon"), "next_probe", id="probe is a text"),
        pytest.param(changed(fallbacks=5), "fallbacks", id="history is a number"),
        pytest.param(changed(fallbacks=[-1.0, -2.0]), "fallbacks", id="history backwards"),
        pytest.param(changed(fallbacks=[1.0]), "fallbacks", id="history ahead"),
        pytest.param(changed(fallbacks=[-1.0] * 20_000), "fallbacks", id="endless history"),
        pytest.param(changed(told=["nonsense"]), "told", id="unknown reason"),
        pytest.param(changed(told="nonsense"), "told", id="reasons are a text"),
        pytest.param(without("streak_end"), "streak_end is missing", id="a field missing"),
        pytest.param(without("config"), "config is missing", id="a key missing"),
        pytest.param(with_more(), "'mood' is not a field", id="a field too many"),
    ],
)
def test_what_is_not_as_written_is_refused(text: str, reason: str) -> None:
    """Damaged, foreign, of another version or of the future: refused as a whole, with a reason."""
    found = recall(text, time=1000.0, unix=UNIX)
    assert found.state is None
    assert reason in found.reason


@given(st.data())
def test_no_damage_raises(data: st.DataObject) -> None:
    """Cut anywhere or with any part replaced, a memory is read or refused, never a crash."""
    start = data.draw(st.integers(0, len(TEXT)))
    end = data.draw(st.integers(start, len(TEXT)))
    middle = data.draw(st.text(max_size=8) | st.sampled_from(["9" * 5000, "-1e308", "null", "NaN"]))
    found = recall(TEXT[:start] + middle + TEXT[end:], time=1000.0, unix=UNIX)
    assert (found.state is None) is bool(found.reason)


def test_the_schema_is_named() -> None:
    """A file says what it is before anything else."""
    assert json.loads(TEXT)["schema"] == SCHEMA == "specgauge.guard/v1"


@pytest.mark.parametrize("flag", [True, False])
def test_override_without_its_word(flag: bool) -> None:
    """Nobody writes an override that nobody upholds, and one that is found is damage."""
    state = GuardState(phase=Phase.OVERRIDE, flag=flag, time=5.0, since=5.0, streak_end=5.0)
    text = remember(state, time=5.0, unix=100.0, config="c")
    found = recall(text, time=9.0, unix=104.0)
    assert found.state is not None
    assert found.state.phase is (Phase.ACTIVE if flag else Phase.FALLBACK)
    phase = str(found.state.phase)
    damaged = recall(text.replace(f'"{phase}"', '"override"'), time=9.0, unix=104.0)
    assert damaged.state is None
    assert damaged.reason.endswith("its phase is override, and no override is in it")


@pytest.mark.parametrize(("until", "left"), [(None, None), (8.0, 8.0)])
def test_override_with_its_word(until: float | None, left: float | None) -> None:
    """An override in force is kept with its end."""
    state = GuardState(phase=Phase.OVERRIDE, flag=False, time=5.0, since=5.0, streak_end=5.0)
    word = Override(mode="off", until=until, reason="x")
    text = remember(state, time=5.0, unix=100.0, config="c", override=word)
    found = recall(text, time=5.0, unix=100.0)
    assert found.state == state
    assert found.override == Override(mode="off", until=left, reason="x")
