"""What a router must know of the moment, from the sidecar's view: the flag, and limits of load.

Remembers what hysteresis and the loss of the flag need; time comes in, a document goes out.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from specgauge.model.quantity import Kind, Quantity
from specgauge.model.view import TargetView, View
from specgauge.routing.rules import LoadLimit

SCHEMA = "specgauge.route_state/v1"
SPAN = 3.0
"""Seconds that the load is the mean of, where scrapes are that close."""

_SPECULATIVE = "speculative"
_MOST_POINTS = 64


class LoadMeter:
    """Follows the time in decode of one server; its growth over time is the load."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=_MOST_POINTS)

    def take(self, target: TargetView) -> float | None:
        """Take in what the last scrape counted; None while the server gives no page."""
        if not target.up or target.last_success is None:
            self._points.clear()
            return None
        now, total = target.last_success, decode_seconds(target)
        if total is None:
            return None
        if not self._points or now > self._points[-1][0]:
            self._points.append((now, total))
        while len(self._points) > 2 and now - self._points[1][0] >= SPAN:  # noqa: PLR2004 - a pair
            self._points.popleft()
        then, before = self._points[0]
        latest, after = self._points[-1]
        return None if latest <= then else max(0.0, after - before) / (latest - then)


class LiveState:
    """The route state, scrape after scrape."""

    def __init__(self, limits: Iterable[LoadLimit] = ()) -> None:
        self._limits = tuple(limits)
        self._held: dict[str, bool] = {}
        self._meters: dict[str, LoadMeter] = {}
        self._last: tuple[bool, float] | None = None

    def adopt(self, document: Mapping[str, Any], now: float) -> None:
        """Remember the last flag of an earlier run; a document that makes no sense is none."""
        written, flag, age = document.get("written"), document.get("flag"), 0.0
        if not isinstance(flag, bool):
            flag, found = document.get("last_flag"), document.get("last_flag_age")
            age = found if isinstance(found, int | float) else 0.0
        if isinstance(flag, bool) and isinstance(written, int | float):
            self._last = (flag, min(now, written - age))

    def take(self, view: View, now: float) -> dict[str, Any]:
        """Look at the view after a scrape; gives the document for the router."""
        flag, load = flag_of(view), self._load(view)
        if flag is not None:
            self._last = (flag, now)
        known, since = self._last or (None, now)
        return {
            "schema": SCHEMA,
            "flag": flag,
            "decode_concurrency": load,
            "written": now,
            "loads": {limit.key: self._answer(limit, load) for limit in self._limits},
            "last_flag": known,
            "last_flag_age": max(0.0, now - since),
        }

    def _load(self, view: View) -> float | None:
        """Give the load of the busiest server with speculation; None where none is known."""
        targets = [target for target in view.targets if target.role == _SPECULATIVE]
        meters = {one.name: self._meters.get(one.name) or LoadMeter() for one in targets}
        self._meters = meters
        loads = [meters[target.name].take(target) for target in targets]
        return max((load for load in loads if load is not None), default=None)

    def _answer(self, limit: LoadLimit, load: float | None) -> bool | None:
        answer = limit.holds(load, held=self._held.get(limit.key, True))
        if answer is not None:
            self._held[limit.key] = answer
        return answer


def flag_of(view: View) -> bool | None:
    """Tell whether speculation is to be used: without a guard nothing speaks against it.

    A flag that is to be off, or is off, counts as off: the standard pool always serves.
    """
    if view.guard is None:
        return True
    told = (view.guard.flag.desired, view.guard.flag.confirmed)
    return None if told == (None, None) else False not in told


def decode_seconds(target: TargetView) -> float | None:
    """Add up the time that requests of a server spent in decode; None where it does not tell."""
    found = [
        total
        for cell, total in target.totals.items()
        if cell.measure[:2] == (Quantity.STEP_LATENCY, Kind.SUM)
    ]
    return sum(found) if found else None
