"""What the guard is told, as plain values with the defaults of the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from specgauge.model.guard import Signal, Switch

DEFAULT_SIGNALS: Mapping[Signal, Switch] = MappingProxyType(
    {
        Signal.SPEEDUP: Switch.ON,
        Signal.ACCEPTANCE_FLOOR: Switch.ON,
        Signal.COLLAPSE: Switch.ON,
        Signal.LATENCY: Switch.OFF,
        Signal.ERRORS: Switch.OFF,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Latencies that the service has promised, in seconds; None where nothing was promised."""

    tpot_seconds: float | None = None
    ttft_seconds: float | None = None
    e2e_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When the guard acts; times in seconds, ratios as shares.

    `floor` replaces the break-even acceptance length, in tokens a step; None works it out from
    the number of draft tokens. `day` is what `max_fallbacks_per_day` is counted over.
    """

    dry_run: bool = False
    playbook: bool = False
    min_tokens: float = 500.0
    min_requests: float = 5.0
    min_drafts: float = 100.0
    consecutive: int = 2
    severe: float = 0.8
    decision_window: float = 15.0
    margin: float = 0.05
    signals: Mapping[Signal, Switch] = field(default_factory=lambda: DEFAULT_SIGNALS)
    objective: Objective = field(default_factory=Objective)
    floor: float | None = None
    cooldown: float = 300.0
    backoff_factor: float = 2.0
    backoff_max: float = 3600.0
    probes: bool = True
    probe_for: float = 60.0
    max_fallbacks_per_day: int = 12
    day: float = 86400.0
    startup_grace: float = 60.0
    require_standard_capacity: bool = True
    max_fallback_share: float | None = None
