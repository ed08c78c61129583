"""Requests that came at once are one sample."""

import pytest
from tests.looking import look

from specgauge.guard.crowd import Arrival, crowd_share, note_arrival
from specgauge.model.guard import Look


def page(end: float, requests: float) -> Look:
    """Write a look whose last second brought so many requests."""
    return look("pays", end=end, step={"first_tokens": requests}, step_seconds=1.0)


def came(*requests: float, end: float = 1000.0) -> tuple[Arrival, ...]:
    """Take in seconds that follow each other, the last of which ends `end`."""
    arrivals: tuple[Arrival, ...] = ()
    for place, one in enumerate(requests):
        arrivals = note_arrival(arrivals, page(end - len(requests) + place + 1.0, one))
    return arrivals


def test_two_minutes_are_remembered() -> None:
    """Older arrivals are forgotten, and those that the clock took back."""
    arrivals = came(1.0, 2.0, 3.0, end=200.0)
    assert [one.requests for one in note_arrival(arrivals, page(319.0, 4.0))] == [3.0, 4.0]
    assert [one.requests for one in note_arrival(arrivals, page(199.0, 4.0))] == [1.0, 4.0]


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(look("pays"), id="nothing counted"),
        pytest.param(look("pays", step={"first_tokens": 1.0}), id="no time"),
    ],
)
def test_pages_that_tell_of_nobody(shown: Look) -> None:
    """Without a count, or a time that it is over, nothing is added."""
    assert note_arrival((), shown) == ()


@pytest.mark.parametrize(
    ("requests", "usual", "share"),
    [
        pytest.param([], 1.0, 0.0, id="nobody seen"),
        pytest.param([0.0] * 15, 1.0, 0.0, id="nobody came"),
        pytest.param([1.0, 0.0, 2.0, 1.0, 3.0, 6.0], 1.0, 0.0, id="as they come"),
        pytest.param([1.0] * 9 + [21.0], 1.0, 20.0 / 30.0, id="a batch"),
        pytest.param([1.0] * 8 + [11.0, 11.0], 1.0, 20.0 / 30.0, id="a batch let in over two"),
        pytest.param([11.0, 1.0, 11.0], 1.0, 200.0**0.5 / 23.0, id="two batches"),
        pytest.param([60.0, 120.0, 150.0], 60.0, 0.0, id="a busy server"),
        pytest.param([21.0] + [3.0] * 15, 2.0, 0.0, id="before the window"),
        pytest.param([21.0] + [1.0] * 15, 1.0, 20.0 / 36.0, id="before it, and served in it"),
        pytest.param([40.0, 21.0] + [0.0] * 15, 1.0, 1.0 - 2.0 / 61.0, id="nobody came since"),
    ],
)
def test_share_of_a_crowd(requests: list[float], usual: float, share: float) -> None:
    """Far more at once than chance brings are one sample; several crowds are several."""
    assert crowd_share(came(*requests), look("costs"), usual) == pytest.approx(share)


def test_what_came_later_is_not_in_a_window() -> None:
    """A window that ended before the last page has the requests that came before its end."""
    arrivals = came(*[1.0] * 15, 41.0, end=1001.0)
    assert crowd_share(arrivals, look("costs"), 1.0) == 0.0
