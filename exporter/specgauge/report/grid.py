"""Times that a past is asked about, and what was answered at each of them; asks nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

HOUR = 3600.0
MINUTE = 60.0

MOST_POINTS = 11_000
"""Prometheus refuses more points of a series in one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Points from `start` on, in Unix seconds, numbered from 0 to `count`."""

    start: float
    step: float
    count: int

    def time(self, index: int) -> float:
        """Say when a point is."""
        return self.start + index * self.step

    def index(self, time: float) -> int:
        """Say which point is nearest to a time."""
        return round((time - self.start) / self.step)

    def chunks(self, points: int) -> Iterator[tuple[float, float]]:
        """Give the first and the last time of stretches of no more than so many points."""
        size = min(max(points, 1), MOST_POINTS)
        for first in range(0, self.count + 1, size):
            yield self.time(first), self.time(min(first + size - 1, self.count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A stretch of the past of whole hours, cut into cells of `step` seconds."""

    start: float
    end: float
    step: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.start

    @property
    def cells(self) -> Grid:
        """Where its cells begin and end; point 0 is what the first is compared with."""
        return Grid(start=self.start, step=self.step, count=round(self.seconds / self.step))

    @property
    def hours(self) -> Grid:
        """The same for its hours."""
        return Grid(start=self.start, step=HOUR, count=round(self.seconds / HOUR))

    @property
    def minutes(self) -> Grid:
        """The same for its minutes, for states that change at any time."""
        return Grid(start=self.start, step=MINUTE, count=round(self.seconds / MINUTE))

    @property
    def close(self) -> Grid:
        """Its end alone."""
        return Grid(start=self.end, step=HOUR, count=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series of an answer: its labels, and its values by number of their point."""

    labels: Mapping[str, str]
    points: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All that was answered about a period, by the name of the quantity."""

    period: Period
    lines: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)

    def of(self, name: str) -> tuple[Line, ...]:
        """Give the series of a quantity; none where there are none."""
        return self.lines.get(name, ())
