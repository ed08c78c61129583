"""A loss must be more than windows of late differ by, unless they cost themselves."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.looking import POLICY, look

from specgauge.guard.assess import Memory, assess
from specgauge.guard.chance import fell, stands_out
from specgauge.guard.crowd import Arrival
from specgauge.guard.pace import Pace, Window, forget_pace
from specgauge.model.guard import GuardReason, Look, Outcome

NOW = 2000.0


def past(ratios: Sequence[float], *, requests: float = 3.0, ends: float = NOW - 60.0) -> Pace:
    """Write windows of 15 s that follow each other, the last of which ends a minute ago."""
    first = ends - 15.0 * (len(ratios) - 1)
    return Pace(
        windows=tuple(
            Window(end=first + 15.0 * place, speedup=one, requests=requests, seconds=15.0)
            for place, one in enumerate(ratios)
        )
    )


def loss(speedup: float | None, *, lasting: float = 15.0) -> Look:
    """Write a window that costs."""
    numbers = {} if speedup is None else {"speedup_ratio": speedup, "speedup_ratio_high": 0.9}
    return replace(look("costs", end=NOW, numbers=numbers), start=NOW - lasting)


EVEN = [1.0, 1.04, 0.97, 1.02, 0.98, 1.03] * 6
GAIN = [1.5 * one for one in EVEN]


@pytest.mark.parametrize(
    ("before", "shown", "stands"),
    [
        pytest.param([], loss(0.8), False, id="no past, few requests"),
        pytest.param([], loss(0.55), True, id="no past, a great loss"),
        pytest.param([], loss(None), True, id="no past, no number"),
        pytest.param([], loss(0.9, lasting=0.0), True, id="no past, no time"),
        pytest.param(EVEN[:2], loss(0.8), False, id="too short a past"),
        pytest.param(EVEN, loss(None), True, id="no number"),
        pytest.param(EVEN, loss(0.9, lasting=0.0), True, id="no time"),
        pytest.param(EVEN, loss(0.85), False, id="even before: chance"),
        pytest.param(EVEN, loss(0.6), True, id="even before: a great fall"),
        pytest.param(EVEN, loss(0.8, lasting=15.0), False, id="not yet long enough"),
        pytest.param(EVEN, loss(0.8, lasting=60.0), True, id="long enough"),
        pytest.param(GAIN, loss(0.9), True, id="a gain before"),
        pytest.param([0.9 * one for one in EVEN], loss(0.88), True, id="it cost before"),
        pytest.param([0.9] * 4, loss(0.88), True, id="it cost steadily, for a minute"),
        pytest.param([1.4 - 0.01 * step for step in range(36)], loss(0.88), True, id="a drift"),
        pytest.param([1.5, 0.3, 2.9, 0.2] * 9, loss(0.8), False, id="windows that say anything"),
        pytest.param([1.5, 0.3, 2.9, 1.4] * 9, loss(0.8), True, id="a fall by well over a third"),
    ],
)
def test_what_stands_out(before: list[float], shown: Look, stands: bool) -> None:
    """It lies below what windows of late differ by, or without any below what requests do."""
    assert stands_out(past(before), shown, POLICY) is stands


def test_without_a_past_many_requests_tell() -> None:
    """Right after a start a loss of 10 % is more than chance once hundreds of requests show it."""
    few, many = (
        replace(shown, numbers={**shown.numbers, "requests": requests})
        for shown in [loss(0.9)]
        for requests in (150.0, 250.0)
    )
    assert not stands_out(Pace(), few, POLICY)
    assert stands_out(Pace(), many, POLICY)


@pytest.mark.parametrize(
    ("before", "flag_on", "fresh"),
    [
        pytest.param(EVEN[:2], True, True, id="a start"),
        pytest.param(EVEN[:3], True, False, id="it had a past"),
        pytest.param([], False, False, id="a probe"),
    ],
)
def test_only_a_start_has_to_wait(before: list[float], flag_on: bool, fresh: bool) -> None:
    """A probe, or a guard that had a past and lost it, takes any loss for one."""
    pace = forget_pace(past(before), flag_on=flag_on)
    assert pace == Pace(fresh=fresh)
    assert forget_pace(pace, flag_on=True) == pace
    assert stands_out(pace, loss(0.9), POLICY) is not fresh


def test_windows_of_another_load_are_no_past() -> None:
    """Windows with over twice the usual requests tell of another load."""
    busy = past([0.5] * 10, requests=12.0, ends=NOW - 400.0)
    pace = Pace(windows=busy.windows + past(EVEN).windows[-20:])
    assert not stands_out(pace, loss(0.85), POLICY)
    assert stands_out(past([0.5] * 36, requests=12.0), loss(0.85), POLICY)


def test_a_batch_is_one_sample() -> None:
    """A loss that a batch of like requests brought counts only if it is far greater."""
    batch = (Arrival(end=NOW - 5.0, seconds=1.0, requests=43.0),)
    assert stands_out(past(GAIN), loss(0.9), POLICY)
    assert not stands_out(replace(past(GAIN), arrivals=batch), loss(0.9), POLICY)
    assert stands_out(replace(past(GAIN), arrivals=batch), loss(0.4), POLICY)


@pytest.mark.parametrize(
    ("shown", "stands"),
    [
        pytest.param((), False, id="one window"),
        pytest.param((0.9,), False, id="two"),
        pytest.param((0.9, 0.9), True, id="three"),
        pytest.param((0.8, 0.8, 0.97), False, id="the one before did not cost"),
        pytest.param((0.8, 0.97, 0.9), False, id="one among them did not"),
        pytest.param((0.8, 0.8, None), False, id="a gap"),
        pytest.param((0.6, 0.94, 0.94, 0.94), False, id="longer ago than a window grows"),
    ],
)
def test_windows_that_cost_in_a_row_count_together(
    shown: tuple[float | None, ...], *, stands: bool
) -> None:
    """Evidence that comes ready cannot grow, so what one window cannot show several can."""
    before = past([1.0 + 0.7 * (one - 1.0) for one in EVEN]).windows
    latest = 0.94 if len(shown) > 3 else 0.9
    row = tuple(
        Window(end=NOW - 15.0 * ago, speedup=one, requests=3.0, seconds=15.0)
        for ago, one in zip(range(len(shown), 0, -1), shown, strict=True)
        if one is not None
    )
    kept = tuple(one for one in before if one.end < NOW - 15.0 * len(shown) - 1.0)
    assert stands_out(Pace(windows=(*kept, *row)), loss(latest), POLICY) is stands


QUIET = [1.1, 1.4, 0.9, 1.2, 0.8, 1.3] * 6
RISEN = tuple(Arrival(end=NOW - ago, seconds=1.0, requests=20.0) for ago in range(60))


@pytest.mark.parametrize(
    ("came", "speedup", "stands"),
    [
        pytest.param(RISEN, 0.8, True, id="the load rose, and it costs there"),
        pytest.param(RISEN[:20], 0.8, False, id="a burst"),
        pytest.param(RISEN[:10] + RISEN[35:], 0.8, False, id="two bursts"),
        pytest.param((), 0.8, False, id="no request counted"),
        pytest.param(
            (Arrival(end=NOW, seconds=60.0, requests=1200.0),), 0.8, True, id="one page a minute"
        ),
        pytest.param(
            tuple(replace(one, requests=0.3) for one in RISEN), 0.8, False, id="the usual load"
        ),
    ],
)
def test_the_past_of_a_quiet_night_says_nothing_of_the_morning(
    came: tuple[Arrival, ...], speedup: float, *, stands: bool
) -> None:
    """A load that has come to stay has no past; a burst is held against what there was."""
    pace = replace(past(QUIET, requests=0.3), arrivals=came)
    assert stands_out(pace, loss(speedup), POLICY) is stands


def test_another_load_has_a_past_of_its_own() -> None:
    """Windows of the load that is now say what is usual at it."""
    night, day = past(QUIET, requests=0.3, ends=NOW - 300.0), past(EVEN, requests=20.0)
    pace = Pace(windows=night.windows + day.windows[-10:], arrivals=RISEN)
    assert not stands_out(pace, loss(0.87), POLICY)
    assert stands_out(pace, loss(0.6), POLICY)


@pytest.mark.parametrize(
    ("before", "shown", "fallen"),
    [
        pytest.param(GAIN, loss(0.9), True, id="out of a gain"),
        pytest.param(EVEN, loss(0.9), False, id="no more than chance"),
        pytest.param(EVEN, loss(0.6), False, id="nothing was gained before"),
        pytest.param(GAIN[:2], loss(0.9), False, id="no past"),
        pytest.param([0.85 * one for one in EVEN], loss(0.5), False, id="it cost before"),
        pytest.param(GAIN[:12] + EVEN * 2, loss(0.9), False, id="it fell long ago"),
        pytest.param(EVEN[:20] + GAIN, loss(0.9), True, id="it paid for long"),
        pytest.param(GAIN, loss(None), True, id="no number"),
        pytest.param(GAIN, loss(0.9, lasting=0.0), False, id="no time"),
    ],
)
def test_what_fell(before: list[float], shown: Look, fallen: bool) -> None:
    """It lies below what windows of late differ by, those of the last ten minutes too."""
    assert fell(past(before), shown, POLICY) is fallen


@pytest.mark.parametrize(
    ("before", "more", "outcome", "reason"),
    [
        pytest.param(GAIN, {}, Outcome.DEGRADED, GuardReason.SPEEDUP_FELL, id="a fall"),
        pytest.param(EVEN, {}, Outcome.INCONCLUSIVE, "interval_too_wide", id="chance"),
        pytest.param(
            GAIN, {"leans": False}, Outcome.INCONCLUSIVE, "interval_too_wide", id="it may pay"
        ),
        pytest.param(
            GAIN,
            {"numbers": {"tokens": 10.0}},
            Outcome.INCONCLUSIVE,
            "interval_too_wide",
            id="too few tokens",
        ),
    ],
)
def test_a_verdict_that_leans_counts_after_a_fall(
    before: list[float], more: dict[str, Any], outcome: Outcome, reason: str
) -> None:
    """Where nothing speaks for what was before, a loss need not be as sure."""
    numbers = {"speedup_ratio": 0.9, "speedup_ratio_high": 0.97, **more.pop("numbers", {})}
    shown = look("wide", end=NOW, numbers=numbers, **{"leans": True, **more})
    memory = Memory(time=NOW - 1.0, grace_from=0.0, pace=past(before))
    _, found = assess(memory, shown, POLICY, time=NOW)
    assert (found.outcome, found.reason) == (outcome, reason)
    assert not found.severe


def test_a_loss_by_chance_is_inconclusive() -> None:
    """It neither counts nor ends a row, and is kept as what windows differ by."""
    memory = Memory(time=NOW - 1.0, grace_from=0.0, pace=past(EVEN))
    memory, found = assess(memory, loss(0.85), POLICY, time=NOW)
    assert (found.outcome, found.reason) == (Outcome.INCONCLUSIVE, GuardReason.WITHIN_USUAL)
    assert memory.pace.windows[-1].speedup == 0.85
    memory, found = assess(memory, loss(0.6), POLICY, time=NOW + 1.0)
    assert found.outcome is Outcome.DEGRADED
