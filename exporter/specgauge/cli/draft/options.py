"""Options that both draft commands have."""

from collections.abc import Callable
from typing import Any

import click

from specgauge.preflight.draft.releases import METHODS, NEWEST, UNCHECKED_METHODS

Command = Callable[..., Any]

method_option = click.option(
    "--method",
    type=click.Choice([*METHODS, *UNCHECKED_METHODS]),
    help="How the draft is used; told from its files where not given.",
)
_SHARED = (
    click.option("--release", default=NEWEST, show_default=True, help="vLLM release to ask."),
    click.option(
        "--tensor-parallel",
        type=click.IntRange(1, 1024),
        default=1,
        show_default=True,
        help="Parts the target is served in.",
    ),
    click.option("--online", is_flag=True, help="Fetch small files of hub names; never weights."),
)


def shared_options(command: Command) -> Command:
    """Add the options that both commands have."""
    for option in reversed(_SHARED):
        command = option(command)
    return command
