"""The keys of `specgauge render` as values: thresholds, labels, windows, waits, links.

Single keys are checked here, and that a window is long enough for the scrape interval.
"""

from pydantic import BaseModel, Field, model_validator

from specgauge.config.fields import Duration, Interval
from specgauge.config.guard_fields import Ratio, Selector, Times
from specgauge.config.rules_fields import (
    Amount,
    Edge,
    Hosts,
    LabelNames,
    Labels,
    Levels,
    Line,
    Names,
    Severities,
    Texts,
    Waits,
    Web,
)
from specgauge.config.section import SETTINGS
from specgauge.units import format_duration

_FEWEST_SCRAPES = 4


def _seconds(default: float, description: str) -> float:
    return Field(
        default=default,
        description=description,
        json_schema_extra={"default": format_duration(default)},
    )


class ThresholdKeys(BaseModel):
    """Where an alert begins."""

    model_config = SETTINGS

    costs_warning: Amount = Field(default=0.95, description="Speedup below which it costs.")
    costs_critical: Amount = Field(default=0.8, description="Speedup below which it costs much.")
    promised_speedup: Amount = Field(default=1.3, description="Speedup that was promised.")
    fleet_costs_share: Ratio = Field(
        default=0.5, description="Share of a model's servers for which speculation costs."
    )
    fleet_costs_members: Times = Field(
        default=3, description="Servers with a verdict that a share is made of at least."
    )
    acceptance_warning: Ratio = Field(
        default=0.5, description="Acceptance ratio of the simple pair and without the sidecar."
    )
    acceptance_critical: Ratio = Field(default=0.3, description="The same, critical.")
    drop_warning: Ratio = Field(
        default=0.7, description="What acceptance falls to, against its own past."
    )
    drop_critical: Ratio = Field(default=0.5, description="The same, critical.")
    first_position_warning: Ratio = Field(
        default=0.2, description="Acceptance at the first position that is a collapse."
    )
    first_position_critical: Ratio = Field(default=0.05, description="The same, critical.")
    first_position_healthy: Ratio = Field(
        default=0.5, description="Acceptance at the first position that is not the problem."
    )
    later_positions: Ratio = Field(
        default=0.2,
        description="Acceptance at the second position, given the first, that is a collapse.",
    )
    acceptance_too_high: Ratio = Field(
        default=0.98, description="Acceptance ratio that only loops reach."
    )
    output_warning: Ratio = Field(
        default=0.5, description="What output tokens per request fall to, against their own past."
    )
    output_critical: Ratio = Field(default=0.1, description="The same, critical.")
    collapse: Ratio = Field(
        default=0.2, description="Acceptance ratio in probes that is a collapse."
    )
    failed_probes: Times = Field(default=2, description="Probes that a collapse outlasts.")
    ttft_p99_warning: Amount = Field(default=2.0, description="Seconds to the first token, P99.")
    ttft_p99_critical: Amount = Field(default=5.0, description="The same, critical.")
    e2e_p99_warning: Amount = Field(default=30.0, description="Seconds of a request, P99.")
    e2e_p99_critical: Amount = Field(default=60.0, description="The same, critical.")
    kv_cache_warning: Ratio = Field(default=0.9, description="Share of KV cache in use.")
    kv_cache_critical: Ratio = Field(default=0.97, description="The same, critical.")
    waiting_warning: Amount = Field(default=10.0, description="Requests waiting, on average.")
    waiting_critical: Amount = Field(default=50.0, description="The same, critical.")
    preemptions_warning: Amount = Field(default=0.05, description="Preemptions per request.")
    preemptions_critical: Amount = Field(default=0.2, description="The same, critical.")
    errors_warning: Ratio = Field(default=0.01, description="Share of answers with status 5xx.")
    errors_critical: Ratio = Field(default=0.05, description="The same, critical.")
    restarts_warning: Times = Field(default=2, description="Restarts of an engine in an hour.")
    restarts_critical: Times = Field(default=4, description="The same, critical.")
    tpot_warning: Amount = Field(
        default=0.05, description="Seconds per output token, without the sidecar."
    )
    tpot_critical: Amount = Field(default=0.1, description="The same, critical.")
    baseline_age: Duration = _seconds(30 * 86400.0, "Age at which a baseline is stale.")
    violations: Times = Field(
        default=3, description="Broken identities in a quarter of an hour, at least."
    )
    falls: Times = Field(default=3, description="Fallbacks in an hour that are flapping.")
    no_faster: Ratio = Field(
        default=0.98,
        description="Time per token after a fallback, against before, from which it did not help; "
        "of guards that watch no server without speculation, for others look themselves.",
    )
    min_drafts: Times = Field(
        default=100, description="Drafts in a window before acceptance is judged."
    )
    min_requests: Times = Field(
        default=20, description="Requests in a window before the length of answers is judged."
    )

    @model_validator(mode="after")
    def _critical_beyond_warning(self) -> "ThresholdKeys":
        fields = type(self).model_fields
        for name in fields:
            stem, _, level = name.rpartition("_")
            if level != "critical":
                continue
            falls = fields[name].default < fields[f"{stem}_warning"].default
            least, most = (
                f"{stem}_{one}" for one in ("critical", "warning")[:: 1 if falls else -1]
            )
            if getattr(self, least) > getattr(self, most):
                raise ValueError(f"{least} is above {most}: critical would come before the warning")
        return self


