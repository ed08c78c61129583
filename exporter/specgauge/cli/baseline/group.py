"""The group of the baseline commands."""

import click

from specgauge.cli.baseline.check import check
from specgauge.cli.baseline.diff import diff
from specgauge.cli.baseline.from_pages import from_pages
from specgauge.cli.baseline.import_ import import_
from specgauge.cli.baseline.observe import observe
from specgauge.cli.baseline.record import record
from specgauge.cli.baseline.show import show


@click.group(
    "baseline",
    epilog="\b\nExample:\n  specgauge baseline record --url http://127.0.0.1:8000 -o baseline.json",
)
def baseline_group() -> None:
    """Record, learn, import, look at and compare baselines without speculation."""


for _command in (record, observe, from_pages, import_, show, check, diff):
    baseline_group.add_command(_command)
