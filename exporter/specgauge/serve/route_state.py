"""Tells routers what holds now: a file that is put in place after every scrape, and a route.

A disk that hangs delays the file alone: it is written beside the loop, one write at a time.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from specgauge.model.settings import RouteSettings
from specgauge.model.view import View
from specgauge.routing.live import LiveState
from specgauge.routing.rules import LoadLimit
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace

_LARGEST = 1 << 20
_WORDS = {True: "on", False: "off", None: "unknown"}


class RouteState:
    """What routers are told, from start to stop."""

    def __init__(self, settings: RouteSettings, *, pace: Pace, log: Log) -> None:
        self._settings = settings
        self._pace, self._log = pace, log
        self._document: dict[str, Any] = {}
        self._writing: asyncio.Task[None] | None = None
        self._again = False
        self._failed = ""
        self._live = self._begin()

    def follow(self, settings: RouteSettings) -> None:
        """Go by other settings from now on; the same ones leave everything as it is."""
        if settings != self._settings:
            self._settings = settings
            self._live = self._begin()

    def _begin(self) -> LiveState:
        """Start anew with what was known of the flag: by an earlier run, or a moment ago."""
        limits = self._settings.limits
        live = LiveState(LoadLimit(at_most=most, resume=low) for most, low in limits)
        if self._settings.state_file is not None:
            live.adopt(_read(Path(self._settings.state_file)), self._pace.unix())
        live.adopt(self._document, self._pace.unix())
        return live

    def take(self, view: View) -> None:
        """Take in what is known after a scrape; the file follows in its own time."""
        self._document = self._live.take(view, self._pace.unix())
        if self._settings.state_file is None:
            return
        self._again = True
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(Path(self._settings.state_file)))

    async def close(self) -> None:
        """Wait for the file; it stays, and its age tells that nobody touches it any more."""
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=1.0)

    def answer(self) -> web.Response:
        """Answer a router on another host, which may keep the answer as long as flags hold."""
        document = self._document
        if not document:
            return web.json_response({}, status=503)
        age = max(0.0, self._pace.unix() - document["written"])
        load = document["decode_concurrency"]
        return web.json_response(
            {**document, "age": age},
            headers={
                "X-Specgauge-Flag": _WORDS[document["flag"]],
                "X-Specgauge-Load": "unknown" if load is None else f"{load:.6g}",
                "Cache-Control": f"max-age=1, stale-if-error={round(self._settings.hold)}",
            },
        )

    async def _write(self, path: Path) -> None:
        while self._again:
            self._again = False
            text = json.dumps(self._document) + "\n"
            try:
                await asyncio.to_thread(_replace, path, text)
            except OSError as error:
                problem = error.strerror or str(error)
                if problem != self._failed:
                    self._log.warning("route_state_not_written", file=str(path), problem=problem)
                self._failed = problem
            else:
                self._failed = ""


def add_route_state(app: web.Application, answer: Callable[[], web.Response]) -> None:
    """Add the route that routers ask."""

    async def state(_: web.Request) -> web.Response:
        return answer()

    app.router.add_get("/api/v1/route-state", state)


def _replace(path: Path, text: str) -> None:
    """Put the file in place whole; on a crash of the machine it may be lost, as its age would be.

    The router may run as another user, so everybody may read it: there is no secret in it.
    """
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text, encoding="ascii")
    beside.chmod(0o644)
    beside.replace(path)


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError), path.open("rb") as file:
        found = json.loads(file.read(_LARGEST))
        return found if isinstance(found, dict) else {}
    return {}
