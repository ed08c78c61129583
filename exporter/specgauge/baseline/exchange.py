"""One HTTP/1.1 connection that streams answers; timestamps are taken as bytes come off the socket.

aiohttp hands a chunk on through a queue and a task switch, which costs twice the time a chunk and
lets its timestamp wait behind other streams; so the generator speaks to the transport itself.
Keeps no count and decides nothing about load.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from yarl import URL

from specgauge.baseline.framing import Answer, FramingError
from specgauge.baseline.stream import Take

_UNIX = "http+unix://"
_SHOWN = 300
_MAX_REFUSAL = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an OpenAI-compatible server listens; `prefix` stands before /v1."""

    host: str
    port: int
    prefix: str = ""
    tls: bool = False
    socket: str | None = None

    @property
    def authority(self) -> str:
        """What stands in the Host header."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(url: str) -> Address:
    """Take a server's URL apart, with or without /v1 at its end; ValueError where it is none."""
    wrong = f"{url!r} is no server; write http://HOST:PORT"
    if url.startswith(_UNIX):
        path, _, rest = url.removeprefix(_UNIX).partition(":/")
        if not path.startswith("/"):
            raise ValueError(wrong)
        return Address(host="localhost", port=80, socket=path, prefix=_prefix(f"/{rest}"))
    try:
        parsed = URL(url)
        port = parsed.port
    except ValueError:
        raise ValueError(wrong) from None
    if parsed.scheme not in {"http", "https"} or not parsed.host or port is None:
        raise ValueError(wrong)
    return Address(
        host=parsed.host, port=port, tls=parsed.scheme == "https", prefix=_prefix(parsed.path)
    )


def _prefix(path: str) -> str:
    return path.rstrip("/").removesuffix("/v1")


class Exchange(asyncio.Protocol):
    """A connection; `ask` sends a request on it and feeds the answer's body to a take."""

    def __init__(self) -> None:
        self._clock: Callable[[], float] = asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._answer = Answer()
        self._take: Take | None = None
        self._over: asyncio.Future[None] | None = None
        self._refusal = bytearray()
        self._heard = self._kept = self._stale = False

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        open_still = self._transport is not None and not self._transport.is_closing()
        return open_still and self._over is None

    async def ask(self, request: bytes, take: Take) -> bool:
        """Send a request and wait for the end of its answer; what goes wrong is noted in the take.

        False where the server had closed the kept connection before it could hear us.
        """
        assert self._transport is not None
        self._answer, self._take, self._heard, self._stale = Answer(), take, False, False
        self._refusal.clear()
        self._over = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(request)
            await self._over
        finally:
            self._over = self._take = None
            self._kept = True
            if not self._answer.reusable:
                self.drop()
        return not self._stale

    def end(self) -> None:
        """Wait for the answer no longer; how the connection ends is not the take's fault."""
        self._take = None
        self.drop()
        self._resolve()

    def drop(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass the body on with the time of its arrival."""
        at = self._clock()
        take, answer = self._take, self._answer
        if take is None:  # nobody asked
            self.drop()
            return
        self._heard = True
        try:
            body = answer.feed(data)
        except FramingError as problem:
            take.fail(str(problem))
            self.drop()
            return
        if answer.status == HTTPStatus.OK:
            if body:
                take.feed(body, at)
        else:
            self._refusal += body[:_MAX_REFUSAL]
        if answer.done or take.failed or len(self._refusal) > _MAX_REFUSAL:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the answer where the connection ended."""
        self._answer.close()
        self._stale = self._kept and not self._heard
        take = self._take
        if take is not None and not (self._stale or self._answer.done):
            reason = str(exc) if exc else "the server closed it"
            if exc is not None or not self._answer.status:
                take.fail(f"connection lost: {reason}")
        self._finish()

    def _finish(self) -> None:
        answer, take = self._answer, self._take
        if take is not None and answer.status not in {0, HTTPStatus.OK}:
            take.fail(_refused(answer, bytes(self._refusal)))
        self._resolve()

    def _resolve(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


async def connect(address: Address, tls: ssl.SSLContext | None) -> Exchange:
    """Open a connection; OSError where it cannot be had."""
    loop = asyncio.get_running_loop()
    if address.socket is not None:
        _, exchange = await loop.create_unix_connection(Exchange, address.socket)
    else:
        _, exchange = await loop.create_connection(
            Exchange, address.host, address.port, ssl=tls if address.tls else None
        )
    return exchange


def _refused(answer: Answer, body: bytes) -> str:
    text = " ".join(body.decode(errors="replace").split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"http {answer.status}" + (f": {ascii(shown)[1:-1]}" if shown else "")
