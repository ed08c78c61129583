#!/usr/bin/env python3
"""Holds the dashboards against Grafana's TypeScript types; needs npm's packages, not a Grafana.

tests/node/install.sh           once; prints the folder that it made, outside the repository
tests/node/typed.py FOLDER      exit 1, and tsc's words, where something does not fit

The types hold enums where JSON has their texts, so each is taken for the texts that it stands for.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DASHBOARDS = ROOT / "dashboards"
MODULES = {
    "barchart": "barchart/panelcfg/x/BarChartPanelCfg_types.gen",
    "stat": "stat/panelcfg/x/StatPanelCfg_types.gen",
    "state-timeline": "statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen",
    "table": "table/panelcfg/x/TablePanelCfg_types.gen",
    "timeseries": "timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen",
}
"""The types of panels; those of a list of alerts are not published."""

HEAD = """\
import type { Dashboard } from '@grafana/schema';
type Text<T> = T extends string ? `${T}` : T extends (infer U)[] ? Text<U>[]
  : T extends object ? { [K in keyof T]: Text<T[K]> } : T;
type Part<T> = T extends (infer U)[] ? Part<U>[]
  : T extends object ? { [K in keyof T]?: Part<T[K]> } : T;
"""
PLUGIN = ("expr", "titleFormat", "textFormat")
"""Keys of annotations that belong to Prometheus' plugin, not to the dashboard."""


def statements(dashboards: Path = DASHBOARDS) -> Iterator[str]:
    """Write the check as TypeScript: every dashboard, and each panel's own part, as a literal."""
    yield HEAD
    names = {kind: kind.replace("-", "_") for kind in MODULES}
    for kind, module in MODULES.items():
        base = "@grafana/schema/dist/esm/raw/composable"
        yield f"import type * as {names[kind]} from '{base}/{module}';\n"
    for number, path in enumerate(sorted(dashboards.glob("*.json"))):
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        del dashboard["__requires"]  # of the import, not of the dashboard
        for one in dashboard["annotations"]["list"]:
            for key in PLUGIN:
                one.pop(key)
        yield f"// {path.name}\n"
        yield f"const d{number}: Text<Dashboard> = {_literal(dashboard)};\n"
        for panel in dashboard["panels"]:
            if panel["type"] in MODULES:
                name = f"{number}_{panel['id']}"
                kind = names[panel["type"]]
                yield f"const o{name}: Part<Text<{kind}.Options>> = {_literal(panel['options'])};\n"
                custom = panel["fieldConfig"]["defaults"].get("custom")
                if custom is not None:
                    fields = f"Part<Text<{kind}.FieldConfig>>"
                    yield f"const c{name}: {fields} = {_literal(custom)};\n"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def check(folder: Path, dashboards: Path = DASHBOARDS) -> tuple[int, str]:
    """Write the check into the folder of the packages; gives tsc's exit code and its words."""
    text = "".join(statements(dashboards))
    (folder / "check.ts").write_text(text, encoding="utf-8")
    flags = "--noEmit --strict --skipLibCheck --moduleResolution bundler --module esnext"
    command = ["node", "node_modules/typescript/bin/tsc", *flags.split(), "--target", "es2022"]
    answer = subprocess.run(
        [*command, "check.ts"], cwd=folder, capture_output=True, text=True, check=False
    )
    return answer.returncode, answer.stdout + answer.stderr


def main(arguments: list[str]) -> int:
    """Hold the repository's dashboards against the types in a folder."""
    code, said = check(Path(arguments[0]).resolve())
    sys.stdout.write(said)
    return min(code, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
