"""`specgauge compare`: the same workload with and without speculation, and what to do."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from specgauge.baseline.files import require_writable, write_atomically
from specgauge.baseline.prompts import CLASSES
from specgauge.cli.compare.modes import INTERRUPTED, of_before, of_pages, of_pools, save_run
from specgauge.cli.compare.options import seconds
from specgauge.cli.values import LONGEST_WINDOW, READ_BY_US, FiniteRange
from specgauge.errors import UsageError
from specgauge.preflight.compare.document import SCHEMA, Report, document

_PAGES = (
    READ_BY_US,
    READ_BY_US,
    FiniteRange(0.0, LONGEST_WINDOW, min_open=True),
)
_RECORDED = ("baseline_page", "speculative_page", "baseline_timeline", "speculative_timeline")


@click.command(
    epilog="\b\nExample:\n  specgauge compare --baseline-url http://127.0.0.1:8001 "
    "--speculative-url http://127.0.0.1:8000"
)
@click.option("--baseline-url", help="Pool without speculation, http://HOST:PORT.")
@click.option("--speculative-url", help="Pool with it.")
@click.option("--url", help="One server, for --save and --against.")
@click.option("--save", type=READ_BY_US, help="Measure --url without speculation and keep it.")
@click.option("--against", type=READ_BY_US, help="Compare --url, now with it, with that.")
@click.option(
    "--baseline-page",
    nargs=3,
    multiple=True,
    type=_PAGES,
    metavar="BEFORE AFTER SECONDS",
    help="Recorded pages instead of a server; repeat for each load.",
)
@click.option(
    "--speculative-page",
    nargs=3,
    multiple=True,
    type=_PAGES,
    metavar="BEFORE AFTER SECONDS",
    help="The same with speculation, in the same order.",
)
@click.option("--baseline-timeline", type=READ_BY_US, help="JSONL file of pages with times.")
@click.option("--speculative-timeline", type=READ_BY_US, help="The same with speculation.")
@click.option("--slice", callback=seconds(1.0, 1e9), help="Cut timelines into parts so long.")
@click.option("--load", metavar="NAME=N,…", help="Loads.  [idle=1,steady=8,burst=32]")
@click.option("--concurrency", metavar="N,…", help="Loads without names: lowest idle, top burst.")
@click.option("--temperature", type=FiniteRange(0.0, 100.0), default=0.7, help="Production.  [0.7]")
@click.option(
    "--also-temperature",
    multiple=True,
    type=FiniteRange(0.0, 100.0),
    default=(0.0,),
    help="Another; repeatable.  [0]",
)
@click.option("--prompts", type=READ_BY_US, help="Own: JSON, JSONL, ShareGPT, vLLM.")
@click.option("--classes", help=f"Traffic classes: {', '.join(CLASSES)}.  [chat,code]")
@click.option("--output-tokens", default="32-352", show_default=True, help="Lengths to mix.")
@click.option("--endpoint", type=click.Choice(["completions", "chat"]), default="completions")
@click.option("--repeats", type=click.IntRange(min=2, max=1000), default=3, help="[3]")
@click.option("--window", callback=seconds(0.2, 86400.0), default="10s", help="Of a bout.  [10s]")
@click.option("--warmup", callback=seconds(0.0, 3600.0), default="3s", help="Before it.  [3s]")
@click.option("--samples", type=click.IntRange(min=0), default=24, help="Answers a class.  [24]")
@click.option("--validate", metavar="CMD", help="Checks an answer on stdin; exit 0 is good.")
@click.option("--validate-timeout", callback=seconds(0.01, 3600.0), default="10s", help="[10s]")
@click.option("--schema", type=READ_BY_US, help="JSON Schema that answers must fulfil.")
@click.option("--allow", multiple=True, metavar="FIELD", help="Take a difference in this field.")
@click.option("--allow-differences", is_flag=True, help="Take every difference of the pools.")
@click.option("--min-speedup", type=FiniteRange(min=0.0), default=1.3, help="Steady.  [1.3]")
@click.option("--min-speedup-burst", type=FiniteRange(min=0.0), default=1.0, help="[1]")
@click.option("--min-speedup-idle", type=FiniteRange(min=0.0), default=1.0, help="[1]")
@click.option("--margin", type=FiniteRange(0.0, 0.5), default=0.05, help="No worse.  [0.05]")
@click.option("--baseline-log", type=READ_BY_US, help="Its log, searched for lack of memory.")
@click.option("--speculative-log", type=READ_BY_US, help="The same of the other pool.")
@click.option("--model", help="Model name, where there are several.")
@click.option("--api-key-file", type=READ_BY_US, help="Key for both.  [OPENAI_API_KEY]")
@click.option("--seed", type=int, default=0, show_default=True, help="Of lengths, order, chance.")
@click.option("-o", "--output", type=READ_BY_US, help=f"Write {SCHEMA} to this file.")
@click.option("--markdown", "markdown_file", type=READ_BY_US, help="Write the report as Markdown.")
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}.")
@click.pass_context
def compare(context: click.Context, /, **options: Any) -> int:
    """Compare a pool with speculation with one without, and decide.

    Both get the same workload in turns, at every load, temperature and class. Ctrl-C keeps what
    was measured.

    Exit code 0: promote, or even; 1: keep off, or only below a load; 4: undecided.
    """  # fmt: skip
    for path in (options["output"], options["markdown_file"], options["save"]):
        if path is not None:
            require_writable(path)
    mode = _mode(options)
    if mode == "save":
        return save_run(options)
    if mode == "pages":
        return _deliver(of_pages(options), options)
    if mode == "pools":
        report, stopped = of_pools(options)
    else:
        report, stopped = of_before(options, _given(context))
    code = _deliver(report, options)
    return INTERRUPTED if stopped else code


def _mode(options: Mapping[str, Any]) -> str:
    """Tell which way of comparing is asked for; UsageError where that is none or several."""
    asked = {
        "pages": any(options[name] for name in _RECORDED),
        "pools": bool(options["baseline_url"] or options["speculative_url"]),
        "save": options["save"] is not None,
        "against": options["against"] is not None,
    }
    modes = [name for name, there in asked.items() if there]
    needed = {
        "pages": (),
        "pools": ("baseline_url", "speculative_url"),
        "save": ("url",),
        "against": ("url",),
    }
    whole = len(modes) == 1 and all(options[name] for name in needed[modes[0]])
    if not whole or (options["url"] and modes[0] not in {"save", "against"}):
        raise UsageError(
            "give --baseline-url and --speculative-url; or --url with --save, later --url with "
            "--against; or --baseline-page and --speculative-page; or two timelines"
        )
    return modes[0]


def _given(context: click.Context) -> frozenset[str]:
    """Name the options that stand on the command line."""
    source = click.core.ParameterSource.COMMANDLINE
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) is source
    )


def _deliver(report: Report, options: Mapping[str, Any]) -> int:
    """Print the comparison and write the files that are asked for."""
    from specgauge.cli.compare.text import draw, markdown  # noqa: PLC0415 - rich loads slowly

    found = json.dumps(document(report), indent=1, allow_nan=False, ensure_ascii=False)
    output: Path | None = options["output"]
    if output is not None:
        write_atomically(output, found + "\n")
    if options["markdown_file"] is not None:
        write_atomically(options["markdown_file"], markdown(report))
    if options["as_json"]:
        click.echo(found)
    else:
        draw(report)
    return report.outcome.exit_code
