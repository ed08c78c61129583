"""The kinds of files that can be rendered; a new kind is one line here and one function."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from specgauge.errors import ConfigError
from specgauge.render.alertmanager import alertmanager
from specgauge.render.compose import compose
from specgauge.render.dashboards import dashboards
from specgauge.render.files import RenderedFile
from specgauge.render.grafana_alerts import grafana_alerts
from specgauge.render.haproxy import haproxy
from specgauge.render.kubernetes import kubernetes
from specgauge.render.native import native_rules
from specgauge.render.nginx import nginx
from specgauge.render.options import Options
from specgauge.render.prometheus import prometheus
from specgauge.render.rules import rules
from specgauge.render.verify import PromqlParser, verify

Kind = Callable[[Options], Iterable[RenderedFile]]


def _kubernetes(options: Options) -> Iterable[RenderedFile]:
    return kubernetes(options, dashboards(options))


KINDS: Mapping[str, Kind] = {
    "rules": rules,
    "native-rules": native_rules,
    "alertmanager": alertmanager,
    "prometheus": prometheus,
    "dashboards": dashboards,
    "grafana-alerts": grafana_alerts,
    "kubernetes": _kubernetes,
    "compose": compose,
    "nginx": nginx,
    "haproxy": haproxy,
}
_ROUTERS = ("nginx", "haproxy")


def render(
    kinds: Iterable[str], options: Options, *, parse: PromqlParser | None = None
) -> tuple[RenderedFile, ...]:
    """Make the files of some kinds, all where none is named; raises RenderError with every fault.

    What one kind records another may ask for, so all are made and checked together; but not a
    router that is not wanted: what it cannot do is no matter of the other's.
    """
    kinds_named = tuple(kinds)
    wanted = kinds_named or tuple(KINDS)
    asked = [name for name in KINDS if name in wanted or name not in _ROUTERS]
    made = {name: tuple(KINDS[name](options)) for name in asked}
    verify(_all(made.values()), parse=parse)
    if nothing := [name for name in kinds_named if not made[name]]:
        raise ConfigError([f"{nothing[0]}: nothing is to be routed; add routing: to the file"])
    return tuple(_all(made[name] for name in asked if name in wanted))


def _all(parts: Iterable[tuple[RenderedFile, ...]]) -> Iterator[RenderedFile]:
    for part in parts:
        yield from part
