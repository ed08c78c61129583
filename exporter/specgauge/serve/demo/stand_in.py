"""A server that stands in for a vLLM engine by playing a recording; it measures nothing.

Played `speed` times faster, latency sums grow `speed` times faster per wall second, too. Whoever
divides by wall time would then read `speed` times the load: so whoever scrapes a stand-in must
live on recorded time as well, by `StandIn.recorded_now` (seconds since its start), and wait
`interval / speed` wall seconds between scrapes that are `interval` recorded seconds apart.
"""

import time
from collections.abc import Callable
from typing import Protocol, Self

from aiohttp import web

from specgauge.serve.demo.recording import Recording
from specgauge.serve.demo.replay_page import Reel

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
"""What vLLM 0.25.1 calls its metrics page, whatever the client asks for."""


class Shown(Protocol):
    """What the server shows at any moment of recorded time."""

    def page_at(self, elapsed: float) -> str:
        """Write the page."""


class StandIn:
    """A recorded engine on a local port: /metrics, /version and /health, from `start` to `stop`.

    `clock` counts wall seconds; the recording moves `speed` recorded seconds in each of them.
    `shown` is played in the recording's place.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        speed: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        host: str = "127.0.0.1",
        port: int = 0,
        shown: Shown | None = None,
    ) -> None:
        self._shown: Shown = Reel(recording) if shown is None else shown
        self._version = recording.engine_version
        self._speed = speed
        self._clock = clock
        self._started = clock()
        self._host = host
        self._port = port
        self._runner = web.AppRunner(self._make_application(), access_log=None)

    async def start(self) -> None:
        """Open the port and begin the recording; OSError if the port cannot be had."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        self._port = self._runner.addresses[0][1]
        self._started = self._clock()

    async def stop(self) -> None:
        """Close the port."""
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """Where the engine answers, without a path."""
        return f"http://{self._host}:{self._port}"

    def recorded_now(self) -> float:
        """Tell the recorded seconds since the start; a clock for whoever scrapes this server."""
        return (self._clock() - self._started) * self._speed

    def page(self) -> str:
        """Write the metrics page of this moment."""
        return self._shown.page_at(self.recorded_now())

    def _make_application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/metrics", self._show_metrics)
        application.router.add_get("/version", self._show_version)
        application.router.add_get("/health", self._show_health)
        return application

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.page().encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _show_version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": self._version})

    async def _show_health(self, _: web.Request) -> web.Response:
        return web.Response()
