"""From the section `routing` to the plain values that a router and the sidecar take."""

from specgauge.config import Config, RoutingKeys
from specgauge.config.address import parse_listen
from specgauge.config.routing_rule_keys import LoadKeys, RangeKeys, RuleKeys, WhenKeys
from specgauge.model.settings import RouteSettings
from specgauge.render.router import Router
from specgauge.routing.presets import PRESETS
from specgauge.routing.rules import (
    FlagTerms,
    HeaderIs,
    LoadLimit,
    Pool,
    Range,
    Routes,
    Rule,
    When,
)

_RESUME = 0.75


def router_of(config: Config) -> Router | None:
    """Flatten what the configuration says of the router; None where it says nothing.

    Its files are whole paths: it runs elsewhere than this program.
    """
    keys = config.routing
    if keys is None:
        return None
    listen = parse_listen(keys.listen)
    return Router(
        routes=routes_of(keys),
        host=listen.host,
        port=listen.port,
        speculative=keys.pools.speculative.servers,
        standard=keys.pools.standard.servers,
        max_request=keys.max_request,
        state_file=None if keys.state_file is None else str(keys.state_file.absolute()),
        state_url=keys.state_url,
        access_log=None if keys.access_log is None else str(keys.access_log.absolute()),
        connect_timeout=keys.timeouts.connect,
        read_timeout=keys.timeouts.read,
        keepalive=keys.keepalive,
        module=keys.nginx.module,
        workers=keys.nginx.workers,
        assumed=tuple(name for name, _ in keys.pools if name not in keys.pools.model_fields_set),
    )


def told_of(config: Config) -> RouteSettings:
    """Say what the sidecar tells routers, and where."""
    keys = config.routing
    if keys is None:
        return RouteSettings()
    return RouteSettings(
        state_file=None if keys.state_file is None else str(keys.state_file),
        limits=tuple((limit.at_most, limit.resume) for limit in routes_of(keys).limits()),
        hold=keys.on_sidecar_loss.hold,
    )


def router_name(config: Config) -> str | None:
    """Say for people what obeys the flag where a router is told of it."""
    keys = config.routing
    return f"the router on {keys.listen}" if keys is not None and keys.tells_state else None


def routes_of(keys: RoutingKeys) -> Routes:
    """Flatten the rules, those of presets after those of the file."""
    ready = (rule for name in keys.presets for rule in PRESETS[name])
    loss = keys.on_sidecar_loss
    return Routes(
        rules=(*map(_rule, keys.rules), *ready),
        fallback_pool=Pool(keys.fallback_pool),
        load=_limit(keys.decode_concurrency),
        max_body=keys.max_body,
        flag=FlagTerms(fresh=keys.stale_after, hold=loss.hold, then=Pool(loss.then)),
    )


def _rule(keys: RuleKeys) -> Rule:
    return Rule(
        name=keys.name,
        pool=Pool(keys.pool),
        when=_when(keys.when),
        load=_limit(keys.when.decode_concurrency),
    )


def _when(keys: WhenKeys) -> When:
    header = keys.header
    return When(
        temperature=_range(keys.temperature),
        max_tokens=_range(keys.max_tokens),
        prompt_characters=_range(keys.prompt_characters),
        stream=keys.stream,
        structured_output=keys.structured_output,
        tools=keys.tools,
        routes=keys.routes,
        paths=keys.paths,
        models=keys.models,
        header=None if header is None else HeaderIs(name=header.name.lower(), values=header.values),
        patterns=keys.patterns,
        contains=keys.contains,
    )


def _range(keys: RangeKeys | None) -> Range | None:
    return None if keys is None else Range(**dict(keys))


def _limit(keys: LoadKeys | None) -> LoadLimit | None:
    if keys is None or keys.at_most is None:
        return None
    resume = _RESUME * keys.at_most if keys.resume is None else keys.resume
    return LoadLimit(at_most=keys.at_most, resume=resume)
