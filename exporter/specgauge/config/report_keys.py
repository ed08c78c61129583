"""The keys of `specgauge report`: whom it asks, how it counts, and what it recommends by.

Single keys are checked here; what a command line makes of them is checked by the command.
"""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from specgauge.config.fields import BearerSecret, Duration, File
from specgauge.config.guard_fields import Minimum, Ratio, Root, Selector, Service, Times
from specgauge.config.rules_fields import Amount, Line
from specgauge.config.section import SETTINGS, secret_key

_HOUR = 3600.0
_MINUTE = 60.0


def _divides_an_hour(value: float) -> float:
    if value < _MINUTE or value > _HOUR / 2 or _HOUR % value:
        raise ValueError("must divide an hour, from 1m to 30m")
    return value


Step = Annotated[Duration, AfterValidator(_divides_an_hour)]


class ReportKeys(BaseModel):
    """What `specgauge report` asks, and the thresholds of its recommendations."""

    model_config = SETTINGS

    prometheus: Root = Field(
        default=None,
        description="Whom it asks, without /api/v1; by default guard.prometheus.url.",
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
        default=None, description='Label matchers that pick series, as cluster="a".'
    )
    timeout: Duration = Field(
        default=60.0,
        description="How long one query may take.",
        json_schema_extra={"default": "60s"},
    )
    step: Step = Field(
        default=300.0,
        description="Length of a cell; at least twice as long as Prometheus takes between two "
        "scrapes, and a part of an hour.",
        json_schema_extra={"default": "5m"},
    )
    cluster_label: Line = Field(
        default="cluster", description="Label that tells clusters apart; they are never merged."
    )
    min_draft_tokens: Minimum = Field(
        default=1000, description="Drafted tokens that an hour must hold for its acceptance."
    )
    gpus_per_server: Times = Field(default=1, description="GPUs of one server, for GPU-hours.")
    webhook: Service = Field(default=None, description="URL to which the report is posted.")
    webhook_file: File = Field(
        default=None, description="File with that URL on its first line, where it is a secret."
    )
    min_acceptance: Ratio = Field(
        default=0.55, description="Acceptance below which another draft is recommended."
    )
    min_speedup: Amount = Field(
        default=1.3, description="Speedup below which its use is to be weighed."
    )
    max_fallbacks: Minimum = Field(
        default=5, description="Fallbacks of a period above which they are to be looked at."
    )
    max_baseline_age: Duration = Field(
        default=30 * 86_400.0,
        description="Age above which a new baseline is recommended.",
        json_schema_extra={"default": "30d"},
    )
    token: BearerSecret = secret_key("The token itself; from the environment only.")
