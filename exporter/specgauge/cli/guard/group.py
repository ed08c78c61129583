"""The group of the guard commands."""

import click

from specgauge.cli.guard.explain import explain
from specgauge.cli.guard.history import history
from specgauge.cli.guard.override import override
from specgauge.cli.guard.replay import replay
from specgauge.cli.guard.status import status


@click.group(
    "guard",
    epilog="\b\nExample:\n  specgauge guard status --config /etc/specgauge.yaml",
)
def guard_group() -> None:
    """Try the guard on recorded timelines; ask the sidecar's how it stands, and overrule it."""


for _command in (replay, status, history, explain, override):
    guard_group.add_command(_command)
