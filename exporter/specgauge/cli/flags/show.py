"""`specgauge flags show`: the least command line for a method in a release."""

import json

import click

from specgauge.cli.flags.source import NEWEST, ReleaseKind, check_names
from specgauge.cli.flags.text import tell, tell_shown
from specgauge.errors import UsageError
from specgauge.model.outcome import ExitCode
from specgauge.preflight.flags.document import SHOW, shown_document
from specgauge.preflight.flags.release import Release
from specgauge.preflight.flags.show import show_method
from specgauge.preflight.flags.surface import load_surface


@click.command(
    epilog="\b\nExample:\n  specgauge flags show --method eagle3 "
    "--target meta-llama/Llama-3.1-8B-Instruct --draft yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
)
@click.option("--method", required=True, help="How drafts are made: eagle3, ngram, draft_model …")
@click.option("--target", required=True, help="Target model.")
@click.option("--draft", help="Draft model or head.")
@click.option("--k", type=click.IntRange(1, 1000), help="Tokens drafted a step.")
@click.option(
    "--release", type=ReleaseKind(), default=NEWEST, show_default=True, help="Release to start."
)
@click.option("--json", "as_json", is_flag=True, help=f"Print {SHOW}.")
def show(
    *, method: str, target: str, draft: str | None, k: int | None, release: Release, as_json: bool
) -> int:
    """Show a working command line for a method, why each key is there, and what else can be set.

    Exit code 0: there is one; 1: the release has it not, or something is missing.
    """
    check_names(target, draft)
    try:
        shown = show_method(method, load_surface(), release, target=target, draft=draft, k=k)
    except ValueError as error:
        raise UsageError(f"--method: {error}") from None
    if as_json:
        click.echo(json.dumps(shown_document(shown), indent=1, ensure_ascii=False))
    else:
        tell(shown.findings, err=True)
        if shown.command is not None:
            tell_shown(shown)
    return ExitCode.FAILED if shown.command is None else ExitCode.OK
