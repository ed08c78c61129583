"""The objects for Kubernetes: held against published schemas, and against one another."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from tests.ruling import ROOT, read

from specgauge import __version__
from specgauge.cli.settings import settings_of
from specgauge.config import load
from specgauge.errors import ConfigError
from specgauge.render.files import RenderedFile
from specgauge.render.kubernetes import kubernetes
from specgauge.render.options import Options
from specgauge.render.registry import KINDS

DATA = Path(__file__).parent / "data"
FOLDER = ROOT / "rules/kubernetes"
STATE = "/var/lib/specgauge"
VERSIONS = ("1.29", "1.37")
NASTY: Mapping[str, Any] = {
    "job": 'a: "b" $1 #',
    "engine_job": "{vllm}",
    "image": "host:5000/specgauge@sha256:0 #",
    "team": "{{ x }}",
    "labels": {"site": 'a"b\n'},
    "models": ('m"{}', "n"),
}
DASHBOARD = RenderedFile(path="dashboards/fleet.json", text='{"title": "a\\u2028b"}\n')
OTHERS = (
    RenderedFile(path="dashboards/grafana-alerts.yaml", text="a: 1"),
    RenderedFile(path="dashboards/import/fleet.json", text="{}"),
)
OPERATOR = {"PrometheusRule": "prometheusrule", "PodMonitor": "podmonitor"}
"""Kinds of the Prometheus operator, whose schemas come from cloudcoil's models, line 0.80."""

ENGINE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec:
  selector: {matchLabels: {app: vllm}}
  template:
    metadata: {labels: {app: vllm}}
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai
          ports: [{name: http, containerPort: 8000}]
          resources: {limits: {nvidia.com/gpu: "1"}}
      volumes:
        - {name: cache, emptyDir: {}}
