"""The rules as they lie in the repository: current, readable, tested alert by alert, explained."""

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.ruling import FILES, ROOT, RULES, TESTS, alerts_in, promtool, read, rules_in

from specgauge.render.catalogue import names_in, names_known
from specgauge.render.options import Options
from specgauge.render.registry import render
from specgauge.render.verify import ANNOTATIONS

ALERTS = {name for path in FILES for name in alerts_in(path)}
SLOW = {"speculation.yaml", "slo.yaml", "guard.yaml", "silent.yaml"}
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def test_repository_is_current() -> None:
    """What lies in the repository is what would be written today, and nothing else lies there."""
    made = {one.path: one.text for one in render(("rules", "native-rules"), Options())}
    for path, text in made.items():
        assert (ROOT / path).read_text() == text, f"{path}: run specgauge render"
    assert {path.relative_to(ROOT).as_posix() for path in FILES} <= set(made)


@every_file
def test_promtool_reads_the_rules(path: Path) -> None:
    """Prometheus 2.42 loads every file, without a doubt about duplicates."""
    code, said = promtool("check", "rules", path)
    assert code == 0, said
    assert "SUCCESS" in said
    assert "duplicate" not in said


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.slow] if path.name in SLOW else [])
        for path in TESTS
    ],
)
def test_promtool_tests_the_rules(path: Path) -> None:
    """Each alert fires at its minute with its labels and text, and is silent where it must be."""
    code, said = promtool("test", "rules", path)
    assert code == 0, said


@every_file
def test_each_level_is_seen_firing(path: Path) -> None:
    """No alert, at no level, is without a test in which it fires, and one in which it is silent."""
    wanted = {
        (rule["alert"], rule["labels"]["severity"], rule["labels"].get("window"))
        for rule in rules_in(path)
        if "alert" in rule
    }
    asked = [
        one
        for test_file in TESTS
        if (content := read(test_file))["rule_files"] == [f"../{path.name}"]
        for test in content["tests"]
        for one in test.get("alert_rule_test", ())
    ]
    fired = {
        (one["alertname"], labels["severity"], labels.get("window"))
        for one in asked
        for labels in (alert["exp_labels"] for alert in one["exp_alerts"])
    }
    silent = {one["alertname"] for one in asked if not one["exp_alerts"]}
    assert sorted(wanted - fired, key=str) == []
    assert {name for name, _, _ in wanted} <= silent


def test_each_group_is_evaluated_in_order() -> None:
    """A test names every group, for promtool takes those that are not named in any order."""
    for path in TESTS:
        content = read(path)
        (file,) = content["rule_files"]
        groups = [group["name"] for group in read(path.parent / file)["groups"]]
        assert content["group_eval_order"] == groups, path.name


def test_each_alert_has_its_heading() -> None:
    """The runbook has one heading for every alert and no other, each with its four parts."""
    text = (RULES / "README.md").read_text()
    parts = re.split(r"^### (.+)$", text, flags=re.MULTILINE)
    headings, bodies = parts[1::2], parts[2::2]
    assert sorted(headings) == sorted(ALERTS)
    for heading, body in zip(headings, bodies, strict=True):
        for word in ("Means.", "See it.", "Do.", "Silence"):
            assert body.count(f"**{word}") == 1, f"{heading}: {word}"


@every_file
def test_each_alert_leads_to_its_heading(path: Path) -> None:
    """Every alert has its annotations, and its link ends at its heading."""
    for name, levels in alerts_in(path).items():
        for rule in levels:
            assert set(rule["annotations"]) == set(ANNOTATIONS)
            assert rule["annotations"]["runbook_url"].endswith(f"README.md#{name.lower()}")
            assert len({one["annotations"]["summary"] for one in levels}) == 1
            assert "{{" not in rule["annotations"]["summary"]


