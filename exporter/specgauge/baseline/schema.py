"""The baseline file `specgauge.baseline/v1`: untrusted text to values, with every fault named.

Reads and writes text; opens no file.
"""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from specgauge.baseline.faults import half_character, shown, word
from specgauge.derive.interpolate import curve
from specgauge.errors import BaselineError
from specgauge.model.baseline import Baseline, Level

SCHEMA = "specgauge.baseline/v1"
_SETTINGS = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

_LEAST, _MOST = 1e-9, 1e9
_MOST_LEVELS = 1000


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError(f"the low end {bounds[0]:g} is above the high end {bounds[1]:g}")
    return bounds


# Within these bounds no quotient of two figures leaves the range of a float.
Positive = Annotated[float, Field(ge=_LEAST, le=_MOST)]
NotNegative = Annotated[float, Field(ge=0.0, le=_MOST)]
Whole = Annotated[int, Field(ge=0, le=10**15)]
Ranks = Annotated[int, Field(ge=1, le=10**6)]
Interval95 = Annotated[tuple[NotNegative, NotNegative], AfterValidator(_rising)]


class Engine(BaseModel):
    """Which engine served, and which release of it."""

    model_config = _SETTINGS
    name: str = "vllm"
    version: str | None = None


class Model(BaseModel):
    """Which model was served, and how."""

    model_config = _SETTINGS
    name: str
    revision: str | None = None
    quantization: str | None = None
    max_model_len: Whole | None = None


class Parallelism(BaseModel):
    """Over how many ranks."""

    model_config = _SETTINGS
    tensor: Ranks | None = None
    data: Ranks | None = None


class Hardware(BaseModel):
    """On what."""

    model_config = _SETTINGS
    gpu: str | None = None
    count: Ranks | None = None
    kv_blocks: Whole | None = None


class Workload(BaseModel):
    """Under which load; `prompts_sha256` names the prompt set."""

    model_config = _SETTINGS
    name: str | None = None
    prompts_sha256: str | None = None
    temperature: NotNegative | None = None
    output_tokens: str | None = None
    prefix_caching: bool | None = None


class ServerFigures(BaseModel):
    """A level as the server's own metrics tell it; seconds and tokens a second."""

    model_config = _SETTINGS
    tpot_seconds: Positive
    tpot_ci95: Interval95 | None = None
    step_seconds: Positive | None = None
    ttft_seconds: Positive | None = None
    e2e_seconds: Positive | None = None
    generation_tokens_per_second: NotNegative | None = None
    kv_cache_usage_ratio_max: Annotated[float, Field(ge=0.0, le=1.0)] | None = None


class Spread(BaseModel):
    """One latency as the client saw it, in seconds; empty where it was not measured."""

    model_config = _SETTINGS
    mean: Positive | None = None
    p50: NotNegative | None = None
    p95: NotNegative | None = None
    p99: NotNegative | None = None
    ci95: Interval95 | None = None


class ClientFigures(BaseModel):
    """A level as the load generator saw it."""

    model_config = _SETTINGS
    tpot_seconds: Spread = Field(default_factory=Spread)
    ttft_seconds: Spread = Field(default_factory=Spread)
    e2e_seconds: Spread = Field(default_factory=Spread)
    chunk_gap_seconds: Spread = Field(default_factory=Spread)


class LevelRecord(BaseModel):
    """One level of load."""

    model_config = _SETTINGS
    concurrency: Positive | None = None
    request_rate: Positive | None = None
    decode_concurrency: Positive
    window_seconds: Positive | None = None
    repeats: Whole = 1
    requests: Whole = 0
    failed_requests: Whole = 0
    output_tokens: Whole | None = None
    prompt_tokens_per_request: NotNegative | None = None
    output_tokens_per_request: NotNegative | None = None
    server: ServerFigures | None = None
    client: ClientFigures | None = None
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_a_figure(self) -> "LevelRecord":
        if self.server is None and (self.client is None or self.client.tpot_seconds.mean is None):
            raise ValueError("neither server.tpot_seconds nor client.tpot_seconds.mean is given")
        return self


