"""What a configuration that can be used is still worth a warning for; it refuses nothing."""

from collections.abc import Iterator

from specgauge.config.flag_keys import FlagKeys
from specgauge.config.guard_keys import GuardKeys
from specgauge.config.models import Config
from specgauge.config.routing_keys import RoutingKeys
from specgauge.config.routing_rule_keys import WhenKeys
from specgauge.model.obedience import moves_traffic
from specgauge.routing.presets import PRESETS
from specgauge.routing.rules import When
from specgauge.routing.server import host_of


def advice(config: Config) -> tuple[str, ...]:
    """Say what will not work as it may be meant to, each line under its key."""
    guard, flag = config.guard, config.flag or FlagKeys()
    routed = tuple(_routing(config))
    if guard is None:
        return routed
    obeyed = config.routing is not None and config.routing.tells_state
    obedience = () if obeyed else tuple(_obedience(flag))
    return (*obedience, *_evidence(config, guard), *_unused(guard, flag), *routed)


def _obedience(flag: FlagKeys) -> Iterator[str]:
    if flag.obeyed_by is None and not moves_traffic(flag.backend, flag.kubernetes.httproute):
        yield (
            "flag.obeyed_by: nothing is configured to obey the flag, and no engine switches "
            "speculation by itself; say what moves traffic when it changes, as "
            "obeyed_by: router asks the sidecar every second"
        )


def _routing(config: Config) -> Iterator[str]:
    keys = config.routing
    if keys is None:
        return
    limited = [rule.name for rule in keys.rules if rule.when.decode_concurrency is not None]
    asked = config.guard is not None or limited or keys.decode_concurrency is not None
    if asked and not keys.tells_state:
        yield (
            "routing.state_file: neither it nor routing.state_url is set, so the router knows no "
            "flag and no load; set one of them"
        )
    yield from _unreached(keys)
    yield from _several_names(keys)
    if keys.access_log is None:
        yield "routing.access_log: none, so classes are routed but not measured"


def _several_names(keys: RoutingKeys) -> Iterator[str]:
    for name, pool in keys.pools:
        hosts = {host_of(server) for server in pool.servers}
        if pool.secure and pool.tls.server_name is None and len(hosts) > 1:
            yield (
                f"routing.pools.{name}.tls.server_name: none, and its servers have several names; "
                "HAProxy expects of each its own, nginx needs one that all certificates hold"
            )


def _unreached(keys: RoutingKeys) -> Iterator[str]:
    """Name the classes that come after one that takes every request."""
    ready = [(rule.name, rule.when == When()) for name in keys.presets for rule in PRESETS[name]]
    every = [(rule.name, _takes_all(rule.when)) for rule in keys.rules] + ready
    for place, (name, takes_all) in enumerate(every, start=1):
        if takes_all and place < len(every):
            after = ", ".join(one for one, _ in every[place:])
            yield f"routing.rules: {name} takes every request, so that none comes to {after}"
            return


def _takes_all(when: WhenKeys) -> bool:
    return when.model_copy(update={"decode_concurrency": None}) == WhenKeys()


def _evidence(config: Config, guard: GuardKeys) -> Iterator[str]:
    baseline, signals = config.baseline, guard.signals
    standard = any(target.role == "standard" for target in config.targets)
    none = baseline.file is None and baseline.dir is None and baseline.target is None
    if all(mode == "off" for mode in signals.model_dump().values()):
        yield "guard.signals: all are off, so only an operator moves the flag; switch one on"
    elif none and guard.source == "sidecar":
        yield (
            "baseline: none, so only acceptance is judged and never speed; "
            "set baseline.file, baseline.dir or baseline.target"
        )
    if guard.require_standard_capacity and not standard:
        yield (
            "guard.require_standard_capacity: no target has role: standard, so the capacity to "
            "fall back to is not known; add one, or set it to false"
        )
    if signals.errors != "off" and not standard:
        yield "guard.signals.errors: no target has role: standard to compare with; add one"
    if guard.max_fallback_share is not None and guard.prometheus.url is None:
        yield (
            "guard.max_fallback_share: the other members are not known; set guard.prometheus.url"
        )


def _unused(guard: GuardKeys, flag: FlagKeys) -> Iterator[str]:
    if guard.objective.model_fields_set and guard.signals.latency == "off":
        yield "guard.objective: not looked at while guard.signals.latency is off"
    for name, field in FlagKeys.model_fields.items():
        section, label = getattr(flag, name), field.alias or name
        written = getattr(section, "model_fields_set", ())
        if written and label != flag.backend and section != type(section)():
            yield f"flag.{label}: not used while flag.backend is {flag.backend}"
