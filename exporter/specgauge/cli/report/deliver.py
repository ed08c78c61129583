"""Brings a report to a file, to a webhook or to standard output."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from specgauge.baseline.files import put
from specgauge.cli.report.plan import Plan
from specgauge.cli.values import plain
from specgauge.errors import SourceError, SpecgaugeError, UsageError
from specgauge.guard.flags.http import FlagHttp, HttpTerms
from specgauge.guard.flags.protocol import FlagError
from specgauge.guard.flags.urls import check_url
from specgauge.report.render import as_html, as_json, as_markdown
from specgauge.serve.fleet_answer import FleetError
from specgauge.serve.fleet_history import unreadable

_WRITE = {"markdown": as_markdown, "html": as_html, "json": as_json}
_ANSWERS = (200, 201, 202, 204)


def deliver(document: Mapping[str, Any], plan: Plan) -> None:
    """Write it where it is to go; on standard output where nothing was said, or nothing took it.

    Raises what went wrong first, once everything was tried.
    """
    text = _WRITE[plan.form](document)
    ways: list[Callable[[], None]] = []
    if plan.output is not None:
        path = Path(plan.output.replace("{date}", document["period"]["to"][:10]))
        ways.append(lambda: _keep(text, path))
    if (webhook := plan.webhook) is not None:
        ways.append(lambda: asyncio.run(_post(webhook, plan.form, text)))
    faults = [fault for way in ways if (fault := _failing(way)) is not None]
    if len(faults) == len(ways):
        click.echo(text, nl=False)
    for fault in faults[1:]:
        click.echo(f"specgauge: {plain(str(fault))}", err=True)
    if faults:
        raise faults[0]


def _failing(way: Callable[[], None]) -> SpecgaugeError | None:
    """Try one way; gives what is to be told of it."""
    try:
        way()
    except SpecgaugeError as fault:
        return fault
    return None


def _keep(text: str, path: Path) -> None:
    """Write a file whole or not at all; a device or a pipe gets the text and stays what it is."""
    try:
        put(path, text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; choose another --output") from None


async def _post(url: str, form: str, text: str) -> None:
    """Post it: JSON as it is, Markdown as the text of a message, HTML as a page."""
    body, kind = text, "text/html; charset=utf-8"
    if form != "html":
        body = text if form == "json" else json.dumps({"text": text})
        kind = "application/json"
    http = FlagHttp(HttpTerms(url=url, timeout=30.0))
    try:
        await http.call("POST", headers={"Content-Type": kind}, body=body.encode(), expect=_ANSWERS)
    except FlagError as error:
        detail = error.detail.replace(http.place, _host(url))
        result = unreadable(FleetError(str(error.result), detail)).result
        raise SourceError(result, f"webhook: {detail}") from None


def _host(url: str) -> str:
    """Name a webhook by host and port alone: its path may be a secret."""
    parsed = check_url(url)
    return f"{parsed.scheme}://{parsed.authority.rpartition('@')[2]}/…"