class BaselineFile(BaseModel):
    """The whole file."""

    model_config = _SETTINGS
    schema_name: Literal["specgauge.baseline/v1"] = Field(
        default="specgauge.baseline/v1", alias="schema"
    )
    created: AwareDatetime
    created_by: str = ""
    method: Literal["closed_loop", "open_loop", "observed", "from_pages", "imported"]
    engine: Engine = Field(default_factory=Engine)
    model: Model
    speculation: None = None
    parallelism: Parallelism = Field(default_factory=Parallelism)
    hardware: Hardware = Field(default_factory=Hardware)
    workload: Workload = Field(default_factory=Workload)
    levels: Annotated[tuple[LevelRecord, ...], Field(min_length=1, max_length=_MOST_LEVELS)]
    partial: bool = False
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _levels_once(self) -> "BaselineFile":
        named = [one.concurrency for one in self.levels if one.concurrency is not None]
        for value in named:
            if named.count(value) > 1:
                raise ValueError(f"two levels have the concurrency {value:g}; keep one of them")
        return self


_KINDS: Mapping[str, type[BaseModel]] = {
    "engine": Engine,
    "model": Model,
    "parallelism": Parallelism,
    "hardware": Hardware,
    "workload": Workload,
    "levels": LevelRecord,
    "server": ServerFigures,
    "client": ClientFigures,
    **dict.fromkeys(ClientFigures.model_fields, Spread),
}


def parse(text: str, *, source: str) -> BaselineFile:
    """Read a baseline file; raises BaselineError naming every fault by its dotted path."""
    try:
        document = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as problem:
        raise BaselineError([f"{source}: not JSON: {problem}"]) from None
    if not isinstance(document, dict):
        raise BaselineError([f"{source}: a JSON object is expected, not {shown(document)}"])
    if document.get("schema") != SCHEMA:
        raise BaselineError([f"{source}: schema: {_another(document.get('schema'))}"])
    if half := half_character(document):
        raise BaselineError([f"{source}: {half}: half of a surrogate pair is no text"])
    try:
        return BaselineFile.model_validate_json(text, strict=True)
    except ValidationError as error:
        faults = [
            fault
            for fault in error.errors(include_url=False)
            if fault["type"] != "too_short" or not fault["input"]  # else its parts are at fault
        ]
        raise BaselineError([f"{source}: {word(fault, keys_at)}" for fault in faults]) from None


def dump(file: BaselineFile) -> str:
    """Write a baseline file as text that `parse` reads back."""
    return json.dumps(file.model_dump(mode="json", by_alias=True), indent=1) + "\n"


def usable(file: BaselineFile, *, source: str) -> Baseline:
    """Turn a file into the curve and the facts that the arithmetic needs."""
    return Baseline(
        curve=curve([_level(one) for one in file.levels]),
        source=source,
        created=file.created.timestamp(),
        method=file.method,
        facts={
            "engine.name": file.engine.name,
            "engine.version": file.engine.version,
            "model.name": file.model.name,
            "model.revision": file.model.revision,
            "model.quantization": file.model.quantization,
            "parallelism.tensor": file.parallelism.tensor,
            "parallelism.data": file.parallelism.data,
            "hardware.gpu": file.hardware.gpu,
            "hardware.count": file.hardware.count,
        },
        partial=file.partial,
    )


def _level(one: LevelRecord) -> Level:
    """Take the server's figures, and the client's where there are no others."""
    server, client = one.server, one.client or ClientFigures()
    if server is not None:
        tpot, interval = server.tpot_seconds, server.tpot_ci95
        ttft, e2e = server.ttft_seconds, server.e2e_seconds
    else:
        tpot, interval = client.tpot_seconds.mean or math.nan, client.tpot_seconds.ci95
        ttft, e2e = client.ttft_seconds.mean, client.e2e_seconds.mean
    low, high = interval or (None, None)
    return Level(
        decode_concurrency=one.decode_concurrency,
        tpot=tpot,
        tpot_low=low,
        tpot_high=high,
        ttft=ttft,
        e2e=e2e,
        prompt_tokens_per_request=one.prompt_tokens_per_request,
        output_tokens_per_request=one.output_tokens_per_request,
        concurrency=one.concurrency,
    )


def _another(found: object) -> str:
    """Say what to do with a document that is no baseline of this version."""
    if isinstance(found, str) and found.startswith("specgauge.baseline/"):
        return f"{shown(found)} is of another specgauge, this one reads {SCHEMA}; upgrade or record"
    return f"{shown(found)} is not {SCHEMA}; other tools' results: specgauge baseline import"


def keys_at(path: tuple[str | int, ...]) -> list[str]:
    """List the keys that an object at a path may have."""
    kind: Any = BaselineFile
    for part in path:
        if isinstance(part, str):
            kind = _KINDS.get(part, kind)
    return [field.alias or name for name, field in kind.model_fields.items()]


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of a baseline")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice")
        found[key] = value
    return found