"""


def objects(**options: Any) -> Iterator[tuple[str, Any]]:
    """List every object that is rendered, with the file it stands in; the patch applied."""
    for one in kubernetes(Options(**options), (DASHBOARD, *OTHERS)):
        for document in yaml.load_all(one.text, Loader=yaml.CSafeLoader):
            patch = one.path.endswith("-patch.yaml")
            yield one.path, patched(yaml.safe_load(ENGINE), document) if patch else document


def patched(base: Any, patch: Any) -> Any:
    """Apply a strategic merge patch, whose lists here are all merged by name."""
    if isinstance(base, dict) and isinstance(patch, dict):
        both = {key: patched(value, patch.get(key)) for key, value in base.items()}
        return both | {key: value for key, value in patch.items() if key not in base}
    if isinstance(base, list) and isinstance(patch, list):
        return [*{one["name"]: one for one in (*base, *patch)}.values()]
    return base if patch is None else patch


def by_kind(kind: str, name: str | None = None, **options: Any) -> Any:
    """Give the one object of a kind."""
    (found,) = (
        one
        for _, one in objects(**options)
        if one["kind"] == kind and name in (None, one["metadata"]["name"])
    )
    return found


def closed(node: Any) -> Any:
    """Let a schema refuse fields that it does not know."""
    if isinstance(node, list):
        return [closed(one) for one in node]
    if not isinstance(node, dict):
        return node
    made = {key: closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        made["additionalProperties"] = False
    return made


def check(document: Any, version: str) -> None:
    """Hold an object against its schema; one that has none is a fault."""
    name = OPERATOR.get(document["kind"])
    if name is None:
        kubernetes_validate.validate(document, version, strict=True)
    else:
        schema = json.loads((DATA / f"{name}.schema.json").read_text())
        jsonschema.Draft202012Validator(closed(schema)).validate(document)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("options", [{}, NASTY], ids=["default", "nasty names"])
def test_objects_are_valid(options: Mapping[str, Any], version: str) -> None:
    """Every object is of its schema, of which none knows a field that is not in it."""
    seen = set()
    for _, document in objects(**options):
        check(document, version)
        seen.add(document["kind"])
    assert seen == {
        *("PrometheusRule", "PodMonitor", "ConfigMap", "ServiceAccount", "Role", "RoleBinding"),
        *("NetworkPolicy", "Deployment"),
    }


@pytest.mark.parametrize(
    ("kind", "break_it"),
    [
        ("PrometheusRule", lambda one: one["spec"]["groups"][0].update(intervall="1m")),
        ("PrometheusRule", lambda one: one["spec"]["groups"][0]["rules"][0].pop("expr")),
        ("PodMonitor", lambda one: one["spec"]["podMetricsEndpoints"][0].update(portt="x")),
        ("NetworkPolicy", lambda one: one["spec"].update(ingresss=[])),
        ("Deployment", lambda one: sidecar(one).update(startupprobe={})),
        ("Deployment", lambda one: sidecar(one)["resources"].update(limits=["1"])),
    ],
    ids=["misspelt", "no expression", "misspelt too", "policy", "probe", "wrong type"],
)
def test_schemas_mind(kind: str, break_it: Any) -> None:
    """The checks above do find a fault."""
    document = by_kind(kind)
    break_it(document)
    with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
        check(document, VERSIONS[-1])


def test_kinds_without_schema_are_faults() -> None:
    """What nobody can check does not pass."""
    with pytest.raises(kubernetes_validate.SchemaNotFoundError):
        check({"apiVersion": "example.com/v1", "kind": "Nothing"}, VERSIONS[-1])


def test_repository_is_current() -> None:
    """What lies in the repository is what would be written today, and nothing else lies there."""
    made = {one.path: one.text for one in KINDS["kubernetes"](Options())}
    for path, text in made.items():
        assert (ROOT / path).read_text() == text, f"{path}: run specgauge render kubernetes"
    assert {one.relative_to(ROOT).as_posix() for one in FOLDER.rglob("*.yaml")} == set(made)


# What the objects hold


def test_rules_are_those_of_the_file() -> None:
    """The operator gets the very groups that Prometheus loads from a file."""
    assert (
        by_kind("PrometheusRule")["spec"]["groups"]
        == (read(ROOT / "rules/specgauge.rules.yaml")["groups"])
    )


@pytest.mark.parametrize("options", [{}, NASTY], ids=["default", "nasty names"])
def test_pods_are_scraped_under_the_rules_jobs(options: Mapping[str, Any]) -> None:
    """The operator's own names of jobs would leave the rules without sidecars."""
    endpoints = by_kind("PodMonitor", **options)["spec"]["podMetricsEndpoints"]
    jobs = [
        rule["replacement"].replace("$$", "$")
        for one in endpoints
        for rule in one["relabelings"]
        if rule["targetLabel"] == "job"
    ]
    wanted = Options(**options)
    assert jobs == [wanted.job, wanted.engine_job]


def test_dashboards_are_config_maps() -> None:
    """A dashboard comes as it is, under the label that Grafana's own sidecar looks for."""
    found = by_kind("ConfigMap", "specgauge-dashboard-fleet")
    assert found["data"] == {"specgauge-fleet.json": DASHBOARD.text}
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert [path for path, _ in objects() if "dashboard" in path] == [
        "rules/kubernetes/dashboard-fleet.yaml"
    ]


def pod(deployment: Any) -> Any:
    return deployment["spec"]["template"]["spec"]


def sidecar(deployment: Any) -> Any:
    (found,) = (one for one in pod(deployment)["initContainers"] if one["name"] == "specgauge")
    return found


