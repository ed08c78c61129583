"""`specgauge baseline from-pages`: recorded pages of a server without speculation to a file."""

from pathlib import Path

import click

from specgauge.baseline.facts import contradictions, facts_of
from specgauge.baseline.from_pages import Learned, from_pairs, from_timeline
from specgauge.cli.baseline.delivery import check_output, deliver, make_file, output_option
from specgauge.cli.baseline.provenance import fact_options, facts_given
from specgauge.cli.baseline.reading import read_pages, read_pairs
from specgauge.cli.values import LONGEST_WINDOW, READ_BY_US, FiniteRange
from specgauge.errors import UsageError


@click.command(
    "from-pages",
    epilog="\b\nExample:\n  specgauge baseline from-pages -o "
    "baseline.json --page c8-before.prom c8-after.prom 8.0",
)
@output_option
@click.option(
    "--page",
    "pairs",
    nargs=3,
    multiple=True,
    type=(READ_BY_US, READ_BY_US, FiniteRange(0.0, LONGEST_WINDOW, min_open=True)),
    metavar="BEFORE AFTER SECONDS",
    help="Two pages at one steady load and the time between them; repeat for each load.",
)
@click.option("--timeline", type=READ_BY_US, help="JSONL file of pages with times.")
@fact_options
def from_pages(
    *,
    output: Path,
    pairs: tuple[tuple[Path, Path, float], ...],
    timeline: Path | None,
    **options: object,
) -> None:
    """Make a baseline from recorded pages of a server without speculation."""
    check_output(output)
    model = options.get("model")
    learned = _learn(pairs, timeline, model if isinstance(model, str) else None)
    told, given = facts_of(learned.page, learned.model), facts_given(options)
    if against := contradictions(told, given):
        raise UsageError("\n".join(against))
    file = make_file({**given, **told}, learned.levels, method="from_pages", notes=learned.notes)
    deliver(file, output)


def _learn(
    pairs: tuple[tuple[Path, Path, float], ...], timeline: Path | None, model: str | None
) -> Learned:
    if bool(pairs) == (timeline is not None):
        raise UsageError("give --page BEFORE AFTER SECONDS, once or more, or --timeline FILE alone")
    if timeline is not None:
        return from_timeline(read_pages(timeline), place=str(timeline), model=model)
    return from_pairs(read_pairs(pairs), model=model)
