"""The keys of `routing.pools`: who serves, and how an https server is known to be the right one.

How the keys of one pool fit together is checked here; no file is opened.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import Self

from pydantic import BaseModel, Field, model_validator

from specgauge.config.routing_fields import HOST_NAME, SECURE, Server
from specgauge.config.section import SETTINGS
from specgauge.config.tls_keys import Tls
from specgauge.routing.server import host_of
from specgauge.units import quote


def tls_faults(tls: Tls, urls: Iterable[str], *, key: str, whose: str) -> Iterator[str]:
    """Say what of TLS does not fit the servers that `key` is for; `whose` names their key."""
    hosts = [host_of(url) for url in urls if url.startswith(SECURE)]
    name = tls.server_name
    if not hosts:
        if tls != Tls():
            yield f"{key}: is for https:// only; write https:// in {whose}, or remove {key}"
        return
    for path in filter(None, (tls.ca_file, tls.cert_file, tls.key_file)):
        if "$" in str(path) or not str(path).isprintable():
            yield f"{key}: {quote(str(path))}: no router takes $ or control characters"
    if tls.key_file is not None and tls.cert_file is None:
        yield f"{key}.key_file: is of no use without cert_file; set it too"
    if name is not None and (_is_address(name) or not re.fullmatch(HOST_NAME, name, re.ASCII)):
        yield f"{key}.server_name: {quote(name)} is not the name of a host, as vllm.internal"
    numbered = [host for host in hosts if _is_address(host)]
    if name is None and numbered:
        yield (
            f"{key}.server_name: {quote(numbered[0])} is an address, and routers look for a name "
            "in a certificate; set the one that it holds"
        )


def _is_address(host: str) -> bool:
    try:
        return ip_address(host) is not None
    except ValueError:
        return False


class PoolKeys(BaseModel):
    """The servers of one pool."""

    model_config = SETTINGS

    servers: tuple[Server, ...] = Field(
        default=(), description="Its servers, all as host:port or all as https://host:port."
    )
    tls: Tls = Field(default_factory=Tls, description="TLS settings, for https:// servers only.")

    @property
    def secure(self) -> bool:
        """Whether its servers are spoken to over TLS."""
        return any(one.startswith(SECURE) for one in self.servers)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its servers as host:port."""
        return tuple(one.removeprefix(SECURE) for one in self.servers)

    @model_validator(mode="after")
    def _alike(self) -> Self:
        plain = [one for one in self.servers if not one.startswith(SECURE)]
        if plain and self.secure:
            raise ValueError(
                f"servers: {quote(plain[0])} is without https:// where others have it; "
                "write all of a pool alike"
            )
        if twice := [one for one, times in Counter(self.servers).items() if times > 1]:
            raise ValueError(f"servers: {quote(twice[0])} is there twice")
        for fault in tls_faults(self.tls, self.servers, key="tls", whose="servers"):
            raise ValueError(fault)
        return self


class PoolsKeys(BaseModel):
    """Who serves."""

    model_config = SETTINGS

    speculative: PoolKeys = Field(
        default_factory=lambda: PoolKeys(servers=("127.0.0.1:8000",)),
        description="With speculation; what it cannot serve goes to the other.",
        json_schema_extra={"default": {"servers": ["127.0.0.1:8000"]}},
    )
    standard: PoolKeys = Field(
        default_factory=lambda: PoolKeys(servers=("127.0.0.1:8001",)),
        description="Without.",
        json_schema_extra={"default": {"servers": ["127.0.0.1:8001"]}},
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        for name, pool in self:
            if not pool.servers:
                raise ValueError(f"{name}.servers: name at least one")
        if both := set(self.speculative.addresses) & set(self.standard.addresses):
            raise ValueError(f"{quote(min(both))} is in both pools")
        return self
