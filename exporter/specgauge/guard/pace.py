"""How fast speculation has been lately, and so what one slow window is worth; knows no clock.

A window's interval comes from its own seconds and takes requests for independent. They are not:
a batch of like requests is one sample, and a few requests say little of those to come. So where
one window is to be enough, its upper end is first moved up to what windows of late have differed
by, and what came beyond the usual counts as one request more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from specgauge.guard.crowd import Arrival, note_arrival
from specgauge.guard.finding import requests_seen
from specgauge.model.guard import Look

KEPT = 1800.0
"""Seconds after which a window is forgotten."""

PAST = 600.0
"""Seconds over which windows tell what one differs from the next by."""

RECENT = 60.0
"""Seconds that are not the past yet: what they show may be the fall itself."""

FEWEST = 3
"""Windows that make a past."""

CROWD = 2.0
"""With so many times the usual requests it is another load, of which the past says nothing."""

REQUEST_SPREAD = 0.2
"""What requests' speedups differ by, as a share (n-gram drafts on a CPU); a crowd as one does."""

SURE = 3.0
"""Standard deviations of windows of late by which one window alone must lie below."""

PRIOR_WINDOWS = 2.0
"""Windows that the spread of requests is worth as evidence of what windows differ by."""

_TOUCHING = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one window showed: when it ended, its speedup, requests a second, and its length."""

    end: float
    speedup: float
    requests: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Windows that do not overlap and in which speculation was not found to cost, oldest first.

    `arrivals` are requests as they came of late. It is `fresh` until there have been windows enough
    for a past, or the flag was off: a probe is ended by any loss.
    """

    windows: tuple[Window, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    fresh: bool = True


def notice(pace: Pace, look: Look) -> Pace:
    """Take in who came in the last interval, whatever the window says."""
    return replace(pace, arrivals=note_arrival(pace.arrivals, look))


def forget_pace(pace: Pace, *, flag_on: bool) -> Pace:
    """Begin anew after a time that no window may reach back over."""
    return Pace(fresh=pace.fresh and flag_on and len(pace.windows) < FEWEST)


def keep_pace(pace: Pace, look: Look) -> Pace:
    """Take in a window that begins where the last one ended, and forget what is old."""
    speedup = look.numbers.get("speedup_ratio")
    if not speedup or speedup < 0.0 or not look.covered or look.end <= look.start:
        return pace
    if pace.windows and look.start < pace.windows[-1].end - _TOUCHING:
        return pace
    kept = tuple(one for one in pace.windows if one.end > look.end - KEPT)
    seconds = look.end - look.start
    rate = requests_seen(look) / seconds
    new = Window(end=look.end, speedup=speedup, requests=rate, seconds=seconds)
    return replace(pace, windows=(*kept, new))


def upper_end(pace: Pace, look: Look) -> float | None:
    """Give what speedup is at most, by windows of late too; None where no interval is known."""
    value, high = (look.numbers.get(name) for name in ("speedup_ratio", "speedup_ratio_high"))
    if value is None or high is None:
        return high
    share = SURE * _deviation(pace, look)
    return max(high, value / (1.0 - share)) if share < 1.0 else math.inf


def _deviation(pace: Pace, look: Look) -> float:
    """Give by how much such a window differs from the next, as a share; 0 without a past."""
    requests = max(requests_seen(look), 1.0)
    past = past_windows(pace, look, PAST)
    if len(past) < FEWEST:
        return 0.0
    usual = max(usual_requests(past) * (look.end - look.start), 1.0)
    own = REQUEST_SPREAD**2 / min(usual, requests)
    calm = [one.speedup for one in calm_windows(past)]
    mean = fmean(calm)
    squares = math.fsum((one / mean - 1.0) ** 2 for one in calm)
    between = (PRIOR_WINDOWS * own + squares) / (PRIOR_WINDOWS + len(calm))
    return math.hypot(REQUEST_SPREAD * _crowd(past, look), math.sqrt(between))


def _crowd(past: Sequence[Window], look: Look) -> float:
    """Give the share of requests beyond the usual."""
    usual = usual_requests(past) * (look.end - look.start)
    came = max(look.numbers.get(name, 0.0) for name in ("first_tokens", "requests"))
    return max(1.0 - usual / max(came, 1.0), 0.0)


def past_windows(pace: Pace, look: Look, seconds: float) -> list[Window]:
    """Give the windows of so many seconds that were over before anything that is recent."""
    return [one for one in pace.windows if look.end - seconds < one.end <= look.end - RECENT]


def calm_windows(past: Sequence[Window]) -> list[Window]:
    """Leave out those of another load."""
    most = CROWD * usual_requests(past)
    return [one for one in past if one.requests <= most]


def usual_requests(past: Sequence[Window]) -> float:
    """Give the usual number of requests a second."""
    return median(one.requests for one in past)
