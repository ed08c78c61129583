"""Words the ways in which a call to a flag's server fails; it opens no connection."""

import json
import ssl
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import aiohttp
from yarl import URL

from specgauge.guard.flags.protocol import WriteResult

_BY_STATUS = {
    400: WriteResult.BAD_REQUEST,
    401: WriteResult.UNAUTHORIZED,
    403: WriteResult.FORBIDDEN,
    404: WriteResult.NOT_FOUND,
    409: WriteResult.CONFLICT,
    429: WriteResult.TOO_MANY,
}
_HINTS = {
    401: "; check the token",
    403: "; the token may not do this, or the server wants an approval",
    404: "; check the URL, and whether what it names is there",
}
_BY_HUNDRED = {4: WriteResult.OTHER_4XX, 5: WriteResult.SERVER_ERROR}
_PLAIN_HTTP = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH")
_TLS_ALERT = r"\x15\x03"
_LONGEST = 400
_MANY_DIGITS = 9


def result_of(status: int, expect: Collection[int]) -> tuple[WriteResult, str]:
    """Pick the result of a status that was not expected, and the words for it."""
    try:
        shown = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        shown = str(status)
    result = _BY_STATUS.get(status) or _BY_HUNDRED.get(status // 100)
    if result is not None:
        return result, f"answered {shown}{_HINTS.get(status, '')}"
    wanted = " or ".join(str(int(one)) for one in sorted(expect))
    return WriteResult.UNREADABLE, f"answered {shown} where {wanted} was expected"


def words_of(said: bytes) -> str:
    """Give what an answer says: the text of its error where it is a JSON object, else all of it."""
    text = said.decode(errors="replace")
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict):
            named = (found.get(name) for name in ("error", "message", "detail"))
            return next((one for one in named if isinstance(one, str) and one.strip()), text)
    return text


def retry_after(header: str | None, now: float) -> float | None:
    """Read Retry-After in either form as seconds from now; None where it says nothing."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:_MANY_DIGITS])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now)


def redirect_detail(asked: URL, status: int, location: str) -> str:
    """Say where an answer wanted to send us, naming the host without path and query."""
    refused = f"answered {status}, a redirect"
    try:
        target = asked.join(URL(location))
        same = target.origin() == asked.origin()
        host = target.host or ""
    except ValueError:
        return f"{refused} to an unreadable Location; write the final address in the URL"
    if same:
        return f"{refused} to {target.path} on the same host; put that path into the URL"
    return f"{refused} to {host}; redirects are not followed, write the final address in the URL"


def explain(error: Exception) -> tuple[WriteResult, str]:
    """Turn what the HTTP client raised into a result and words."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return _explain_connect(error)
    if isinstance(error, aiohttp.ClientResponseError):
        return _explain_head(error.message)
    if isinstance(error, aiohttp.ClientPayloadError):
        return WriteResult.UNREADABLE, "the body ended before it was complete"
    if isinstance(error.__cause__, ssl.SSLError):
        return _explain_tls(error.__cause__)
    if isinstance(error, aiohttp.ClientConnectionError | OSError):
        return WriteResult.UNREACHABLE, "the connection closed before an answer"
    return WriteResult.REFUSED, "the request cannot be sent; check url and headers"


def clean(text: str, secrets: Collection[str]) -> str:
    """Make one printable line of bounded length that holds none of the secrets."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    text = "".join(character if character.isprintable() else "?" for character in text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _explain_connect(error: aiohttp.ClientConnectorError) -> tuple[WriteResult, str]:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _explain_tls(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return _explain_tls(error.os_error)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return WriteResult.UNREACHABLE, "the host name cannot be resolved"
    reason = error.os_error.strerror or str(error.os_error)
    return WriteResult.UNREACHABLE, f"cannot connect: {reason}"


def _explain_head(message: str) -> tuple[WriteResult, str]:
    if _TLS_ALERT in message:
        return WriteResult.TLS, "the port speaks TLS; write https:// in the URL"
    return WriteResult.UNREADABLE, "the answer is not HTTP"


def _explain_tls(error: Exception) -> tuple[WriteResult, str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        fix = "check ca_file, the name in the URL and the clocks"
        return WriteResult.TLS, f"certificate not accepted: {error.verify_message}; {fix}"
    reason = getattr(error, "reason", None) or str(error)
    if any(word in reason for word in _PLAIN_HTTP):
        return WriteResult.TLS, f"the port does not speak TLS ({reason}); is it http://?"
    return WriteResult.TLS, f"TLS failed: {reason}"
