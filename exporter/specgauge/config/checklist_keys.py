"""The keys of `specgauge checklist`: thresholds of its gates, and what an operator states.

Single keys are checked here; which gates there are to be waived is checked by the command.
"""

import json
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, WithJsonSchema

from specgauge.config.fields import OPTIONAL_TEXT, Duration, File, text
from specgauge.config.guard_fields import Ratio, Times
from specgauge.config.rules_fields import Amount, Line, Names, Texts
from specgauge.config.section import SETTINGS

_FORM = '{"method": "eagle", "num_speculative_tokens": 4}'


def _speculation(value: object) -> str | None:
    if value is None:
        return None
    words = text(value)
    try:
        found = json.loads(words, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ValueError(f"must be JSON in quotes, as '{_FORM}'") from None
    if not isinstance(found, dict) or not found:
        raise ValueError(f"must be a JSON object that is not empty, as '{_FORM}'")
    return words


def _refuse(word: str) -> None:
    raise ValueError(word)


def _above_zero(value: float | None) -> float | None:
    if value is not None and value <= 0:
        raise ValueError("must be above 0")
    return value


SpeculativeConfig = Annotated[
    str | None, BeforeValidator(_speculation), WithJsonSchema({"type": OPTIONAL_TEXT})
]
Load = Annotated[Amount | None, AfterValidator(_above_zero)]


class ChecklistKeys(BaseModel):
    """What `specgauge checklist` holds a deployment to, and what it cannot find out itself."""

    model_config = SETTINGS

    max_age: Duration = Field(
        default=14 * 86400.0,
        description="Age from which evidence is stale, and no evidence any more.",
        json_schema_extra={"default": "14d"},
    )
    min_acceptance: Ratio = Field(
        default=0.55, description="Acceptance ratio to be exceeded where there is no baseline."
    )
    min_drafts: Times = Field(
        default=1000, description="Drafts that a production sample must hold."
    )
    min_speedup: Amount = Field(
        default=1.3, description="Speedup to be exceeded at the expected load."
    )
    min_burst_speedup: Amount = Field(default=1.0, description="Least speedup in a burst.")
    max_p99_ratio: Amount = Field(
        default=1.0, description="P99 latency with speculation over that without, at most."
    )
    max_memory: Ratio = Field(
        default=0.95, description="Share of GPU memory, and of KV cache, to stay below."
    )
    min_repeats: Times = Field(default=3, description="Repeats that a sweep must have of each k.")
    expected_concurrency: Load = Field(
        default=None,
        description="Requests in decode at the expected load; with it, the live speedup counts "
        "where there is no comparison.",
    )
    models: Names = Field(
        default=(), description="Further names of the served model: paths or hub names."
    )
    model_revision: Line | None = Field(
        default=None, description="Revision of the model that is deployed."
    )
    draft: Line | None = Field(
        default=None,
        description="Draft that is deployed: path or hub name; by default that in "
        "speculative_config.",
    )
    draft_revision: Line | None = Field(
        default=None, description="Revision of the draft that is deployed."
    )
    speculative_config: SpeculativeConfig = Field(
        default=None,
        description="The engine's --speculative-config as it is deployed: JSON, in quotes.",
    )
    draft_conditions: Names = Field(
        default=(), description="Codes of the draft check's conditions that are met."
    )
    lock_file: File = Field(
        default=None,
        description="What checklist pin wrote; by default specgauge.lock.json beside this file.",
    )
    routing: Line | None = Field(
        default=None,
        description="What routes each class of traffic, in your own words: path or unit.",
    )
    report_scheduled_by: Line | None = Field(
        default=None, description="What runs the periodic report: path, unit or CronJob."
    )
    waive: Texts = Field(
        default_factory=dict, description="Gates that are waived, each with its reason."
    )
