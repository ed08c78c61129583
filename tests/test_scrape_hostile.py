"""What a fetch refuses, under which result, at what cost, and that the next fetch is well again."""

import asyncio
import gzip
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from tests.servers import (
    Answer,
    RawServer,
    answer,
    chunks,
    dripping,
    endless,
    serving,
    silent,
    then_close,
    then_reset,
    zipped,
)

from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult
from specgauge.serve.scrape import Endpoint, Scraper

MIB = 1 << 20
CAP = 4 * MIB
PAGE = b'vllm:spec_decode_num_drafts_total{engine="0",model_name="acme/chat-70b"} 100.0\n' * 8
ZIPPED = gzip.compress(PAGE)
GZIP = "Content-Encoding: gzip"
LOGIN = b"<html><body><form>Sign in</form></body></html>\n"
HEAD = answer(b"", "Transfer-Encoding: chunked", length=-1)
HISTOGRAM = b"".join(
    b'other_metric_bucket{path="/v1/%07d",le="0.5"} 1\n' % number for number in range(1000)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One hostile answer with the result and the words that it must end in."""

    given: Answer
    result: ScrapeResult
    says: str
    timeout: float = 5.0


def status(code: int, says: str, *headers: str, body: bytes = b"") -> Refusal:
    given = then_close(answer(body, *headers, status=code))
    return Refusal(given=given, result=ScrapeResult.HTTP_STATUS, says=says)


def redirect(code: int, location: str | None, says: str) -> Refusal:
    headers = () if location is None else (f"Location: {location}",)
    given = answer(b"", *headers, status=code)
    return Refusal(given=given, result=ScrapeResult.REDIRECT, says=says)


def typed(content_type: str, says: str = "not a metrics page") -> Refusal:
    return Refusal(
        given=answer(b"[]", content_type=content_type),
        result=ScrapeResult.UNSUPPORTED_CONTENT_TYPE,
        says=says,
    )


def body(data: bytes, says: str, *, content_type: str = "text/html") -> Refusal:
    given = answer(data, content_type=content_type)
    return Refusal(given=given, result=ScrapeResult.NOT_METRICS, says=says)


def encoded(data: bytes, says: str, *headers: str) -> Refusal:
    given = answer(data, *headers)
    return Refusal(given=given, result=ScrapeResult.BAD_ENCODING, says=says)


def truncated(given: Answer) -> Refusal:
    return Refusal(given=given, result=ScrapeResult.TRUNCATED, says="before it was complete")


def unreachable(given: Answer, says: str) -> Refusal:
    return Refusal(given=given, result=ScrapeResult.UNREACHABLE, says=says)


def too_large(given: Answer, says: str = "raise scrape.max_bytes") -> Refusal:
    return Refusal(given=given, result=ScrapeResult.TOO_LARGE, says=says)


def late(given: Answer) -> Refusal:
    return Refusal(given=given, result=ScrapeResult.TIMEOUT, says="within 0.3 s", timeout=0.3)


def bomb(decoded_mib: int) -> bytes:
    """Spell out a gzip stream of zeros; each flushed block is the same, so none need be made."""
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(MIB)
    first = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + block * (decoded_mib - 1)


REFUSALS = {
    "closed before headers": unreachable(then_close(b""), "closed before an answer"),
    "closed within headers": unreachable(then_close(answer(PAGE)[:20]), "closed before an answer"),
    "reset before headers": unreachable(then_reset(b""), "closed before an answer"),
    "not http": unreachable(then_close(b"SSH-2.0-OpenSSH_9.6\r\n"), "not HTTP: .Bad status line"),
    "two lengths": unreachable(answer(PAGE, "Content-Length: 1"), "not HTTP"),
    "never answers": late(silent),
    "one header byte at a time": late(dripping(answer(PAGE), every=0.05)),
    "one body byte at a time": late(dripping(PAGE, every=0.05, first=answer(b"", length=900))),
    "headers without end": late(dripping(b"X-A: b\r\n" * 99, every=0.01, first=answer()[:-2])),
    "interim answers without end": late(endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
    "body stops": late(chunks(PAGE, final=False)),
    "flood of headers": too_large(endless(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 50), "headers"),
    "flood in one header": too_large(endless(b"HTTP/1.1 200 OK\r\nX-A: ", b"b" * 5000), "headers"),
    "length over the cap": too_large(answer(PAGE, length=CAP + 1)),
    "page over the cap": too_large(endless(HEAD, b"%x\r\n%b\r\n" % (len(HISTOGRAM), HISTOGRAM))),
    "no framing, no end": too_large(endless(answer(length=-1), HISTOGRAM)),
    "gzip bomb": too_large(answer(bomb(1024), GZIP)),
    "bomb in the second member": too_large(answer(ZIPPED + bomb(64), GZIP)),
    "length larger than the body": truncated(then_close(answer(PAGE, length=len(PAGE) + 1))),
    "gzip cut by the connection": truncated(
        then_close(answer(ZIPPED[:-3], GZIP, length=len(ZIPPED)))
    ),
    "no last chunk": truncated(then_close(chunks(PAGE, final=False))),
    "reset within the body": truncated(then_reset(answer(PAGE, length=900))),
    "broken chunk": Refusal(
        given=then_close(HEAD + b"5\r\nhello\r\nzz\r\n"),
        result=ScrapeResult.TRUNCATED,
        says="breaks off",
    ),
    "broken chunk later on": late(dripping(b"zz\r\n", first=HEAD + b"5\r\nhello\r\n")),
    "plain under gzip header": encoded(PAGE, "not valid gzip", GZIP),
    "gzip without header": encoded(ZIPPED, "no Content-Encoding header announces"),
    "gzip in gzip": encoded(gzip.compress(ZIPPED), "no Content-Encoding header announces", GZIP),
    "gzip with a plain tail": encoded(ZIPPED + b"extra_metric 1\n", "follow the gzip stream", GZIP),
    "gzip with half a member": encoded(ZIPPED + b"\x1f", "stops early", GZIP),
    "gzip cut": encoded(ZIPPED[:-3], "stops early", GZIP),
    "gzip with a wrong sum": encoded(ZIPPED[:-8] + bytes(8), "not valid gzip", GZIP),
    "gzip of nothing at all": encoded(b"", "stops early", GZIP),
    "gzip of a thousand members": encoded(gzip.compress(b"") * 1000, "more than 100", GZIP),
    "brotli": encoded(PAGE, "'br'; only gzip", "Content-Encoding: br"),
    "deflate": encoded(zlib.compress(PAGE), "'deflate'", "Content-Encoding: deflate"),
    "twice encoded": encoded(PAGE, "'gzip, br'", GZIP, "Content-Encoding: br"),
    "login page": body(LOGIN, "HTML or XML"),
    "login page as text": body(b"\xef\xbb\xbf\n" + LOGIN, "HTML or XML", content_type="text/plain"),
    "zipped login page": Refusal(
        given=zipped(LOGIN), result=ScrapeResult.NOT_METRICS, says="HTML or XML"
    ),
    "json as text": body(b'{"detail": "Not Found"}', "JSON", content_type="text/plain"),
    "empty list as text": body(b"[]", "JSON", content_type="text/plain"),
    "binary": body(b"\x0a\x05vllm\x00\x12", "binary", content_type="application/octet-stream"),
    "json": typed("application/json", "TensorRT-LLM serves its metrics page at /prometheus/"),
    "problem json": typed("application/problem+json; charset=utf-8"),
    "xml": typed("application/xml"),
    "protobuf": typed("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily"),
    "event stream": typed("text/event-stream"),
    "image": typed("image/png"),
    "204": Refusal(
        given=b"HTTP/1.1 204 No Content\r\n\r\n",
        result=ScrapeResult.HTTP_STATUS,
        says="answered 204 No Content",
    ),
    "206": status(206, "answered 206 Partial Content", body=PAGE),
    "304": status(304, "answered 304 Not Modified"),
    "400": status(400, "answered 400 Bad Request"),
    "401": status(401, "401 Unauthorized; set auth.bearer_file", "WWW-Authenticate: Basic"),
    "403": status(403, "403 Forbidden; the credentials"),
    "404": status(404, "404 Not Found; check the path"),
    "500": status(500, "500 Internal Server Error", body=LOGIN),
    "503": status(503, "503 Service Unavailable", "Retry-After: 5"),
    "299": Refusal(
        given=b"HTTP/1.1 299 \x1b[31mRed\r\nContent-Length: 0\r\n\r\n",
        result=ScrapeResult.HTTP_STATUS,
        says=r"answered 299$",
    ),
    "to another host": redirect(302, "http://u:pw@login.invalid/?next=x", "to 'login.invalid';"),
    "to the same host": redirect(307, "/metrics/", "to '/metrics/' on the same host"),
    "to nowhere": redirect(301, None, "a redirect to '/metrics' on the same host"),
    "to nonsense": redirect(308, "http://[", "to an unreadable Location"),
    "to another scheme": redirect(303, "mailto:a@b.invalid", "to"),
}


@asynccontextmanager
async def scraping(server: RawServer, *, deadline: float = 5.0) -> AsyncIterator[Scraper]:
    url = server.page
    scraper = Scraper(Endpoint(url=url, timeout=deadline, max_bytes=CAP))
    try:
        yield scraper
    finally:
        await scraper.close()


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
async def test_answer_is_refused(refusal: Refusal) -> None:
    """A hostile answer is refused in time and by its name, and the next answer is taken."""
    async with (
        serving(refusal.given) as server,
        scraping(server, deadline=refusal.timeout) as scraper,
    ):
        started = time.monotonic()
        with pytest.raises(SourceError, match=refusal.says) as caught:
            await scraper.fetch()
        assert caught.value.result is refusal.result
        assert time.monotonic() - started < refusal.timeout + 1
        assert caught.value.detail.startswith(f"{server.url}/metrics: ")
        assert caught.value.detail.isprintable()
        assert "pw" not in caught.value.detail
        server.script(answer(PAGE))
        assert (await scraper.fetch()).data == PAGE


async def test_nobody_listens() -> None:
    """A closed port is named, and the server that comes up later is scraped."""
    async with serving(answer(PAGE)) as server:
        pass
    async with scraping(server) as scraper:
        with pytest.raises(SourceError, match="cannot connect: ") as caught:
            await scraper.fetch()
    assert caught.value.result is ScrapeResult.UNREACHABLE


async def test_name_is_unknown() -> None:
    """A name that nobody knows is unreachable, and the credentials in its URL are not shown."""
    scraper = Scraper(Endpoint(url="http://u:pw@engine.invalid:8000/metrics?token=x", timeout=20.0))
    with pytest.raises(SourceError) as caught:
        await scraper.fetch()
    await scraper.close()
    assert caught.value.result is ScrapeResult.UNREACHABLE
    place = "http://engine.invalid:8000/metrics"
    assert caught.value.detail == f"{place}: the host name cannot be resolved"


async def test_header_cannot_be_sent() -> None:
    """A header that would end the request early is refused without showing its value."""
    async with serving(answer(PAGE)) as server:
        headers = {"Authorization": "Bearer s3cret\r\nX: y"}
        scraper = Scraper(Endpoint(url=server.page, headers=headers))
        with pytest.raises(SourceError, match="cannot be sent") as caught:
            await scraper.fetch()
        await scraper.close()
    assert "s3cret" not in caught.value.detail
    assert server.requests == []


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            endless(HEAD, b"%x\r\n%b\r\n" % (len(HISTOGRAM), HISTOGRAM)), id="page without end"
        ),
        pytest.param(answer(bomb(1024), GZIP), id="bomb"),
        pytest.param(answer(PAGE, length=100 * MIB), id="announced"),
        pytest.param(answer(LOGIN + bytes(CAP - len(LOGIN))), id="just under the cap"),
    ],
)
async def test_memory_is_bounded(given: Answer) -> None:
    """Whatever is sent, a fetch holds less than twice the cap."""
    async with serving(given) as server, scraping(server, deadline=30.0) as scraper:
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            with pytest.raises(SourceError):
                await scraper.fetch()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak - before < 2 * CAP


async def test_loop_goes_on() -> None:
    """While chunks of one byte flood in, everything else on the loop goes on."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    flood = endless(HEAD, b"1\r\nx\r\n" * 1000)
    async with serving(flood) as server, scraping(server, deadline=0.5) as scraper:
        ticking = asyncio.create_task(tick())
        with pytest.raises(SourceError) as caught:
            await scraper.fetch()
        ticking.cancel()
    assert caught.value.result is ScrapeResult.TIMEOUT
    assert ticks > 5  # a loop that is held up gets none until the deadline