def test_sidecar_cannot_harm_the_engine() -> None:
    """It ends with the pod, is bounded, has no GPU, and never makes the pod unready."""
    deployment = by_kind("Deployment")
    found = sidecar(deployment)
    assert found["restartPolicy"] == "Always"
    assert "readinessProbe" not in found
    assert found["startupProbe"]["httpGet"]["path"] == "/-/ready"
    assert found["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert set(found["resources"]["limits"]) == {"cpu", "memory"}
    assert set(found["resources"]["requests"]) == {"cpu", "memory"}
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in found["env"]
    security = found["securityContext"]
    assert security["runAsNonRoot"] is security["readOnlyRootFilesystem"] is True
    assert f"USER {security['runAsUser']}:" in (ROOT / "Dockerfile").read_text()
    state = {one["name"]: one for one in pod(deployment)["volumes"]}["specgauge-state"]
    assert "emptyDir" in state
    (engine,) = pod(deployment)["containers"]
    assert engine == pod(yaml.safe_load(ENGINE))["containers"][0]
    assert pod(deployment)["volumes"][0]["name"] == "cache"


def test_image_is_of_this_version() -> None:
    """The default image is the one that the Dockerfile of this version makes."""
    assert sidecar(by_kind("Deployment"))["image"] == f"specgauge:{__version__}"


def test_objects_name_one_another() -> None:
    """Labels, ports, accounts and names of one object are those that another refers to."""
    deployment = by_kind("Deployment")
    found, labels = sidecar(deployment), deployment["spec"]["template"]["metadata"]["labels"]
    (port,) = found["ports"]
    monitor, policy = by_kind("PodMonitor")["spec"], by_kind("NetworkPolicy")["spec"]
    for selector in (monitor["selector"], policy["podSelector"]):
        assert selector["matchLabels"].items() <= labels.items()
    assert monitor["podMetricsEndpoints"][0]["port"] == port["name"]
    assert found["startupProbe"]["httpGet"]["port"] == port["name"]
    opened = [one["port"] for rule in policy["ingress"] for one in rule.get("ports", ())]
    assert opened == [monitor["podMetricsEndpoints"][1]["targetPort"], port["containerPort"]]
    account = by_kind("ServiceAccount")["metadata"]["name"]
    binding = by_kind("RoleBinding")
    assert pod(deployment)["serviceAccountName"] == account
    assert [one["name"] for one in binding["subjects"]] == [account]
    assert binding["roleRef"]["name"] == by_kind("Role")["metadata"]["name"]
    mounted = {one["name"]: one["mountPath"] for one in found["volumeMounts"]}
    volumes = {one["name"]: one for one in pod(deployment)["volumes"]}
    assert set(mounted) <= set(volumes)
    config = by_kind("ConfigMap", volumes["specgauge-config"]["configMap"]["name"])
    (file,) = config["data"]
    assert found["args"] == ["serve", "--config", f"{mounted['specgauge-config']}/{file}"]


def test_configuration_is_one(tmp_path: Path) -> None:
    """The sidecar's configuration is taken, keeps its state on the volume, and flips nothing."""
    deployment = by_kind("Deployment")
    (text,) = by_kind("ConfigMap", "specgauge")["data"].values()
    file = tmp_path / "specgauge.yaml"
    file.write_text(text.replace(STATE, str(tmp_path)))
    (name,) = (one["name"] for one in sidecar(deployment)["env"] if "valueFrom" in one)
    config = load(file, env={name: "llm"}, overrides={})
    assert settings_of(config).port == sidecar(deployment)["ports"][0]["containerPort"]
    assert config.guard is not None
    assert config.guard.dry_run
    assert config.flag is not None
    place = config.flag.kubernetes
    assert place.namespace == "llm"
    (rule,) = by_kind("Role")["rules"]
    assert rule["resourceNames"] == [place.configmap]
    assert set(rule["verbs"]) == {"get", "patch"}
    assert by_kind("ConfigMap", place.configmap)["data"] == {config.flag.key: "true"}
    assert STATE in {one["mountPath"] for one in sidecar(deployment)["volumeMounts"]}
    for kept in ("guard.json", "audit.jsonl"):
        assert f"{STATE}/{kept}" in text
    with pytest.raises(ConfigError):
        load(file, env={name: "no namespace!"}, overrides={})


def test_nothing_is_applied_that_should_not_be() -> None:
    """Objects that are applied at will lie together; the patch and the flag lie apart."""
    apart = {path for path, _ in objects() if "/sidecar/" in path}
    assert apart == {
        "rules/kubernetes/sidecar/deployment-patch.yaml",
        "rules/kubernetes/sidecar/flag.yaml",
    }
