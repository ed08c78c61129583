"""What /metrics says of the guard, from its view; a series that is not known is not there."""

from collections.abc import Iterator

from specgauge.model import guard_names as names
from specgauge.model.guard import Phase
from specgauge.model.guard_view import GuardView
from specgauge.model.series_name import SeriesName

Sample = tuple[SeriesName, tuple[str, ...], float]


def guard_series(guard: GuardView) -> Iterator[Sample]:
    """Give each sample; the counters of outcomes, results and warnings begin at 0."""
    target, flag = (guard.target,), guard.flag
    for phase in Phase:
        yield names.GUARD_STATE, (*target, phase), float(phase is guard.phase)
    for name, value in (
        (names.FLAG_DESIRED, flag.desired),
        (names.FLAG_CONFIRMED, flag.confirmed),
        (names.NEXT_PROBE, guard.next_probe),
    ):
        if value is not None:
            yield name, target, float(value)
    yield names.STATE_SINCE, target, guard.since
    yield names.OVERRIDE, target, float(guard.phase is Phase.OVERRIDE)
    for (before, after, reason), count in guard.transitions.items():
        yield names.TRANSITIONS, (*target, before, after, reason), count
    for outcome, count in guard.assessments.items():
        yield names.ASSESSMENTS, (*target, outcome), count
    for result, count in flag.writes.items():
        yield names.FLAG_WRITES, (*target, result), count
    for reason, count in guard.warnings.items():
        yield names.WARNINGS, (*target, reason), count
