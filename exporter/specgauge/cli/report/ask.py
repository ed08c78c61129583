"""Asks a Prometheus all that a report needs, and sorts the answers; reckons nothing."""

import asyncio
from collections.abc import Iterator

from specgauge.cli.progress import counting
from specgauge.cli.report.plan import Plan
from specgauge.errors import SourceError, UsageError
from specgauge.guard.flags.protocol import FlagError
from specgauge.guard.flags.secret import read_token
from specgauge.model.series_name import MODEL
from specgauge.report.grid import Answers, Grid, Line, Period
from specgauge.report.questions import QUANTITY, Question, Scope, questions
from specgauge.serve.fleet_answer import FleetError, Sample
from specgauge.serve.fleet_api import PrometheusApi
from specgauge.serve.fleet_history import unreadable
from specgauge.serve.fleet_queries import matchers, servers_alone

Key = frozenset[tuple[str, str]]

_FIXES = {
    "answered 404": "write Prometheus' address without /api/v1",
    "too many samples": "pick fewer series with --selector",
    "larger than": "pick fewer series with --selector",
}


def ask(plan: Plan) -> Iterator[Answers]:
    """Give the answers about the period, and about the one before where it is wanted.

    Raises SourceError where there is no whole answer, UsageError where the token cannot be read.
    """
    selector = plan.server.selector or ""
    cluster = plan.terms.cluster_label
    scope = Scope(
        models=selector,
        servers=servers_alone(selector),
        alerts=matchers(selector, lambda label: label not in {MODEL, "job"}),
        clusters=matchers(selector, lambda label: label == cluster),
    )
    periods = [plan.period, *([plan.before] if plan.before else [])]
    asked = [(period, one) for period in periods for one in questions(scope, period)]
    total = sum(len(list(one.grid.chunks(one.points))) for _, one in asked)
    api = PrometheusApi(plan.server)
    _read_token(plan, api.place)
    with asyncio.Runner() as runner:
        steps = counting(_steps(asked), total, f"asking {api.place}")
        found: dict[Period, dict[str, dict[Key, dict[int, float]]]] = {one: {} for one in periods}
        for period, question, start, end in steps:
            call = api.query_range(question.query, start=start, end=end, step=question.grid.step)
            try:
                answer = runner.run(call)
            except FleetError as error:
                raise _told(error, question) from error
            _sort(answer, question.grid, found[period])
    for period in periods:
        yield Answers(period=period, lines=_lines(found[period]))


def _read_token(plan: Plan, place: str) -> None:
    """Find out at once that the token's file is none: it is no fault of the server."""
    if plan.server.token_file is None:
        return
    try:
        read_token(plan.server.token_file, place)
    except FlagError as error:
        raise UsageError(error.detail) from None


def _steps(
    asked: list[tuple[Period, Question]],
) -> Iterator[tuple[Period, Question, float, float]]:
    for period, question in asked:
        for start, end in question.grid.chunks(question.points):
            yield period, question, start, end


def _told(error: FleetError, question: Question) -> SourceError:
    """Say in one line what was asked in vain."""
    fix = next((f"; {fix}" for words, fix in _FIXES.items() if words in error.detail), "")
    return SourceError(unreadable(error).result, f"{error.detail}{fix} (asked for {question.what})")


def _sort(
    answer: dict[float, list[Sample]],
    grid: Grid,
    found: dict[str, dict[Key, dict[int, float]]],
) -> None:
    """Put samples to the series that they are of."""
    keys: dict[int, tuple[str, Key]] = {}  # by the labels' identity: they are one object a series
    for time, samples in answer.items():
        for sample in samples:
            known = keys.get(id(sample.labels))
            if known is None:
                name = sample.labels.get(QUANTITY, "")
                known = keys[id(sample.labels)] = (name, frozenset(sample.labels.items()))
            series = found.setdefault(known[0], {}).setdefault(known[1], {})
            series[grid.index(time)] = sample.value


def _lines(found: dict[str, dict[Key, dict[int, float]]]) -> dict[str, tuple[Line, ...]]:
    return {
        name: tuple(Line(labels=dict(key), points=points) for key, points in series.items())
        for name, series in found.items()
    }
