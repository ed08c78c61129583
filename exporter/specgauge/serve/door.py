"""How many may be connected at once, and for how long without asking; it knows no route."""

import asyncio
import math
import os
import resource
import socket
from collections.abc import Awaitable, Callable

from aiohttp import web

MOST_CONNECTIONS = 512
"""Connections at a time: far more than scrapers and pages need. At most half of the descriptors
that the process may have, so that there are some left to scrape with."""

_AT_ONCE = 16
"""Connections that are taken before one of them is looked at: each has a descriptor meanwhile."""

_QUEUE = 128
"""Connections that the kernel keeps until they are taken."""

_ASKING_SECONDS = 10.0
_SENDING_SECONDS = 30.0
_RESTING_SECONDS = 75.0
_LOOK_SECONDS = 1.0
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)
_BODILESS = {"GET", "HEAD"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Door:
    """Lets connections in while there is room, and shows out who holds one for nothing.

    A new one has ten seconds for its request, one with a body half a minute for all of it, and
    one that was answered rests for as long as scrapers do. An answer to a GET may last. Where there
    is no room left, the one that has said nothing for the longest makes some.
    """

    def __init__(self) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        limited = soft != resource.RLIM_INFINITY
        self.most = min(MOST_CONNECTIONS, soft // 2) if limited else MOST_CONNECTIONS
        self._until: dict[web.RequestHandler, float] = {}
        self._silent: dict[web.RequestHandler, float] = {}

    async def open(self, server: web.Server, host: str | None, port: int) -> asyncio.Server:
        """Listen; raises OSError where the port cannot be had."""
        opened = await asyncio.get_running_loop().create_server(
            self._admit(server), host, port, backlog=_AT_ONCE
        )
        for one in opened.sockets:  # asyncio takes as many at once as it lets wait: more may wait
            with socket.socket(fileno=os.dup(one.fileno())) as same:
                same.listen(_QUEUE)
        return opened

    def _admit(self, server: web.Server) -> Callable[[], asyncio.BaseProtocol]:
        """Give what makes the protocol of each new connection."""

        def make() -> asyncio.BaseProtocol:
            here = server.connections
            if len(here) < self.most or self._made_room(here):
                return server()
            return _Full()

        return make

    def _made_room(self, here: list[web.RequestHandler]) -> bool:
        """Show out the first that never asked anything, if there is one."""
        for one in here:
            out = one.transport
            if one not in self._until and out is not None and not out.is_closing():
                out.abort()
                return True
        return False

    @web.middleware
    async def pass_through(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note what a connection is busy with."""
        now = asyncio.get_running_loop().time
        sending = math.inf if request.method in _BODILESS else now() + _SENDING_SECONDS
        self._until[request.protocol] = sending
        try:
            return await handler(request)
        finally:
            self._until[request.protocol] = now() + _RESTING_SECONDS

    async def watch(self, server: web.Server) -> None:
        """Show out whose time is up, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look(server, asyncio.get_running_loop().time())

    def look(self, server: web.Server, now: float) -> None:
        """Close what has been open too long by now."""
        here = server.connections
        self._until = {one: self._until[one] for one in here if one in self._until}
        asking = now + _ASKING_SECONDS
        silent = [one for one in here if one not in self._until]
        self._silent = {one: self._silent.get(one, asking) for one in silent}
        for one, until in [*self._until.items(), *self._silent.items()]:
            if until < now and one.transport is not None:
                one.transport.abort()  # what was not read would keep a mere close waiting


class _Full(asyncio.Protocol):
    """Says that there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Answer before the request came."""
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_FULL)
        transport.close()
