"""The rule files for Prometheus: what is recorded of the sidecar's series, and the alerts."""

from collections.abc import Iterator
from typing import Any

from specgauge.render.alert import GROUPS, SIMPLE, Alert, alerts, prometheus_rule
from specgauge.render.files import RenderedFile, to_yaml
from specgauge.render.options import Options
from specgauge.render.templating import fill, fill_yaml
from specgauge.units import format_duration

HEAD = "# Made by `specgauge render`; change the configuration, not this file.\n"


def rules(options: Options) -> Iterator[RenderedFile]:
    """Make the whole set, the simple pair, and the runbook that belongs to both."""
    groups = {"groups": [*recording_groups(options), *alert_groups(options)]}
    yield RenderedFile(path="rules/specgauge.rules.yaml", text=HEAD + to_yaml(groups))
    simple = {"groups": alert_groups(options, SIMPLE)}
    yield RenderedFile(path="rules/simple.rules.yaml", text=HEAD + to_yaml(simple))
    yield RenderedFile(path="rules/README.md", text=fill("runbook.md", options))


def recording_groups(options: Options) -> list[dict[str, Any]]:
    """Make the recording rules: a group for each window, the longer the less often."""
    short, medium, long = options.short_window, options.medium_window, options.long_window
    evaluation = options.evaluation_interval
    found = [
        group(f"specgauge-{format_duration(window)}", interval, _recorded(options, window))
        for window, interval in (
            (short, evaluation),
            (medium, max(evaluation, 60.0)),
            (long, max(evaluation, 120.0)),
        )
    ]
    slo = fill_yaml("recording/slo.yaml", options)
    return [*found, group("specgauge-slo", max(evaluation, 60.0), slo)]


def alert_groups(options: Options, *groups: str) -> list[dict[str, Any]]:
    """Make the groups of alerts; one whose alerts are all switched off is left out."""
    made: list[dict[str, Any]] = []
    for name in groups or GROUPS:
        found: tuple[Alert, ...] = alerts(options, name)
        written = [prometheus_rule(alert, options) for alert in found]
        if written:
            made.append(group(f"specgauge-alerts-{name}", options.evaluation_interval, written))
    return made


def _recorded(options: Options, window: float) -> list[dict[str, Any]]:
    text = format_duration(window)
    found: list[dict[str, Any]] = fill_yaml(
        "recording/window.yaml", options, w=text, seconds=window
    )
    return [{**rule, "expr": rule["expr"].strip()} for rule in found]


def group(name: str, interval: float, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Write a group of rules."""
    return {"name": name, "interval": format_duration(interval), "rules": found}
