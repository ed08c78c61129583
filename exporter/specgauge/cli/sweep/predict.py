"""`specgauge sweep predict`: a smaller k from the acceptance of a server that runs."""

import asyncio
import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specgauge.cli.inspect import Look, derive, look
from specgauge.cli.moments import Moment
from specgauge.cli.values import LONGEST_WINDOW, READ_BY_US, FiniteRange, plain
from specgauge.cli.verdict import follow, judge_run, load_baseline
from specgauge.derive.judge import Terms
from specgauge.errors import UsageError
from specgauge.model.derived import Hints
from specgauge.model.outcome import ExitCode
from specgauge.preflight.sweep.candidate import MOST_K
from specgauge.preflight.sweep.predict import (
    COST_OF_A_TOKEN,
    Assumption,
    Costs,
    Hint,
    document,
    hint,
)

_ASSUMED = {
    Assumption.CHAIN: "a shorter draft is the beginning of a longer one: no tree, no block",
    Assumption.EVEN_COST: "a step's cost grows evenly with k",
    Assumption.SAME_LOAD: "load and prompts stay as they are",
    Assumption.ASSUMED_COST: "the cost of a drafted token is assumed; --baseline measures it",
    Assumption.GOES_ON: "beyond the k that runs, each position survives as the last one does",
}


@click.command(
    epilog="\b\nExample:\n  specgauge sweep predict --url http://127.0.0.1:8000 "
    "--baseline baseline.json"
)
@click.argument("pages", nargs=-1, metavar="[BEFORE AFTER]")
@click.option("--url", help="Server that drafts, http://HOST:PORT.")
@click.option(
    "--window",
    type=FiniteRange(0.0, LONGEST_WINDOW, min_open=True),
    default=10.0,
    metavar="SECONDS",
    help="Time between the two pages.  [10]",
)
@click.option("--k-max", type=click.IntRange(1, MOST_K), help="Highest k to predict.")
@click.option("--baseline", type=READ_BY_US, help="Baseline file, for what a step costs.")
@click.option(
    "--token-cost",
    type=FiniteRange(0.0, 10.0),
    default=COST_OF_A_TOKEN,
    show_default=True,
    help="Steps that a drafted token costs, without a baseline.",
)
@click.option("--method", help="Speculation method the server was started with.")
@click.option("--json", "as_json", is_flag=True, help="Print specgauge.sweep-predict/v1.")
def predict(
    pages: tuple[str, ...],
    url: str | None,
    window: float,
    k_max: int | None,
    baseline: Path | None,
    token_cost: float,
    method: str | None,
    as_json: bool,
) -> int:
    """Hint at a smaller k from live acceptance, without a restart.

    What it takes for granted is listed with the answer; a sweep measures it.
    """
    seen = asyncio.run(look(_sources(pages, url), window))
    costs = Costs(measured=step_costs(seen, baseline, method), token_cost=token_cost)
    models = derive(seen, Hints(method=method))
    found = [hint(one, costs, k_max=k_max, method=method) for one in models]
    if as_json:
        told = document(found, seconds=seen.seconds)
        click.echo(json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False))
    else:
        _draw(found)
    return exit_code(found)


def step_costs(seen: Look, baseline: Path | None, method: str | None) -> dict[str, float]:
    """Measure what a step costs against a baseline, where one is given and covers the load."""
    if baseline is None:
        return {}
    curve = load_baseline(baseline)
    times = (0.0, seen.seconds or 0.0)
    moments = [Moment(time=at, page=page) for at, page in zip(times, seen.pages, strict=True)]
    judged = judge_run(follow(moments), curve, Hints(method=method), Terms(), now=None)
    for one in judged:
        if "step_cost_ratio" not in one.values:
            why = ", ".join(one.mismatches) or one.reason
            told = f"{one.model_name}: the baseline tells no step cost: {why}"
            click.echo(plain(f"specgauge: {told}"), err=True)
    return {
        one.model_name: one.values["step_cost_ratio"]
        for one in judged
        if "step_cost_ratio" in one.values
    }


def exit_code(found: list[Hint]) -> ExitCode:
    """Give 1 where no draft pays for some model, 4 where nothing can be said of one, else 0."""
    if any(one.suggested == 0 for one in found):
        return ExitCode.FAILED
    unknown = not found or any(one.suggested is None for one in found)
    return ExitCode.NO_VERDICT if unknown else ExitCode.OK


def _sources(pages: tuple[str, ...], url: str | None) -> tuple[str, ...]:
    if (url is None) == (not pages):
        raise UsageError("give --url URL, or two pages BEFORE AFTER with --window SECONDS")
    if url is not None and "://" not in url:
        raise UsageError(f"--url {plain(url)}: write http://HOST:PORT")
    if pages and len(pages) != 2:  # noqa: PLR2004 - BEFORE and AFTER
        raise UsageError("give two pages, BEFORE and AFTER, with --window SECONDS between them")
    return pages or (url or "",)


def _draw(found: list[Hint]) -> None:
    console = Console(highlight=False)
    if not found:
        console.print(Text("The server has served nothing yet."))
    for one in found:
        if one.absent is not None:
            console.print(Text(plain(f"{one.model_name}: no hint: {one.absent}")))
            continue
        console.print(_table(one))
        now = f"it runs with {one.k}"
        what = f"try k = {one.suggested}" if one.suggested else "no draft pays at this cost"
        same = "k is right as it is" if one.suggested == one.k else what
        console.print(Text(f"{same} ({now}, a step costs {one.step_cost_ratio:.2f})"))
        for name in one.assumptions:
            console.print(Text(f"  assumed: {_ASSUMED[name]}"))
        if one.warnings:
            console.print(Text(plain(f"Mind: {', '.join(one.warnings)}")))


def _table(one: Hint) -> Table:
    table = Table(title=Text(plain(one.model_name)), title_justify="left", box=None, pad_edge=False)
    for title in ("k", "survival", "tokens a step", "step cost", "speedup"):
        table.add_column(title, justify="right")
    for row in one.rows:
        figures = [f"{row.survival:.1%}", f"{row.tokens_per_step:.2f}", f"{row.step_cost:.2f}"]
        mark = "~" if row.extrapolated else ""
        table.add_row(str(row.k), *figures, f"{mark}{row.speedup:.2f}x")
    return table
