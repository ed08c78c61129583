"""All figures of a period, group by group; recommends nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specgauge.report.acceptance import Acceptance, acceptance
from specgauge.report.alerts import Alert, alerts
from specgauge.report.classes import ClassFigures, classes
from specgauge.report.coverage import Coverage, coverage
from specgauge.report.fallbacks import Fallback, fallbacks
from specgauge.report.grid import Answers, Line, Period
from specgauge.report.latency import Latency, latency
from specgauge.report.servers import GroupName, Server, belongs, groups_of
from specgauge.report.speed import Speed, speed
from specgauge.report.state import (
    BaselineState,
    CacheState,
    DraftLength,
    baseline_state,
    breakeven,
    cache_state,
    draft_length,
)
from specgauge.report.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """One model of one cluster; GPU-hours are at so many GPUs a server as the terms say.

    Servers that drafted nothing, as those of a standard pool, count for coverage alone.
    """

    name: GroupName
    coverage: Coverage
    acceptance: Acceptance
    speed: Speed
    latency: Latency
    gpu_hours: float
    fallbacks: tuple[Fallback, ...]
    draft_length: DraftLength
    breakeven_length: float | None
    baseline: BaselineState
    cache: CacheState

    @property
    def fallback_count(self) -> int:
        """How many fallbacks began within the period."""
        return sum(not one.before for one in self.fallbacks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All groups of a period, and what belongs to no model.

    `strays` are fallbacks of guards that watch no server of any group, as those of whole pools.
    """

    period: Period
    groups: tuple[GroupFigures, ...]
    strays: tuple[Fallback, ...]
    classes: tuple[ClassFigures, ...]
    alerts: tuple[Alert, ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to report on."""
        return not any(group.coverage.share for group in self.groups)

    def group(self, name: GroupName) -> GroupFigures | None:
        """Give the figures of a group, if it was there."""
        return next((one for one in self.groups if one.name == name), None)


def figures(answers: Answers, terms: Terms) -> Figures:
    """Reckon everything that the answers allow."""
    events = fallbacks(answers)
    found = groups_of(answers, terms.cluster_label)
    return Figures(
        period=answers.period,
        groups=tuple(
            _group(name, servers, answers, events, terms) for name, servers in found.items()
        ),
        strays=tuple(
            one
            for one in events
            if not any(belongs(one.guard, servers) for servers in found.values())
        ),
        classes=classes(answers, terms.cluster_label),
        alerts=alerts(answers),
    )


def _group(
    name: GroupName,
    servers: Sequence[Server],
    answers: Answers,
    events: Sequence[Fallback],
    terms: Terms,
) -> GroupFigures:
    period = answers.period
    ours = [one for one in servers if one.drafted]
    speeds = speed(ours, period)
    model, cluster = {"model_name": name.model_name}, {terms.cluster_label: name.cluster}
    buckets = _of(answers.of("bucket"), model | cluster)
    return GroupFigures(
        name=name,
        coverage=coverage(servers, period),
        acceptance=acceptance(servers, period, enough=terms.min_draft_tokens),
        speed=speeds,
        latency=latency(ours, [line for line in buckets if belongs(line.labels, ours)]),
        gpu_hours=speeds.worth.server_seconds * terms.gpus_per_server / 3600.0,
        fallbacks=tuple(one for one in events if belongs(one.guard, servers)),
        draft_length=draft_length(ours),
        breakeven_length=breakeven(ours),
        baseline=baseline_state(ours, period),
        cache=cache_state(
            _of(answers.of("cache"), cluster), terms.baseline_blocks.get(name.model_name)
        ),
    )


def _of(lines: Sequence[Line], labels: Mapping[str, str]) -> list[Line]:
    return [
        line
        for line in lines
        if all(line.labels.get(name, "") == value for name, value in labels.items())
    ]
