"""Words the ways in which a fetch fails and picks the result of each; it opens no connection."""

import ssl
from http import HTTPStatus
from typing import NoReturn

import aiohttp
from aiohttp import ClientResponse, hdrs
from yarl import URL

from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult
from specgauge.serve.decode import quote

_STATUS_HINTS = {
    401: "; set auth.bearer_file or auth.basic_file of the target",
    403: "; the credentials in auth of the target are not allowed to read metrics",
    404: "; check the path of the URL",
}
_REDIRECTION = 3  # hundred
_PLAIN_HTTP = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH")
_TLS_ALERT = r"\x15\x03"


async def refuse_status(response: ClientResponse) -> NoReturn:
    """Raise for any answer other than 200."""
    status = response.status
    if status // 100 == _REDIRECTION and status != HTTPStatus.NOT_MODIFIED:
        raise SourceError(ScrapeResult.REDIRECT, _describe_redirect(response))
    if status == HTTPStatus.BAD_REQUEST and response.url.scheme == "http":
        text = await response.content.read(1024)
        if b"HTTPS" in text:  # the phrase of nginx and of Go's server
            raise SourceError(ScrapeResult.TLS, "the port speaks TLS; write https:// in the URL")
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    raise SourceError(
        ScrapeResult.HTTP_STATUS, f"answered {status}{phrase}{_STATUS_HINTS.get(status, '')}"
    )


def explain(error: Exception, *, hint: str = "") -> SourceError:
    """Turn what the HTTP client raised into a result and one line; `hint` says why one closes."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return _explain_connect(error)
    if isinstance(error, aiohttp.ClientResponseError):
        return _explain_head(error.message)
    if isinstance(error, aiohttp.ClientPayloadError):
        return SourceError(ScrapeResult.TRUNCATED, "the body ended before it was complete")
    if isinstance(error.__cause__, ssl.SSLError):
        return _explain_tls(error.__cause__)
    if isinstance(error, aiohttp.ClientConnectionError):
        return SourceError(
            ScrapeResult.UNREACHABLE, f"the connection closed before an answer{hint}"
        )
    return SourceError(ScrapeResult.UNREACHABLE, f"the request cannot be sent: {error}")


def _explain_connect(error: aiohttp.ClientConnectorError) -> SourceError:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _explain_tls(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return _explain_tls(error.os_error)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return SourceError(ScrapeResult.UNREACHABLE, "the host name cannot be resolved")
    reason = error.os_error.strerror or str(error.os_error)
    return SourceError(ScrapeResult.UNREACHABLE, f"cannot connect: {reason}")


def _explain_tls(error: Exception) -> SourceError:
    if isinstance(error, ssl.SSLCertVerificationError):
        fix = "check tls.ca_file, tls.server_name and the server's clock"
        return SourceError(
            ScrapeResult.TLS, f"certificate not accepted: {error.verify_message.rstrip('.')}; {fix}"
        )
    reason = getattr(error, "reason", None) or str(error)
    if any(word in reason for word in _PLAIN_HTTP):
        return SourceError(
            ScrapeResult.TLS, f"the port does not speak TLS ({reason}); is it http://?"
        )
    hint = "; the server asks for tls.cert_file" if "CERTIFICATE_REQUIRED" in reason else ""
    return SourceError(ScrapeResult.TLS, f"TLS failed: {reason}{hint}")


def _explain_head(message: str) -> SourceError:
    if _TLS_ALERT in message:
        return SourceError(ScrapeResult.TLS, "the port speaks TLS; write https:// in the URL")
    shown = quote(" ".join(message.split()))
    if "chunk size" in message:
        return SourceError(ScrapeResult.TRUNCATED, "the chunked body breaks off into other bytes")
    if "Got more than" in message or "Too many headers" in message:
        return SourceError(ScrapeResult.TOO_LARGE, f"the response headers are too large: {shown}")
    return SourceError(ScrapeResult.UNREACHABLE, f"the answer is not HTTP: {shown}")


def _describe_redirect(response: ClientResponse) -> str:
    location = response.headers.get(hdrs.LOCATION, "")
    refused = f"answered {response.status}, a redirect"
    try:
        target = response.url.join(URL(location))
        if target.origin() == response.url.origin():
            fix = "put that path into the URL"
            return f"{refused} to {quote(target.path)} on the same host; {fix}"
        host = quote(target.host or "")
    except ValueError:
        host = "an unreadable Location"
    return f"{refused} to {host}; redirects are not followed, write the final address in the URL"
