#!/usr/bin/env python3
"""Writes the tables in the documentation that are made from the code; touches nothing else.

docs/generate.py            rewrite the marked blocks
docs/generate.py --check    exit 1 if one of them is stale
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from specgauge.config.describe import key_table
from specgauge.engines.compatibility import markdown_table
from specgauge.model.names import ALL
from specgauge.render.alert import NATIVE, SIMPLE, alerts
from specgauge.render.options import Options
from specgauge.units import format_duration

ROOT = Path(__file__).resolve().parents[1]


def series_table() -> str:
    """Write every series with its type, labels and meaning, in the order of /metrics."""
    lines = ["| series | type | labels | meaning |\n", "|---|---|---|---|\n"]
    for one in ALL:
        labels = ", ".join(f"`{label}`" for label in one.labels) or "-"
        lines.append(f"| `{one.name}` | {one.kind} | {labels} | {one.help} |\n")
    return "".join(lines)


def guard_table() -> str:
    """Write every key of the guard and its flag with its default, variable and meaning."""
    return key_table("guard", "flag")


def rules_table() -> str:
    """Write every key of rendered files with its default, variable and meaning."""
    return key_table("rules")


def checklist_table() -> str:
    """Write every key of the checklist with its default, variable and meaning."""
    return key_table("checklist")


def report_table() -> str:
    """Write every key of the report with its default, variable and meaning."""
    return key_table("report")


def routing_table() -> str:
    """Write every key of routing with its default, variable and meaning."""
    return key_table("routing")


def alert_table() -> str:
    """Write every alert with its levels, the time that it has to hold, and its summary."""
    lines = ["| alert | severity, holding for | says |\n", "|---|---|---|\n"]
    options = Options()
    more = {"range": None, "has": lambda _: True}
    found = [*alerts(options), *alerts(options, SIMPLE), *alerts(options, NATIVE, **more)]
    for name in dict.fromkeys(one.name for one in found):
        levels = [one for one in found if one.name == name]
        held = ", ".join(
            f"{one.level} {format_duration(one.wait) if one.wait else 'at once'}" for one in levels
        )
        lines.append(f"| `{name}` | {held} | {levels[0].summary} |\n")
    return "".join(lines)


BLOCKS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("docs/compatibility.md", "compatibility", markdown_table),
    ("docs/metrics.md", "series", series_table),
    ("docs/configuration.md", "guard keys", guard_table),
    ("docs/configuration.md", "rules keys", rules_table),
    ("docs/configuration.md", "checklist keys", checklist_table),
    ("docs/configuration.md", "routing keys", routing_table),
    ("docs/configuration.md", "report keys", report_table),
    ("docs/rules.md", "alerts", alert_table),
)
"""The file of each block, the name in its marks, and what makes it."""


def renewed(text: str, mark: str, block: str) -> str:
    """Put a block between its marks; raises ValueError where they do not stand there once."""
    begin, end = f"<!-- {mark}:begin -->\n", f"<!-- {mark}:end -->\n"
    pattern = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
    if text.count(begin) != 1 or text.count(end) != 1 or not pattern.search(text):
        raise ValueError(f"needs {begin.strip()} and, below it, {end.strip()}, once each")
    return pattern.sub(lambda _: block, text)


def main(arguments: list[str]) -> int:
    """Rewrite or check every block; gives the exit code."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("docs/generate.py: no argument but --check is known\n")
        return 2
    stale = 0
    for name, mark, make in BLOCKS:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        try:
            wanted = renewed(text, mark, make())
        except ValueError as problem:
            sys.stderr.write(f"{name}: {problem}\n")
            return 2
        if wanted == text:
            continue
        if arguments:
            stale = 1
            sys.stderr.write(f"{name}: the table {mark} is stale; run docs/generate.py\n")
        else:
            path.write_text(wanted, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
