"""Fetches a page from an engine over HTTP within one deadline; it neither parses nor schedules."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import SimpleNamespace

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, ClientSession, hdrs
from multidict import CIMultiDict
from yarl import URL

from specgauge import __version__
from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult
from specgauge.serve.decode import (
    Intake,
    check_content_encoding,
    check_content_type,
    check_page,
    refuse_size,
)
from specgauge.serve.failures import explain, refuse_status

_UNIX = "http+unix://"
_ACCEPT = "text/plain;version=0.0.4,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"
_MAX_HEADER = 8190
_MAX_JSON = 64 * 1024
_LONGEST_VERSION = 64
_DEADLINE_IS_OURS = aiohttp.ClientTimeout(total=None, sock_connect=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a page is fetched and on which terms; `timeout` covers connecting to last byte.

    `url` names the page itself; behind a unix socket it is `http+unix:///PATH.sock:/PAGE`.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    timeout: float = 3.0
    max_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A decoded page; `complete` says that the HTTP framing proves that nothing is missing."""

    data: bytes
    complete: bool
    notes: tuple[str, ...] = ()


class Scraper:
    """Fetches one engine's page again and again over one kept connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._socket: str | None = None
        url = endpoint.url
        if url.startswith(_UNIX):
            self._socket, _, page = url.removeprefix(_UNIX).partition(":/")
            url = f"http://localhost/{page}"
        self._url = URL(url, encoded=url.isascii())  # asked for as written, nothing requoted
        self._headers = CIMultiDict(
            {
                hdrs.ACCEPT: _ACCEPT,
                hdrs.ACCEPT_ENCODING: "gzip",
                hdrs.USER_AGENT: f"specgauge/{__version__}",
            }
        )
        self._headers.update(endpoint.headers)
        if hdrs.AUTHORIZATION in self._headers:
            self._url = self._url.with_user(None)
        shown = self._url.with_user(None).with_query(None)
        self._place = f"{_UNIX}{self._socket}:{shown.path}" if self._socket else str(shown)
        asked = url.startswith("https://") and endpoint.cert_file is None
        self._closed_hint = "; does the server ask for tls.cert_file?" if asked else ""
        self._session: ClientSession | None = None

    async def fetch(self) -> Body:
        """Fetch the page, or raise `SourceError` with the result to count and one line to show."""
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                return await self._fetch_page()
        except TimeoutError as error:
            detail = f"no complete answer within {self._endpoint.timeout:g} s"
            raise SourceError(ScrapeResult.TIMEOUT, f"{self._place}: {detail}") from error
        except (SourceError, aiohttp.ClientError, OSError, ValueError) as error:
            failure = error if isinstance(error, SourceError) else explain(error)
            if failure.result is ScrapeResult.TLS:
                await self.close()  # certificates get renewed: the next fetch reads the files anew
            raise SourceError(failure.result, f"{self._place}: {failure.detail}") from error

    async def fetch_json(self, path: str) -> object | None:
        """Ask the same server for a small JSON document; None whatever goes wrong."""
        url = self._url.with_path(path)
        headers = {hdrs.ACCEPT: "application/json", hdrs.CONNECTION: "close"}
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                async with self._open().get(
                    url,
                    headers=headers,
                    allow_redirects=False,
                    server_hostname=self._endpoint.server_name,
                ) as response:
                    if response.status != HTTPStatus.OK:
                        return None
                    text = await _read(response, _MAX_JSON)
                document: object = json.loads(text)
                return document
        except (SourceError, aiohttp.ClientError, OSError, ValueError, RecursionError):
            return None

    async def fetch_version(self) -> str | None:
        """Ask the same server for its release; None where it tells no short text on one line."""
        answer = await self.fetch_json("/version")
        version = answer.get("version") if isinstance(answer, dict) else None
        if not isinstance(version, str) or not version.isprintable():
            return None
        return version if 0 < len(version) <= _LONGEST_VERSION else None

    async def close(self) -> None:
        """Let go of the connection; a later fetch opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _fetch_page(self) -> Body:
        attempt = _Attempt(self._closed_hint)
        async with self._open().get(
            self._url,
            allow_redirects=False,
            server_hostname=self._endpoint.server_name,
            middlewares=(attempt,),
            trace_request_ctx=attempt,
        ) as response:
            if response.status != HTTPStatus.OK:
                await refuse_status(response)
            notes = check_content_type(response.headers.get(hdrs.CONTENT_TYPE))
            page = await _read(response, self._endpoint.max_bytes)
            check_page(page)
            framed = hdrs.CONTENT_LENGTH in response.headers or _is_chunked(response)
            return Body(data=page, complete=framed, notes=notes)

    def _open(self) -> ClientSession:
        if self._session is None:
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_reuseconn.append(_mark_reused)
            self._session = ClientSession(
                connector=self._connector(),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_DEADLINE_IS_OURS,
                auto_decompress=False,
                trust_env=False,
                max_line_size=_MAX_HEADER,
                max_field_size=_MAX_HEADER,
                trace_configs=[tracing],
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        if self._socket is not None:
            return aiohttp.UnixConnector(self._socket)
        if self._url.scheme == "https":
            return aiohttp.TCPConnector(ssl=_trust(self._endpoint))
        return aiohttp.TCPConnector()


@dataclass(slots=True)
class _Attempt:
    """Lets aiohttp repeat a request only where an idle connection turned out to be closed."""

    hint: str
    reused: bool = False

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        try:
            return await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            silent = isinstance(getattr(error, "message", ""), str)  # else: a head in part
            if self.reused and silent:
                raise  # aiohttp repeats it, once, on a new connection
            raise explain(error, hint=self.hint) from error


async def _mark_reused(
    _session: ClientSession,
    context: SimpleNamespace,
    _params: aiohttp.TraceConnectionReuseconnParams,
) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx.reused = True


async def _read(response: ClientResponse, limit: int) -> bytes:
    gzip = check_content_encoding(response.headers.getall(hdrs.CONTENT_ENCODING, ()))
    if (response.content_length or 0) > limit:
        raise refuse_size(limit)
    intake = Intake(gzip=gzip, limit=limit)
    content = response.content
    while piece := await content.readany():
        intake.feed(piece)
    return intake.finish()


def _is_chunked(response: ClientResponse) -> bool:
    return "chunked" in response.headers.get(hdrs.TRANSFER_ENCODING, "").lower()


def _trust(endpoint: Endpoint) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
        if endpoint.cert_file is not None:  # a key with a passphrase fails instead of asking
            context.load_cert_chain(endpoint.cert_file, endpoint.key_file, password=lambda: "")
    except OSError as error:
        named = (endpoint.ca_file, endpoint.cert_file, endpoint.key_file)
        files = ", ".join(name for name in named if name is not None)
        raise SourceError(
            ScrapeResult.TLS, f"cannot load the certificates from {files}: {error}"
        ) from error
    return context
