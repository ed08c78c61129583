"""What a Prometheus remembers of a pool, as the lines of a timeline; it decides nothing.

The same query as of a live pool, at every step from one time to another.
"""

import asyncio
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from specgauge.errors import SourceError, UsageError
from specgauge.guard.settings import PrometheusSettings
from specgauge.model.outcome import ScrapeResult
from specgauge.serve.fleet import told
from specgauge.serve.fleet_answer import FleetError, FleetReason, Sample
from specgauge.serve.fleet_api import PrometheusApi
from specgauge.serve.fleet_evidence import evidence_of
from specgauge.serve.fleet_queries import Span, span_of, window_query
from specgauge.serve.timeline import Entry
from specgauge.units import LONGEST_SPAN, parse_duration

MOST_POINTS = 11_000
"""Prometheus refuses more points of a series in one answer."""

POINTS = 500
"""So many are asked for at once, so that answers stay small and progress is seen."""

MOST_LINES = 10_000_000
"""So many are replayed at once: a year and more of those that a guard asks for by default."""

_LATEST = 1e11


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Which stretch of history is replayed: Unix seconds, and one line every `step` of them."""

    start: float
    end: float
    step: float

    @property
    def count(self) -> int:
        """How many lines there are."""
        return math.floor((self.end - self.start) / self.step + 1e-9) + 1

    def chunks(self, points: int = POINTS) -> Iterator[tuple[float, ...]]:
        """Give the times of the lines, no more than so many together."""
        size = min(max(points, 1), MOST_POINTS)
        for first in range(0, self.count, size):
            last = min(first + size, self.count)
            yield tuple(round(self.start + at * self.step, 3) for at in range(first, last))


def history(
    settings: PrometheusSettings,
    past: Past,
    *,
    decision_window: float,
    margin: float,
    points: int = POINTS,
) -> Iterator[Entry]:
    """Give a line for every step; one without evidence says why.

    Raises ValueError for a URL that is none; while it is read, SourceError where the server does
    not answer in full, and where the pool serves several models. Windows are
    `span_of(decision_window, settings.interval).window` seconds long.
    """
    span = span_of(decision_window, settings.interval)
    query = window_query(settings.selector, span)
    return _entries(PrometheusApi(settings), query, past, span, margin=margin, points=points)


def _entries(
    api: PrometheusApi, query: str, past: Past, span: Span, *, margin: float, points: int
) -> Iterator[Entry]:
    line = 0
    with asyncio.Runner() as runner:
        for times in past.chunks(points):
            asked = api.query_range(query, start=times[0], end=times[-1], step=past.step)
            try:
                found = runner.run(asked)
            except FleetError as error:
                raise unreadable(error) from error
            by_time = {round(time, 3): samples for time, samples in found.items()}
            for time in times:
                line += 1
                yield _entry(line, time, by_time.get(time, []), span, margin)


def parse_past(start: str, end: str, step: float, *, now: float) -> Past:
    """Read both ends, each RFC 3339, Unix seconds, `now` or as long ago as -7d.

    Raises UsageError for what is none of these, for an end that is not after the start, and for
    more than a year or `MOST_LINES` between them.
    """
    past = Past(start=parse_time(start, now), end=parse_time(end, now), step=step)
    if past.end <= past.start:
        raise UsageError(f"--to {end} is not after --from {start}")
    if past.end - past.start > LONGEST_SPAN:
        raise UsageError(f"--from {start} --to {end} is longer than 366d; replay less at once")
    if past.count > MOST_LINES:
        raise UsageError(
            f"--from {start} --to {end} has {past.count} steps of {step:g} s, and at most "
            f"{MOST_LINES} are replayed; give a longer --step or a later --from"
        )
    return past


def parse_time(text: str, now: float) -> float:
    """Read one such time as Unix seconds; raises UsageError."""
    if text == "now":
        return now
    if re.fullmatch(r"[0-9]{1,11}(\.[0-9]{1,9})?", text):
        return float(text)
    try:
        if text.startswith("-"):
            return _back(now, text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not 0.0 <= moment.timestamp() < _LATEST:
        wanted = "2026-11-29T16:00:00Z, Unix seconds, -7d or now"
        raise UsageError(f"{text!r} is no time; write {wanted}")
    return moment.timestamp()


def _back(now: float, text: str) -> float:
    """Go back as long as a text says, and not beyond the first time that there is."""
    found = now - parse_duration(text[1:])
    if found < 0.0:
        raise UsageError(f"{text} is before 1970; write a later time, as -7d")
    return found


def _entry(line: int, time: float, samples: list[Sample], span: Span, margin: float) -> Entry:
    try:
        found = evidence_of(samples, span, margin=margin)
    except FleetError as error:
        if error.reason == FleetReason.SEVERAL_SERIES:
            raise unreadable(error) from error
        return Entry(line=line, time=time, error=told(error))
    if len(found) > 1:
        names = ", ".join(sorted(found))
        fix = 'pick one in guard.prometheus.selector, as model_name="..."'
        problem = FleetError(FleetReason.SEVERAL_SERIES, f"the pool serves {names}; {fix}")
        raise unreadable(problem)
    return Entry(line=line, time=time, evidence=next(iter(found.values())))


def unreadable(error: FleetError) -> SourceError:
    """Name the result of a scrape that comes nearest, and say what was wrong."""
    try:
        result = ScrapeResult(error.reason)
    except ValueError:
        status = error.reason[:1].isdigit()
        result = ScrapeResult.HTTP_STATUS if status else ScrapeResult.NOT_METRICS
    return SourceError(result, f"{error.reason}: {error.detail}")
