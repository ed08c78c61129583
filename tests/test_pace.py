"""What one slow window is worth, by the windows of late."""

import math
from collections.abc import Sequence

import pytest
from tests.looking import look

from specgauge.guard.pace import Pace, keep_pace, upper_end
from specgauge.model.guard import Look


def window(at: float, ratio: float, *, high: float | None = None, requests: float = 40.0) -> Look:
    """Write a covered window of 15 s that ends `at`."""
    numbers = {"speedup_ratio": ratio, "requests": requests, "first_tokens": requests}
    if high is not None:
        numbers["speedup_ratio_high"] = high
    return look("pays", end=at, numbers=numbers)


def past(ratios: Sequence[float], *, requests: float = 40.0) -> Pace:
    """Take in windows that follow each other from 15 s on."""
    pace = Pace()
    for number, ratio in enumerate(ratios, 1):
        pace = keep_pace(pace, window(15.0 * number, ratio, requests=requests))
    return pace


def test_windows_that_overlap_are_one() -> None:
    """Only a window that begins where the last ended is another."""
    pace = keep_pace(past([1.5]), window(20.0, 1.4))
    assert [one.speedup for one in pace.windows] == [1.5]
    pace = keep_pace(pace, window(30.0, 1.4))
    assert [one.speedup for one in pace.windows] == [1.5, 1.4]
    assert pace.windows[0].requests == pytest.approx(40.0 / 15.0)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(look("pays", end=15.0), id="no speedup"),
        pytest.param(window(15.0, 0.0), id="no tokens"),
        pytest.param(window(15.0, -1.0), id="below nothing"),
        pytest.param(look("no baseline", end=15.0, numbers={"speedup_ratio": 1.0}), id="uncovered"),
        pytest.param(
            Look(start=15.0, end=15.0, covered=True, numbers={"speedup_ratio": 1.0}), id="no time"
        ),
    ],
)
def test_what_is_no_window(shown: Look) -> None:
    """A look without a speedup, a baseline or a length is not kept."""
    assert keep_pace(Pace(), shown) == Pace()


def test_the_past_is_half_an_hour() -> None:
    """Older windows are forgotten; ten minutes tell what one window is worth alone."""
    pace = keep_pace(past([1.5, 0.9, 2.1]), window(700.0, 1.2))
    assert [one.speedup for one in pace.windows] == [1.5, 0.9, 2.1, 1.2]
    assert upper_end(pace, window(800.0, 0.6, high=0.62)) == 0.62
    pace = keep_pace(pace, window(1900.0, 1.3))
    assert [one.speedup for one in pace.windows] == [1.2, 1.3]


def test_without_an_interval_or_a_past() -> None:
    """No interval stays none; without a past the interval stands."""
    assert upper_end(past([1.5] * 10), window(300.0, 0.6)) is None
    assert upper_end(Pace(), window(300.0, 0.6, high=0.7)) == 0.7
    assert upper_end(past([1.5] * 2), window(300.0, 0.6, high=0.7)) == 0.7


def test_a_calm_past_leaves_little_room() -> None:
    """Windows that hardly differed believe a great loss at once; those that did not, less so."""
    calm = upper_end(past([1.5, 1.51, 1.49] * 5), window(300.0, 0.6, high=0.62))
    wild = upper_end(past([1.5, 0.9, 2.1] * 5), window(300.0, 0.6, high=0.62))
    assert calm is not None
    assert wild is not None
    assert 0.62 <= calm < 0.8 < wild


def test_what_is_no_past_yet() -> None:
    """The last minute does not count: it may be the fall itself."""
    pace = past([1.5, 0.9, 2.1] * 5)
    assert upper_end(pace, window(240.0, 0.6, high=0.62)) != 0.62
    assert upper_end(past([1.5, 0.9, 2.1]), window(60.0, 0.6, high=0.62)) == 0.62


def test_a_crowd_is_one_request() -> None:
    """Many times the usual requests may be a batch of like ones: one window proves nothing."""
    pace = past([1.5, 1.51, 1.49] * 5, requests=10.0)
    crowd = upper_end(pace, window(300.0, 0.6, high=0.62, requests=1000.0))
    usual = upper_end(pace, window(300.0, 0.6, high=0.62, requests=10.0))
    assert crowd is not None
    assert usual is not None
    assert crowd > usual


def test_a_past_that_says_anything() -> None:
    """Where windows differed by more than themselves there is no upper end."""
    assert upper_end(past([0.1, 5.0, 0.1, 5.0] * 3), window(300.0, 0.6, high=0.62)) == math.inf
