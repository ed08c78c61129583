"""The one object in front of every rendered file: all that may differ from one place to the next.

Plain values; nothing here is read from anywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from specgauge.render.router import Router
from specgauge.render.switch import Switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where an alert begins; ratios from 0 to 1, times in seconds."""

    costs_warning: float = 0.95
    costs_critical: float = 0.8
    promised_speedup: float = 1.3
    fleet_costs_share: float = 0.5
    fleet_costs_members: int = 3
    acceptance_warning: float = 0.5
    acceptance_critical: float = 0.3
    drop_warning: float = 0.7
    drop_critical: float = 0.5
    first_position_warning: float = 0.2
    first_position_critical: float = 0.05
    first_position_healthy: float = 0.5
    later_positions: float = 0.2
    acceptance_too_high: float = 0.98
    output_warning: float = 0.5
    output_critical: float = 0.1
    collapse: float = 0.2
    failed_probes: int = 2
    ttft_p99_warning: float = 2.0
    ttft_p99_critical: float = 5.0
    e2e_p99_warning: float = 30.0
    e2e_p99_critical: float = 60.0
    kv_cache_warning: float = 0.9
    kv_cache_critical: float = 0.97
    waiting_warning: float = 10.0
    waiting_critical: float = 50.0
    preemptions_warning: float = 0.05
    preemptions_critical: float = 0.2
    errors_warning: float = 0.01
    errors_critical: float = 0.05
    restarts_warning: int = 2
    restarts_critical: int = 4
    tpot_warning: float = 0.05
    tpot_critical: float = 0.1
    baseline_age: float = 30 * 86400.0
    violations: int = 3
    falls: int = 3
    no_faster: float = 0.98
    min_drafts: int = 100
    min_requests: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The promise on time per output token: this share of requests within this time.

    `tpot` has to be an edge of the engine's buckets, for between two of them nobody can count.
    """

    tpot: float = 0.05
    share: float = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that templates may ask for; durations in seconds.

    `waits` and `severities` are by alert, or `Alert/level` for one level of it; a severity of
    `none` leaves it out. `levels` says what the label `severity` holds for a level.
    `selector` holds label matchers without braces for every series of the sidecar.
    `models` limits everything to these; empty means all. `teams` gives models to other teams.
    `router` is None where nothing is to be routed, `switch` where the flag is not in HAProxy.
    `sidecars`, `engines` and `alertmanagers` are where Prometheus finds them, as host:port.
    """

    job: str = "specgauge"
    engine_job: str = "vllm"
    selector: str = ""
    models: tuple[str, ...] = ()
    keep_labels: tuple[str, ...] = ()
    scrape_interval: float = 15.0
    evaluation_interval: float = 30.0
    short_window: float = 300.0
    medium_window: float = 3600.0
    long_window: float = 86400.0
    team: str = "llm-serving"
    teams: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, str] = field(
        default_factory=lambda: {"warning": "warning", "critical": "critical"}
    )
    severities: Mapping[str, str] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)
    runbook_url: str = "https://example.com/specgauge/rules/README.md"
    grafana_url: str = "http://localhost:3000"
    datasource: str = "prometheus"
    receiver_url: str = "http://localhost:5001/alerts"
    sidecars: tuple[str, ...] = ("localhost:9843",)
    engines: tuple[str, ...] = ("localhost:8000",)
    alertmanagers: tuple[str, ...] = ("localhost:9093",)
    image: str = "specgauge:0.1.0"
    thresholds: Thresholds = field(default_factory=Thresholds)
    objective: Objective = field(default_factory=Objective)
    router: Router | None = None
    switch: Switch | None = None
