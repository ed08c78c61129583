"""The sidecar's web server: routes to values that others made; decides nothing."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from specgauge.model.view import View
from specgauge.serve.body import LONGEST_BODY
from specgauge.serve.classes.document import classes_document
from specgauge.serve.control import NO_STORE, Commanded, Control, add_control, refusal
from specgauge.serve.door import Door
from specgauge.serve.exposition import Oven
from specgauge.serve.log import Log, server_logger
from specgauge.serve.page_routes import Remembered, Shown, Stream, add_page
from specgauge.serve.route_state import add_route_state

_STOP_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the routes answer from."""

    oven: Callable[[], Oven]
    view: Callable[[], View]
    reload: Callable[[], list[str]]
    token: Callable[[], str | None]
    running: Callable[[], bool]
    trend: Remembered
    events: Stream
    routes: Callable[[], web.Response]
    guard: Callable[[], Commanded | None] = lambda: None


class WebServer:
    """Listens from `start` to `stop`; `url` knows the real port."""

    def __init__(self, site: Site, *, host: str, port: int, log: Log) -> None:
        self._site = site
        self._log = log
        self._host, self._port = host, port
        self._runner: web.AppRunner | None = None
        self._port_open: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None
        self.url = ""

    async def start(self) -> None:
        """Open the port; raises OSError where it cannot be had."""
        door = Door()
        runner = web.AppRunner(
            application(self._site, door),
            access_log=None,
            auto_decompress=False,  # a body that cannot be decoded is answered, not a fault
            logger=server_logger(self._log),
            shutdown_timeout=_STOP_SECONDS,
        )
        await runner.setup()
        server = runner.server
        assert server is not None
        try:
            self._port_open = await door.open(server, self._host or None, self._port)
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self._watch = asyncio.create_task(door.watch(server), name="door")
        host, port = self._port_open.sockets[0].getsockname()[:2]
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - for people
        if ":" in shown and not shown.startswith("["):
            shown = f"[{shown}]"
        self.url = f"http://{shown}:{port}"

    async def stop(self) -> None:
        """Close the port; requests under way get a second to end."""
        if self._watch is not None:
            self._watch.cancel()
        if self._port_open is not None:
            self._port_open.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None


def application(site: Site, door: Door) -> web.Application:
    """Build the routes."""

    async def metrics(request: web.Request) -> web.Response:
        baked = site.oven().bake(
            request.headers.get("Accept", ""), request.headers.get("Accept-Encoding", "")
        )
        headers = {"Content-Type": baked.content_type, "Vary": "Accept, Accept-Encoding"}
        if baked.encoding:
            headers["Content-Encoding"] = baked.encoding
        return web.Response(body=baked.body, headers=headers)

    async def healthy(_: web.Request) -> web.Response:
        alive = site.running()
        code = HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE
        return web.Response(text="ok\n" if alive else "a target's loop has died\n", status=code)

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def reload(request: web.Request) -> web.Response:
        refused = refusal(request, site.token())
        if refused is not None:
            return refused
        problems = site.reload()
        if problems:
            text = "".join(f"{problem}\n" for problem in problems)
            return web.Response(text=text, status=HTTPStatus.BAD_REQUEST)
        return web.Response(text="reloaded\n")

    async def classes(_: web.Request) -> web.Response:
        return web.json_response(classes_document(site.view().classes), headers=NO_STORE)

    app = web.Application(client_max_size=LONGEST_BODY, middlewares=[door.pass_through])
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/-/healthy", healthy)
    app.router.add_get("/-/ready", ready)
    app.router.add_post("/-/reload", reload)
    add_control(app, Control(view=site.view, guard=site.guard, token=site.token))
    add_route_state(app, site.routes)
    app.router.add_get("/api/v1/classes", classes)
    add_page(app, Shown(view=site.view, trend=site.trend, events=site.events))
    return app
