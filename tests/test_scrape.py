"""What a fetch asks for and what it takes: the answers that make a page."""

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from tests.servers import (
    Answer,
    RawServer,
    answer,
    chunks,
    serving,
    silent,
    then_close,
    then_reset,
    zipped,
)

from specgauge import __version__
from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult
from specgauge.serve.scrape import Body, Endpoint, Scraper

PAGE = b"".join(
    b'vllm:spec_decode_num_%b_total{engine="0",model_name="acme/chat-70b"} %d.0\n' % pair
    for pair in [(b"drafts", 100), (b"draft_tokens", 300), (b"accepted_tokens", 210)]
)


@asynccontextmanager
async def scraping(endpoint: Endpoint) -> AsyncIterator[Scraper]:
    scraper = Scraper(endpoint)
    try:
        yield scraper
    finally:
        await scraper.close()


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with serving(answer(PAGE)) as running:
        yield running


@pytest.fixture
async def scraper(server: RawServer) -> AsyncIterator[Scraper]:
    async with scraping(Endpoint(url=server.page)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("given", "complete", "notes"),
    [
        pytest.param(answer(PAGE), True, (), id="plain"),
        pytest.param(zipped(PAGE), True, (), id="gzip"),
        pytest.param(
            answer(gzip.compress(PAGE), "Content-Encoding: X-GZIP"), True, (), id="x-gzip"
        ),
        pytest.param(
            answer(gzip.compress(PAGE[:50]) + gzip.compress(PAGE[50:]), "Content-Encoding: gzip"),
            True,
            (),
            id="two gzip members",
        ),
        pytest.param(answer(PAGE, "Content-Encoding: identity"), True, (), id="identity"),
        pytest.param(chunks(PAGE[:7], PAGE[7:8], PAGE[8:]), True, (), id="chunked"),
        pytest.param(then_close(answer(PAGE, length=-1)), False, (), id="ends by closing"),
        pytest.param(
            answer(PAGE, content_type=None), True, ("content_type_missing",), id="no type"
        ),
        pytest.param(
            answer(PAGE, content_type=""), True, ("content_type_missing",), id="blank type"
        ),
        pytest.param(
            answer(PAGE, content_type="text/html; charset=utf-8"),
            True,
            ("content_type_html",),
            id="called html",
        ),
        pytest.param(
            answer(PAGE, content_type="application/octet-stream"),
            True,
            ("content_type_unknown",),
            id="called bytes",
        ),
        pytest.param(
            answer(PAGE, content_type="application/vnd.acme"),
            True,
            ("content_type_unknown",),
            id="vendor type",
        ),
        pytest.param(
            answer(PAGE, content_type="Application/OpenMetrics-Text; version=1.0.0"),
            True,
            (),
            id="openmetrics",
        ),
    ],
)
async def test_page_is_taken(
    server: RawServer, scraper: Scraper, given: Answer, complete: bool, notes: tuple[str, ...]
) -> None:
    """A page arrives unchanged, however it was framed, packed and labelled."""
    server.script(given)
    assert await scraper.fetch() == Body(data=PAGE, complete=complete, notes=notes)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"vllm:x",engine="0"} 1\n', id="quoted name"),
        pytest.param(b"{}"[:0] + b"x 1", id="no final newline"),
    ],
)
async def test_odd_page_is_taken(server: RawServer, scraper: Scraper, page: bytes) -> None:
    """What only looks like something else is left to the parser."""
    server.script(answer(page))
    assert (await scraper.fetch()).data == page


