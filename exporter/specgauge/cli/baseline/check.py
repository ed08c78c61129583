"""`specgauge baseline check`: whether a baseline belongs to a server."""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path

import click

from specgauge.baseline.facts import contradictions, facts_of, served
from specgauge.baseline.files import load_file
from specgauge.baseline.match import MUST_MATCH, match
from specgauge.baseline.schema import BaselineFile, usable
from specgauge.baseline.select import differences
from specgauge.cli.baseline.delivery import say
from specgauge.cli.baseline.provenance import fact_options, facts_given
from specgauge.cli.baseline.reading import Server, ask, open_scraper
from specgauge.cli.values import READ_BY_US, plain
from specgauge.engines.reader import Reader
from specgauge.errors import UsageError
from specgauge.model.outcome import ExitCode

SCHEMA = "specgauge.baseline-check/v1"
_TIMEOUT = 10.0


@click.command(
    epilog="\b\nExample:\n  "
    "specgauge baseline check --url http://127.0.0.1:8000 baseline.json --gpu "
    '"NVIDIA H200"',
)
@click.argument("file", type=READ_BY_US)
@click.option("--url", required=True, help="Server to check against.")
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}.")
@fact_options
def check(*, file: Path, url: str, as_json: bool, **options: object) -> int:
    """Say whether a baseline belongs to a server, and if not, why.

    Options state facts of the server that it does not tell. Exit code 0: it belongs; 1: not.
    """
    found = load_file(file)
    server = asyncio.run(_ask(url))
    given = facts_given(options)
    facts = _facts(server, found, given)
    answer = _judge(found, facts, str(file))
    if as_json:
        click.echo(json.dumps(answer, indent=1))
    else:
        _tell(answer, str(file), found, facts)
    return ExitCode.OK if answer["belongs"] else ExitCode.FAILED


async def _ask(url: str) -> Server:
    scraper = open_scraper(url, _TIMEOUT)
    try:
        return await ask(scraper, Reader())
    finally:
        await scraper.close()


def _facts(server: Server, file: BaselineFile, given: Mapping[str, object]) -> dict[str, object]:
    """Put together what the server tells and, where it does not, what the options state."""
    model = _model(server, file, given.get("model.name"))
    told = facts_of(server.page, model, version=server.version)
    if not model:
        del told["model.name"]
    if against := contradictions(told, given):
        raise UsageError("\n".join(against))
    return {**given, **told}


def _model(server: Server, file: BaselineFile, wanted: object) -> str:
    """Name the model to compare: the one that is wanted, the baseline's, or what there is.

    A server that serves one model under several names shows one of them on its page, which is
    what a baseline is recorded under. Empty where the server tells no name.
    """
    shown = [name for name in server.page.layout.engines if name]
    names = list(dict.fromkeys([*shown, *served(server.models)]))
    if not names:
        return ""
    if wanted is not None:
        if wanted not in names:
            raise UsageError(f"--model: no model {wanted!r}; there is {', '.join(names)}")
        names = [str(wanted), *(shown if len(shown) == 1 else ())]
    return file.model.name if file.model.name in names else ", ".join(dict.fromkeys(names))


def _judge(file: BaselineFile, facts: Mapping[str, object], source: str) -> dict[str, object]:
    baseline = usable(file, source=source)
    found = match(baseline, facts, now=time.time())
    unchecked = [
        name
        for name in MUST_MATCH
        if baseline.facts.get(name) is not None and facts.get(name) is None
    ]
    return {
        "schema": SCHEMA,
        "belongs": not found.mismatches,
        "mismatches": {
            name: {"baseline": baseline.facts[name], "server": facts[name]}
            for name in found.mismatches
        },
        "unchecked": unchecked,
        "warnings": list(found.warnings),
    }


def _tell(
    answer: Mapping[str, object], source: str, file: BaselineFile, facts: Mapping[str, object]
) -> None:
    mismatches, unchecked = answer["mismatches"], answer["unchecked"]
    assert isinstance(mismatches, dict)
    assert isinstance(unchecked, list)
    known = usable(file, source=source).facts
    for line in differences(known, facts, list(mismatches)):
        click.echo(plain(line))
    if not mismatches:
        click.echo(f"{source} belongs to this server")
    if unchecked:
        say([f"the server does not tell: {', '.join(unchecked)}; state them as options"])
    warnings = answer["warnings"]
    say(warnings if isinstance(warnings, list) else [], mark="mind: ")
