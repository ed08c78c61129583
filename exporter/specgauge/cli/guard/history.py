"""`specgauge guard history`: what the sidecar's guard did lately; changes nothing."""

import json
from pathlib import Path

import click

from specgauge.cli.guard.client import fetch_guard
from specgauge.cli.guard.place import config_option, find_sidecar, url_option
from specgauge.cli.guard.story import history_lines, records


@click.command(
    epilog="\b\nExamples:\n"
    "  specgauge guard history --config /etc/specgauge.yaml\n"
    "  specgauge guard history --json | tail -n 1"
)
@url_option
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print an object a line, oldest first.")
def history(url: str | None, file: Path | None, as_json: bool) -> None:
    """List the last changes of the guard, oldest first, with the numbers they rest on.

    Exit code 0: it was told; 1: no guard is configured; 2: configuration; 3: the sidecar does not
    answer.
    """
    found = records(fetch_guard(find_sidecar(url, file)))
    lines = (json.dumps(one, ensure_ascii=False) for one in found) if as_json else None
    for line in history_lines(found) if lines is None else lines:
        click.echo(line)
