"""Small real servers on 127.0.0.1 whose every byte is scripted; they know nothing of specgauge."""

import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Answer = bytes | Script
_TLS_HANDSHAKE = b"\x16"


@dataclass(slots=True, kw_only=True)
class RawServer:
    """What a running server has seen, and where it listens."""

    address: str = ""
    path: str = ""  # of a unix socket
    answers: Sequence[Answer] = ()
    scheme: str = "http"
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The root of the server, without a trailing slash."""
        return f"http+unix://{self.path}" if self.path else f"{self.scheme}://{self.address}"

    @property
    def page(self) -> str:
        """Where its page is, as whoever fetches it takes it."""
        return f"{self.url}:/metrics" if self.path else f"{self.url}/metrics"

    def header(self, name: str) -> str | None:
        """Look a header up in the latest request."""
        for line in self.requests[-1].decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None

    def script(self, *answers: Answer) -> None:
        """Give one answer to each request from now on; the last one repeats."""
        self.answers = answers
        self.requests.clear()
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until either side ends it."""
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                while not writer.is_closing():
                    first = await reader.readexactly(1)
                    if first == _TLS_HANDSHAKE:
                        await then_close(answer(status=400))(reader, writer)
                        break
                    self.requests.append(first + await reader.readuntil(b"\r\n\r\n"))
                    await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        current = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(current, bytes):
            writer.write(current)
            await writer.drain()
        else:
            await current(reader, writer)


@asynccontextmanager
async def serving(
    *answers: Answer, tls: ssl.SSLContext | None = None, path: Path | None = None
) -> AsyncIterator[RawServer]:
    """Run a server that gives one answer to each request; the last one repeats."""
    server = RawServer(answers=answers, scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(server.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    if path is None:
        listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
        server.address = "{}:{}".format(*listener.sockets[0].getsockname())
    else:
        listener = await asyncio.start_unix_server(accept, path)
        server.path = str(path)
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answer(
    body: bytes = b"",
    *headers: str,
    status: int = 200,
    content_type: str | None = "text/plain; version=0.0.4; charset=utf-8",
    length: int | None = None,
) -> bytes:
    """Spell a whole HTTP answer out; `length` is what Content-Length claims, -1 leaves it out."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *headers]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    if length != -1:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def zipped(body: bytes, *headers: str) -> bytes:
    """Spell an answer out whose body is gzipped and says so."""
    return answer(gzip.compress(body, 1), "Content-Encoding: gzip", *headers)


def chunks(*pieces: bytes, final: bool = True) -> bytes:
    """Spell an answer out in the chunked framing, with or without its last chunk."""
    head = answer(b"", "Transfer-Encoding: chunked", length=-1)
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head + framed + (b"0\r\n\r\n" if final else b"")


def then_close(data: bytes) -> Script:
    """Send these bytes and end the connection in good order."""

    async def run(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return run


def then_reset(data: bytes) -> Script:
    """Send these bytes and reset the connection, as a killed process does."""

    async def run(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if data:
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0.05)  # a reset may overtake what is still on its way
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return run


def dripping(data: bytes, *, every: float = 0.02, first: bytes = b"") -> Script:
    """Send `first` at once and the rest one byte at a time."""

    async def run(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        for byte in data:
            await asyncio.sleep(every)
            writer.write(bytes([byte]))
            await writer.drain()

    return run


def endless(head: bytes, piece: bytes) -> Script:
    """Send the head and then the same piece for ever, as fast as it is taken."""

    async def run(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return run


async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Keep the connection open and never answer."""
    await reader.read()
