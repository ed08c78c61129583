"""Turns the body of an HTTP answer into a metrics page or says why it is none; no socket, no await.

Every check raises `SourceError` with a detail that names neither host nor path: the caller adds
the place.
"""

import io
import re
import zlib
from collections.abc import Sequence

from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib's number for: a gzip header and trailer, the largest window
_STEP = 256 * 1024  # decoded in one go: all that a bomb can take beyond the limit
_MAX_MEMBERS = 100  # empty members cost time and yield nothing, so they are counted
_HEAD = 4096

_EXPECTED = frozenset({"text/plain", "application/openmetrics-text"})
_JSON = re.compile(r"(application|text)/([\w.+-]+\+)?json\b")
_NEVER_METRICS = re.compile(
    r"(image|audio|video|font|multipart)/"
    r"|(application|text)/([\w.+-]+\+)?xml\b"
    r"|text/event-stream\b"
    r"|application/.*protobuf\b"
)
_MARKUP = re.compile(rb"(?:\xef\xbb\xbf)?\s*<")
_JSON_TEXT = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[|\{\s*(?:"[^"\\\n]*"\s*:|\}))')


def quote(text: str, *, limit: int = 120) -> str:
    """Make text that a stranger sent fit for one line of a log or a page."""
    shown = text if len(text) <= limit else f"{text[:limit]}..."
    return ascii(shown)


def check_content_type(value: str | None) -> tuple[str, ...]:
    """Refuse types that are never a metrics page; note the ones that only may be."""
    media = (value or "").partition(";")[0].strip().lower()
    if media in _EXPECTED:
        return ()
    if not media:
        return ("content_type_missing",)
    if media == "text/html":
        return ("content_type_html",)
    if _JSON.match(media):
        raise SourceError(
            ScrapeResult.UNSUPPORTED_CONTENT_TYPE,
            f"Content-Type is {quote(media)}, not a metrics page; "
            "TensorRT-LLM serves its metrics page at /prometheus/metrics",
        )
    if _NEVER_METRICS.match(media):
        raise SourceError(
            ScrapeResult.UNSUPPORTED_CONTENT_TYPE,
            f"Content-Type is {quote(media)}, not a metrics page; check the path of the URL",
        )
    return ("content_type_unknown",)


def check_content_encoding(values: Sequence[str]) -> bool:
    """Tell whether the body is gzipped, going by the header alone."""
    names = [name.strip().lower() for value in values for name in value.split(",")]
    named = [name for name in names if name not in {"", "identity"}]
    if not named:
        return False
    if named in (["gzip"], ["x-gzip"]):
        return True
    raise SourceError(
        ScrapeResult.BAD_ENCODING,
        f"Content-Encoding is {quote(', '.join(named))}; only gzip was asked for",
    )


def check_page(page: bytes) -> None:
    """Refuse a body that is plainly something other than an exposition."""
    if page.startswith(_GZIP_MAGIC):
        raise SourceError(
            ScrapeResult.BAD_ENCODING, "the body is gzip that no Content-Encoding header announces"
        )
    if _MARKUP.match(page):
        raise SourceError(
            ScrapeResult.NOT_METRICS,
            "the body is HTML or XML, not a metrics page; a login page or a wrong path?",
        )
    if _JSON_TEXT.match(page):
        raise SourceError(
            ScrapeResult.NOT_METRICS, "the body is JSON, not a metrics page; check the path"
        )
    if page.find(b"\0", 0, _HEAD) >= 0:
        raise SourceError(ScrapeResult.NOT_METRICS, "the body is binary, not a metrics page")


def refuse_size(limit: int) -> SourceError:
    """Word the refusal of a body over the limit."""
    return SourceError(
        ScrapeResult.TOO_LARGE,
        f"the body is larger than {limit} bytes; raise scrape.max_bytes if the page is genuine",
    )


class Intake:
    """Collects one body piece by piece and refuses it as soon as it exceeds `limit`, decoded."""

    def __init__(self, *, gzip: bool, limit: int) -> None:
        self._limit = limit
        self._received = 0
        self._members = 1
        self._inflator = zlib.decompressobj(_GZIP_WINDOW) if gzip else None
        self._page = io.BytesIO()  # hands its bytes over without a copy, unlike join

    def feed(self, data: bytes) -> None:
        """Take the next piece as it came off the wire."""
        self._received += len(data)
        if self._received > self._limit:
            raise refuse_size(self._limit)
        if self._inflator is None:
            self._page.write(data)
            return
        try:
            self._inflate(data)
        except zlib.error as error:
            raise SourceError(
                ScrapeResult.BAD_ENCODING,
                f"Content-Encoding is gzip but the body is not valid gzip ({error})",
            ) from error

    def finish(self) -> bytes:
        """Hand over the whole page, once the last piece is in."""
        if self._inflator is not None and not self._inflator.eof:
            raise SourceError(
                ScrapeResult.BAD_ENCODING, "Content-Encoding is gzip but the stream stops early"
            )
        return self._page.getvalue()

    def _inflate(self, data: bytes) -> None:
        assert self._inflator is not None
        while data:
            if self._inflator.eof:
                self._inflator = self._next_member(data)
            self._page.write(self._inflator.decompress(data, _STEP))
            if self._page.tell() > self._limit:
                raise refuse_size(self._limit)
            data = self._inflator.unconsumed_tail or self._inflator.unused_data

    def _next_member(self, data: bytes) -> "zlib._Decompress":
        self._members += 1
        if self._members > _MAX_MEMBERS:
            raise SourceError(
                ScrapeResult.BAD_ENCODING, f"the body has more than {_MAX_MEMBERS} gzip members"
            )
        if not _GZIP_MAGIC.startswith(data[:2]):
            raise SourceError(
                ScrapeResult.BAD_ENCODING, "bytes that are not gzip follow the gzip stream"
            )
        return zlib.decompressobj(_GZIP_WINDOW)