async def test_request(server: RawServer) -> None:
    """The request names who asks and what is understood, and carries the extra headers."""
    headers = {"Authorization": "Bearer s3cret", "X-Scope": "a"}
    url = server.url.replace("://", "://user:pw@") + "/m%2Fx?name[]=a|b%20c"
    async with scraping(Endpoint(url=url, headers=headers)) as scraper:
        await scraper.fetch()
    sent = server.requests[0]
    assert sent.startswith(b"GET /m%2Fx?name[]=a|b%20c HTTP/1.1\r\n")
    expected: Mapping[str, str | None] = {
        "Host": server.address,
        "User-Agent": f"specgauge/{__version__}",
        "Accept-Encoding": "gzip",
        "Authorization": "Bearer s3cret",
        "X-Scope": "a",
        "Cookie": None,
    }
    assert {name: server.header(name) for name in expected} == expected
    accept = server.header("Accept") or ""
    assert accept.startswith("text/plain;version=0.0.4,")
    assert "utf-8" not in accept


async def test_credentials_in_url(server: RawServer) -> None:
    """A user and a password in the URL are sent as such."""
    url = server.page.replace("://", "://user:p%40w@")
    async with scraping(Endpoint(url=url)) as scraper:
        await scraper.fetch()
    assert server.header("Authorization") == "Basic dXNlcjpwQHc="


async def test_environment_is_ignored(
    server: RawServer, scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a proxy of the environment nor a cookie of an earlier answer changes a request."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.script(answer(PAGE, "Set-Cookie: a=b"))
    await scraper.fetch()
    await scraper.fetch()
    assert server.header("Cookie") is None


async def test_connection_is_kept(server: RawServer, scraper: Scraper) -> None:
    """Scrapes share one connection."""
    for _ in range(3):
        await scraper.fetch()
    assert (server.connections, len(server.requests)) == (1, 3)


@pytest.mark.parametrize("ending", [then_close(b""), then_reset(b"")], ids=["closed", "reset"])
async def test_kept_connection_ends(server: RawServer, scraper: Scraper, ending: Answer) -> None:
    """A kept connection that ends under the next request costs a new connection, not a scrape."""
    server.script(answer(PAGE), ending, answer(PAGE))
    await scraper.fetch()
    assert (await scraper.fetch()).data == PAGE
    assert (server.connections, len(server.requests)) == (2, 3)


async def test_kept_connection_was_closed(server: RawServer, scraper: Scraper) -> None:
    """A server that closes after each answer is asked on a new connection each time."""
    server.script(then_close(answer(PAGE)))
    for _ in range(3):
        await scraper.fetch()
    assert server.connections == 3


@pytest.mark.parametrize("first", [then_close(b""), then_reset(b"")], ids=["closed", "reset"])
async def test_new_connection_is_not_repeated(
    server: RawServer, scraper: Scraper, first: Answer
) -> None:
    """A new connection that fails is a failed scrape: the request is not sent again."""
    server.script(first, answer(PAGE))
    with pytest.raises(SourceError) as caught:
        await scraper.fetch()
    assert caught.value.result is ScrapeResult.UNREACHABLE
    assert len(server.requests) == 1


async def test_started_answer_is_not_repeated(server: RawServer, scraper: Scraper) -> None:
    """A kept connection that ends within the headers is a failed scrape."""
    server.script(answer(PAGE), then_close(b"HTTP/1.1 200 OK\r\nContent-Ty"), answer(PAGE))
    await scraper.fetch()
    with pytest.raises(SourceError, match="closed before an answer"):
        await scraper.fetch()
    assert len(server.requests) == 2


async def test_unix_socket(tmp_path: Path) -> None:
    """An engine behind a unix socket is asked like any other."""
    async with (
        serving(answer(PAGE), path=tmp_path / "engine.sock") as server,
        scraping(Endpoint(url=server.page)) as scraper,
    ):
        assert (await scraper.fetch()).data == PAGE
        assert server.requests[0].startswith(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        server.script(answer(b'{"version": "0.9.2"}'))
        assert await scraper.fetch_json("/version") == {"version": "0.9.2"}


async def test_unix_socket_is_missing(tmp_path: Path) -> None:
    """A socket that is not there is named in the error."""
    url = f"http+unix://{tmp_path}/no.sock:/m?token=x"
    async with scraping(Endpoint(url=url)) as scraper:
        with pytest.raises(SourceError) as caught:
            await scraper.fetch()
    assert caught.value.result is ScrapeResult.UNREACHABLE
    assert caught.value.detail == (
        f"http+unix://{tmp_path}/no.sock:/m: cannot connect: No such file or directory"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(answer(b'{"version": "0.25.1"}'), {"version": "0.25.1"}, id="document"),
        pytest.param(zipped(b"[1]"), [1], id="gzip"),
        pytest.param(answer(b'{"version"'), None, id="no document"),
        pytest.param(answer(b"\xff\xfe\x00"), None, id="no text"),
        pytest.param(answer(b"[" * 60_000), None, id="too deep"),
        pytest.param(answer(b"1" * 70_000), None, id="too large"),
        pytest.param(answer(b"{}", status=404), None, id="not found"),
        pytest.param(answer(b"", "Location: /", status=302), None, id="redirect"),
        pytest.param(then_close(b""), None, id="closed"),
        pytest.param(silent, None, id="silent"),
    ],
)
async def test_fetch_json(server: RawServer, given: Answer, expected: object) -> None:
    """A document of the same server is had, or None, and the next scrape does not notice."""
    async with scraping(Endpoint(url=server.page, timeout=1.0)) as scraper:
        await scraper.fetch()
        server.script(given)
        assert await scraper.fetch_json("/version") == expected
        assert server.requests[0].startswith(b"GET /version HTTP/1.1\r\n")
        server.script(answer(PAGE))
        assert (await scraper.fetch()).data == PAGE


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(answer(b'{"version": "0.25.1"}'), "0.25.1", id="release"),
        pytest.param(answer(b'{"version": 25}'), None, id="number"),
        pytest.param(answer(b'{"version": ""}'), None, id="empty"),
        pytest.param(answer(b'{"version": "a\\nb"}'), None, id="two lines"),
        pytest.param(answer(b'{"version": "%s"}' % (b"9" * 64)), "9" * 64, id="longest"),
        pytest.param(answer(b'{"version": "%s"}' % (b"9" * 65)), None, id="too long"),
        pytest.param(answer(b'["0.25.1"]'), None, id="a list"),
        pytest.param(answer(status=404), None, id="not found"),
    ],
)
async def test_fetch_version(
    server: RawServer, scraper: Scraper, given: Answer, expected: str | None
) -> None:
    """A server's release is a short text on one line; anything else is no release."""
    server.script(given)
    assert await scraper.fetch_version() == expected
    assert server.requests[0].startswith(b"GET /version HTTP/1.1\r\n")


