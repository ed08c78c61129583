"""`specgauge baseline import`: what other tools measured, as a baseline file."""

from pathlib import Path

import click

from specgauge.baseline.files import load_text
from specgauge.baseline.importers import import_results
from specgauge.cli.baseline.delivery import check_output, deliver, make_file, output_option
from specgauge.cli.baseline.provenance import fact_options, facts_given
from specgauge.cli.baseline.reading import counted
from specgauge.cli.values import READ_BY_US


@click.command(
    "import",
    epilog="\b\nExample:\n  "
    "specgauge baseline import c1.json c8.json c32.json -o baseline.json --gpu "
    '"NVIDIA H200"',
)
@click.argument("files", nargs=-1, required=True, type=READ_BY_US, metavar="FILE…")
@output_option
@fact_options
def import_(*, files: tuple[Path, ...], output: Path, **options: object) -> None:
    """Turn results of other tools into a baseline: one file a load, repeats of a load together.

    Known are results of `vllm bench serve`, GuideLLM reports and flat JSON with tpot_p50_ms and
    the like.
    """
    check_output(output)
    texts = [(str(path), load_text(path)) for path in counted(files, "files read")]
    found = import_results(texts)
    file = make_file(
        {**found.facts, **facts_given(options)},
        found.levels,
        method="imported",
        created=found.created,
        notes=found.notes,
        missing=found.missing,
    )
    deliver(file, output)
