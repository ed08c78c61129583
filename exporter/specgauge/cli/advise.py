"""`specgauge advise`: whether a server is a candidate for speculation, and what to try first."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import click

from specgauge.baseline.files import load_file
from specgauge.baseline.schema import BaselineFile, usable
from specgauge.cli.advise_sources import Asked, observe, observe_baseline, replay_file
from specgauge.cli.advise_text import describe
from specgauge.cli.inspect import look
from specgauge.cli.memory_options import folder_options, plan_of
from specgauge.cli.values import LONGEST_WINDOW, READ_BY_US, FiniteRange
from specgauge.errors import UsageError
from specgauge.model.outcome import ExitCode
from specgauge.preflight.advise.document import SCHEMA, document
from specgauge.preflight.advise.expect import expect
from specgauge.preflight.advise.finding import Advice
from specgauge.preflight.advise.judge import Answer, judge
from specgauge.preflight.advise.lookup import Lookup, Tally
from specgauge.preflight.advise.observed import Limits, Observed

_WINDOW = 10.0
_LEN = click.IntRange(1, 20)


@click.command(
    epilog="\b\nExample:\n  specgauge advise --url http://127.0.0.1:8000 --window 30 "
    "--temperature 0 --prompts recorded.jsonl"
)
@click.argument("pages", nargs=-1, metavar="[BEFORE] [AFTER]")
@click.option("--url", help="Server without speculation, scraped twice.")
@click.option(
    "--window",
    type=FiniteRange(0.0, LONGEST_WINDOW, min_open=True),
    metavar="SECONDS",
    help="Time between the two pages or scrapes; 10 for a URL.",
)
@click.option("--baseline", "file", type=READ_BY_US, help="Baseline file of this server.")
@click.option("--temperature", type=FiniteRange(0.0, 100.0), help="That of most requests.")
@click.option("--prompts", type=READ_BY_US, help="Recorded prompts with their outputs.")
@click.option("--tokenizer", type=READ_BY_US, metavar="FOLDER", help="Folder with tokenizer.json.")
@click.option("--lookup-min", type=_LEN, default=2, show_default=True, help="prompt_lookup_min.")
@click.option("--lookup-max", type=_LEN, default=5, show_default=True, help="prompt_lookup_max.")
@folder_options
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}.")
def advise(*, pages: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Say whether a server is a candidate for speculation, from its load as it is now.

    --prompts replays recorded answers with n-gram lookups; --target, --draft and a GPU add what
    a draft takes of the KV cache. Exit code 1: a poor candidate; 4: not measured.
    """
    asked = Asked(pages=pages, options=options)
    lookup = _lookup(options)
    file = None if options["file"] is None else load_file(options["file"])
    tally, cut_by = replay_file(options["prompts"], options["tokenizer"], lookup)
    answers = [_judge(one, file, tally, asked, lookup) for one in _observed(asked, file)]
    if as_json:
        told = document(answers, lookup, tokenizer=cut_by)
        click.echo(json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False))
    else:
        click.echo("\n\n".join(describe(one, lookup, cut_by) for one in answers))
    return exit_code(one.advice for one in answers)


def exit_code(advice: Iterable[Advice]) -> ExitCode:
    """Give 1 where a model is a poor candidate, 4 where one was not measured, else 0."""
    found = set(advice)
    if Advice.POOR in found:
        return ExitCode.FAILED
    return ExitCode.OK if found == {Advice.CANDIDATE} else ExitCode.NO_VERDICT


def _lookup(options: dict[str, Any]) -> Lookup:
    shortest, longest = options["lookup_min"], options["lookup_max"]
    if shortest > longest:
        raise UsageError(f"--lookup-min {shortest} is above --lookup-max {longest}")
    return Lookup(
        draft_tokens=options["num_speculative_tokens"], shortest=shortest, longest=longest
    )


def _observed(asked: Asked, file: BaselineFile | None) -> list[Observed]:
    """Look at the server, or take the load from a baseline and the options."""
    change = None
    if asked.options["target"] is not None:
        change = plan_of(asked.options).change
    sources = asked.sources()
    if not sources:
        if file is None:
            raise UsageError("give --url, one page or two with --window, or --baseline")
        return [observe_baseline(file, asked, change)]
    window = asked.options["window"]
    if asked.options["url"] and window is None:
        window = _WINDOW
    seen = asyncio.run(look(sources, window))
    return observe(seen, asked, change)


def _judge(
    observed: Observed, file: BaselineFile | None, tally: Tally | None, asked: Asked, lookup: Lookup
) -> Answer:
    expected = None
    if file is not None and observed.decode_concurrency is not None:
        curve = usable(file, source=str(asked.options["file"])).curve
        expected = expect(curve, observed.decode_concurrency, lookup.draft_tokens, tally)
    return judge(
        observed,
        draft_tokens=lookup.draft_tokens,
        tally=tally,
        expected=expected,
        limits=Limits(),
    )
