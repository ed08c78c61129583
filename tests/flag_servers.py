"""Real servers on 127.0.0.1 that hold a flag, or only seem to; they know nothing of specgauge."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from aiohttp import web


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it arrived; `path` holds the query as well."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        """Read the body."""
        document: object = json.loads(self.body)
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server answers; `hang` never answers at all."""

    status: int = 200
    document: object = None
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False


@dataclass(slots=True)
class FlagServer:
    """A running server: where it is and what it was asked."""

    url: str
    asked: list[Asked] = field(default_factory=list)

    def calls(self) -> list[str]:
        """Name what was asked for, in order."""
        return [f"{one.method} {one.path}" for one in self.asked]


Handler = Callable[[Asked], Reply]


@asynccontextmanager
async def flag_server(
    handler: Handler, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FlagServer]:
    """Run a server that answers each request by calling `handler`."""
    server = FlagServer("")

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        asked = Asked(
            method=request.method,
            path=request.raw_path,
            headers=request.headers.copy(),
            body=await request.read(),
        )
        server.asked.append(asked)
        reply = handler(asked)
        if reply.hang:
            await asyncio.Event().wait()
        headers = dict(reply.headers)
        text = reply.text
        if reply.document is not None:
            text = json.dumps(reply.document)
            headers.setdefault("Content-Type", "application/json")
        return web.Response(status=reply.status, body=text.encode(), headers=headers)

    runner = web.ServerRunner(web.Server(serve), shutdown_timeout=0.01)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.url = f"{'https' if tls else 'http'}://{host}:{port}"
        yield server
    finally:
        await runner.cleanup()


def always(reply: Reply) -> Handler:
    """Answer everything alike."""
    return lambda _: reply


def in_turn(*replies: Reply) -> Handler:
    """Give one answer after the other; the last one repeats."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def by_method(**handlers: Handler) -> Handler:
    """Let a handler of its own answer each method."""
    return lambda asked: handlers[asked.method](asked)


def trusted(
    folder: Path, *, name: str = "127.0.0.1", expired: bool = False
) -> tuple[ssl.SSLContext, str]:
    """Make a certificate for a name: the server's context, and the file that trusts it."""
    authority = trustme.CA()
    until = datetime.now(UTC) - timedelta(days=1) if expired else None
    since = datetime.now(UTC) - timedelta(days=2)
    certificate = authority.issue_cert(name, not_before=since, not_after=until)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    file = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return context, str(file)
