"""Where a target is scraped and where the sidecar listens: addresses from text.

Nothing here resolves a name or opens a socket.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from specgauge.units import quote

NAME_PATTERN = r"[A-Za-z0-9_.:/\[\]\-]{1,255}"

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_.])?")
_PORTS = {"http": 80, "https": 443}
_HIGHEST_PORT = 65535
_LONGEST_SOCKET_PATH = 107


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What to request of a target: the URL, and the socket to send it through if there is one."""

    url: str
    socket: Path | None
    peer: str  # host:port or the socket's path: what a target is called unless it has a name

    @property
    def page(self) -> str:
        """The page's URL in one piece, as whoever fetches it takes it."""
        if self.socket is None:
            return self.url
        path = self.url.partition("://")[2].partition("/")[2]
        return f"http+unix://{self.socket}:/{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Where to listen; an empty host is every interface, port 0 any free port."""

    host: str
    port: int


def parse_address(text: str) -> Address:
    """Read a target's URL: `http://`, `https://` or `http+unix:///path.sock[:/metrics]`."""
    scheme, rest = _scheme(text)
    match scheme:
        case "http" | "https":
            return _network_address(text)
        case "http+unix":
            return _socket_address(rest)
        case _:
            raise ValueError(
                f"scheme {quote(scheme)} is not known; use http://, https:// or http+unix://"
            )


def parse_service(text: str) -> str:
    """Read the URL of a service that is called, `http://` or `https://`; give it as written."""
    scheme, _ = _scheme(text)
    if scheme not in _PORTS:
        raise ValueError(f"scheme {quote(scheme)} is not known; use http:// or https://")
    _authority(text, "use token_file")
    return text


def parse_root(text: str) -> str:
    """Read the URL of a service below which its own paths are asked for: it has no query."""
    if "?" in parse_service(text):
        raise ValueError("what is asked for comes after the URL; remove the ? and what follows")
    return text


def default_name(url: str) -> str:
    """Name a target after its host:port or socket, for when the configuration gives it no name."""
    return re.sub(r"[^A-Za-z0-9_.:/\[\]\-]", "_", parse_address(url).peer)


def parse_listen(text: str) -> ListenAddress:
    """Read `HOST:PORT`, `[IPV6]:PORT` or `:PORT`."""
    host, separator, port = text.rpartition(":")
    if not separator or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > _HIGHEST_PORT:
        raise ValueError(f"{quote(text)} is not an address; write HOST:PORT, as 0.0.0.0:9843")
    if host.startswith("[") and host.endswith("]"):
        host = str(IPv6Address(host[1:-1]))
    elif ":" in host:
        raise ValueError(f"{quote(text)}: write an IPv6 address in brackets, as [::]:9843")
    elif host and not _HOST.fullmatch(host):
        raise ValueError(f"{quote(host)} is not a host name or an IP address")
    return ListenAddress(host=host, port=int(port))


def _scheme(text: str) -> tuple[str, str]:
    """Cut a URL after its scheme; refuses what no URL of ours may hold."""
    if re.search(r"[^!-~]", text):
        raise ValueError(
            "a URL holds no spaces and no characters beyond ASCII; percent-encode them"
        )
    if "#" in text:
        raise ValueError("a URL to request has no fragment; remove the # and what follows")
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise ValueError("not a URL; write http://HOST:PORT")
    return scheme.lower(), rest


def _authority(text: str, secrets: str) -> tuple[SplitResult, str, int | None]:
    """Take a URL apart: all of it, the host, and the port if it names one."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"not a URL: {error}") from None
    if "@" in parts.netloc:
        raise ValueError(f"a URL holds no credentials; {secrets}")
    if port == 0:
        raise ValueError("port 0 cannot be reached; name the server's port")
    return parts, _host(parts), port


def _network_address(text: str) -> Address:
    parts, host, port = _authority(text, "put user:password into auth.basic_file")
    peer = f"{host}:{port or _PORTS[parts.scheme]}"
    authority = host if port is None else f"{host}:{port}"
    path = _metrics_path(parts.path)
    query = f"?{parts.query}" if parts.query else ""
    return Address(url=f"{parts.scheme}://{authority}{path}{query}", socket=None, peer=peer)


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if ":" in host:
        return f"[{IPv6Address(host)}]"
    if not _HOST.fullmatch(host):
        raise ValueError(f"{quote(host)} is not a host name or an IP address")
    return host


def _socket_address(rest: str) -> Address:
    location, _, query = rest.partition("?")
    encoded, _, path = location.partition(":")
    try:
        socket = unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("the socket's path is not UTF-8 once decoded") from None
    if not encoded.startswith("/"):
        raise ValueError("write three slashes and the whole path: http+unix:///run/vllm.sock")
    if socket.endswith("/") or "\0" in socket:
        raise ValueError("the path does not name a socket; write http+unix:///run/vllm.sock")
    if len(socket.encode()) > _LONGEST_SOCKET_PATH:
        raise ValueError(f"a socket's path has at most {_LONGEST_SOCKET_PATH} bytes")
    if path and not path.startswith("/"):
        raise ValueError("write the path to request as http+unix:///run/vllm.sock:/metrics")
    suffix = f"?{query}" if query else ""
    url = f"http://localhost{_metrics_path(path)}{suffix}"
    return Address(url=url, socket=Path(socket), peer=socket)


def _metrics_path(path: str) -> str:
    if path.endswith("/metrics/"):
        raise ValueError(
            "remove the slash after /metrics: vLLM answers another format at /metrics/"
        )
    return path if path.strip("/") else "/metrics"
