"""The router for HAProxy: one configuration, and what of the rules it cannot say."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from specgauge.errors import RenderError
from specgauge.render.files import RenderedFile
from specgauge.render.haproxy_body import GRAMMAR, MAPPING, Fact, facts
from specgauge.render.haproxy_rules import Asked, ask, quoted, routes
from specgauge.render.haproxy_tls import spoken_to
from specgauge.render.options import Options
from specgauge.render.router import Router
from specgauge.render.switch import Switch
from specgauge.render.templating import fill
from specgauge.routing.rules import OTHER, Pool, Routes

_MARGIN = 64 << 10
"""Bytes of a buffer beside the body: headers, and what HAProxy needs of its own."""

_BUFFERS = 3
_LARGEST = 4 << 20
"""Bytes of a hostile body over which HAProxy might take its own thread for stuck, and end."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]+")
_FREE = re.compile(rf"(?!specgauge(?:_|$)|system$){_NAME.pattern}")
_ADDRESS = re.compile(r"[0-9.]+|\[.*\]")
_LOG = (
    '{"time":%Ts.%ms,"id":"%[var(txn.id)]","class":"%[var(txn.class)]","pool":"%[var(txn.pool)]",'
    '"reason":"%[var(txn.reason)]","body":"%[var(txn.body)]","status":%ST,"upstream":"%si:%sp",'
    '"upstream_status":"%[var(txn.status)]","retries":"%rc","seconds":%Ta.0e-3,'
    '"first_byte_seconds":"","bytes":%B,"stream":"%[var(txn.streams)]",'
    '"served_pool":"%[var(txn.served)]","completion_tokens":"","prompt_tokens":"","drafts":"",'
    '"draft_tokens":"","accepted_tokens":""}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """A limit of load, as the sidecar names it, and the classes that it holds for."""

    key: str
    classes: tuple[str, ...]


def haproxy(options: Options) -> Iterator[RenderedFile]:
    """Make the configuration; none where nothing is to be routed."""
    router, switch = options.router, options.switch
    if router is None:
        return
    every = tuple(map(ask, router.routes.rules))
    asked = tuple(one for one in every if not one.refused)
    notes = (*router.notes, *_notes(router, every, switch))
    text = fill(
        "haproxy/haproxy.cfg",
        options,
        w=router,
        asked=asked,
        facts=tuple(_lines(asked)),
        grammar=GRAMMAR,
        limits=_limits(router.routes, asked),
        log=_LOG,
        mapping=MAPPING,
        margin=_MARGIN,
        cost=round(_BUFFERS * (router.routes.max_body + _MARGIN) / (1 << 20), 1),
        notes=notes,
        other=OTHER,
        q=quoted,
        routes=tuple(routes()),
        seconds=_milliseconds,
        sidecar=spoken_to(router.sidecar, router.state_trust, key="routing.state_tls", sni=True),
        sidecar_name=router.state_trust and router.state_trust.name_of(router.sidecar),
        speculative=_speculative(router.routes, asked),
        pools={
            name: [
                spoken_to(one, trust, key=f"routing.pools.{name}.tls", sni=router.sni)
                for one in servers
            ]
            for name, (servers, trust) in router.pools.items()
        },
        **_places(router, switch),
    )
    yield RenderedFile(path="haproxy/haproxy.cfg", text=text, notes=notes)


def _places(router: Router, switch: Switch | None) -> dict[str, object]:
    """Write addresses and files as HAProxy takes them."""
    host = f"[{router.host}]" if ":" in router.host else router.host
    servers = (*router.speculative, *router.standard)
    found: dict[str, object] = {
        "listen": f"{host}:{router.port}",
        "named": any(not _ADDRESS.fullmatch(one.rpartition(":")[0]) for one in servers),
        "switch": switch,
    }
    if switch is not None:
        if not _FREE.fullmatch(switch.backend) or not _NAME.fullmatch(switch.server):
            name = f"{switch.backend}/{switch.server}"
            raise RenderError([f"flag.haproxy: {name}: the router cannot have such a server"])
        path = "/" in switch.socket
        found["socket"] = f"{quoted(switch.socket)} mode 660" if path else quoted(switch.socket)
        folder = switch.socket.rpartition("/")[0] if path else "/var/lib/haproxy"
        found["state"] = quoted(f"{folder}/specgauge.state")
    return found


def _speculative(routes_: Routes, asked: Iterable[Asked]) -> tuple[str, ...]:
    """Name the classes that the speculative pool is for."""
    found = [one.rule.name for one in asked if one.rule.pool is Pool.SPECULATIVE]
    return (*found, *([OTHER] if routes_.fallback_pool is Pool.SPECULATIVE else []))


def _limits(routes_: Routes, asked: Iterable[Asked]) -> tuple[_Limit, ...]:
    classes: dict[str, list[str]] = {}
    for rule in (*(one.rule for one in asked), None):
        limit = routes_.limit_of(rule)
        if limit is not None:
            classes.setdefault(limit.key, []).append(OTHER if rule is None else rule.name)
    return tuple(_Limit(key=key, classes=tuple(names)) for key, names in classes.items())


def _lines(asked: Iterable[Asked]) -> Iterator[str]:
    """Set the variables that the rules ask for, and whether a stream is wanted, for the log."""
    wanted = {"stream", *(name for one in asked for name in one.facts)}
    for fact in facts():
        if fact.name in wanted:
            yield from _setting(fact)


def _setting(fact: Fact) -> Iterator[str]:
    for place, (expression, patterns) in enumerate(fact.asks, start=1):
        name = f"{fact.name}_{place}"
        for pattern in patterns:
            yield f'acl {name} req.body -m reg "${{SPECGAUGE_JSON}}"{quoted(pattern)}'
        unset = f"!{{ var(txn.{fact.name}) -m found }} " if place > 1 else ""
        yield f"http-request set-var(txn.{fact.name}) {expression} if body_read {unset}{name}"


def _notes(router: Router, every: Iterable[Asked], switch: Switch | None) -> Iterator[str]:
    """Say what HAProxy does otherwise than the configuration has it."""
    every = tuple(every)
    for one in every:
        for why in one.refused:
            yield f"rule {one.rule.name} is left out, {why}"
    if switch is None:
        yield "it obeys no flag; set flag.backend: haproxy, and flag.haproxy"
    else:
        yield "without the sidecar the last flag holds for good, whatever on_sidecar_loss says"
    limits = _limits(router.routes, [one for one in every if not one.refused])
    if limits and router.state_url is None:
        names = ", ".join(name for limit in limits for name in limit.classes)
        yield f"it knows no load, so {names} go to the standard pool; set routing.state_url"

    if router.routes.max_body > _LARGEST:
        yield "reading a body of routing.max_body may take it too long; set 4MiB at most"


def _milliseconds(value: float) -> str:
    return f"{round(value * 1000)}ms"
