"""Rule files in tests: what each holds, and promtool's word on them."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from specgauge.render.catalogue import names_in
from specgauge.render.options import Options
from specgauge.render.registry import render

ROOT = Path(__file__).parents[1]
RULES = ROOT / "rules"
FILES = sorted(RULES.glob("*.rules.yaml"))
TESTS = sorted((RULES / "tests").glob("*.yaml"))

_GARBAGE = "800"
"""Percent by which promtool's heap, of some MB, may grow before Go collects: a third less work."""


def promtool(*arguments: str | Path, folder: Path | None = None) -> tuple[int, str]:
    """Run promtool; gives its exit code and all that it says."""
    program = shutil.which("promtool")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("promtool is not there: install Debian's prometheus")
        pytest.skip("needs promtool")
    answer = subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"GOGC": _GARBAGE, **os.environ},
    )
    return answer.returncode, answer.stdout + answer.stderr


def read(path: Path) -> Any:
    """Read one YAML file."""
    return yaml.load(path.read_text(), Loader=yaml.CSafeLoader)


def rules_in(path: Path) -> list[dict[str, Any]]:
    """List every rule of a file."""
    return [rule for group in read(path)["groups"] for rule in group["rules"]]


def alerts_in(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Give the alerts of a file by name, each with all its levels."""
    found: dict[str, list[dict[str, Any]]] = {}
    for rule in rules_in(path):
        if "alert" in rule:
            found.setdefault(rule["alert"], []).append(rule)
    return found


def records_needed(rules: Iterable[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """Give those groups of a file, with those recording rules, that some rules ask for."""
    groups = read(path)["groups"]
    by_name = {
        rule["record"]: rule for group in groups for rule in group["rules"] if "record" in rule
    }
    wanted: set[str] = set()
    ahead = [rule["expr"] for rule in rules]
    while ahead:
        for name in names_in(ahead.pop()) & by_name.keys() - wanted:
            wanted.add(name)
            ahead.append(by_name[name]["expr"])
    kept = (
        {**group, "rules": [rule for rule in group["rules"] if rule.get("record") in wanted]}
        for group in groups
    )
    return [group for group in kept if group["rules"]]


def rendered(*kinds: str, **options: Any) -> Iterator[tuple[str, str]]:
    """Render with some options; gives paths and texts."""
    for one in render(kinds, Options(**options)):
        yield one.path, one.text
