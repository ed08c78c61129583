"""The group of the draft commands."""

import click

from specgauge.cli.draft.check import check
from specgauge.cli.draft.suggest import suggest


@click.group(
    "draft",
    epilog="\b\nExample:\n  specgauge draft check ./llama-70b ./llama-1b",
)
def draft_group() -> None:
    """Tell from their folders alone whether a draft fits a target, and which could."""


for _command in (check, suggest):
    draft_group.add_command(_command)
