"""Makes the backend that the settings name; it contacts nothing."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from specgauge.errors import ConfigError
from specgauge.guard.flags.embedded import Embedded, EmbeddedTerms
from specgauge.guard.flags.etcd import Etcd, EtcdTerms
from specgauge.guard.flags.exec import Exec, ExecTerms
from specgauge.guard.flags.file import File, FileTerms
from specgauge.guard.flags.haproxy import Haproxy, HaproxyMode, HaproxyTerms
from specgauge.guard.flags.kubernetes import Kubernetes, KubernetesTerms, in_cluster
from specgauge.guard.flags.nginx import Nginx, NginxTerms
from specgauge.guard.flags.production_stack import ProductionStack, ProductionStackTerms
from specgauge.guard.flags.protocol import FlagBackend
from specgauge.guard.flags.webhook import Webhook
from specgauge.guard.flags.webhook_plan import WebhookTerms
from specgauge.guard.settings import FlagSettings

Terms = Mapping[str, Any]


def make_backend(
    flag: FlagSettings,
    *,
    reason: Callable[[], str] = str,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> FlagBackend:
    """Make the backend of these settings; raises ConfigError naming every fault with its path.

    `reason` gives the words that a webhook may send along: why the flag is as it is wanted now.
    `environment` is the process's, where a pod is told of its cluster.
    """
    try:
        if flag.backend == "kubernetes":
            terms = in_cluster(KubernetesTerms(**_any(flag.terms)), environment)
            return Kubernetes(terms, key=flag.key, timeout=flag.timeout)
        return _MAKERS[flag.backend](flag, _any(flag.terms), reason)
    except ValueError as error:  # of a value that the configuration would not have let through
        raise ConfigError([f"flag.{flag.backend}: {error}"]) from error


def _any(terms: Mapping[str, object]) -> Terms:
    return dict(terms)


def _embedded(flag: FlagSettings, terms: Terms, _: Callable[[], str]) -> FlagBackend:
    return Embedded(EmbeddedTerms(**terms), key=flag.key)


def _webhook(flag: FlagSettings, terms: Terms, reason: Callable[[], str]) -> FlagBackend:
    made = WebhookTerms(**terms)
    return Webhook(made, key=flag.key, timeout=flag.timeout, reason=reason)


def _file(_: FlagSettings, terms: Terms, __: Callable[[], str]) -> FlagBackend:
    return File(FileTerms(**terms))


def _exec(flag: FlagSettings, terms: Terms, _: Callable[[], str]) -> FlagBackend:
    return Exec(ExecTerms(**terms), timeout=flag.timeout)


def _etcd(flag: FlagSettings, terms: Terms, _: Callable[[], str]) -> FlagBackend:
    return Etcd(EtcdTerms(**terms), timeout=flag.timeout)


def _haproxy(flag: FlagSettings, terms: Terms, _: Callable[[], str]) -> FlagBackend:
    made = HaproxyTerms(**{**terms, "mode": HaproxyMode(terms.get("mode", HaproxyMode.DRAIN))})
    return Haproxy(made, timeout=flag.timeout)


def _nginx(flag: FlagSettings, terms: Terms, _: Callable[[], str]) -> FlagBackend:
    return Nginx(NginxTerms(**terms), timeout=flag.timeout)


def _production_stack(flag: FlagSettings, terms: Terms, _: Callable[[], str]) -> FlagBackend:
    return ProductionStack(ProductionStackTerms(**terms), timeout=flag.timeout)


_MAKERS: Mapping[str, Callable[[FlagSettings, Terms, Callable[[], str]], FlagBackend]] = {
    "embedded": _embedded,
    "webhook": _webhook,
    "file": _file,
    "exec": _exec,
    "etcd": _etcd,
    "haproxy": _haproxy,
    "nginx": _nginx,
    "production-stack": _production_stack,
}
