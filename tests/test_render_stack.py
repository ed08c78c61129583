"""Alertmanager, Prometheus and Compose as rendered: what their own checkers and schemas say."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.ruling import ROOT, promtool, read

from specgauge.cli.demo import demo
from specgauge.errors import RenderError
from specgauge.render.alert import SIMPLE, alerts
from specgauge.render.alertmanager import matcher
from specgauge.render.options import Options
from specgauge.render.registry import KINDS, render

STACK = ("alertmanager", "prometheus", "compose")
HOSTILE = 'acme\'s "chat", {a="b"}: #1\\\n\u2028é$x'
NASTY: Mapping[str, Any] = {
    "job": "spec$1: 'job' \"x\" #",
    "engine_job": "{vllm}",
    "team": HOSTILE,
    "teams": {"m": "b, c", "n": 'x="y"'},
    "levels": {"warning": "ticket \\n", "critical": "page, now"},
    "keep_labels": ("namespace", "pod"),
    "sidecars": ("a:1", "b:2"),
    "datasource": 'a"$b',
    "image": "host:5000/specgauge$x",
}
DATA = Path(__file__).parent / "data"


def made(*kinds: str, **options: Any) -> Iterator[tuple[str, str]]:
    """Make the files of some kinds alone; gives paths and texts."""
    for kind in kinds:
        for one in KINDS[kind](Options(**options)):
            yield one.path, one.text


def amtool(*arguments: str) -> tuple[int, str]:
    """Run amtool; gives its exit code and what it says."""
    program = shutil.which("amtool")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("amtool is not there: .ci/packages test installs it")
        pytest.skip("needs amtool")
    answer = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return answer.returncode, answer.stdout + answer.stderr


def write(folder: Path, **options: Any) -> Path:
    """Write what belongs together into a folder; gives the folder of the rules."""
    for path, text in made("rules", *STACK, **options):
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return folder / "rules"


@pytest.mark.parametrize("kind", STACK)
def test_repository_is_current(kind: str) -> None:
    """What lies in the repository is what would be written today."""
    for path, text in made(kind):
        assert (ROOT / path).read_text() == text, f"{path}: run specgauge render {kind}"


# Alertmanager


@pytest.mark.parametrize("options", [{}, NASTY], ids=["default", "nasty names"])
def test_amtool_finds_nothing(options: Mapping[str, Any], tmp_path: Path) -> None:
    """Alertmanager takes the configuration, whatever teams and severities are called."""
    code, said = amtool("check-config", str(write(tmp_path, **options) / "alertmanager.yaml"))
    assert code == 0, said
    assert "SUCCESS" in said
    assert "- 4 inhibit rules" in said


@pytest.mark.parametrize(
    ("options", "labels", "receiver"),
    [
        ({}, ("severity=critical", "team=llm-serving"), "llm-serving/critical"),
        ({}, ("severity=warning", "team=llm-serving"), "llm-serving/warning"),
        ({}, ("severity=warning", "team=other"), "llm-serving/warning"),
        ({}, ("severity=none",), "llm-serving/critical"),
        ({"teams": {"m": "chat"}}, ("severity=warning", "team=chat"), "chat/warning"),
        ({"teams": {"m": "chat"}}, ("severity=critical", "team=chat"), "chat/critical"),
        ({"team": "a b, c"}, ("severity=warning", 'team="a b, c"'), "a b, c/warning"),
    ],
    ids=[
        *("critical", "warning", "unknown team", "unknown severity"),
        *("a model's team", "a model's team, critical", "a team with a comma"),
    ],
)
def test_routes(
    options: Mapping[str, Any], labels: tuple[str, ...], receiver: str, tmp_path: Path
) -> None:
    """Each alert goes to its team, by its severity; one that fits nowhere is not lost."""
    file = write(tmp_path, **options) / "alertmanager.yaml"
    code, said = amtool("config", "routes", "test", f"--config.file={file}", *labels)
    assert code == 0, said
    assert said.splitlines()[-1] == receiver or said.splitlines()[0] == receiver


def test_receivers_are_unique() -> None:
    """Names that run into each other make one receiver, for they are sent to the same place."""
    options = {"team": "a", "teams": {"m": "a/b"}, "levels": {"warning": "c", "critical": "b/c"}}
    ((_, text),) = made("alertmanager", **options)
    names = [one["name"] for one in yaml.safe_load(text)["receivers"]]
    assert len(set(names)) == len(names) == 3


def test_inhibitions_name_alerts_that_exist() -> None:
    """What inhibits and what is inhibited are alerts, with the labels that are to be equal."""
    text = (ROOT / "rules/alertmanager.yaml").read_text()
    known = {one.name for one in (*alerts(Options()), *alerts(Options(), SIMPLE))}
    named = set(re.findall(r"Specgauge\w+", text)) - {"Specgauge"}
    assert named <= known
    equal = [set(one["equal"]) for one in yaml.safe_load(text)["inhibit_rules"]]
    server, model = {"instance", "target"}, {"model_name"}
    assert equal == [model, server | model | {"alertname"}, server, server]


def test_kept_labels_tell_servers_apart_in_inhibitions() -> None:
    """Of two pods the one that is down says nothing about the other."""
    ((_, text),) = made("alertmanager", keep_labels=("namespace", "pod"))
    fleet, *others = yaml.safe_load(text)["inhibit_rules"]
    assert fleet["equal"] == ["model_name"]
    assert all({"instance", "namespace", "pod", "target"} <= set(one["equal"]) for one in others)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
def test_matchers_mean_their_text_alone(text: str) -> None:
    """A matcher comes back from YAML and from Alertmanager's three escapes as it was."""
    read_again = yaml.safe_load(f"[{matcher('team', text)}]")[0]
    body = read_again.removeprefix('team="').removesuffix('"')
    assert not re.search(r'(?<!\\)(?:\\\\)*"', body)
    unescaped = re.sub(
        r'\\([n"\\])', lambda found: "\n" if found[1] == "n" else found[1], body, flags=re.DOTALL
    )
    assert unescaped == text


