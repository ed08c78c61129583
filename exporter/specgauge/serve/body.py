"""Reads what a request carries, however it is encoded; what cannot be read is the asker's fault."""

import zlib
from http import HTTPStatus

from aiohttp import hdrs, web

from specgauge.errors import SpecgaugeError

LONGEST_BODY = 64 * 1024
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class BodyError(SpecgaugeError):
    """A body that cannot be read: the status to answer, and a line on why."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        self.status = status
        self.detail = detail
        super().__init__(detail)


async def read_body(request: web.Request) -> bytes:
    """Read the whole body as it was before it was compressed; raises BodyError."""
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large() from None
    except web.RequestPayloadError:
        raise BodyError(HTTPStatus.BAD_REQUEST, "the body is broken off or malformed") from None
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "").strip().lower()
    return body if encoding in {"", "identity"} else _inflate(body, encoding)


def _inflate(body: bytes, encoding: str) -> bytes:
    window = _WINDOWS.get(encoding)
    if window is None:
        detail = "the body's Content-Encoding is none of gzip, deflate; send it plain"
        raise BodyError(HTTPStatus.BAD_REQUEST, detail)
    opened = zlib.decompressobj(window)
    try:
        plain = opened.decompress(body, LONGEST_BODY + 1)
    except zlib.error:
        plain = b""
    if len(plain) > LONGEST_BODY:
        raise _too_large()
    if not opened.eof:
        detail = f"the body is not the {encoding} that its Content-Encoding says"
        raise BodyError(HTTPStatus.BAD_REQUEST, detail)
    return plain


def _too_large() -> BodyError:
    detail = f"the body is longer than {LONGEST_BODY} bytes"
    return BodyError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
