"""`specgauge doctor`: why speculation disappoints, by whatever evidence there is."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from specgauge.cli.doctor.gather import gather
from specgauge.cli.doctor.text import describe
from specgauge.cli.values import LONGEST_WINDOW, READ_BY_US, FiniteRange
from specgauge.preflight.doctor.codes import Symptom
from specgauge.preflight.doctor.diagnose import diagnose, exit_code, lacking
from specgauge.preflight.doctor.document import document


@click.command(
    epilog="\b\nExample:\n  specgauge doctor --url http://127.0.0.1:8000 --symptom slower "
    "--baseline baseline.json"
)
@click.argument("pages", nargs=-1, type=READ_BY_US, metavar="[PAGE | BEFORE AFTER]")
@click.option("--url", help="Server to look at, http://HOST:PORT.")
@click.option(
    "--window",
    type=FiniteRange(0.0, LONGEST_WINDOW, min_open=True),
    metavar="SECONDS",
    help="Time between BEFORE and AFTER, or between two looks at --url.  [10]",
)
@click.option("--timeline", type=READ_BY_US, help="JSONL file of pages with times.")
@click.option(
    "--symptom",
    type=click.Choice([str(one) for one in Symptom]),
    help="What somebody complains of.",
)
@click.option("--baseline", type=READ_BY_US, help="Baseline file.")
@click.option("--log", "logs", multiple=True, type=READ_BY_US, help="The server's log.")
@click.option("--command", help="The line it was started with, 'vllm serve ...'.")
@click.option("--speculative-config", "config", help="Its speculative config, as JSON.")
@click.option("--release", help="Its vLLM release, where nothing else tells.")
@click.option("--rules", multiple=True, type=READ_BY_US, help="Prometheus rule file.")
@click.option("--dashboard", multiple=True, type=READ_BY_US, help="Grafana dashboard.")
@click.option("--requests", type=READ_BY_US, help="Per-request objects, JSON or JSONL.")
@click.option("--probe", is_flag=True, help="Stream a few requests through --url.")
@click.option("--model", help="Model to ask for in --probe.  [the first one served]")
@click.option("--json", "as_json", is_flag=True, help="Print specgauge.doctor/v1.")
def doctor(pages: tuple[Path, ...], as_json: bool, **options: Any) -> int:
    """Say why speculation disappoints, and what to do.

    Looks at pages, a server, its log, its flags, its rules and dashboards: at whatever is given.
    Findings come in the order in which they explain the symptom.

    Exit code 0: nothing found, or hints only; 1: a cause; 3: a source cannot be read; 4: too
    little is known.
    """
    case = asyncio.run(gather(pages, options))
    ranked, missing = diagnose(case), lacking(case)
    if as_json:
        found = document(case, ranked, missing)
        click.echo(json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False))
    else:
        click.echo(describe(case, ranked, missing))
    return exit_code(case, ranked)
