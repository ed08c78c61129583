"""How fast speculation has been lately, and so what one slow window is worth; knows no clock.

A window's interval comes from its own seconds and takes requests for independent. They are not:
a batch of like requests is one sample, and a few requests say little of those to come. So where
one window is to be enough, its upper end is first moved up to what windows of late have differed
by, and what came beyond the usual counts as one request more.
"""

import math
from dataclasses import dataclass
from statistics import fmean, median

from specgauge.guard.finding import requests_seen
from specgauge.model.guard import Look

PAST = 600.0
"""Seconds after which a window is forgotten."""

RECENT = 60.0
"""Seconds that are not the past yet: what they show may be the fall itself."""

FEWEST = 3
"""Windows that make a past."""

CROWD = 2.0
"""With so many times the usual requests it is another load, of which the past says nothing."""

REQUEST_SPREAD = 0.2
"""What requests' speedups differ by, as a share (n-gram drafts on a CPU); a crowd as one does."""

SURE = 4.0
"""Standard deviations of windows of late by which one window alone must lie below."""

_PRIOR_WINDOWS = 2.0
_TOUCHING = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What one window showed: when it ended, its speedup, and requests a second."""

    end: float
    speedup: float
    requests: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Windows that do not overlap and in which speculation was not found to cost, oldest first."""

    windows: tuple[Window, ...] = ()


def keep_pace(pace: Pace, look: Look) -> Pace:
    """Take in a window that begins where the last one ended, and forget what is old."""
    speedup = look.numbers.get("speedup_ratio")
    if speedup is None or not look.covered or look.end <= look.start:
        return pace
    if pace.windows and look.start < pace.windows[-1].end - _TOUCHING:
        return pace
    kept = tuple(one for one in pace.windows if one.end > look.end - PAST)
    rate = requests_seen(look) / (look.end - look.start)
    return Pace(windows=(*kept, Window(end=look.end, speedup=speedup, requests=rate)))


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
    past = _past(pace, look)
    if len(past) < FEWEST:
        return 0.0
    usual = max(_usual(past) * (look.end - look.start), 1.0)
    own = REQUEST_SPREAD**2 / min(usual, requests)
    calm = [one.speedup for one in past if one.requests <= CROWD * _usual(past)]
    mean = fmean(calm)
    squares = math.fsum((one / mean - 1.0) ** 2 for one in calm)
    between = (_PRIOR_WINDOWS * own + squares) / (_PRIOR_WINDOWS + len(calm))
    return math.hypot(REQUEST_SPREAD * _crowd(past, look), math.sqrt(between))


def _crowd(past: list[Window], look: Look) -> float:
    """Give the share of requests beyond the usual."""
    usual = _usual(past) * (look.end - look.start)
    came = max(look.numbers.get(name, 0.0) for name in ("first_tokens", "requests"))
    return max(1.0 - usual / max(came, 1.0), 0.0)


def _past(pace: Pace, look: Look) -> list[Window]:
    return [one for one in pace.windows if look.end - PAST < one.end <= look.end - RECENT]


def _usual(past: list[Window]) -> float:
    """Give the usual number of requests a second."""
    return median(one.requests for one in past)
