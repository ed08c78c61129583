"""`specgauge route explain`: the decision of the router over one request, with its reasons."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from specgauge.cli.guard.configuration import read_config
from specgauge.cli.route.settings import routes_of
from specgauge.cli.values import READ_BY_US, FiniteRange, plain
from specgauge.errors import SourceError, UsageError
from specgauge.model.outcome import ExitCode, ScrapeResult
from specgauge.routing.decide import Decision, Flag, Live, decide, unmet
from specgauge.routing.path import path_of
from specgauge.routing.rules import Routes, Rule
from specgauge.routing.shape import Shape, shape_of

_SCHEMA = "specgauge.route/v1"
_DEFAULT_PATH = "/v1/chat/completions"


@click.command(epilog="\b\nExample:\n  specgauge route explain request.json --load 3")
@click.argument("request", type=READ_BY_US)
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="Configuration file (YAML)."
)
@click.option(
    "--header", "headers", multiple=True, metavar="'K: V'", help="A header of it; may be repeated."
)
@click.option(
    "--path",
    default=_DEFAULT_PATH,
    show_default=True,
    help="The path it is sent to, or the URL.",
)
@click.option("--load", type=FiniteRange(min=0.0), help="Requests in decode; unknown by default.")
@click.option(
    "--flag", type=click.Choice([str(flag) for flag in Flag]), default="on", show_default=True,
    help="The guard's flag; unknown is after the time that the last one held.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(
    request: Path,
    file: Path | None,
    headers: tuple[str, ...],
    path: str,
    load: float | None,
    flag: str,
    as_json: bool,
) -> int:
    """Say where the REQUEST, the body of one as a file or -, would go, and why.

    Without a configuration, or routing in it, everything goes to the speculative pool.
    """
    keys = read_config(file).routing
    routes = Routes() if keys is None else routes_of(keys)
    shape = shape_of(
        _body(request, routes.max_body),
        path=_path(path),
        headers=dict(map(_header, headers)),
        max_body=routes.max_body,
    )
    decision = decide(routes, shape, _live(routes, Flag(flag), load))
    text = json.dumps(_document(routes, shape, decision)) if as_json else None
    click.echo(text or "\n".join(_lines(routes, shape, decision)))
    return ExitCode.OK


def _body(request: Path, most: int) -> bytes:
    """Read a little more than is looked into: that it is too large is all there is to know."""
    try:
        if str(request) == "-":
            return sys.stdin.buffer.read(most + 1)
        with request.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise SourceError(ScrapeResult.UNREACHABLE, f"{request}: {error.strerror}") from None


def _path(text: str) -> str:
    path = path_of(text)
    if path is None:
        raise UsageError(f"--path {plain(text)}: no path that a router takes; begin it with /")
    return path


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"--header {plain(text)}: write it as 'Name: value'")
    return name.strip(), value.strip()


def _live(routes: Routes, flag: Flag, load: float | None) -> Live:
    """Answer the limits of load; up to `at_most` they hold, as they do while it rises."""
    return Live(
        flag=flag, loads={limit.key: limit.holds(load, held=True) for limit in routes.limits()}
    )


def _asked(routes: Routes, shape: Shape) -> Iterable[tuple[Rule, str | None]]:
    """Go through the rules up to the one that fits, each with what does not hold."""
    for rule in routes.rules:
        why_not = unmet(rule, shape)
        yield rule, why_not
        if why_not is None:
            return


def _document(routes: Routes, shape: Shape, decision: Decision) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "class": decision.traffic_class,
        "pool": str(decision.pool),
        "reason": decision.reason,
        "rule_pool": str(decision.wanted),
        "body": str(shape.body),
        "rules": [
            {"name": rule.name, "fits": why_not is None, "because": why_not}
            for rule, why_not in _asked(routes, shape)
        ],
    }


def _lines(routes: Routes, shape: Shape, decision: Decision) -> Iterable[str]:
    yield f"{decision.pool} pool, class {decision.traffic_class} ({decision.reason})"
    if decision.pool is not decision.wanted:
        yield f"its rule alone would have it in the {decision.wanted} pool"
    if (body := str(shape.body)) != "read":
        yield f"the body was not looked into ({body}): no condition over it holds"
    for rule, why_not in _asked(routes, shape):
        yield plain(f"  {rule.name}: {'fits' if why_not is None else why_not}")
