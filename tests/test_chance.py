"""A loss must be more than windows of late differ by, unless they cost themselves."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.looking import POLICY, look

from specgauge.guard.assess import Memory, assess
from specgauge.guard.chance import stands_out
from specgauge.guard.crowd import Arrival
from specgauge.guard.pace import Pace, Window
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
        pytest.param([], loss(0.9), True, id="no past"),
        pytest.param(EVEN[:2], loss(0.9), True, id="too short a past"),
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
    """It lies below what windows of late differ by, or there is no such past."""
    assert stands_out(past(before), shown, POLICY) is stands


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


def test_a_loss_by_chance_is_inconclusive() -> None:
    """It neither counts nor ends a row, and is kept as what windows differ by."""
    memory = Memory(time=NOW - 1.0, grace_from=0.0, pace=past(EVEN))
    memory, found = assess(memory, loss(0.85), POLICY, time=NOW)
    assert (found.outcome, found.reason) == (Outcome.INCONCLUSIVE, GuardReason.WITHIN_USUAL)
    assert memory.pace.windows[-1].speedup == 0.85
    memory, found = assess(memory, loss(0.6), POLICY, time=NOW + 1.0)
    assert found.outcome is Outcome.DEGRADED
