"""`specgauge checklist`: the gates of the articles, for a person and for CI."""

import asyncio
import json
from pathlib import Path

import click

from specgauge import __version__
from specgauge.cli.checklist.gather import gather
from specgauge.cli.checklist.options import (
    evidence_options,
    sidecar_options,
    sources_of,
    waivers,
)
from specgauge.cli.checklist.pin import pin
from specgauge.cli.checklist.text import lines
from specgauge.cli.guard.configuration import read_config
from specgauge.errors import UsageError
from specgauge.model.outcome import ExitCode
from specgauge.preflight.checklist.gates import NAMES
from specgauge.preflight.checklist.junit import write_junit
from specgauge.preflight.checklist.markdown import write_markdown
from specgauge.preflight.checklist.report import SCHEMA, Outcome, Report, document, judge
from specgauge.preflight.checklist.result import Status

_BY = f"specgauge {__version__}"


@click.group(
    "checklist",
    invoke_without_command=True,
    epilog="\b\nExample:\n  specgauge checklist --config specgauge.yaml "
    "--compare compare.json --junit checklist.xml",
)
@sidecar_options
@evidence_options
@click.option("--exercise", "exercises", is_flag=True, help="Turn the flag off and on again.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), metavar="GATE", help="This gate.")
@click.option("--skip", multiple=True, metavar="GATE=REASON", help="Waive this gate.")
@click.option("--allow-not-measured", "allowed", is_flag=True, help="Let them pass, and say so.")
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}.")
@click.option("--markdown", type=click.Path(path_type=Path), help="File to write, for people.")
@click.option("--junit", type=click.Path(path_type=Path), help="File to write, for CI.")
@click.pass_context
def checklist_group(
    context: click.Context,
    /,
    *,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    allowed: bool,
    as_json: bool,
    markdown: Path | None,
    junit: Path | None,
    **given: object,
) -> int:
    """Say whether a deployment may go live, gate by gate, each with its evidence.

    Exit code 0: every gate passed or is waived; 1: one failed; 2: configuration; 4: none failed,
    and one could not be measured.
    """
    if context.invoked_subcommand is not None:
        return ExitCode.OK
    config = read_config(sources_of(given).config_file)
    waived = waivers(config, skip)
    asked = set(only or NAMES).difference(waived)
    case = asyncio.run(gather(config, sources_of(given, config), gates=asked))
    report = judge(case, only=only, waived=waived)
    _write(markdown, write_markdown(report, created_by=_BY, allowed=allowed))
    _write(junit, write_junit(report, allowed=allowed))
    _show(report, as_json=as_json)
    return _exit_code(report, allowed=allowed)


checklist_group.add_command(pin)


def _show(report: Report, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(document(report, created_by=_BY), indent=1, allow_nan=False))
        return
    for line, colour in lines(report):
        click.secho(line, fg=colour)


def _write(path: Path | None, text: str) -> None:
    if path is None:
        return
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; choose another file") from None


def _exit_code(report: Report, *, allowed: bool) -> ExitCode:
    if report.outcome is Outcome.NOT_READY:
        return ExitCode.FAILED
    if report.outcome is Outcome.READY:
        return ExitCode.OK
    if not allowed:
        return ExitCode.NO_VERDICT
    names = [gate.name for gate, one in report.lines if one.status is Status.NOT_MEASURED]
    told = f"{len(names)} gates were NOT MEASURED and are let pass: {', '.join(names)}"
    click.echo(f"mind: {told}", err=True)
    return ExitCode.OK
