"""Where a replay's lines come from: a recorded timeline, or what a Prometheus remembers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import click

from specgauge.cli.settings import guard_of
from specgauge.cli.values import service_root, span_seconds
from specgauge.config import Config, GuardKeys
from specgauge.errors import UsageError
from specgauge.guard.settings import PrometheusSettings
from specgauge.serve.fleet_history import history, parse_past
from specgauge.serve.fleet_queries import span_of
from specgauge.serve.replay import usual_spacing
from specgauge.serve.timeline import Entry, outline, read_timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """How many entries there are, their usual spacing in seconds, and each in turn.

    `window` is what ready evidence is over, in seconds, where the source has a say in that.
    """

    count: int
    spacing: float
    entries: Iterable[Entry]
    window: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The part of a Prometheus' history that is asked for, as it was written."""

    url: str | None
    start: str | None
    end: str | None
    step: str | None

    @property
    def given(self) -> tuple[str, ...]:
        """Name the options that only make sense with a Prometheus."""
        options = {"--from": self.start, "--to": self.end, "--step": self.step}
        return tuple(name for name, value in options.items() if value is not None)


def find_source(timeline: Path | None, stretch: Stretch, config: Config, *, now: float) -> Source:
    """Take the one source that was named; raises UsageError for none, and for both."""
    if timeline is not None and stretch.url is None and not stretch.given:
        return timeline_source(timeline)
    if timeline is not None:
        raise UsageError("replay TIMELINE.jsonl or --prometheus URL --from TIME, not both")
    if stretch.url is None:
        needed = f"{stretch.given[0]} is of" if stretch.given else "without a timeline it is of"
        raise UsageError(f"{needed} no use without --prometheus URL; write a timeline or that")
    return prometheus_source(stretch.url, stretch, config, now=now)


def timeline_source(path: Path) -> Source:
    """Read a timeline once for its times, and again line by line as the replay goes on."""
    seen = list(outline(path))
    for name, lines in _ignored(seen).items():
        more = f", and on {len(lines) - 1} lines more" if len(lines) > 1 else ""
        click.echo(f"mind: {path}:{lines[0]}: {name} means nothing here{more}", err=True)
    return Source(
        count=len(seen), spacing=usual_spacing(seen), entries=read_timeline(path, any_order=True)
    )


def _ignored(entries: Iterable[Entry]) -> dict[str, list[int]]:
    """Give the lines of each key that means nothing."""
    found: dict[str, list[int]] = {}
    for entry in entries:
        for name in entry.ignored:
            found.setdefault(name, []).append(entry.line)
    return found


def prometheus_source(url: str, stretch: Stretch, config: Config, *, now: float) -> Source:
    """Ask a Prometheus, on the terms of `guard.prometheus`, for every step of a stretch."""
    if stretch.start is None:
        raise UsageError("--prometheus needs --from TIME, as --from -7d")
    guard = config.guard or GuardKeys()
    url = service_root("--prometheus", url)
    keys = guard.prometheus.model_copy(update={"url": url})
    settings = guard_of(
        config.model_copy(update={"guard": guard.model_copy(update={"prometheus": keys})})
    )
    if settings is None or settings.prometheus is None:
        raise UsageError("there is no guard to replay")
    asked = settings.prometheus
    past = parse_past(stretch.start, stretch.end or "now", _step(stretch, asked), now=now)
    entries = history(
        replace(asked, timeout=max(asked.timeout, _PATIENCE)),
        past,
        decision_window=settings.decision_window,
        margin=settings.policy.margin,
    )
    return Source(
        count=past.count,
        spacing=past.step,
        entries=entries,
        window=span_of(settings.decision_window, asked.interval).window,
    )


_PATIENCE = 60.0
"""Seconds that an answer about a long time may take; a live one has `guard.prometheus.timeout`."""


def _step(stretch: Stretch, settings: PrometheusSettings) -> float:
    """Read --step; without it a line comes as often as a guard asks."""
    return settings.interval if stretch.step is None else span_seconds("--step", stretch.step)
