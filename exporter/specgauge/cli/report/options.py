"""The options of the report, for its command alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorated = Callable[..., Any]
_FILE = click.Path(path_type=Path)
FORMATS = ("markdown", "html", "json")
SCHEDULERS = ("systemd", "kubernetes")


def report_options(command: Decorated) -> Decorated:
    """Add them all."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS: tuple[Callable[[Decorated], Decorated], ...] = (
    click.option("--config", "config_file", type=_FILE, help="Configuration, for report: in it."),
    click.option("--prometheus", "url", metavar="URL", help="Whom to ask, without /api/v1."),
    click.option("--token-file", type=_FILE, help="File with a bearer token for it."),
    click.option("--last", default="7d", show_default=True, help="How long a past, whole hours."),
    click.option("--until", default="now", show_default=True, help="Its end: a time, or ago."),
    click.option("--compare-to", metavar="DURATION", help="Beside what was so long before, as 7d."),
    click.option("--selector", metavar="MATCHERS", help="Pick series, as 'cluster=\"a\"'."),
    click.option("--gpus-per-server", type=click.IntRange(1), help="For GPU-hours.  [1]"),
    click.option(
        "--format", "form", type=click.Choice(FORMATS), help="By default as FILE ends, or markdown."
    ),
    click.option("-o", "--output", metavar="FILE", help="Where it goes; {date} is its last day."),
    click.option("--webhook", metavar="URL", help="Post it there, not to stdout."),
    click.option("--schedule", type=click.Choice(SCHEDULERS), help="Print what runs this weekly."),
)