# Prometheus


@pytest.mark.parametrize("options", [{}, NASTY], ids=["default", "nasty names"])
def test_promtool_finds_nothing(options: Mapping[str, Any], tmp_path: Path) -> None:
    """Prometheus takes the configuration and the rules that lie beside it."""
    folder = write(tmp_path, **options)
    code, said = promtool("check", "config", folder / "prometheus.yaml")
    assert code == 0, said
    assert "1 rule files found" in said
    assert "WARNING" not in said


def test_jobs_are_those_of_the_rules() -> None:
    """The rules know the sidecars by the job under which they are scraped."""
    ((_, text),) = made("prometheus", **NASTY)
    sidecar, engine = yaml.safe_load(text)["scrape_configs"]
    assert (sidecar["job_name"], engine["job_name"]) == (NASTY["job"], NASTY["engine_job"])
    assert sidecar["static_configs"] == [{"targets": ["a:1", "b:2"]}]


def test_jobs_must_differ() -> None:
    """One job for two kinds of pages is refused before Prometheus does it."""
    with pytest.raises(RenderError, match="give each its own name"):
        render((), replace(Options(), engine_job="specgauge"))


def test_rule_files_named_in_comments_are_made() -> None:
    """The files to load instead are there under these names."""
    text = (ROOT / "rules/prometheus.yaml").read_text()
    named = re.findall(r"[\w.-]+\.rules\.yaml", text)
    assert len(named) == 3
    assert all((ROOT / "rules" / name).is_file() for name in named)


# Compose


@pytest.mark.parametrize("options", [{}, NASTY], ids=["default", "nasty names"])
def test_compose_is_valid(options: Mapping[str, Any]) -> None:
    """The file fits the schema of the Compose Specification, and so do the parts in it."""
    ((_, text),) = made("compose", **options)
    schema = json.loads((DATA / "compose-spec.schema.json").read_text())
    document = yaml.safe_load(text)
    jsonschema.Draft7Validator(schema).validate(document)
    configs = {name: one["content"] for name, one in document["configs"].items()}
    (source,) = yaml.safe_load(configs["datasources"])["datasources"]
    wanted = Options(**options)
    assert source["uid"].replace("$$", "$") == wanted.datasource
    assert document["services"]["demo"]["image"].replace("$$", "$") == wanted.image
    assert yaml.safe_load(configs["dashboards"])["providers"][0]["type"] == "file"


def test_compose_schema_is_strict() -> None:
    """The schema in use minds a misspelt key; it is the one that Docker Compose publishes."""
    schema = json.loads((DATA / "compose-spec.schema.json").read_text())
    document = read(ROOT / "compose.yaml")
    document["services"]["demo"]["imagge"] = "x"
    with pytest.raises(jsonschema.ValidationError, match="imagge"):
        jsonschema.Draft7Validator(schema).validate(document)


def test_compose_fits_what_it_starts() -> None:
    """Its options are the demo's, its ports those of the configuration, its mounts are rendered."""
    services = read(ROOT / "compose.yaml")["services"]
    name, *arguments = services["demo"]["command"]
    assert name == "demo"
    context = demo.make_context("demo", arguments)
    listen = context.params["listen"].rpartition(":")[2]
    scraped = (ROOT / "rules/prometheus.yaml").read_text()
    assert f'"localhost:{listen}"' in scraped
    assert f'"localhost:{context.params["engine_port"]}"' in scraped
    published = {port.rpartition(":")[2] for port in services["demo"]["ports"]}
    assert published == {listen, "9090", "9093", "3000"}
    assert all(port.startswith("127.0.0.1:") for port in services["demo"]["ports"])
    others = [one for key, one in services.items() if key != "demo"]
    assert {one["network_mode"] for one in others} == {"service:demo"}
    for kind in ("prometheus", "alertmanager"):
        assert f"--config.file=/etc/specgauge/{kind}.yaml" in services[kind]["command"]
        assert "./rules:/etc/specgauge:ro" in services[kind]["volumes"]
        assert (ROOT / f"rules/{kind}.yaml").is_file()


def test_compose_says_that_it_was_not_run() -> None:
    """Nobody takes a file that was only checked for one that was tried."""
    assert "it has not been run" in (ROOT / "compose.yaml").read_text()
