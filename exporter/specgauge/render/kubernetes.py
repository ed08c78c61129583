"""The same for Kubernetes: rules, scraping and dashboards as objects, and the sidecar in a pod."""

from collections.abc import Iterable, Iterator
from typing import Any

from specgauge.render.files import RenderedFile, to_yaml
from specgauge.render.options import Options
from specgauge.render.rules import HEAD, alert_groups, recording_groups
from specgauge.render.templating import fill

FOLDER = "rules/kubernetes"
_LABELS = {"app.kubernetes.io/name": "specgauge"}
_TEMPLATES = (
    "podmonitor",
    "configmap",
    "rbac",
    "networkpolicy",
    "sidecar/flag",
    "sidecar/deployment-patch",
)


def kubernetes(options: Options, dashboards: Iterable[RenderedFile]) -> Iterator[RenderedFile]:
    """Make one file for each thing that is applied by itself."""
    yield _file("prometheusrule", to_yaml(_rule(options)))
    for name in _TEMPLATES:
        text = fill(f"kubernetes/{name}.yaml", options, relabelled=relabelled)
        yield _file(name, text)
    for one in dashboards:
        folder, _, file = one.path.rpartition("/")
        name = file.removesuffix(".json")
        if folder == "dashboards" and name != file:
            yield _file(f"dashboard-{name}", to_yaml(_dashboard(name, one.text)))


def relabelled(text: str) -> str:
    """Write a text for the place of a replacement, in which a dollar names a group."""
    return text.replace("$", "$$")


def _file(name: str, text: str) -> RenderedFile:
    return RenderedFile(path=f"{FOLDER}/{name}.yaml", text=HEAD + text)


def _rule(options: Options) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "specgauge", "labels": _LABELS},
        "spec": {"groups": [*recording_groups(options), *alert_groups(options)]},
    }


def _dashboard(name: str, text: str) -> dict[str, Any]:
    """Write a dashboard the way Grafana's own sidecar looks for it, by a label."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"specgauge-dashboard-{name}",
            "labels": {**_LABELS, "grafana_dashboard": "1"},
        },
        "data": {f"specgauge-{name}.json": text},
    }
