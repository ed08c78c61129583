"""Alerts as values, read off their templates, and what every one of them is given in one pass.

One alert is one entry in `templates/alerts/`; a word `AT` in it stands for the level's threshold.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from specgauge.render.options import Options
from specgauge.render.quoting import go_literal, go_string
from specgauge.render.templating import fill_yaml, number
from specgauge.units import format_duration, parse_duration

_T = TypeVar("_T")

GROUPS = ("speculation", "service", "slo", "baseline", "watch", "guard")
SIMPLE = "simple"
NATIVE = "native"
NOWHERE = "none"

_DASHBOARDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "model": ("specgauge-server", ("instance", "target", "model_name")),
    "server": ("specgauge-server", ("instance", "target")),
    "sidecar": ("specgauge-server", ("instance",)),
    "fleet": ("specgauge-fleet", ("model_name",)),
    "engine": ("specgauge-fleet", ("model_name",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert at one level; `subject` says whose it is and picks the dashboard."""

    name: str
    group: str
    level: str
    subject: str
    expr: str
    wait: float
    summary: str
    description: str
    keep_firing: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)


def alerts(options: Options, *groups: str, **more: object) -> tuple[Alert, ...]:
    """Read the alerts of some groups, those of the whole set where none is named."""
    return tuple(
        alert
        for group in groups or GROUPS
        for entry in fill_yaml(f"alerts/{group}.yaml", options, **more)
        for alert in _levels(entry, group, options)
        if alert.level != NOWHERE
    )


def levels_known(options: Options) -> frozenset[str]:
    """Name every alert, and each of its levels as `Alert/level`."""
    plain = replace(options, severities={}, waits={})
    found = [
        *alerts(plain),
        *alerts(plain, SIMPLE),
        *alerts(plain, NATIVE, range=None, has=lambda _: True),
    ]
    return frozenset(name for one in found for name in (one.name, f"{one.name}/{one.level}"))


def prometheus_rule(alert: Alert, options: Options) -> dict[str, Any]:
    """Write one alert as a rule of Prometheus, with what every alert carries."""
    rule: dict[str, Any] = {"alert": alert.name, "expr": alert.expr}
    if alert.wait:
        rule["for"] = format_duration(alert.wait)
    if alert.keep_firing:
        rule["keep_firing_for"] = format_duration(alert.keep_firing)
    rule["labels"] = labels_of(alert, options)
    rule["annotations"] = annotations_of(alert, options)
    return rule


def labels_of(alert: Alert, options: Options) -> dict[str, str]:
    """Give the labels that an alert adds to those of its series."""
    given = {name: go_literal(value) for name, value in options.labels.items()}
    severity = options.levels.get(alert.level, alert.level)
    team = _team(alert, options)
    return {**given, **alert.labels, "severity": go_literal(severity), "team": team}


def annotations_of(alert: Alert, options: Options) -> dict[str, str]:
    """Give the annotations, with links to the runbook's heading and the right dashboard."""
    return {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": f"{go_literal(options.runbook_url)}#{alert.name.lower()}",
        "dashboard_url": dashboard_url(alert, options),
    }


def dashboard_url(alert: Alert, options: Options) -> str:
    """Link to the dashboard on which the alert's subject is selected."""
    dashboard, names = _DASHBOARDS[alert.subject]
    chosen = "&".join(f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in names)
    return f"{go_literal(options.grafana_url)}/d/{dashboard}?{chosen}"


def _levels(entry: Mapping[str, Any], group: str, options: Options) -> Iterator[Alert]:
    for level in entry["levels"]:
        name, own = entry["alert"], level["level"]
        override = _override(options.severities, name, own)
        at = number(level["at"]) if "at" in level else "AT"
        labels = level.get("labels", {})
        wait = _override(options.waits, name, own)
        yield Alert(
            name=name,
            group=group,
            level=own if override is None else override,
            subject=entry["subject"],
            expr=re.sub(r"\bAT\b", at, level.get("expr", entry.get("expr"))).strip(),
            wait=parse_duration(level.get("for", "0s")) if wait is None else wait,
            keep_firing=parse_duration(level.get("keep_firing_for", "0s")),
            summary=entry["summary"],
            description=_described(entry["description"], at, labels),
            labels=labels,
        )


def _described(text: str, at: str, labels: Mapping[str, str]) -> str:
    """Put in what Prometheus cannot: the threshold, and labels that the alert itself adds."""
    for name, value in labels.items():
        text = text.replace(f"{{{{ $labels.{name} }}}}", value)
    return " ".join(re.sub(r"\bAT\b", at, text).split())


def _override(values: Mapping[str, _T], name: str, level: str) -> _T | None:
    return values.get(f"{name}/{level}", values.get(name))


def _team(alert: Alert, options: Options) -> str:
    """Name the team; where models have their own, Prometheus chooses by the alert's model."""
    if not options.teams or "model_name" not in _DASHBOARDS[alert.subject][1]:
        return go_literal(options.team)
    cases = "{{ else ".join(
        f"if eq $labels.model_name {go_string(model)} }}}}{{{{ {go_string(team)} }}}}"
        for model, team in options.teams.items()
    )
    return f"{{{{ {cases}{{{{ else }}}}{{{{ {go_string(options.team)} }}}}{{{{ end }}}}"
