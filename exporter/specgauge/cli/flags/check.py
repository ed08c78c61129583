"""`specgauge flags check`: whether a release would take a speculative_config."""

import json

import click

from specgauge.cli.flags.source import NEWEST, ReleaseKind, given_to_check
from specgauge.cli.flags.text import tell
from specgauge.cli.values import plain
from specgauge.errors import NoVerdictError
from specgauge.model.outcome import ExitCode
from specgauge.preflight.flags.check import check_carrier, check_config, check_flags
from specgauge.preflight.flags.document import CHECK, check_document
from specgauge.preflight.flags.finding import Severity, ordered
from specgauge.preflight.flags.release import Release, read_release
from specgauge.preflight.flags.surface import load_surface

_FAILING = frozenset({Severity.ERROR, Severity.SEVERE})


@click.command(
    epilog="\b\nExample:\n  specgauge flags check --release 0.33.0 "
    """'{"method": "ngram", "num_speculative_tokens": 4}'"""
)
@click.argument("source", metavar="JSON|FILE|-")
@click.option(
    "--release", type=ReleaseKind(), help=f"Release to start; {NEWEST} where nothing tells it."
)
@click.option("--json", "as_json", is_flag=True, help=f"Print {CHECK}.")
def check(*, source: str, release: Release | None, as_json: bool) -> int:
    """Check a speculative_config, or a whole command line, without the engine.

    Exit code 0: the release takes it; 1: it would not start or not answer rightly;
    4: nothing in it is about speculation.
    """
    surface = load_surface()
    given = given_to_check(source, surface)
    line = given.command_line
    if line is not None and not (line.config or line.flags or line.findings):
        raise NoVerdictError("nothing in it turns speculation on")
    wanted = release or given.release or read_release(NEWEST)
    flags = check_flags(line, surface, wanted) if line else check_carrier(surface, wanted)
    found = check_config(given.config, surface, wanted, line.sizes if line else None)
    findings = ordered([*given.findings, *flags, *found])
    passed = not any(one.severity in _FAILING for one in findings)
    if as_json:
        document = check_document(given.config, wanted, findings, passed=passed)
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        tell(findings, err=False)
        click.echo(plain(f"vLLM {wanted} {'takes it' if passed else 'is not to be given this'}"))
    return ExitCode.OK if passed else ExitCode.FAILED
