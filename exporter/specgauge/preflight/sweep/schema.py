"""The sweep file `specgauge.sweep/v1`: what a sweep has done so far, as it is kept on disk.

Text to values and back; opens no file. What follows from the runs is written beside them and not
read again: it is worked out anew.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from specgauge.baseline.schema import LevelRecord
from specgauge.errors import BaselineError

SCHEMA = "specgauge.sweep/v1"
_SETTINGS = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
_READING = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

Seconds = Annotated[float, Field(gt=0.0, le=1e9)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Number = Annotated[float, Field(ge=0.0, le=1e15)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


class Speculation(BaseModel):
    """What the server's page said of its drafts over a run; `absent` has the reasons."""

    model_config = _SETTINGS
    state: str
    num_speculative_tokens: Count | None = None
    acceptance_ratio: Share | None = None
    acceptance_length: Number | None = None
    draft_length: Number | None = None
    draft_coverage_ratio: Number | None = None
    tokens_per_step: Number | None = None
    drafts: Number | None = None
    position_acceptance_ratio: tuple[Share, ...] | None = None
    absent: dict[str, str] = Field(default_factory=dict)


class Repeat(BaseModel):
    """One piece of a run: time in decode, and tokens after the first."""

    model_config = _SETTINGS
    decode_seconds: Seconds
    decode_tokens: Seconds


class Run(BaseModel):
    """One visit of one candidate at one load; `failure` says why it measured nothing."""

    model_config = _SETTINGS
    candidate: Name
    concurrency: Annotated[int, Field(ge=1, le=4096)]
    round: Annotated[int, Field(ge=1, le=1000)]
    failure: str | None = None
    repeats: tuple[Repeat, ...] = ()
    level: LevelRecord | None = None
    speculation: Speculation | None = None


class Server(BaseModel):
    """What is known of a candidate's server; memory that is not known has its reason."""

    model_config = _SETTINGS
    engine_version: str | None = None
    model_name: str | None = None
    engines: Count | None = None
    kv_blocks: Count | None = None
    gpu_memory_bytes: Count | None = None
    gpu_memory_unknown: str | None = None
    ready_seconds: Number | None = None


class State(BaseModel):
    """How a candidate stands; `reason` and the log's `tail` say why it failed or was left out."""

    model_config = _SETTINGS
    name: Name
    status: Literal["measured", "failed", "pruned", "pending"] = "pending"
    reason: str | None = None
    tail: tuple[str, ...] = ()
    server: Server | None = None


class Kept(BaseModel):
    """What is read back of a sweep file."""

    model_config = _READING
    schema_name: Literal["specgauge.sweep/v1"] = Field(default="specgauge.sweep/v1", alias="schema")
    created: AwareDatetime
    created_by: str = ""
    settings: dict[str, Any]
    settings_sha256: str
    states: tuple[State, ...] = ()
    runs: tuple[Run, ...] = ()


def parse(text: str, *, source: str) -> Kept:
    """Read a sweep file back; BaselineError in one line where it is none."""
    fix = "give another folder with -o"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BaselineError([f"{source}: not JSON: {problem}; {fix}"]) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BaselineError([f"{source}: no {SCHEMA} document; {fix}"])
    try:
        return Kept.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BaselineError([f"{source}: {place}: {first['msg']}; {fix}"]) from None


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Name the settings in which two sweeps differ."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
