"""Whether a loss is more than chance, among so many looks at windows of late; knows no clock.

A window is looked at with every page, and on some page of a day it shows a loss where there is
none. So one that costs counts only if it stands out from those of late, or if they cost themselves.
Windows of late may have drifted or jumped, so what counts is what each differs from the next by.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from specgauge.guard.crowd import crowd_share, is_another_load
from specgauge.guard.finding import requests_seen
from specgauge.guard.pace import (
    CROWD,
    FEWEST,
    KEPT,
    PAST,
    PRIOR_WINDOWS,
    REQUEST_SPREAD,
    Pace,
    Window,
    calm_windows,
    past_windows,
    usual_requests,
)
from specgauge.guard.policy import Policy
from specgauge.guard.step import TOUCHING
from specgauge.model.guard import Look

BEYOND = 7.0
"""Standard deviations: of a few requests each, windows of many days lie far outside the normal."""

A_FALL = 0.38
"""A fall by this share of the usual speedup always stands out, but for that of a crowd."""

CROWD_BEYOND = 3.0
"""Standard deviations for a crowd, which is not looked at again and again."""

SURE = 2.0
"""Standard errors by which windows of late must lie below the margin to cost themselves."""

LONGEST = 60.0
"""Seconds that windows in a row are taken together for, as where pages make a window grow."""

_WILD = 2.5
_TO_DEVIATION = 1.0 / 0.6745  # from the median that normal samples are off by


def stands_out(pace: Pace, look: Look, policy: Policy) -> bool:
    """Tell whether a window that costs is more than chance.

    It is chance where windows of late did not cost and it lies below them by no more than they
    differ by. Under another load only those of that load are its past, and without any nothing
    speaks for chance. Right after a start there are none of any load: then it has to lie below no
    gain by what so few requests differ by.
    """
    usual = _usual(pace, look, KEPT)
    if usual is None:
        known = not pace.fresh or len(past_windows(pace, look, KEPT)) >= FEWEST
        return known or look.end <= look.start or _is_beyond(_unknown(look), pace, look, policy)
    return usual.most < 1.0 - policy.margin or _is_beyond(usual, pace, look, policy)


def fell(pace: Pace, look: Look, policy: Policy) -> bool:
    """Tell whether a gain has just been lost, by more than windows of late differ by.

    Then little speaks for what was before, and less evidence than else will do for a loss.
    """
    usuals = [_usual(pace, look, seconds) for seconds in (KEPT, PAST)]
    return all(
        usual is not None
        and usual.speedup > 1.0 + policy.margin
        and _is_beyond(usual, pace, look, policy)
        for usual in usuals
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Usual:
    """What is usual: speedup and the most that it may be, requests a second, and the deviation.

    `deviation` is that of a second's speedup, as a share.
    """

    speedup: float
    most: float
    requests: float
    deviation: float


def _usual(pace: Pace, look: Look, seconds: float) -> _Usual | None:
    """Say what the windows of so many seconds show; None where they are too few."""
    past = _past(pace, look, seconds)
    length = look.end - look.start
    if length <= 0.0 or len(past) < FEWEST:
        return None
    calm = calm_windows(past)
    usual = median(one.speedup for one in calm)
    requests = max(usual_requests(past), 1.0 / length)
    deviation = _by_the_second(calm, usual, requests)
    error = deviation / math.sqrt(math.fsum(one.seconds for one in calm))
    return _Usual(
        speedup=usual, most=usual * (1.0 + SURE * error), requests=requests, deviation=deviation
    )


def _unknown(look: Look) -> _Usual:
    """Say what is usual where nothing is known: no gain, and requests that differ as they do."""
    requests = max(requests_seen(look), 1.0) / (look.end - look.start)
    deviation = _by_the_second((), 1.0, requests)
    return _Usual(speedup=1.0, most=1.0, requests=requests, deviation=deviation)


def _is_beyond(usual: _Usual, pace: Pace, look: Look, policy: Policy) -> bool:
    """Tell whether a window, or it with those before, lies further below than chance explains."""
    speedup = look.numbers.get("speedup_ratio")
    if speedup is None:
        return True
    for row, slow in _rows(pace, look, speedup, 1.0 - policy.margin):
        share = min(BEYOND * usual.deviation / math.sqrt(row.end - row.start), A_FALL)
        crowd = CROWD_BEYOND * REQUEST_SPREAD * crowd_share(pace.arrivals, row, usual.requests)
        if slow < usual.speedup * (1.0 - math.hypot(share, crowd)):
            return True
    return False


def _rows(pace: Pace, look: Look, speedup: float, most: float) -> Iterator[tuple[Look, float]]:
    """Give the window, then it with more and more of those right before it that cost as well."""
    yield look, speedup
    start, worth = look.start, speedup * (look.end - look.start)
    first = look.end - LONGEST - TOUCHING
    for one in reversed([one for one in pace.windows if one.end - one.seconds >= first]):
        if abs(one.end - start) > TOUCHING or one.speedup >= most:
            return
        start, worth = one.end - one.seconds, worth + one.speedup * one.seconds
        yield replace(look, start=start), worth / (look.end - start)


def _past(pace: Pace, look: Look, seconds: float) -> list[Window]:
    """Give the windows of so many seconds that can say what is usual at the load of this one."""
    past = past_windows(pace, look, seconds)
    usual = usual_requests(past) if past else 0.0
    if is_another_load(pace.arrivals, look, usual):
        return [one for one in past if one.requests > CROWD * usual]
    return past


def _by_the_second(calm: Sequence[Window], usual: float, requests: float) -> float:
    """Give what a second's speedup differs by, as a share; that of a longer time by its root less.

    `usual` is the speedup of late, `requests` how many there are a second.
    """
    moves = [
        abs(after.speedup - one.speedup)
        / (usual * math.sqrt(1.0 / one.seconds + 1.0 / after.seconds))
        for one, after in pairwise(calm)
    ]
    most = _WILD * _TO_DEVIATION * median(moves or [0.0])
    squares = math.fsum(min(move, most) ** 2 for move in moves)
    prior = PRIOR_WINDOWS * REQUEST_SPREAD**2 / requests
    return math.sqrt((prior + squares) / (PRIOR_WINDOWS + len(moves)))
