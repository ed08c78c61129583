"""The router for open-source nginx: its configuration, its script and the table that both read."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from specgauge.errors import ConfigError, RenderError
from specgauge.render.files import RenderedFile
from specgauge.render.options import Options
from specgauge.render.router import Router, Trust
from specgauge.render.templating import environment, fill
from specgauge.routing.table import table_of

_FOLDER = "nginx"
_SCRIPT = "nginx/route.js"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Upstream:
    """Servers as nginx speaks to them: `tls` is the directives for it, `name` what they expect."""

    servers: tuple[str, ...]
    scheme: str
    name: str = ""
    tls: tuple[str, ...] = ()


def nginx(options: Options) -> Iterator[RenderedFile]:
    """Make the router's files; none where nothing is to be routed."""
    router = options.router
    if router is None:
        return
    configuration = fill(
        "nginx/nginx.conf",
        options,
        w=router,
        q=quoted,
        seconds=seconds,
        listen=listen_of(router),
        pools={
            name: _upstream(servers, trust, key=f"routing.pools.{name}.tls")
            for name, (servers, trust) in router.pools.items()
        },
        sidecar=_upstream((router.sidecar,), router.state_trust, key="routing.state_tls"),
    )
    yield RenderedFile(path=f"{_FOLDER}/nginx.conf", text=configuration, notes=router.notes)
    yield RenderedFile(path=f"{_FOLDER}/route.js", text=script())
    yield RenderedFile(path=f"{_FOLDER}/routes.json", text=table_for(router))


def _upstream(servers: tuple[str, ...], trust: Trust | None, *, key: str) -> _Upstream:
    """Write how servers are spoken to; raises ConfigError where one name does not do for all."""
    if trust is None:
        return _Upstream(servers=servers, scheme="http")
    names = sorted(set(map(trust.name_of, servers)))
    if len(names) > 1:
        why = "nginx looks for one name in the certificates of a pool, and its servers are"
        fix = "set the one that all of them hold"
        raise ConfigError([f"{key}.server_name: {why} {', '.join(names)}; {fix}"])
    return _Upstream(
        servers=servers, scheme="https", name=names[0], tls=tuple(_tls(trust, names[0]))
    )


def _tls(trust: Trust, name: str) -> Iterator[str]:
    yield f"proxy_ssl_name {quoted(name)};"
    yield f"proxy_ssl_trusted_certificate {quoted(trust.authorities)};"
    if trust.cert is not None:
        yield f"proxy_ssl_certificate {quoted(trust.cert)};"
        yield f"proxy_ssl_certificate_key {quoted(trust.key or trust.cert)};"


def script() -> str:
    """Give the script as it is: it knows nothing of one place or another."""
    environment_ = environment()
    assert environment_.loader is not None
    return environment_.loader.get_source(environment_, _SCRIPT)[0]


def table_for(router: Router) -> str:
    """Write the rules and where the state of the sidecar is found."""
    state: dict[str, object] = {}
    if router.state_file is not None:
        state = {"file": router.state_file}
    elif router.state_url is not None:
        state = {"url": True}
    return json.dumps({**table_of(router.routes), "state": state}, indent=1) + "\n"


def listen_of(router: Router) -> str:
    """Write an address to listen on as nginx takes it."""
    if not router.host:
        return str(router.port)
    host = f"[{router.host}]" if ":" in router.host else router.host
    return f"{host}:{router.port}"


def quoted(text: str) -> str:
    """Write a text as nginx reads it back; raises RenderError for what it would read otherwise."""
    if not text.isprintable() or "$" in text:
        raise RenderError([f"{text!r}: nginx cannot take a path with $ or control characters"])
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{escaped}"'


def seconds(value: float) -> str:
    """Write a duration as nginx reads it, to the millisecond."""
    return f"{round(value * 1000)}ms"
