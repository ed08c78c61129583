"""Requests that came at once: they are alike, and so one sample however many; knows no clock.

A page that brought far more first tokens than usual brought a crowd; so did those beside it that
brought far more too, for a crowd may take a while to be let in. Where they go on coming it is no
crowd but another load.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from specgauge.guard.finding import requests_seen
from specgauge.model.guard import Look

REMEMBERED = 120.0
"""Seconds; no window of the guard is longer."""

AT_ONCE = 2.0
"""So many times the usual number, and what chance adds to that, is no crowd yet."""

CHANCE = 3.0

LASTING = 45.0
"""Seconds, more than any burst, after which what began like a crowd is another load."""

_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """How many requests had their first token in the seconds before `end`."""

    end: float
    seconds: float
    requests: float


def note_arrival(arrivals: tuple[Arrival, ...], look: Look) -> tuple[Arrival, ...]:
    """Take in the last interval of a look, oldest first, and forget what is old."""
    requests = look.step.get("first_tokens")
    if requests is None or look.step_seconds <= 0.0:
        return arrivals
    kept = tuple(one for one in arrivals if look.end - REMEMBERED < one.end < look.end)
    return (*kept, Arrival(end=look.end, seconds=look.step_seconds, requests=requests))


def crowd_share(arrivals: Sequence[Arrival], look: Look, usual: float) -> float:
    """Give the share of a look's requests that one crowd is; that of several by root and squares.

    `usual` is how many come in a second. `arrivals` are in their order.
    """
    seen = _behind(arrivals, look)
    came = math.fsum(one.requests for one in seen)
    if came <= 0.0:
        return 0.0
    squares = 0.0
    for crowd, pages in groupby(seen, key=lambda one: _is_crowd(one, usual)):
        if crowd:
            squares += math.fsum(one.requests - usual * one.seconds for one in pages) ** 2
    return math.sqrt(squares) / came


def _behind(arrivals: Sequence[Arrival], look: Look) -> list[Arrival]:
    """Give the arrivals that a look's requests are from, oldest first.

    A crowd goes on being served after it came: where fewer came in the window than were served
    in it, the others are of those that came last before it.
    """
    served, came, seen = requests_seen(look), 0.0, []
    for one in reversed(arrivals):
        if one.end > look.end:
            continue
        if one.end <= look.start and came >= served:
            break
        seen.append(one)
        came += one.requests
    return seen[::-1]


def is_another_load(arrivals: Iterable[Arrival], look: Look, usual: float) -> bool:
    """Tell whether far more than usual have come for so long that they are no crowd.

    They have to in each part of that time, so that a few batches do not look like a load.
    """
    length = LASTING / _PARTS
    parts = [0.0] * _PARTS
    for one in arrivals:
        for place in range(_PARTS):
            end = look.end - place * length
            shared = min(one.end, end) - max(one.end - one.seconds, end - length)
            parts[place] += one.requests * max(shared, 0.0) / one.seconds
    return all(_is_far_more(came, length, usual) for came in parts)


def _is_crowd(arrival: Arrival, usual: float) -> bool:
    return _is_far_more(arrival.requests, arrival.seconds, usual)


def _is_far_more(requests: float, seconds: float, usual: float) -> bool:
    most = AT_ONCE * usual * seconds
    return requests > most + CHANCE * math.sqrt(most)
