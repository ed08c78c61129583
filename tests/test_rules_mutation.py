"""Every alert is held in place: changed a little, it breaks one of its own tests.

The changed alerts stand beside each other in one file under names of their own, and each is asked
for what the alert itself is asked for, so that one run of promtool tries them all.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ruling import RULES, TESTS, alerts_in, promtool, read, records_needed

from specgauge.render.alert import GROUPS, NATIVE, SIMPLE, alerts
from specgauge.render.options import Options
from specgauge.render.templating import fill_yaml, number
from specgauge.units import format_duration, parse_duration

FLIPPED = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
COMPARISON = re.compile(r"(?<=\s)(<=|>=|==|!=|<|>)(?=\s)")
EVERY = [
    (path.name, name) for path in sorted(RULES.glob("*.rules.yaml")) for name in alerts_in(path)
]


def thresholds() -> dict[tuple[str, str, str], float]:
    """Give the threshold of each alert, level and window, where there is one."""
    more = {"range": None, "has": lambda _: True}
    return {
        (entry["alert"], level["level"], level.get("labels", {}).get("window", "")): level["at"]
        for group in (*GROUPS, SIMPLE, NATIVE)
        for entry in fill_yaml(f"alerts/{group}.yaml", Options(), **more)
        for level in entry["levels"]
        if "at" in level
    }


AT = thresholds()


def changes(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Change one thing at a time: the threshold, a comparison, the time that it has to hold."""
    labels, expr = rule["labels"], rule["expr"]
    at = AT.get((rule["alert"], labels["severity"], labels.get("window", "")))
    if at is not None:
        token = re.compile(rf"(?<![\w.]){re.escape(number(at))}(?![\w.])")
        whole = at >= 2 and at == int(at) and at < 10
        for factor, step in ((0.9, -1.0), (1.1, 1.0)):
            other = number(at + step if whole else at * factor)
            yield f"threshold {other}", {**rule, "expr": token.sub(other, expr)}
    for found in COMPARISON.finditer(expr):
        flipped = FLIPPED[found[1]]
        text = f"{expr[: found.start()]}{flipped}{expr[found.end() :]}"
        yield f"{found[1]} at {found.start()} becomes {flipped}", {**rule, "expr": text}
    wait = parse_duration(rule.get("for", "0s"))
    yield "for longer", {**rule, "for": format_duration(wait + 60)}
    if wait:
        yield "for less", {**rule, "for": format_duration(wait - 30)}
    if "keep_firing_for" in rule:
        yield "ends at once", {k: v for k, v in rule.items() if k != "keep_firing_for"}


def variants(rule: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give each change of one level of an alert under a name of its own."""
    labels = rule["labels"]
    level = f"{rule['alert']} {labels['severity']} {labels.get('window', '')}"
    found: dict[str, dict[str, Any]] = {}
    for what, changed in changes(rule):
        name = re.sub(r"\W+", "_", f"{level} {what} {len(found)}")
        found[name] = {**changed, "alert": name}
    return found


def expected(asked: dict[str, Any], rule: dict[str, Any], name: str) -> dict[str, Any]:
    """Ask under another name for what a test expects of one level."""
    of_level = [
        one for one in asked["exp_alerts"] if rule["labels"].items() <= one["exp_labels"].items()
    ]
    return {**asked, "alertname": name, "exp_alerts": of_level}


@cache
def promises_of(path: Path) -> Any:
    """Read one file of tests, once for all alerts; whoever takes from it changes nothing."""
    return read(path)


def asking(file: str, alert: str) -> Iterator[dict[str, Any]]:
    """Give the tests of one file that ask for one alert, with what they ask for it alone."""
    for path in TESTS:
        content = promises_of(path)
        if content["rule_files"] != [f"../{file}"]:
            continue
        for test in content["tests"]:
            asked = [one for one in test.get("alert_rule_test", ()) if one["alertname"] == alert]
            if asked:
                kept = {k: v for k, v in test.items() if k != "promql_expr_test"}
                yield {**kept, "alert_rule_test": asked}


@pytest.mark.slow
@pytest.mark.parametrize(("file", "alert"), EVERY, ids=str)
def test_each_change_breaks_a_test(file: str, alert: str, tmp_path: Path) -> None:
    """Another threshold, comparison or time of any alert makes one of its tests fail."""
    levels = alerts_in(RULES / file)[alert]
    changed = {name: (rule, one) for rule in levels for name, one in variants(rule).items()}
    groups = records_needed(levels, RULES / file)
    order = [*(group["name"] for group in groups), "alerts"]
    rules = [*levels, *(one for _, one in changed.values())]
    groups.append({"name": "alerts", "interval": "30s", "rules": rules})
    (tmp_path / "rules.yaml").write_text(yaml.dump({"groups": groups}, Dumper=yaml.CSafeDumper))
    tests = []
    for test in asking(file, alert):
        asked = [
            expected(one, rule, name)
            for one in test["alert_rule_test"]
            for name, (rule, _) in changed.items()
        ]
        tests.append({**test, "alert_rule_test": [*test["alert_rule_test"], *asked]})
    assert tests, f"nothing in rules/tests asks for {alert}"
    content = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "30s",
        "group_eval_order": order,
        "tests": tests,
    }
    (tmp_path / "tests.yaml").write_text(yaml.dump(content, Dumper=yaml.CSafeDumper))
    _, said = promtool("test", "rules", tmp_path / "tests.yaml")
    broken = set(re.findall(r"alertname: ?(\w+)", said))
    assert alert not in broken
    assert sorted(changed.keys() - broken) == []


def test_every_alert_is_tried() -> None:
    """The alerts that are changed here are all there are."""
    found = {one.name for one in (*alerts(Options()), *alerts(Options(), SIMPLE))}
    assert found <= {name for _, name in EVERY}
