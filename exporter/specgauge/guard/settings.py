"""What the guard and its rim are told, as plain values; reads no file and no configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from specgauge.guard.policy import Policy

PLAYBOOK_WINDOW = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagSettings:
    """Where the flag lies; times in seconds.

    `terms` are the keys of the chosen backend's section, files as paths. Among them is `token` only
    where the environment gave that secret itself; they are never shown.
    """

    backend: str = "embedded"
    key: str = "speculative_decoding_enabled"
    timeout: float = 5.0
    check_interval: float = 30.0
    obeyed_by: str | None = None
    terms: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """The Prometheus that knows all members of a pool; times in seconds.

    A token is in its file or, from the environment, in `token`; `tenant` is Mimir's or Thanos'.
    """

    url: str
    token_file: str | None = None
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    tenant: str | None = None
    selector: str | None = None
    interval: float = 15.0
    timeout: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GrafanaSettings:
    """The Grafana that gets an annotation for every change; the token as for Prometheus."""

    url: str
    token_file: str | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """The whole guard; times in seconds. Files are paths that need not be there yet.

    `decision_window` is the sidecar's own, but for the playbook's guard, which has its own.
    """

    policy: Policy = field(default_factory=Policy)
    flag: FlagSettings = field(default_factory=FlagSettings)
    decision_window: float = 15.0
    source: str = "sidecar"
    state_file: str | None = None
    audit_file: str | None = None
    freeze_file: str | None = None
    lock_file: str | None = None
    prometheus: PrometheusSettings | None = None
    grafana: GrafanaSettings | None = None


_POLICY = frozenset({"policy", "freeze_file", "decision_window"})
"""What a guard goes on under without a restart."""


def other_keys(before: GuardSettings | None, after: GuardSettings | None) -> str:
    """Name the keys and sections that differ and that a running guard does not take over."""
    if before is None or after is None:
        return "guard"
    changed = [f"guard.{name}" for name in _differing(before, after) if name not in _POLICY]
    flag = [
        f"flag.{after.flag.backend if name == 'terms' else name}"
        for name in _differing(before.flag, after.flag)
    ]
    return ", ".join(flag + [name for name in changed if name != "guard.flag"])


def _differing(before: GuardSettings | FlagSettings, after: object) -> list[str]:
    names = [one.name for one in fields(before)]
    return [name for name in names if getattr(before, name) != getattr(after, name)]
