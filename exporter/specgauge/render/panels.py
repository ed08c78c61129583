"""One entry of a dashboard's template as the JSON that Grafana calls a panel; asks for nothing.

What all panels of a kind have in common stands here, once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specgauge.render.options import Options

DATASOURCE: Mapping[str, str] = {"type": "prometheus", "uid": "${datasource}"}
"""The variable of every dashboard, so that no file names anybody's data source."""

STATES: Mapping[str, tuple[str, Mapping[str, tuple[int, str]]]] = {
    "guard": (
        "specgauge_guard_state",
        {
            "starting": (1, "blue"),
            "active": (2, "green"),
            "fallback": (3, "orange"),
            "probing": (4, "yellow"),
            "latched": (5, "red"),
            "override": (6, "purple"),
        },
    ),
    "verdict": (
        "specgauge_verdict",
        {
            "pays": (11, "green"),
            "even": (12, "yellow"),
            "costs": (13, "red"),
            "unknown": (14, "text"),
        },
    ),
    "speculation": (
        "specgauge_speculation_state",
        {
            "active": (21, "green"),
            "inactive": (22, "orange"),
            "idle": (23, "blue"),
            "absent": (24, "text"),
            "not_speculative": (25, "text"),
            "unknown": (26, "text"),
        },
    ),
    "flag": ("", {"off": (30, "orange"), "on": (31, "green")}),
}
"""State sets as one number each, for a panel shows numbers; every code has one meaning."""

_LEGEND = {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True}
_MANY = {"mode": "multi", "sort": "desc"}
_ONE = {"mode": "single", "sort": "none"}

_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "alertlist": {
        "alertName": "Specgauge",
        "groupMode": "default",
        "maxItems": 20,
        "sortOrder": 3,
        "stateFilter": {"error": True, "firing": True, "noData": False, "pending": True},
        "viewMode": "list",
    },
    "barchart": {
        "barWidth": 0.9,
        "groupWidth": 0.7,
        "legend": _LEGEND,
        "orientation": "vertical",
        "showValue": "auto",
        "stacking": "none",
        "tooltip": _ONE,
    },
    "stat": {
        "colorMode": "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    },
    "state-timeline": {
        "alignValue": "left",
        "legend": _LEGEND,
        "mergeValues": True,
        "rowHeight": 0.8,
        "showValue": "auto",
        "tooltip": _ONE,
    },
    "table": {"cellHeight": "sm", "showHeader": True},
    "timeseries": {"legend": _LEGEND, "tooltip": _MANY},
}

_CUSTOM: Mapping[str, Mapping[str, Any]] = {
    "barchart": {"fillOpacity": 80, "lineWidth": 1},
    "state-timeline": {"fillOpacity": 80, "lineWidth": 0},
    "table": {"align": "auto", "filterable": True},
    "timeseries": {
        "drawStyle": "line",
        "fillOpacity": 8,
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "showPoints": "never",
        "spanNulls": False,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What a template says of one panel; `id` stays for ever, as links and annotations name it.

    `thresholds` are (from, colour), the first from nothing; `states` names state sets to spell out;
    `fields` is by name of a series or column what differs there; `runbook` is an alert.
    """

    id: int
    title: str
    kind: str
    width: int
    description: str
    queries: Sequence[Mapping[str, Any]] = ()
    unit: str = "short"
    minimum: float | None = None
    maximum: float | None = None
    decimals: int | None = None
    thresholds: Sequence[Sequence[Any]] = ()
    states: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    custom: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    transformations: Sequence[Mapping[str, Any]] = ()
    runbook: str = ""


def panel_json(panel: Panel, options: Options, place: Mapping[str, int]) -> dict[str, Any]:
    """Write one panel at its place."""
    made: dict[str, Any] = {
        "id": panel.id,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "gridPos": dict(place),
    }
    if panel.runbook:
        made["links"] = [_runbook(panel.runbook, options)]
    made["options"] = {**_OPTIONS[panel.kind], **panel.options}
    if panel.queries:
        made["datasource"] = dict(DATASOURCE)
        made["fieldConfig"] = {"defaults": _defaults(panel), "overrides": _overrides(panel)}
        made["targets"] = [_target(number, one) for number, one in enumerate(panel.queries)]
    if panel.transformations:
        made["transformations"] = list(panel.transformations)
    return made


def row_json(number: int, title: str, y: int) -> dict[str, Any]:
    """Write the heading above panels."""
    place = {"h": 1, "w": 24, "x": 0, "y": y}
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": place,
        "panels": [],
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    custom = {**_CUSTOM.get(panel.kind, {}), **panel.custom}
    given = {"min": panel.minimum, "max": panel.maximum, "decimals": panel.decimals}
    found: dict[str, Any] = {"unit": panel.unit}
    found |= {name: value for name, value in given.items() if value is not None}
    if panel.thresholds:
        found |= {"color": {"mode": "thresholds"}, "thresholds": _steps(panel.thresholds)}
    if panel.thresholds and panel.kind == "timeseries":
        found["color"] = {"mode": "palette-classic"}
        custom["thresholdsStyle"] = {"mode": "dashed"}
    if panel.states:
        found["mappings"] = [_mapping(name) for name in panel.states]
    return {**found, "custom": custom} if custom else found


def _steps(thresholds: Sequence[Sequence[Any]]) -> dict[str, Any]:
    steps = [{"color": color, "value": value} for value, color in thresholds]
    return {"mode": "absolute", "steps": steps}


def _mapping(name: str) -> dict[str, Any]:
    """Spell out the codes of one state set."""
    texts = {
        str(code): {"text": text, "color": color, "index": code}
        for text, (code, color) in STATES[name][1].items()
    }
    return {"type": "value", "options": texts}


def _overrides(panel: Panel) -> list[dict[str, Any]]:
    return [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [_property(key, value) for key, value in given.items()],
        }
        for name, given in panel.fields.items()
    ]


def _property(key: str, value: Any) -> dict[str, Any]:
    match key:
        case "thresholds":
            return {"id": key, "value": _steps(value)}
        case "states":
            return {"id": "mappings", "value": [_mapping(name) for name in value]}
        case _:
            return {"id": key, "value": value}


def _target(number: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """Write one query; a table asks for one moment, everything else for the whole time."""
    now = bool(query.get("now", False))
    return {
        "refId": chr(ord("A") + number),
        "datasource": dict(DATASOURCE),
        "editorMode": "code",
        "expr": query["expr"].strip(),
        "format": "table" if now else "time_series",
        "instant": now,
        "range": not now,
        "legendFormat": query.get("legend", "__auto"),
    }


def link(title: str, url: str, **more: Any) -> dict[str, Any]:
    """Write a link the way dashboards and panels alike have it."""
    return {
        "title": title,
        "type": "link",
        "icon": "doc",
        "tooltip": "",
        "url": url,
        "tags": [],
        "asDropdown": False,
        "targetBlank": True,
        "includeVars": False,
        "keepTime": False,
        **more,
    }


def _runbook(alert: str, options: Options) -> dict[str, Any]:
    return link(f"Runbook: {alert}", f"{options.runbook_url}#{alert.lower()}")
