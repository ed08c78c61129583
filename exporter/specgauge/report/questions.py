"""What is asked about a past, as PromQL; asks nothing.

Counters are asked for their highest value in each cell, so that what they had grown to before a
sidecar began anew is not lost, and that two Prometheus of a pair count once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from specgauge.model import class_names, guard_names, names
from specgauge.model.quantity import Kind, Quantity
from specgauge.model.series_name import REPLICAS
from specgauge.report.grid import Grid, Period

QUANTITY = "specgauge_quantity"

_E2E = names.HISTOGRAMS[Quantity.E2E].name
_SPEED = 'basis="concurrency"'

COUNTERS: Mapping[str, tuple[str, str, str]] = {
    "drafts": (names.COUNTERS[Quantity.DRAFTS, Kind.COUNTER].name, "", "engine"),
    "draft_tokens": (names.COUNTERS[Quantity.DRAFT_TOKENS, Kind.COUNTER].name, "", "engine"),
    "accepted_tokens": (names.COUNTERS[Quantity.ACCEPTED_TOKENS, Kind.COUNTER].name, "", "engine"),
    "generated": (names.COUNTERS[Quantity.GENERATION_TOKENS, Kind.COUNTER].name, "", "engine"),
    "requests": (
        names.COUNTERS[Quantity.REQUESTS_FINISHED, Kind.COUNTER].name,
        "",
        "engine, finished_reason",
    ),
    "decode_seconds": (names.COUNTERS[Quantity.STEP_LATENCY, Kind.SUM].name, "", "engine"),
    "baseline_seconds": (names.BASELINE_DECODE_SECONDS.name, _SPEED, "basis"),
    "covered_seconds": (names.BASELINE_COVERED_SECONDS.name, _SPEED, "basis"),
}
"""Counters of a server and model: the series, what picks among them, what is added up over."""

GAUGES: Mapping[str, tuple[str, str]] = {
    "e2e_speedup": ("avg_over_time", names.JUDGED["e2e_speedup_ratio"].name),
    "breakeven_length": ("avg_over_time", names.JUDGED["breakeven_acceptance_length"].name),
    "suggested_k": ("last_over_time", names.JUDGED["suggested_num_speculative_tokens"].name),
    "k": ("last_over_time", names.GAUGES["num_speculative_tokens"].name),
    "baseline_created": ("last_over_time", names.BASELINE_CREATED.name),
}

CLASSES: Mapping[str, str] = {
    "class_requests": class_names.REQUESTS.name,
    "class_errors": class_names.ERRORS.name,
    "class_retries": class_names.RETRIES.name,
    "class_decode_tokens": class_names.DECODE_TOKENS.name,
    "class_decode_seconds": class_names.DECODE_SECONDS.name,
    "class_drafts": class_names.DRAFTS.name,
    "class_accepted_tokens": class_names.ACCEPTED_TOKENS.name,
    "class_e2e_sum": f"{class_names.E2E.name}_sum",
    "class_e2e_count": f"{class_names.E2E.name}_count",
}
"""Counters of a class and pool; they know no model."""

ALERTS = 'ALERTS{alertstate="firing",alertname=~"Specgauge.*"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which series are asked about: matchers for those of models, and for those of servers.

    Rules make the series of `alerts`, engines those of the cache: no job of the sidecar is on
    either, and of a server only the cluster is on the latter.
    """

    models: str = ""
    servers: str = ""
    alerts: str = ""
    clusters: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One query, at every point of its grid; `what` is for people who wait.

    So many `points` are asked for at once, so that answers stay small and progress is seen.
    """

    what: str
    query: str
    grid: Grid
    points: int = 144


def questions(scope: Scope, period: Period) -> tuple[Question, ...]:
    """List what has to be asked about a period."""
    cell = milliseconds(period.step)
    return (
        Question(what="counters", query=_joined(_counters(scope, cell)), grid=period.cells),
        Question(what="gauges", query=_joined(_gauges(scope, cell)), grid=period.cells),
        Question(what="classes", query=_joined(_classes(scope, cell)), grid=period.cells),
        Question(what="latencies", query=_buckets(scope), grid=period.hours, points=48),
        Question(what="guard", query=_joined(_guard(scope)), grid=period.minutes, points=720),
        Question(what="alerts", query=_alerts(scope), grid=period.minutes, points=720),
        Question(what="cache", query=_cache(scope), grid=period.close),
    )


def milliseconds(seconds: float) -> str:
    """Write a time as every server of this API reads it."""
    return f"{round(seconds * 1000.0)}ms"


def _counters(scope: Scope, cell: str) -> Iterator[str]:
    for name, (series, extra, over) in COUNTERS.items():
        highest = f"max_over_time({_pick(series, scope.models, extra)}[{cell}])"
        yield _named(name, _once(f"sum without ({over}) ({highest})"))
    transitions = _pick(guard_names.TRANSITIONS.name, scope.servers)
    since = _pick(guard_names.STATE_SINCE.name, scope.servers)
    yield _named("watched", _once(f"max_over_time({since}[{cell}])"))
    yield _named("transitions", _once(f"max_over_time({transitions}[{cell}])"))


def _gauges(scope: Scope, cell: str) -> Iterator[str]:
    for name, (how, series) in GAUGES.items():
        yield _named(name, _once(f"{how}({_pick(series, scope.models)}[{cell}])"))
    mismatches = f"max_over_time({_pick(names.BASELINE_MISMATCH.name, scope.models)}[{cell}])"
    yield _named("mismatch", _once(mismatches))


def _classes(scope: Scope, cell: str) -> Iterator[str]:
    for name, series in CLASSES.items():
        highest = f"max_over_time({_pick(series, scope.servers)}[{cell}])"
        yield _named(name, _once(f"sum without (context) ({highest})"))


def _buckets(scope: Scope) -> str:
    return _named("bucket", _once(f"max_over_time({_pick(f'{_E2E}_bucket', scope.models)}[1h])"))


def _guard(scope: Scope) -> Iterator[str]:
    state = _pick(guard_names.GUARD_STATE.name, scope.servers)
    yield _named("state", _once(f"{state} == 1"))
    yield _named("since", _once(_pick(guard_names.STATE_SINCE.name, scope.servers)))


def _alerts(scope: Scope) -> str:
    more = f",{scope.alerts}" if scope.alerts else ""
    return _named("alert", _once(f"{ALERTS}{more}}} == 1"))


def _cache(scope: Scope) -> str:
    info = _pick("vllm:cache_config_info", scope.clusters)
    return _named("cache", _once(f"last_over_time({info}[1d])"))


def _once(expression: str) -> str:
    """Count what two Prometheus of a pair both saw once."""
    return f"max without ({', '.join(REPLICAS)}) ({expression})"


def _pick(series: str, *matchers: str) -> str:
    where = ",".join(one.strip().rstrip(",") for one in matchers if one.strip())
    return f"{series}{{{where}}}"


def _named(name: str, expression: str) -> str:
    return f'label_replace({expression}, "{QUANTITY}", "{name}", "", "")'


def _joined(parts: Iterable[str]) -> str:
    return "\nor ".join(parts)