async def test_close(server: RawServer, scraper: Scraper) -> None:
    """A closed scraper can be closed again and opens anew when asked."""
    await scraper.close()
    await scraper.fetch()
    await scraper.close()
    await scraper.close()
    await scraper.fetch()
    assert server.connections == 2


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def authority_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def trusted_by(authority: trustme.CA, name: str, *, mutual: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    if mutual:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize(
    ("name", "server_name"),
    [
        pytest.param("127.0.0.1", None, id="by address"),
        pytest.param("engine.internal", "engine.internal", id="by another name"),
    ],
)
async def test_tls(
    authority: trustme.CA, authority_file: str, name: str, server_name: str | None
) -> None:
    """A server is trusted by the named authority, under the name that it is said to have."""
    async with serving(answer(PAGE), tls=trusted_by(authority, name)) as server:
        url = server.page
        endpoint = Endpoint(url=url, ca_file=authority_file, server_name=server_name)
        async with scraping(endpoint) as scraper:
            assert (await scraper.fetch()).data == PAGE
            assert (await scraper.fetch()).data == PAGE
        assert server.connections == 1


async def test_client_certificate(
    authority: trustme.CA, authority_file: str, tmp_path: Path
) -> None:
    """A server that wants to know its clients is shown the certificate."""
    mine = authority.issue_cert("specgauge.internal")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    mine.cert_chain_pems[0].write_to_path(str(cert))
    mine.private_key_pem.write_to_path(str(key))
    async with serving(answer(PAGE), tls=trusted_by(authority, "127.0.0.1", mutual=True)) as server:
        url = server.page
        known = Endpoint(url=url, ca_file=authority_file, cert_file=str(cert), key_file=str(key))
        async with scraping(known) as scraper:
            assert (await scraper.fetch()).data == PAGE
        async with scraping(Endpoint(url=url, ca_file=authority_file)) as scraper:
            with pytest.raises(SourceError) as caught:
                await scraper.fetch()
        assert caught.value.result is ScrapeResult.UNREACHABLE  # asyncio's server never says why
        assert "tls.cert_file" in caught.value.detail


async def test_client_certificate_is_missing(authority: trustme.CA, authority_file: str) -> None:
    """A server that says it wants a certificate is understood."""
    context = trusted_by(authority, "127.0.0.1", mutual=True)

    def shake_hands(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False) as secure:
            with pytest.raises(ssl.SSLError):
                secure.do_handshake()
            secure.shutdown(socket.SHUT_WR)
            while secure.recv(4096):  # closing now would let a reset overtake the alert
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = "https://{}:{}/metrics".format(*listener.getsockname())
        serving_once = asyncio.create_task(asyncio.to_thread(shake_hands, listener))
        async with scraping(Endpoint(url=url, ca_file=authority_file)) as scraper:
            with pytest.raises(SourceError, match=r"tls\.cert_file") as caught:
                await scraper.fetch()
        await serving_once
    assert caught.value.result is ScrapeResult.TLS


@pytest.mark.parametrize(
    ("name", "trusted", "says"),
    [
        pytest.param("127.0.0.1", False, "certificate not accepted", id="unknown authority"),
        pytest.param("other.internal", True, "tls.server_name", id="another name"),
    ],
)
async def test_certificate_is_refused(
    authority: trustme.CA, authority_file: str, name: str, trusted: bool, says: str
) -> None:
    """A certificate that does not fit is refused before anything is sent."""
    async with serving(answer(PAGE), tls=trusted_by(authority, name)) as server:
        endpoint = Endpoint(url=server.page, ca_file=authority_file if trusted else None)
        async with scraping(endpoint) as scraper:
            with pytest.raises(SourceError, match=says) as caught:
                await scraper.fetch()
        assert caught.value.result is ScrapeResult.TLS
        assert server.requests == []


async def test_certificates_are_renewed(authority: trustme.CA, tmp_path: Path) -> None:
    """Files that are replaced after a failure are read again by the next fetch."""
    path = tmp_path / "ca.pem"
    async with (
        serving(answer(PAGE), tls=trusted_by(authority, "127.0.0.1")) as server,
        scraping(Endpoint(url=server.page, ca_file=str(path))) as scraper,
    ):
        with pytest.raises(SourceError, match=r"cannot load the certificates from .*ca\.pem"):
            await scraper.fetch()
        trustme.CA().cert_pem.write_to_path(str(path))
        with pytest.raises(SourceError, match="certificate not accepted"):
            await scraper.fetch()
        authority.cert_pem.write_to_path(str(path))
        assert (await scraper.fetch()).data == PAGE


async def test_tls_where_http_is_spoken(server: RawServer) -> None:
    """https:// at a plain port says so."""
    url = server.page.replace("http:", "https:")
    async with scraping(Endpoint(url=url)) as scraper:
        with pytest.raises(SourceError, match="does not speak TLS") as caught:
            await scraper.fetch()
    assert caught.value.result is ScrapeResult.TLS


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(then_close(b"\x15\x03\x01\x00\x02\x02\x50"), id="alert"),
        pytest.param(
            then_close(answer(b"Client sent an HTTP request to an HTTPS server.\n", status=400)),
            id="in words",
        ),
    ],
)
async def test_http_where_tls_is_spoken(server: RawServer, scraper: Scraper, given: Answer) -> None:
    """http:// at a TLS port says so, where the server tells."""
    server.script(given)
    with pytest.raises(SourceError, match="speaks TLS; write https://") as caught:
        await scraper.fetch()
    assert caught.value.result is ScrapeResult.TLS
