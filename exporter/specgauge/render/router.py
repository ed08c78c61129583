"""What a rendered router is told: rules, servers, and where it meets the sidecar; plain values."""

from dataclasses import dataclass, field

from specgauge.routing.rules import Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """One router before two pools; times in seconds, sizes in bytes, servers as host:port.

    At most one of `state_file` and `state_url` is set; with neither it obeys no flag and knows
    no load. `workers` is a number or `auto`; it and `module` are nginx's alone. `assumed` names
    the pools whose servers nobody wrote down.
    """

    routes: Routes = field(default_factory=Routes)
    host: str = "0.0.0.0"  # noqa: S104 - a router is asked from outside
    port: int = 8080
    speculative: tuple[str, ...] = ("127.0.0.1:8000",)
    standard: tuple[str, ...] = ("127.0.0.1:8001",)
    max_request: int = 64 << 20
    state_file: str | None = None
    state_url: str | None = None
    access_log: str | None = None
    connect_timeout: float = 2.0
    read_timeout: float = 600.0
    keepalive: int = 32
    module: str = "/usr/lib/nginx/modules/ngx_http_js_module.so"
    workers: str = "auto"
    assumed: tuple[str, ...] = ("speculative", "standard")

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as somebody who wrote the configuration may think."""
        servers = {"speculative": self.speculative, "standard": self.standard}
        return tuple(
            f"routing.pools.{name} is not set, so its server is {', '.join(servers[name])}"
            for name in self.assumed
        )
