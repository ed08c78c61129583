"""Tells open pages of every change as server-sent events: the whole picture, never a backlog.

A page that reads slowly misses pictures and gets the newest; nobody waits for it.
"""

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web

MOST_PAGES = 64
"""Open streams at a time; one more is answered 503, so that nobody can exhaust the sidecar."""

_HEARTBEAT_SECONDS = 5.0
_STUCK_SECONDS = 30.0
_BEAT = b"event: beat\ndata: {}\n\n"
"""An event, not a comment, so that the page itself can tell a quiet sidecar from a hung one."""

_PACE_SECONDS = 0.5
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


class Events:
    """One stream of pictures to any number of pages; a picture is written once for all of them."""

    def __init__(self, picture: Callable[[], dict[str, Any]]) -> None:
        self._picture = picture
        self._changed = asyncio.Event()
        self._number = 0
        self._written: tuple[int, bytes] = (-1, b"")
        self._pages = 0

    def change(self) -> None:
        """Say that there is something new to see."""
        self._number += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answer with pictures until the page is closed."""
        if self._pages >= MOST_PAGES:
            return web.Response(
                text=f"{MOST_PAGES} pages are open already\n",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
                headers={"Retry-After": "10"},
            )
        response = web.StreamResponse(headers=_HEADERS)
        self._pages += 1
        try:
            await response.prepare(request)
            await self._tell(response)
        except ConnectionError:
            pass  # the page was closed
        except TimeoutError:
            if request.transport is not None:  # it never reads: its place is for another
                request.transport.abort()
        finally:
            self._pages -= 1
        return response

    async def _tell(self, response: web.StreamResponse) -> None:
        seen = -1
        while True:
            changed = self._changed
            if seen == self._number:
                try:
                    async with asyncio.timeout(_HEARTBEAT_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    await _send(response, _BEAT)
                    continue
            seen = self._number
            await _send(response, self._bytes())
            await asyncio.sleep(_PACE_SECONDS)

    def _bytes(self) -> bytes:
        number, written = self._written
        if number != self._number:
            text = json.dumps(self._picture(), allow_nan=False, separators=(",", ":"))
            written = f"event: picture\ndata: {text}\n\n".encode()
            self._written = (self._number, written)
        return written


async def _send(response: web.StreamResponse, data: bytes) -> None:
    """Send; raises TimeoutError for a reader that takes nothing in."""
    async with asyncio.timeout(_STUCK_SECONDS):
        await response.write(data)
