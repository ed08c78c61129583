"""The routes of the status page: its files, what it shows, what it showed, and what changes."""

import asyncio
import importlib.resources
import json
import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from specgauge.model.view import View
from specgauge.serve.control import NO_STORE
from specgauge.serve.status import status_document
from specgauge.serve.trend import Asked, head

_HEADERS = {
    **NO_STORE,
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_ASSETS = {
    "": ("index.html", "text/html"),
    "page.js": ("page.js", "text/javascript"),
    "words.js": ("words.js", "text/javascript"),
    "tables.js": ("tables.js", "text/javascript"),
    "charts.js": ("charts.js", "text/javascript"),
    "page.css": ("page.css", "text/css"),
    "uplot.js": ("vendor/uPlot.iife.min.js", "text/javascript"),
    "uplot.css": ("vendor/uPlot.min.css", "text/css"),
}

Remembered = Callable[[Asked], Iterator[dict[str, Any]]]
Stream = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the page is drawn from."""

    view: Callable[[], View]
    trend: Remembered
    events: Stream


def add_page(app: web.Application, shown: Shown) -> None:
    """Add the page and the routes that it reads."""

    async def status(_: web.Request) -> web.Response:
        return web.json_response(status_document(shown.view()), headers=NO_STORE)

    async def trend(request: web.Request) -> web.Response:
        try:
            since = float(request.query.get("since", "0"))
        except ValueError:
            since = math.nan
        if not math.isfinite(since):
            text = "since must be a Unix time in seconds\n"
            return web.Response(text=text, status=HTTPStatus.BAD_REQUEST)
        query = request.query
        asked = Asked(since=since, target=query.get("target"), model_name=query.get("model_name"))
        made = []
        for series in shown.trend(asked):
            made.append(json.dumps(series, allow_nan=False))
            await asyncio.sleep(0)  # a day of many models is long: scrapes go between
        begin = json.dumps(head()).removesuffix("}")
        text = f'{begin}, "series": [{", ".join(made)}]}}'
        answer = web.Response(text=text, content_type="application/json", headers=NO_STORE)
        answer.enable_compression()
        return answer

    app.router.add_get("/api/v1/status", status)
    app.router.add_get("/api/v1/trend", trend)
    app.router.add_get("/api/v1/events", shown.events, allow_head=False)
    for path in _ASSETS:
        app.router.add_get(f"/{path}", _asset(path))


def _asset(path: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Serve one file of the page; read once, for it never changes."""
    name, kind = _ASSETS[path]
    body = importlib.resources.files("specgauge.serve.page").joinpath(name).read_bytes()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=_HEADERS)

    return answer
