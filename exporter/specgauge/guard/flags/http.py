"""Talks HTTP to the one host that holds a flag; it follows no redirect and tells no secret."""

import asyncio
import json
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from time import time
from types import MappingProxyType
from typing import NoReturn

import aiohttp
from aiohttp import ClientResponse, hdrs
from multidict import CIMultiDict
from yarl import URL

from specgauge.guard.flags.http_failures import (
    clean,
    explain,
    redirect_detail,
    result_of,
    retry_after,
    words_of,
)
from specgauge.guard.flags.protocol import FlagError, WriteResult
from specgauge.guard.flags.redact import excerpt
from specgauge.guard.flags.secret import read_token, secrets_in
from specgauge.guard.flags.urls import check_url, show

MAX_ANSWER = 64 * 1024
_HEADERS = MappingProxyType(
    {
        hdrs.ACCEPT: "application/json",
        hdrs.ACCEPT_ENCODING: "identity",
        hdrs.USER_AGENT: "specgauge",
    }
)
_REDIRECTION = 3  # hundred
_DEADLINE_IS_OURS = aiohttp.ClientTimeout(total=None, sock_connect=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTerms:
    """Which server is asked and how; `timeout` covers a call from connecting to the last byte.

    `url` is the server's root, with a path before all others where it has one. The token is
    `token` or read from `token_file` at each call; it goes into `token_header`, after
    `token_scheme` and a blank.
    """

    url: str
    timeout: float = 5.0
    headers: Mapping[str, str] = field(default_factory=dict)
    token_file: str | None = None
    token: str | None = field(default=None, repr=False)
    token_header: str = hdrs.AUTHORIZATION
    token_scheme: str = "Bearer"  # noqa: S105 - names no secret
    ca_file: str | None = None
    max_bytes: int = MAX_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """A whole answer with a status that was expected; `place` is where it came from."""

    status: int
    body: bytes
    content_type: str
    place: str
    secrets: Collection[str] = field(default=(), repr=False)

    @property
    def is_html(self) -> bool:
        """Whether this is a page for people: a login, a proxy's error."""
        return "html" in self.content_type.lower() or self.body.lstrip()[:1] == b"<"

    def json(self) -> object:
        """Read the body as JSON, or raise FlagError."""
        if self.is_html:
            raise self.unreadable("answered with HTML where JSON was expected; is the URL right?")
        try:
            document: object = json.loads(self.body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise self.unreadable("the answer is not JSON; is the URL right?") from error
        return document

    def quote(self, words: str) -> str:
        """Make of words in the answer what an error may repeat."""
        return excerpt(words, self.secrets)

    def unreadable(self, detail: str) -> FlagError:
        """Make the error that says what is wrong with this answer."""
        return FlagError(WriteResult.UNREADABLE, f"{self.place}: {detail}")


class FlagHttp:
    """Calls one server; every call ends within the timeout and raises nothing but FlagError."""

    def __init__(self, terms: HttpTerms, *, now: Callable[[], float] = time) -> None:
        self._terms = terms
        self._now = now
        self._url = check_url(terms.url)
        self._trust: ssl.SSLContext | None = None
        self._secrets: set[str] = set()

    @property
    def place(self) -> str:
        """The server's root, for people; without credentials and query."""
        return show(self._url)

    async def call(
        self,
        method: str,
        path: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        document: object = None,
        expect: Collection[int] = (HTTPStatus.OK,),
    ) -> HttpAnswer:
        """Ask for `path` below the root, already quoted, with or without query; FlagError if not.

        `document` is sent as JSON; `body` as it is.
        """
        url = self._below(path)
        place = f"{method} {show(url)}"
        sent = CIMultiDict(_HEADERS)
        if document is not None:
            body = json.dumps(document).encode()
            sent[hdrs.CONTENT_TYPE] = "application/json"
        for more in (self._terms.headers, headers or {}, self._token(place)):
            sent.update(more)
        secrets = self._secrets = secrets_in(url, sent)
        if hdrs.AUTHORIZATION in sent:
            url = url.with_user(None)
        try:
            async with asyncio.timeout(self._terms.timeout):
                return await self._exchange(method, url, sent, body, expect, place)
        except TimeoutError as error:
            detail = f"no complete answer within {self._terms.timeout:g} s"
            raise FlagError(WriteResult.TIMEOUT, f"{place}: {detail}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            result, detail = explain(error)
            if result is WriteResult.TLS:
                self._trust = None  # certificates get renewed: the next call reads the file anew
            raise FlagError(result, clean(f"{place}: {detail}", secrets)) from None
        except FlagError as error:
            detail = clean(error.detail, secrets)
            raise FlagError(error.result, detail, error.retry_after) from None

    def quote(self, words: str) -> str:
        """Make of a server's words what an error may repeat: one short line without a secret."""
        return excerpt(words, self._secrets)

    async def close(self) -> None:
        """Give up connections; none outlives its call."""

    async def _exchange(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        expect: Collection[int],
        place: str,
    ) -> HttpAnswer:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._context(url), force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_DEADLINE_IS_OURS,
                auto_decompress=False,
                trust_env=False,
                skip_auto_headers=(hdrs.CONTENT_TYPE,),
            ) as session,
            session.request(
                method, url, headers=headers, data=body, allow_redirects=False
            ) as response,
        ):
            if response.status not in expect:
                await self._refuse(response, place, expect)
            return await self._read(response, place)

    async def _refuse(
        self, response: ClientResponse, place: str, expect: Collection[int]
    ) -> NoReturn:
        """Raise for a status that was not expected."""
        status = response.status
        if status // 100 == _REDIRECTION and status != HTTPStatus.NOT_MODIFIED:
            location = response.headers.get(hdrs.LOCATION, "")
            detail = self.quote(redirect_detail(response.url, status, location))
            raise FlagError(WriteResult.REDIRECT, f"{place}: {detail}")
        result, detail = result_of(status, expect)
        said = await response.content.read(1024)
        if b"<" not in said[:64] and said.strip():
            detail += f", saying {self.quote(words_of(said))}"
        wait = retry_after(response.headers.get(hdrs.RETRY_AFTER), self._now())
        raise FlagError(result, f"{place}: {detail}", wait)

    async def _read(self, response: ClientResponse, place: str) -> HttpAnswer:
        answer = HttpAnswer(
            status=response.status,
            body=b"",
            content_type=response.headers.get(hdrs.CONTENT_TYPE, ""),
            place=place,
            secrets=frozenset(self._secrets),
        )
        if response.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            raise answer.unreadable("the answer is compressed though that was not asked for")
        taken = bytearray()
        while piece := await response.content.readany():
            taken += piece
            if len(taken) > self._terms.max_bytes:
                raise answer.unreadable(f"the answer is larger than {self._terms.max_bytes} bytes")
        return replace(answer, body=bytes(taken))

    def _below(self, path: str) -> URL:
        root = self._url
        if not path:
            return root
        if " " in path or not path.isprintable():
            detail = "the path holds blanks or control characters; quote them"
            raise FlagError(WriteResult.REFUSED, f"{show(root)}: {detail}")
        start = str(root.with_query(None).with_fragment(None)).rstrip("/")
        return URL(f"{start}/{path.removeprefix('/')}", encoded=path.isascii())

    def _context(self, url: URL) -> ssl.SSLContext | bool:
        if url.scheme != "https":
            return True
        if self._trust is None:
            try:
                self._trust = ssl.create_default_context(cafile=self._terms.ca_file)
            except OSError as error:
                reason = error.strerror or "no certificate in it"
                raise FlagError(
                    WriteResult.TLS,
                    f"ca_file {self._terms.ca_file} cannot be loaded: {reason}; give a PEM file",
                ) from error
        return self._trust

    def _token(self, place: str) -> dict[str, str]:
        token, file = self._terms.token, self._terms.token_file
        if token is None and file is None:
            return {}
        if token is None:
            token = read_token(file or "", place)
        return {self._terms.token_header: f"{self._terms.token_scheme} {token}".strip()}


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
