"""Where everything of a plot lies, in the units of its SVG; draws nothing and reads no clock.

A line is broken where there is no value: nothing is drawn where nothing is known.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

WIDTH, HEIGHT = 720.0, 200.0
_LEFT, _TOP, _BOTTOM = 44.0, 12.0, 24.0
RIGHT = WIDTH - 22.0
"""Where the axis over time ends: half of its last date is beyond."""

_MOST_DAYS = 8
_STEPS = (0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_TICKS = 5.0

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark of an axis and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Whisker:
    """A value with its interval; `low` and `high` are those of the value where there is none."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One plot: lines as SVG writes their points, single points, shaded spans, marks, a limit."""

    title: str
    limit: float | None
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    lines: tuple[str, ...] = ()
    dots: tuple[tuple[float, float], ...] = ()
    shades: tuple[tuple[float, float], ...] = ()
    marks: tuple[float, ...] = ()
    whiskers: tuple[Whisker, ...] = field(default=())


def over_time(
    title: str, hours: Sequence[Json], group: Json, period: Json, *, limit: float, top: float | None
) -> Plot:
    """Lay out a figure hour by hour; `top` is where its axis ends, by default above all values."""
    start, end = unix(period["from"]), unix(period["to"])
    values = [one["ratio"] for one in hours]
    high = top or _room([*(one for one in values if one is not None), limit])
    points = [
        None
        if one["ratio"] is None
        else (_x(unix(one["start"]) + 1800.0, start, end), _y(one["ratio"], high))
        for one in hours
    ]
    runs = list(_runs(points))
    missing = (
        (_x(unix(one["start"]), start, end), _x(unix(one["end"]), start, end))
        for one in group["data"]["missing"]
    )
    began = (unix(one["began"]) for one in group["fallbacks"]["events"])
    return Plot(
        title=title,
        limit=_y(limit, high),
        across=tuple(_days(start, end)),
        up=tuple(_levels(high)),
        lines=tuple(" ".join(f"{x:.1f},{y:.1f}" for x, y in run) for run in runs if len(run) > 1),
        dots=tuple(run[0] for run in runs if len(run) == 1),
        shades=tuple((left, right - left) for left, right in missing),
        marks=tuple(_x(one, start, end) for one in began if one >= start),
    )


def by_load(title: str, bins: Sequence[Json]) -> Plot:
    """Lay out the speedup of each bin of load with its interval."""
    high = _room([1.0, *(one["high"] or one["ratio"] for one in bins)])
    width = (RIGHT - _LEFT) / max(len(bins), 1)
    places = [_LEFT + (number + 0.5) * width for number in range(len(bins))]
    return Plot(
        title=title,
        limit=_y(1.0, high),
        across=tuple(Tick(at=x, text=load_text(one)) for x, one in zip(places, bins, strict=True)),
        up=tuple(_levels(high)),
        whiskers=tuple(
            Whisker(
                x=x,
                y=_y(one["ratio"], high),
                low=_y(one["ratio"] if one["low"] is None else one["low"], high),
                high=_y(one["high"] or one["ratio"], high),
            )
            for x, one in zip(places, bins, strict=True)
        ),
    )


def load_text(one: Json) -> str:
    """Write a bin of load."""
    low, high = one["concurrency_from"], one["concurrency_below"]
    return f"from {low:g}" if high is None else f"{low:g} to {high:g}"


def unix(text: str) -> float:
    """Read a time of the document."""
    return datetime.fromisoformat(text).timestamp()


def _runs(
    points: Iterable[tuple[float, float] | None],
) -> Iterator[list[tuple[float, float]]]:
    run: list[tuple[float, float]] = []
    for point in (*points, None):
        if point is not None:
            run.append(point)
        elif run:
            yield run
            run = []


def _x(time: float, start: float, end: float) -> float:
    share = (min(max(time, start), end) - start) / (end - start)
    return _LEFT + share * (RIGHT - _LEFT)


def _y(value: float, high: float) -> float:
    return HEIGHT - _BOTTOM - min(value / high, 1.0) * (HEIGHT - _TOP - _BOTTOM)


def _room(values: Sequence[float]) -> float:
    """End the axis at a round number above everything."""
    top = max(values)
    step = _step(top)
    return math.ceil(top / step + 1e-9) * step


def _step(top: float) -> float:
    return next((one for one in _STEPS if top / one <= _TICKS), top / _TICKS)


def _levels(high: float) -> Iterator[Tick]:
    step = _step(high)
    for number in range(math.floor(high / step + 1e-9) + 1):
        yield Tick(at=_y(number * step, high), text=f"{number * step:g}")


def _days(start: float, end: float) -> Iterator[Tick]:
    """Mark midnights in UTC, not more than there is room for."""
    day = 86_400.0
    first = math.ceil(start / day)
    count = math.floor(end / day) - first + 1
    every = max(math.ceil(count / _MOST_DAYS), 1)
    for number in range(0, count, every):
        time = (first + number) * day
        yield Tick(at=_x(time, start, end), text=_date(time))


def _date(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%d %b")
