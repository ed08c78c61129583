"""`specgauge guard status`: how the sidecar's guard stands; changes nothing."""

import json
from pathlib import Path

import click

from specgauge.cli.guard.client import SCHEMA, fetch_guard
from specgauge.cli.guard.place import config_option, find_sidecar, url_option
from specgauge.cli.guard.story import status_lines


@click.command(
    epilog="\b\nExamples:\n"
    "  specgauge guard status --config /etc/specgauge.yaml\n"
    "  specgauge guard status --url http://127.0.0.1:9843 --json"
)
@url_option
@config_option
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}.")
def status(url: str | None, file: Path | None, as_json: bool) -> None:
    """Say how the guard of a running sidecar stands, and how its flag.

    Exit code 0: it was told; 1: no guard is configured; 2: configuration; 3: the sidecar does not
    answer.
    """
    found = fetch_guard(find_sidecar(url, file))
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    for line in status_lines(found):
        click.echo(line)
