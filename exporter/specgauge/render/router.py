"""What a rendered router is told: rules, servers, and where it meets the sidecar; plain values."""

from dataclasses import dataclass, field

from specgauge.routing.rules import Routes
from specgauge.routing.server import host_of

BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
"""Where Debian has the authorities that the system trusts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How servers are known over TLS, and what is shown to them; files are whole paths.

    `name` stands in their certificates; None is each one's own host. `key` may lie in `cert`.
    """

    name: str | None = None
    authorities: str = BUNDLE
    cert: str | None = None
    key: str | None = None

    def name_of(self, server: str) -> str:
        """Give the name that is looked for in the certificate of host:port."""
        return self.name or host_of(server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """One router before two pools; times in seconds, sizes in bytes, servers as host:port.

    A pool, or the sidecar, that has a `Trust` is spoken to over TLS, any other by plain HTTP.
    At most one of `state_file` and `state_url` is set; with neither it obeys no flag and knows
    no load. `workers` is a number or `auto`; it and `module` are nginx's alone, `sni` is HAProxy's.
    `assumed` names the pools whose servers nobody wrote down.
    """

    routes: Routes = field(default_factory=Routes)
    host: str = "0.0.0.0"  # noqa: S104 - a router is asked from outside
    port: int = 8080
    speculative: tuple[str, ...] = ("127.0.0.1:8000",)
    standard: tuple[str, ...] = ("127.0.0.1:8001",)
    speculative_trust: Trust | None = None
    standard_trust: Trust | None = None
    max_request: int = 64 << 20
    state_file: str | None = None
    state_url: str | None = None
    state_trust: Trust | None = None
    access_log: str | None = None
    connect_timeout: float = 2.0
    read_timeout: float = 600.0
    keepalive: int = 32
    module: str = "/usr/lib/nginx/modules/ngx_http_js_module.so"
    workers: str = "auto"
    sni: bool = False
    assumed: tuple[str, ...] = ("speculative", "standard")

    @property
    def sidecar(self) -> str:
        """Where the sidecar is asked, as host:port; empty where it is not."""
        return (self.state_url or "").partition("://")[2]

    @property
    def pools(self) -> dict[str, tuple[tuple[str, ...], Trust | None]]:
        """The servers of each pool, and how they are known."""
        return {
            "speculative": (self.speculative, self.speculative_trust),
            "standard": (self.standard, self.standard_trust),
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as somebody who wrote the configuration may think."""
        return tuple(
            f"routing.pools.{name} is not set, so its server is {', '.join(self.pools[name][0])}"
            for name in self.assumed
        )
