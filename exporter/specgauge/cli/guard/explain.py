"""`specgauge guard explain`: why the sidecar's guard did what it did; changes nothing."""

import time
from pathlib import Path

import click

from specgauge.cli.guard.client import fetch_guard
from specgauge.cli.guard.place import config_option, find_sidecar, url_option
from specgauge.cli.guard.story import explanation


@click.command(epilog="\b\nExample:\n  specgauge guard explain --config /etc/specgauge.yaml")
@url_option
@config_option
def explain(url: str | None, file: Path | None) -> None:
    """Say in plain words where the guard stands, why, what is missing and what comes next.

    Exit code 0: it was told; 1: no guard is configured; 2: configuration; 3: the sidecar does not
    answer.
    """
    found = fetch_guard(find_sidecar(url, file))
    for line in explanation(found, now=time.time()):
        click.echo(line)
