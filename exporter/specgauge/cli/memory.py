"""`specgauge memory`: what speculation takes of the KV cache, from folders or two servers."""

import asyncio
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click

from specgauge import __version__
from specgauge.cli.inspect import derive, look
from specgauge.cli.memory_options import folder_options, plan_of
from specgauge.cli.memory_text import draw_pair, draw_plan
from specgauge.errors import UsageError
from specgauge.model.derived import Hints
from specgauge.model.outcome import ExitCode
from specgauge.preflight.memory.document import SCHEMA, dated, measured, planned
from specgauge.preflight.memory.finding import Code, Finding, Severity
from specgauge.preflight.memory.judge import judge
from specgauge.preflight.memory.measured import Capacity, capacity_of, compare


@click.command(
    epilog="\b\nExample:\n  specgauge memory --target models/8b --draft models/1b --gpu H200 "
    "--max-model-len 4096"
)
@folder_options
@click.option("--before", metavar="URL|PAGE", help="Server without speculation.")
@click.option("--after", metavar="URL|PAGE", help="The same with speculation.")
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}.")
def memory(*, before: str | None, after: str | None, as_json: bool, **options: Any) -> int:
    """Say how many tokens the KV cache holds without speculation and with it.

    From model folders, before anything runs; or measured, with --before and --after.
    Exit code 1: it does not fit; 4: it cannot be told.
    """
    if (before is None) is not (after is None):
        raise UsageError("--before and --after go together: two servers, or two pages")
    if before is None or after is None:
        return _plan(options, as_json=as_json)
    if options["target"] is not None:
        raise UsageError("either --target, to reckon, or --before and --after, to measure")
    pair = compare(_capacity(before), _capacity(after))
    if as_json:
        _print(measured(pair))
    else:
        draw_pair(pair)
    return ExitCode.OK if pair.change is not None else ExitCode.NO_VERDICT


def _plan(options: dict[str, Any], *, as_json: bool) -> int:
    plan = plan_of(options)
    findings = judge(plan)
    if as_json:
        _print(planned(plan, findings))
    else:
        draw_plan(plan, findings)
    return exit_code(findings)


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """Give 4 where a cache could not be reckoned, 1 where something does not fit, else 0."""
    errors = {one.code for one in findings if one.severity is Severity.ERROR}
    if Code.LAYERS_NOT_MODELLED in errors:
        return ExitCode.NO_VERDICT
    return ExitCode.FAILED if errors else ExitCode.OK


def _capacity(source: str) -> Capacity:
    seen = asyncio.run(look((source,), None))
    return capacity_of(seen.pages[-1], derive(seen, Hints()))


def _print(document: dict[str, Any]) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    told = dated(document, created=now, created_by=f"specgauge {__version__}")
    click.echo(json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False))
