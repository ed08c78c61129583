"""From the section `routing` to the plain values that a router and the sidecar take."""

from pathlib import Path

from specgauge.config import Config, RoutingKeys, Tls, unusable_certificates
from specgauge.config.address import parse_listen
from specgauge.config.routing_fields import SECURE
from specgauge.config.routing_rule_keys import LoadKeys, RangeKeys, RuleKeys, WhenKeys
from specgauge.errors import ConfigError
from specgauge.model.settings import RouteSettings
from specgauge.render.router import BUNDLE, Router, Trust
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

    Its files are whole paths: it runs elsewhere than this program. Raises ConfigError for
    certificates that it cannot read.
    """
    keys = config.routing
    if keys is None:
        return None
    if problems := tuple(unusable_certificates(keys)):
        raise ConfigError(problems)
    pools = keys.pools
    listen = parse_listen(keys.listen)
    return Router(
        routes=routes_of(keys),
        host=listen.host,
        port=listen.port,
        speculative=pools.speculative.addresses,
        standard=pools.standard.addresses,
        speculative_trust=_trust(pools.speculative.tls) if pools.speculative.secure else None,
        standard_trust=_trust(pools.standard.tls) if pools.standard.secure else None,
        max_request=keys.max_request,
        state_file=_whole(keys.state_file),
        state_url=keys.state_url,
        state_trust=_trust(keys.state_tls) if (keys.state_url or "").startswith(SECURE) else None,
        access_log=_whole(keys.access_log),
        connect_timeout=keys.timeouts.connect,
        read_timeout=keys.timeouts.read,
        keepalive=keys.keepalive,
        module=keys.nginx.module,
        workers=keys.nginx.workers,
        sni=keys.haproxy.sni,
        assumed=tuple(name for name, _ in pools if name not in pools.model_fields_set),
    )


def _trust(keys: Tls) -> Trust:
    return Trust(
        name=keys.server_name,
        authorities=_whole(keys.ca_file) or BUNDLE,
        cert=_whole(keys.cert_file),
        key=_whole(keys.key_file),
    )


def _whole(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


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
