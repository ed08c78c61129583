"""HTTP/1.1's framing of one answer: bytes in, status, headers and decoded body out; no socket."""

import re
from http import HTTPStatus

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |$)")
_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;|$)")
_MAX_HEAD = 64 * 1024
_MAX_CHUNK = 4 << 20
_END = b"\r\n"


class FramingError(ValueError):
    """Bytes that are no HTTP/1.1 answer."""


class Answer:
    """Takes one answer apart as it arrives."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.done = False
        self._buffer = b""
        self._left: int | None = None
        self._chunked = False

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request after this answer."""
        lasting = self._left is not None or self._chunked
        return self.done and lasting and self.headers.get("connection", "").lower() != "close"

    def feed(self, data: bytes) -> bytes:
        """Give what these bytes add to the body; raises FramingError where they cannot."""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        if not self.status:
            taken = self._head(data)
            if taken is None:
                return b""
            data = taken
        if self._chunked:
            return self._unchunk(data)
        if self._left is None:
            return data
        body = data[: self._left]
        self._left -= len(body)
        self.done = self._left == 0
        return body

    def close(self) -> None:
        """Note that the connection ended, which ends an answer without a length properly."""
        if self.status and self._left is None and not self._chunked:
            self.done = True

    def _head(self, data: bytes) -> bytes | None:
        """Read the head; None while it is not all there."""
        head, found, rest = data.partition(b"\r\n\r\n")
        if not found:
            if len(data) > _MAX_HEAD:
                raise FramingError("the head of the answer is larger than 64 KiB")
            self._buffer = data
            return None
        lines = head.split(_END)
        matched = _STATUS_LINE.match(lines[0])
        if not matched:
            raise FramingError("the answer is not HTTP/1.1")
        if int(matched[1]) < HTTPStatus.OK:  # 100 Continue and the like come before the answer
            return self._head(rest)
        self.status = int(matched[1])
        for line in lines[1:]:
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length", "")
        if length.isdigit() and not self._chunked:
            self._left = int(length)
        elif self.status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
            self._left = 0
        self.done = self._left == 0
        return rest

    def _unchunk(self, data: bytes) -> bytes:
        """Take the chunks out of their framing; what is not whole yet waits in the buffer."""
        pieces = []
        start, end = 0, len(data)
        while start < end:
            line = data.find(_END, start)
            if line < 0:
                break
            size = _size(data[start:line])
            body = line + 2
            if size == 0:
                self.done = _END * 2 in data[line:]  # trailers, if any, end with an empty line
                break
            if end < body + size + 2:
                break
            pieces.append(data[body : body + size])
            start = body + size + 2
        self._buffer = b"" if self.done else data[start:]
        if len(self._buffer) > _MAX_CHUNK:
            raise FramingError("a chunk of the answer is larger than 4 MiB")
        return b"".join(pieces)


def _size(line: bytes) -> int:
    found = _SIZE.match(line)
    if not found:
        raise FramingError("the chunked framing of the answer is broken")
    return int(found[1], 16)