class ObjectiveKeys(BaseModel):
    """The promise on time per output token whose burn rate is watched."""

    model_config = SETTINGS

    tpot: Edge = Field(
        default=0.05,
        description="Time per output token, an edge of vLLM's buckets.",
        json_schema_extra={"default": "50ms"},
    )
    share: Ratio = Field(default=0.99, description="Share of requests that are within it.")


class WindowKeys(BaseModel):
    """The windows of the recording rules; each at least four scrape intervals."""

    model_config = SETTINGS

    short: Duration = _seconds(300.0, "Window that alerts look back.")
    medium: Duration = _seconds(3600.0, "Window that a fall is compared with.")
    long: Duration = _seconds(86400.0, "Window for reports, and for a day's normal.")


class RulesKeys(BaseModel):
    """What `specgauge render` writes."""

    model_config = SETTINGS

    job: Line = Field(default="specgauge", description="Job of the sidecars in Prometheus.")
    engine_job: Line = Field(default="vllm", description="Job of the engines themselves.")
    sidecars: Hosts = Field(
        default=("localhost:9843",),
        description="Where Prometheus finds the sidecars, as host:port.",
    )
    engines: Hosts = Field(
        default=("localhost:8000",), description="Where it finds the engines, as host:port."
    )
    alertmanagers: Hosts = Field(
        default=("localhost:9093",), description="Where it sends alerts, as host:port."
    )
    image: Line = Field(
        default="specgauge:0.1.0", description="Container image in Kubernetes and Compose files."
    )
    selector: Selector = Field(
        default=None, description='Label matchers for every series, as cluster="a".'
    )
    models: Names = Field(
        default=(), description="Names of the models that rules are for; by default all."
    )
    keep_labels: LabelNames = Field(
        default=(), description="Further labels that a server is told apart by, as namespace."
    )
    scrape_interval: Interval = _seconds(15.0, "How often Prometheus scrapes the sidecars.")
    evaluation_interval: Interval = _seconds(30.0, "How often rules are evaluated.")
    windows: WindowKeys = Field(
        default_factory=WindowKeys, description="How far the recording rules look back."
    )
    team: Line = Field(default="llm-serving", description="Team that alerts go to.")
    teams: Texts = Field(
        default_factory=dict, description="Other teams, by the name of their model."
    )
    labels: Labels = Field(default_factory=dict, description="Further labels of every alert.")
    levels: Levels = Field(
        default_factory=lambda: {"warning": "warning", "critical": "critical"},
        description="What the label severity holds for warning and critical.",
        json_schema_extra={"default": {"warning": "warning", "critical": "critical"}},
    )
    severity: Severities = Field(
        default_factory=dict,
        description="Another level for an alert, as SpecgaugeTargetDown: warning; none leaves it "
        "out. Alert/level names one level of it.",
    )
    waits: Waits = Field(
        default_factory=dict,
        alias="for",
        description="Another time for an alert to hold, as SpecgaugeTargetDown: 10m.",
    )
    runbook_url: Web = Field(
        default="https://example.com/specgauge/rules/README.md",
        description="Where the runbook lies.",
    )
    grafana_url: Web = Field(default="http://localhost:3000", description="Where Grafana is.")
    datasource: Line = Field(
        default="prometheus", description="UID of Prometheus among Grafana's data sources."
    )
    receiver_url: Web = Field(
        default="http://localhost:5001/alerts", description="Webhook that gets the alerts."
    )
    objective: ObjectiveKeys = Field(
        default_factory=ObjectiveKeys, description="The promise on time per output token."
    )
    thresholds: ThresholdKeys = Field(
        default_factory=ThresholdKeys, description="Where alerts begin."
    )

    @model_validator(mode="after")
    def _long_enough(self) -> "RulesKeys":
        least = _FEWEST_SCRAPES * self.scrape_interval
        for name, window in self.windows:
            if window < least:
                raise ValueError(
                    f"windows.{name} must be at least 4x scrape_interval ({format_duration(least)})"
                )
        if self.windows.short >= self.windows.medium or self.windows.medium >= self.windows.long:
            raise ValueError("windows: short must be below medium, and that below long")
        return self

    @model_validator(mode="after")
    def _labels_apart(self) -> "RulesKeys":
        for name in self.keep_labels:
            if name in self.labels:
                raise ValueError(f"labels: {name} is one of keep_labels, and would overwrite it")
        return self
