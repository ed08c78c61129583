"""The keys of `routing:`: classes by rules, pools, and what the router is told of the sidecar.

Single keys are checked here, and what a rule or the rules among themselves cannot be.
"""

from collections import Counter
from typing import Self

from pydantic import BaseModel, Field, model_validator

from specgauge.config.address import parse_listen
from specgauge.config.fields import Duration, File, Size, Switch
from specgauge.config.pool_keys import PoolsKeys, tls_faults
from specgauge.config.routing_fields import (
    Body,
    Front,
    FullPath,
    Idle,
    PoolName,
    Preset,
    SidecarUrl,
    Wait,
    Workers,
)
from specgauge.config.routing_rule_keys import LoadKeys, RuleKeys
from specgauge.config.section import SETTINGS
from specgauge.config.tls_keys import Tls
from specgauge.routing.presets import PRESETS
from specgauge.routing.rules import OTHER
from specgauge.units import format_duration, quote

MODULE = "/usr/lib/nginx/modules/ngx_http_js_module.so"
"""Where Debian has nginx's JavaScript module."""


_RESERVED = {
    OTHER: "the class of what no rule takes",
    "none": "what a request is called that was refused before it had a class",
}
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what is compared, not listened on
_HERE = ("127.0.0.1", "::1", "localhost")


def _is_itself(listen: str, server: str) -> bool:
    """Tell whether a server is the address that the router listens on, as far as is seen."""
    own, other = parse_listen(listen), parse_listen(server)
    hosts = _HERE if own.host in _EVERYWHERE else (own.host,)
    return own.port == other.port and other.host in hosts


def _seconds(default: float, description: str) -> float:
    return Field(
        default=default,
        description=description,
        json_schema_extra={"default": format_duration(default)},
    )


class LossKeys(BaseModel):
    """What holds once the sidecar gives no sign any more."""

    model_config = SETTINGS

    hold: Duration = _seconds(300.0, "How long the last known flag holds.")
    then: PoolName = Field(
        default="standard",
        description="Afterwards, or where no flag was ever known: the standard pool, or the rules.",
    )


class TimeoutKeys(BaseModel):
    """How long the router waits for a server before it asks another."""

    model_config = SETTINGS

    connect: Wait = _seconds(2.0, "For the connection.")
    read: Wait = _seconds(600.0, "For the next byte; longer than the longest answer.")


class NginxKeys(BaseModel):
    """What `specgauge render nginx` writes beside the rules."""

    model_config = SETTINGS

    module: FullPath = Field(default=MODULE, description="Its JavaScript module, by full path.")
    workers: Workers = Field(default="auto", description="Its worker processes: a number or auto.")


class HaproxyKeys(BaseModel):
    """What `specgauge render haproxy` writes beside the rules."""

    model_config = SETTINGS

    sni: Switch = Field(
        default=False,
        description="Send https servers their name (SNI), for gateways that choose by it; then a "
        "certificate of another name fails requests.",
    )


class RoutingKeys(BaseModel):
    """Which requests are served with speculation."""

    model_config = SETTINGS

    listen: Front = Field(default="0.0.0.0:8080", description="Address that the router serves on.")
    pools: PoolsKeys = Field(default_factory=PoolsKeys, description="The servers of both pools.")
    rules: tuple[RuleKeys, ...] = Field(
        default=(), description="Classes of traffic; the first rule that fits counts."
    )
    presets: tuple[Preset, ...] = Field(
        default=(), description="Ready-made rules after these: playbook, production."
    )
    fallback_pool: PoolName = Field(
        default="speculative", description="Who serves what no rule takes (class other)."
    )
    decode_concurrency: LoadKeys | None = Field(
        default=None, description="Live load for every class without a limit of its own."
    )
    max_body: Body = Field(
        default=1 << 20,
        description="Largest body that is looked into, held in memory.",
        json_schema_extra={"default": "1MiB"},
    )
    max_request: Size = Field(
        default=64 << 20,
        description="Largest body that is taken at all.",
        json_schema_extra={"default": "64MiB"},
    )
    state_file: File = Field(
        default=None,
        description="File by which the sidecar tells a router on the same host flag and load.",
    )
    state_url: SidecarUrl = Field(
        default=None,
        description="The sidecar's address, http:// or https://, for a router on another host.",
    )
    state_tls: Tls = Field(
        default_factory=Tls, description="TLS settings, for an https:// state_url only."
    )
    stale_after: Duration = _seconds(
        5.0, "Silence of the sidecar after which its load counts as unknown."
    )
    on_sidecar_loss: LossKeys = Field(
        default_factory=LossKeys, description="What holds without the sidecar."
    )
    access_log: File = Field(
        default=None, description="JSON access log that the router writes and the sidecar reads."
    )
    access_log_state_file: File = Field(
        default=None,
        description="File by which the sidecar goes on reading it after a restart; without one it "
        "begins at its end.",
    )
    timeouts: TimeoutKeys = Field(
        default_factory=TimeoutKeys, description="How long the router waits for a server."
    )
    keepalive: Idle = Field(
        default=32, description="Idle connections that each worker keeps to a pool."
    )
    nginx: NginxKeys = Field(default_factory=NginxKeys, description="Of nginx alone.")
    haproxy: HaproxyKeys = Field(default_factory=HaproxyKeys, description="Of HAProxy alone.")

    @property
    def tells_state(self) -> bool:
        """Whether the router knows what the sidecar says, and so obeys its flag."""
        return self.state_file is not None or self.state_url is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The classes in the order of their rules, those of presets last."""
        ready = (rule.name for name in self.presets for rule in PRESETS[name])
        return (*(rule.name for rule in self.rules), *ready)

    @model_validator(mode="after")
    def _fit(self) -> Self:
        names = Counter(self.names)
        if twice := [name for name, times in names.items() if times > 1]:
            place = "rules or presets" if self.presets else "rules"
            raise ValueError(f"{place}: the class {quote(twice[0])} is there twice")
        if reserved := [name for name in _RESERVED if name in names]:
            raise ValueError(f"rules: {quote(reserved[0])} is {_RESERVED[reserved[0]]}")
        self._files_fit()
        servers = (*self.pools.speculative.addresses, *self.pools.standard.addresses)
        if loops := [one for one in servers if _is_itself(self.listen, one)]:
            raise ValueError(f"pools: {quote(loops[0])} is the router itself, by routing.listen")
        if self.max_request < self.max_body:
            raise ValueError("max_request: must not be below max_body")
        return self

    def _files_fit(self) -> None:
        if self.state_file is not None and self.state_url is not None:
            raise ValueError("state_url: state_file is set too; keep one of them")
        for fault in tls_faults(
            self.state_tls, [self.state_url or ""], key="state_tls", whose="state_url"
        ):
            raise ValueError(fault)
        path = str(self.access_log)
        if "$" in path or not path.isprintable():
            raise ValueError(f"access_log: {quote(path)}: no router takes $ or control characters")
