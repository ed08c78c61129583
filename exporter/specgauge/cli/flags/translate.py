"""`specgauge flags translate`: a command line of one release as another takes it."""

import json
from pathlib import Path

import click

from specgauge.cli.flags.source import NEWEST, ReleaseKind, check_names, command_given
from specgauge.cli.flags.text import tell
from specgauge.cli.values import READ_BY_US
from specgauge.errors import UsageError
from specgauge.model.outcome import ExitCode
from specgauge.preflight.flags import translate as translation
from specgauge.preflight.flags.document import TRANSLATE, translation_document
from specgauge.preflight.flags.release import Release
from specgauge.preflight.flags.surface import load_surface


@click.command(
    epilog="\b\nExample:\n  specgauge flags translate --to 0.33.0 "
    "'vllm serve M --speculative-model D --num-speculative-tokens 5'"
)
@click.argument("command", required=False)
@click.option("--file", type=READ_BY_US, help="File with the command line, or YAML of flags.")
@click.option(
    "--to", type=ReleaseKind(), default=NEWEST, show_default=True, help="Release to write for."
)
@click.option("--from", "source", type=ReleaseKind(), help="Release it was written for.")
@click.option("--model", help="Target model, where the input has none.")
@click.option("--draft", help="Draft model or head, where the input has none.")
@click.option("--json", "as_json", is_flag=True, help=f"Print {TRANSLATE}.")
def translate(
    *,
    command: str | None,
    file: Path | None,
    to: Release,
    source: Release | None,
    model: str | None,
    draft: str | None,
    as_json: bool,
) -> int:
    """Turn COMMAND, or - from standard input, into a `vllm serve` of another release.

    The command line goes to standard output, what changed to standard error.
    Exit code 0: translated; 1: something cannot be said to that release.
    """
    check_names(model, draft)
    given = command_given(command, file)
    try:
        done = translation.translate(
            given, load_surface(), to, source=source, model=model, draft=draft
        )
    except ValueError as error:
        raise UsageError(f"command line: {error}") from None
    if as_json:
        click.echo(json.dumps(translation_document(done), indent=1, ensure_ascii=False))
    else:
        tell(done.findings, err=True)
        if done.command is not None:
            click.echo(done.command)
    return ExitCode.FAILED if done.command is None else ExitCode.OK