def test_runbook_asks_for_series_that_are_there() -> None:
    """Every query in the runbook is about series that are emitted or recorded."""
    recorded = [rule["record"] for path in FILES for rule in rules_in(path) if "record" in rule]
    text = (RULES / "README.md").read_text()
    queries = [one for one in re.findall(r"`([^`\n]+)`", text) if "{" in one or "(" in one]
    asked = {name for query in queries for name in names_in(query)}
    assert asked
    assert sorted(asked - names_known(recorded)) == []


def test_longer_windows_are_evaluated_less_often() -> None:
    """A day's rates over raw counters are not asked for every half minute."""
    groups = {group["name"]: group for group in read(RULES / "specgauge.rules.yaml")["groups"]}
    assert groups["specgauge-5m"]["interval"] == "30s"
    assert groups["specgauge-1d"]["interval"] == "2m"


def test_denominators_are_above_zero() -> None:
    """Every recorded quotient leaves out what would be 0 over 0."""
    for path in FILES:
        for rule in rules_in(path):
            if "record" in rule and re.search(r"\n(1 - .*\n)?/", rule["expr"]):
                assert re.search(r"> 0\)\s*$", rule["expr"]), rule["record"]


def test_nobody_sums_a_share() -> None:
    """No rule sums or averages what is a ratio already; the fleet's is made from counters."""
    shares = r"_ratio\b|:ratio_rate|_perc\b"
    for path in FILES:
        for rule in rules_in(path):
            for inside in re.findall(r"\b(?:sum|avg)(?: by \([^)]*\))? \(([^()]*)", rule["expr"]):
                assert not re.search(shares, inside), rule


def test_names_with_everything_in_them(tmp_path: Path) -> None:
    """Models, teams and labels that would break YAML, PromQL or templates come back as they are."""
    models = ("acme: chat #2", 'it\'s "70b"', "C:\\models\\x", "7e2", "null", "{{ .x }}\n`a`")
    labels = {"threshold": "0.4", "canary": "on", "number": "1", "answer": "no"}
    options = Options(models=models, labels=labels, team="no", teams={models[5]: '{{ "t" }}'})
    for one in render((), options):
        if one.path.endswith(".rules.yaml"):
            path = tmp_path / Path(one.path).name
            path.write_text(one.text)
            code, said = promtool("check", "rules", path)
            assert code == 0, said
    rule = alerts_in(tmp_path / "simple.rules.yaml")["SpecgaugeAcceptanceLow"][0]
    assert labels.items() <= rule["labels"].items()
    assert all(isinstance(value, str) for value in rule["labels"].values())
    _fires_with_team(tmp_path, models[5], '{{ "t" }}')
    _fires_with_team(tmp_path, models[1], "no")


def _fires_with_team(folder: Path, model: str, team: str) -> None:
    """Let promtool say what label the team of one model's alert really gets."""
    series = [
        {"series": f"specgauge_{name}_total{{model_name={json.dumps(model)}}}", "values": values}
        for name, values in (("draft_tokens", "0+100x30"), ("accepted_tokens", "0+10x30"))
    ]
    rule = alerts_in(folder / "simple.rules.yaml")["SpecgaugeAcceptanceLow"][1]
    expression = {
        "expr": 'count by (team, model_name) (ALERTS{alertstate="firing",severity="critical"})',
        "eval_time": "10m",
        "exp_samples": [
            {
                "labels": f"{{team={json.dumps(team)}, model_name={json.dumps(model)}}}",
                "value": 1,
            }
        ],
    }
    assert rule["labels"]["severity"] == "critical"
    content = {
        "rule_files": ["simple.rules.yaml"],
        "evaluation_interval": "30s",
        "tests": [{"interval": "30s", "input_series": series, "promql_expr_test": [expression]}],
    }
    (folder / "team.yaml").write_text(yaml.safe_dump(content))
    code, said = promtool("test", "rules", folder / "team.yaml")
    assert code == 0, said
