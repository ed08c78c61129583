"""`specgauge baseline diff`: two baselines beside each other."""

import json
from pathlib import Path

import click

from specgauge.baseline.compare import MISMATCH, Comparison, compare
from specgauge.baseline.faults import shown
from specgauge.baseline.files import load_file
from specgauge.cli.baseline.delivery import say
from specgauge.cli.values import READ_BY_US
from specgauge.model.outcome import ExitCode

SCHEMA = "specgauge.baseline-diff/v1"


@click.command(
    epilog="\b\nExample:\n  specgauge baseline diff before-upgrade.json after-upgrade.json"
)
@click.argument("first", type=READ_BY_US)
@click.argument("second", type=READ_BY_US)
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}.")
def diff(*, first: Path, second: Path, as_json: bool) -> int:
    """Compare two baselines at the loads that both cover.

    Exit code 0: no difference beyond their intervals; 1: they differ; 4: not comparable, since
    the loads were others.
    """
    found = compare(load_file(first), load_file(second))
    if as_json:
        click.echo(json.dumps(_document(found), indent=1))
    else:
        _tell(found)
    if not found.comparable:
        return ExitCode.NO_VERDICT
    return ExitCode.OK if found.equal else ExitCode.FAILED


def _document(found: Comparison) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "comparable": found.comparable,
        "reason": found.reason,
        "mismatches": list(found.mismatches),
        "equal": found.equal,
        "provenance": {name: list(values) for name, values in found.provenance.items()},
        "levels": [
            {
                "decode_concurrency": pair.decode_concurrency,
                "tpot_seconds": [pair.first, pair.second],
                "ratio": pair.ratio,
                "ratio_low": pair.low,
                "ratio_high": pair.high,
                "equal": pair.equal,
                "interpolated": pair.interpolated,
            }
            for pair in found.pairs
        ],
        "e2e_ratio": found.e2e_ratio,
        "warnings": list(found.warnings),
    }


def _tell(found: Comparison) -> None:
    for name, (one, other) in found.provenance.items():
        click.echo(f"{name}: {shown(one)} and {shown(other)}")
    if found.reason is not None:
        what = ", ".join(found.mismatches)
        click.echo(
            f"not comparable: {MISMATCH}: the loads differ in {what}"
            if found.mismatches
            else f"not comparable: {found.reason}: no load lies in the range of both"
        )
        return
    click.echo(f"{'load':>8}  {'first ms':>9}  {'second ms':>9}  {'ratio':>6}  interval")
    for pair in found.pairs:
        mark = "" if pair.equal else "  differs"
        between = "  interpolated" if pair.interpolated else ""
        click.echo(
            f"{pair.decode_concurrency:8.4g}  {1000 * pair.first:9.4g}  "
            f"{1000 * pair.second:9.4g}  {pair.ratio:6.3f}  "
            f"{pair.low:.3f} to {pair.high:.3f}{mark}{between}"
        )
    say(found.warnings, mark="mind: ")
