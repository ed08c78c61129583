"""The dashboards: variables, annotations and links that all have, around panels of templates.

No file has `__inputs`: the data source is a variable, so the same file is imported and provisioned.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from specgauge.render.files import RenderedFile
from specgauge.render.options import Options
from specgauge.render.panels import (
    DATASOURCE,
    STATES,
    Panel,
    link,
    panel_json,
    row_json,
)
from specgauge.render.templating import fill, fill_yaml, selector

NAMES = ("fleet", "server", "rollout")
_WIDTH = 24
_GRAFANA = "11.0.0"
_SCHEMA = 39


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A variable: what it is filled from, and whether several values or all may be chosen."""

    name: str
    label: str
    query: str
    many: bool = False

    @property
    def matcher(self) -> str:
        """How a selector asks for what is chosen."""
        return f'{self.name}{"=~" if self.many else "="}"${self.name}"'


def dashboards(options: Options) -> Iterator[RenderedFile]:
    """Make every dashboard, and the page that says how to load them."""
    for name in NAMES:
        text = json.dumps(dashboard(name, options), indent=2, ensure_ascii=False)
        yield RenderedFile(path=f"dashboards/{name}.json", text=text + "\n")
    yield RenderedFile(path="dashboards/README.md", text=fill("dashboards/readme.md", options))


def dashboard(name: str, options: Options) -> dict[str, Any]:
    """Write one dashboard."""
    choices = _choices(name, options)
    found = fill_yaml(f"dashboards/{name}.yaml", options, **_selectors(choices, options))
    panels = list(_placed(found["rows"], options))
    return {
        "__requires": _requires(panels),
        "uid": f"specgauge-{name}",
        "title": found["title"],
        "description": found["description"],
        "tags": ["specgauge", "vllm", "speculative-decoding"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": found["since"], "to": "now"},
        "timezone": "browser",
        "annotations": {"list": [_annotation(one) for one in found["annotations"]]},
        "links": _links(options),
        "templating": {"list": [_source(options), *map(_variable, choices)]},
        "panels": panels,
    }


def _choices(name: str, options: Options) -> tuple[Choice, ...]:
    """Give the variables that the alerts' links set."""
    ours, all_models = _spoken(options), _spoken(replace(options, models=()))
    tokens = "specgauge_generation_tokens_total"
    if name != "server":
        query = f"label_values({tokens}{selector(ours)}, model_name)"
        return (Choice(name="model_name", label="Model", query=query, many=name == "fleet"),)
    here = 'instance="$instance"'
    found = {
        "instance": f"specgauge_target_up{selector(all_models)}",
        "target": f"specgauge_target_up{selector(all_models, here)}",
        "model_name": tokens + selector(ours, here, 'target="$target"'),
    }
    labels = {"instance": "Sidecar", "target": "Target", "model_name": "Model"}
    return tuple(
        Choice(name=one, label=labels[one], query=f"label_values({series}, {one})")
        for one, series in found.items()
    )


def _selectors(choices: tuple[Choice, ...], options: Options) -> dict[str, object]:
    """Give templates matchers of what is chosen.

    `m` is for series with a model, `s` for those without one; `r` for what rules have recorded,
    which need not carry the labels that options select by.
    """
    ours, all_models = _spoken(options), _spoken(replace(options, models=()))
    bare = replace(options, selector="", models=())
    chosen = [one.matcher for one in choices]
    server = [one.matcher for one in choices if one.name != "model_name"]
    return {
        "m": lambda *more: selector(ours, *chosen, *more),
        "s": lambda *more: selector(all_models, *server, *more),
        "r": lambda *more: selector(bare, *chosen, *more),
        "states": STATES,
    }


def _spoken(options: Options) -> Options:
    """Write `$` another way in matchers, as Grafana takes it for the start of a variable."""
    matchers = re.sub(r"\$(?=[\w{])", r"\\x24", selector(options)[1:-1])
    return replace(options, selector=matchers, models=())


def _placed(rows: list[dict[str, Any]], options: Options) -> Iterator[dict[str, Any]]:
    """Put panels side by side, as many as fit, below the heading of their row."""
    y = 0
    for row in rows:
        yield row_json(row["id"], row["title"], y)
        x, y = 0, y + 1
        for entry in row["panels"]:
            panel = Panel(**entry)
            if x + panel.width > _WIDTH:
                x, y = 0, y + row["height"]
            place = {"h": row["height"], "w": panel.width, "x": x, "y": y}
            yield panel_json(panel, options, place)
            x += panel.width
        y += row["height"]


def _requires(panels: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Name what an import has to find."""
    kinds = sorted({panel["type"] for panel in panels} - {"row"})
    return [
        {"type": "grafana", "id": "grafana", "name": "Grafana", "version": _GRAFANA},
        {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
        *({"type": "panel", "id": kind, "name": kind, "version": ""} for kind in kinds),
    ]


def _annotation(entry: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": entry["name"],
        "datasource": dict(DATASOURCE),
        "enable": True,
        "iconColor": entry["color"],
        "expr": entry["expr"].strip(),
        "titleFormat": entry["name"],
        "textFormat": entry["text"],
    }


def _links(options: Options) -> list[dict[str, Any]]:
    others = {"type": "dashboards", "tags": ["specgauge"], "icon": "external link"}
    return [
        link("specgauge", "", **others, asDropdown=True, targetBlank=False, keepTime=True),
        link("Runbook", options.runbook_url),
    ]


def _source(options: Options) -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {"selected": True, "text": options.datasource, "value": options.datasource},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "refresh": 1,
    }


def _variable(choice: Choice) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": choice.name,
        "label": choice.label,
        "type": "query",
        "datasource": dict(DATASOURCE),
        "query": {"query": choice.query, "refId": f"variable-{choice.name}"},
        "hide": 0,
        "includeAll": choice.many,
        "multi": choice.many,
        "refresh": 2,
        "sort": 1,
    }
    if choice.many:
        everything = {"selected": True, "text": ["All"], "value": ["$__all"]}
        made |= {"allValue": ".*", "current": everything}
    return made
