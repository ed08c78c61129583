"""The guard's keys as values: when the flag is moved, on what evidence, and what is kept of it.

Single keys are checked here; how keys fit together is checked by `guard_rules`.
"""

from typing import Any

from pydantic import BaseModel, Field, model_validator

from specgauge.config.fields import BearerSecret, Duration, File, Interval, Switch
from specgauge.config.guard_fields import (
    Factor,
    Floor,
    Latency,
    Minimum,
    Preset,
    Ratio,
    Recovery,
    Root,
    Selector,
    Share,
    SignalMode,
    Source,
    Span,
    Times,
)
from specgauge.config.rules_fields import Line
from specgauge.config.section import SETTINGS, secret_key

_PLAYBOOK_CONSECUTIVE = 3


class Signals(BaseModel):
    """Which signals act, which only tell what they would do (dry_run), and which are off."""

    model_config = SETTINGS

    speedup: SignalMode = Field(default="on", description="The verdict against the baseline.")
    acceptance_floor: SignalMode = Field(
        default="on", description="Too few tokens a step to pay; only where speedup is unknown."
    )
    collapse: SignalMode = Field(
        default="on",
        description="A sudden fall of acceptance below its own recent past; only where speedup "
        "is unknown.",
    )
    latency: SignalMode = Field(default="off", description="A missed guard.objective.")
    errors: SignalMode = Field(
        default="off", description="More errors and restarts than the standard pool has."
    )


class Objective(BaseModel):
    """Latencies that the service has promised, as means; fractions are allowed."""

    model_config = SETTINGS

    tpot: Latency = Field(default=None, description="Time per output token, as 25ms or 2.5ms.")
    ttft: Latency = Field(default=None, description="Time to first token, as 500ms.")
    e2e: Latency = Field(default=None, description="Time of a whole request, as 8s.")


class Backoff(BaseModel):
    """How the time to the next probe grows while probes fail."""

    model_config = SETTINGS

    factor: Factor = Field(default=2.0, description="What guard.cooldown grows by, 1 to 100.")
    max: Span = Field(
        default=3600.0,
        description="What it never exceeds; at least guard.cooldown.",
        json_schema_extra={"default": "1h"},
    )


class RecoveryKeys(BaseModel):
    """Whether probes turn the flag on again, and for how long they try."""

    model_config = SETTINGS

    mode: Recovery = Field(
        default="probe", description="By probes, or by an operator alone (manual)."
    )
    probe_for: Duration = Field(
        default=60.0,
        description="How long a probe lasts at least before it may succeed; until then the reason "
        "is probe_too_short.",
        json_schema_extra={"default": "60s"},
    )


class PrometheusKeys(BaseModel):
    """The Prometheus, or another with its API, that knows all members of the pool."""

    model_config = SETTINGS

    url: Root = Field(
        default=None,
        description="Where it is, without /api/v1; needed if guard.source is prometheus.",
    )
    token_file: File = Field(default=None, description="File with its bearer token.")
    ca_file: File = Field(
        default=None, description="PEM file with the authorities to trust instead of the system's."
    )
    tenant: Line | None = Field(
        default=None,
        description="Tenant of a Mimir or Thanos: sent as X-Scope-OrgID and THANOS-TENANT.",
    )
    selector: Selector = Field(
        default=None,
        description='Label matchers that pick the pool, as job="specgauge",model_name="m".',
    )
    interval: Interval = Field(
        default=15.0,
        description="Time from one query to the next; at least 100ms.",
        json_schema_extra={"default": "15s"},
    )
    timeout: Duration = Field(
        default=5.0,
        description="How long one query may take.",
        json_schema_extra={"default": "5s"},
    )
    token: BearerSecret = secret_key("The token itself; from the environment only.")


class GrafanaKeys(BaseModel):
    """The Grafana that is told of every change of the flag."""

    model_config = SETTINGS

    url: Root = Field(default=None, description="Where it is; absent means no annotations.")
    token_file: File = Field(
        default=None, description="File with the token of a service account that may annotate."
    )
    token: BearerSecret = secret_key("The token itself; from the environment only.")


class GuardKeys(BaseModel):
    """When speculation is turned off, and when it comes back."""

    model_config = SETTINGS

    dry_run: Switch = Field(default=False, description="Decide and tell, but never write the flag.")
    preset: Preset = Field(
        default=None,
        description="playbook: acceptance below 0.4 or latency 20 % above the baseline, windows "
        "of 60s, 3 in a row; for back-tests.",
    )
    min_tokens: Minimum = Field(
        default=500, description="Decoded tokens a window must hold for any judgement of speed."
    )
    min_requests: Minimum = Field(default=5, description="Finished requests it must hold for that.")
    min_drafts: Minimum = Field(
        default=100, description="Drafts it must hold for signals made from acceptance alone."
    )
    consecutive: Times = Field(
        default=2, description="Degraded windows in a row before the flag goes off."
    )
    severe: Ratio = Field(
        default=0.8, description="One window is enough when its whole interval lies below this."
    )
    signals: Signals = Field(default_factory=Signals, description="What can turn the flag off.")
    objective: Objective = Field(
        default_factory=Objective, description="What guard.signals.latency holds the server to."
    )
    acceptance_floor: Floor = Field(
        default=None,
        description="Tokens a step below which speculation is taken to cost; by default worked "
        "out from the number of draft tokens.",
    )
    cooldown: Span = Field(
        default=300.0,
        description="Time from a fallback to the first probe.",
        json_schema_extra={"default": "5m"},
    )
    backoff: Backoff = Field(default_factory=Backoff, description="How that time grows.")
    recovery: RecoveryKeys = Field(
        default_factory=RecoveryKeys, description="How the flag comes back on."
    )
    max_fallbacks_per_day: Times = Field(
        default=12, description="Fallbacks in 24 h after which the flag stays off until told."
    )
    max_fallback_share: Share = Field(
        default=None, description="Share of the pool's members that may be in fallback at once."
    )
    startup_grace: Span = Field(
        default=60.0,
        description="Time from the first page, and from each engine restart, without a judgement.",
        json_schema_extra={"default": "60s"},
    )
    require_standard_capacity: Switch = Field(
        default=True, description="Hold while the standard target is down or full."
    )
    freeze_file: File = Field(
        default=None,
        description="While this file exists, and unless it says false, nothing is flipped.",
    )
    source: Source = Field(
        default="sidecar",
        description="Judge from the pages of the one speculative target, or from prometheus.",
    )
    state_file: File = Field(default=None, description="File in which the state survives.")
    audit_file: File = Field(default=None, description="File that gets one JSON line a change.")
    lock_file: File = Field(
        default=None, description="File whose lock makes this the one writer of the flag."
    )
    prometheus: PrometheusKeys = Field(
        default_factory=PrometheusKeys, description="For guard.source: prometheus."
    )
    grafana: GrafanaKeys = Field(
        default_factory=GrafanaKeys, description="Where changes of the flag are annotated."
    )

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, keys: Any) -> Any:
        """Lay a preset under what was written, so that `config show` shows it."""
        if isinstance(keys, dict) and keys.get("preset") == "playbook":
            return {"consecutive": _PLAYBOOK_CONSECUTIVE} | keys
        return keys
