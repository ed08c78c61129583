"""Alerts of a period as occurrences: each stretch of firing is one, however often evaluated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from specgauge.report.grid import Answers, Line, Period
from specgauge.report.questions import QUANTITY

_APART = {QUANTITY, "alertstate", "alertname", "severity", "__name__"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One occurrence; `firing` if it still fired at the end. Unix seconds, to the minute."""

    alert: str
    severity: str
    labels: Mapping[str, str]
    start: float
    end: float
    firing: bool


def alerts(answers: Answers) -> tuple[Alert, ...]:
    """List every occurrence, in the order in which they began."""
    found = [one for line in answers.of("alert") for one in _occurrences(line, answers.period)]
    return tuple(sorted(found, key=lambda one: (one.start, one.alert)))


def _occurrences(line: Line, period: Period) -> Iterator[Alert]:
    """Cut where a minute is missing: then it had resolved, or nobody was there to see it."""
    grid = period.minutes
    points = sorted(line.points)
    first = None
    for place, at in enumerate(points):
        first = at if first is None else first
        if place + 1 < len(points) and points[place + 1] == at + 1:
            continue
        yield Alert(
            alert=line.labels.get("alertname", ""),
            severity=line.labels.get("severity", ""),
            labels={name: value for name, value in line.labels.items() if name not in _APART},
            start=grid.time(first),
            end=grid.time(at),
            firing=at == grid.count,
        )
        first = None
