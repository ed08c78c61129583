"""The alerts as Grafana's own rules, in the file that Grafana is provisioned from.

They ask the same Prometheus for the same expressions; what is recorded is recorded there.
"""

import math
import re
from typing import Any

from specgauge.render.alert import GROUPS, Alert, alerts, annotations_of, labels_of
from specgauge.render.files import RenderedFile, to_yaml
from specgauge.render.options import Options
from specgauge.render.rules import HEAD
from specgauge.units import format_duration

FOLDER = "specgauge"
_TICK = 10
_VALUE = re.compile(r"(\{\{-? *)\$value\b")
_LOOKS_BACK = {"from": 600, "to": 0}
_EXPRESSION = {"type": "__expr__", "uid": "__expr__"}
_ANY_SAMPLE = "is_number($A) || is_nan($A) || is_inf($A)"
"""As in Prometheus an alert fires for every sample there is, also one of 0."""


def grafana_alerts(options: Options) -> tuple[RenderedFile, ...]:
    """Make the one file that holds them all."""
    groups = [made for name in GROUPS if (made := _group(name, options))["rules"]]
    text = HEAD + to_yaml({"apiVersion": 1, "groups": groups})
    return (RenderedFile(path="dashboards/grafana-alerts.yaml", text=text),)


def _group(name: str, options: Options) -> dict[str, Any]:
    found: tuple[Alert, ...] = alerts(options, name)
    every = math.ceil(options.evaluation_interval / _TICK) * _TICK  # Grafana knows no other
    return {
        "orgId": 1,
        "name": f"specgauge-alerts-{name}",
        "folder": FOLDER,
        "interval": format_duration(every),
        "rules": [grafana_rule(alert, options) for alert in found],
    }


def grafana_rule(alert: Alert, options: Options) -> dict[str, Any]:
    """Write one alert as a rule of Grafana; titles have to differ, so each has its level."""
    parts = [alert.name, alert.level, *alert.labels.values()]
    rule: dict[str, Any] = {
        "uid": "-".join(["sg", alert.name.removeprefix("Specgauge"), *parts[1:]]).lower(),
        "title": " ".join(parts),
        "condition": "B",
        "data": _data(alert, options),
        "noDataState": "OK",
        "execErrState": "Error",
        "for": format_duration(alert.wait),
    }
    if alert.keep_firing:
        rule["keepFiringFor"] = format_duration(alert.keep_firing)
    given = {"alert": alert.name, **labels_of(alert, options)}
    rule["labels"] = {name: _literal(value) for name, value in given.items()}
    rule["annotations"] = {
        name: _VALUE.sub(r"\1$values.A.Value", text)
        for name, text in annotations_of(alert, options).items()
    }
    rule["isPaused"] = False
    return rule


def _data(alert: Alert, options: Options) -> list[dict[str, Any]]:
    asks = {"refId": "A", "expr": alert.expr, "instant": True, "range": False}
    says = {"refId": "B", "type": "math", "expression": _ANY_SAMPLE, "datasource": _EXPRESSION}
    return [
        _query("A", _literal(options.datasource), asks),
        _query("B", _EXPRESSION["uid"], says),
    ]


def _query(name: str, source: str, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "refId": name,
        "relativeTimeRange": dict(_LOOKS_BACK),
        "datasourceUid": source,
        "model": model,
    }


def _literal(text: str) -> str:
    """Write `$` twice, where the file's reader would put in a variable of its environment."""
    return text.replace("$", "$$")
