"""The canonical quantities, and the values that carry them from a page to the arithmetic.

Says nothing about any engine's names for them: those stand in the dialect tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Quantity(StrEnum):
    """What a native series measures, whatever a release calls it."""

    DRAFTS = "drafts"
    DRAFT_TOKENS = "draft_tokens"
    ACCEPTED_TOKENS = "accepted_tokens"
    ACCEPTED_PER_POSITION = "accepted_tokens_per_position"
    EMITTED_TOKENS = "emitted_tokens"
    ACCEPTANCE_GAUGE = "acceptance_gauge"
    EFFICIENCY_GAUGE = "efficiency_gauge"
    DIFFUSION = "diffusion"
    STEP_LATENCY = "step_latency"
    REQUEST_TPOT = "request_tpot"
    TTFT = "ttft"
    E2E = "e2e"
    DECODE_TIME = "decode_time"
    REQUEST_GENERATION = "request_generation"
    ITERATION_TOKENS = "iteration_tokens"
    GENERATION_TOKENS = "generation_tokens"
    PROMPT_TOKENS = "prompt_tokens"
    REQUESTS_RUNNING = "requests_running"
    REQUESTS_WAITING = "requests_waiting"
    REQUESTS_SWAPPED = "requests_swapped"
    KV_CACHE_USAGE = "kv_cache_usage"
    PREEMPTIONS = "preemptions"
    REQUESTS_FINISHED = "requests_finished"
    HTTP_REQUESTS = "http_requests"
    CACHE_CONFIG = "cache_config"
    PROCESS_START = "process_start"
    OTHER = "other"
    V0_ENGINE_OUTPUTS = "v0_engine_outputs"
    V0_RECOVERED = "v0_recovered"
    V0_LOST = "v0_lost"


class Kind(StrEnum):
    """What a sample of a series is, and so how it may be used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    BUCKET = "bucket"
    COUNT = "count"
    SUM = "sum"
    CREATED = "created"
    INFO = "info"


ADDS_UP = frozenset({Kind.COUNTER, Kind.BUCKET, Kind.COUNT, Kind.SUM})


class Dialect(StrEnum):
    """How an engine speaks; decided by the page, never by a version number."""

    VLLM_V1 = "vllm-v1"
    VLLM_V0 = "vllm-v0"
    VLLM_V1_RAY = "vllm-v1-ray"
    VLLM_UNKNOWN = "vllm-unknown"


Part = str | int | float
"""What tells the cells of one quantity apart: a position, a bucket's upper bound, a reason, ''."""

Measure = tuple[Quantity, Kind, Part]
"""A quantity, the kind of its sample, and the part."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """One total that we keep: a measure of one engine of one model.

    Compared by identity: a reader makes each of them once, and dictionaries keyed by them are
    looked into on every scrape.
    """

    measure: Measure
    model: str
    engine: str

    windowed: bool = field(init=False)
    """Whether windows need it: of the buckets only those of latencies that are shown."""

    def __post_init__(self) -> None:
        """Work out once what every page would ask of every cell."""
        quantity, kind, _ = self.measure
        shown = kind is not Kind.BUCKET or quantity in _SHOWN_LATENCIES
        object.__setattr__(self, "windowed", shown)


_SHOWN_LATENCIES = frozenset({Quantity.TTFT, Quantity.E2E})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """One series of a page; several (a `pid` each, say) may feed one cell. Identity compares."""

    cell: Cell
    kind: Kind
    quantity: Quantity
    name: str
    rank: int
    origin: tuple[tuple[str, str], ...]

    @property
    def falls_on_reset(self) -> bool:
        """Whether a lower value than before proves that the engine began anew."""
        return self.kind in _MONOTONE


_MONOTONE = frozenset({Kind.COUNTER, Kind.BUCKET, Kind.COUNT})

Group = tuple[str, str, tuple[tuple[str, str], ...]]
"""What restarts together: model, engine, and labels of a process where they set series apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a page's series say by being there; the same object while the page keeps its shape."""

    dialect: Dialect
    engines: Mapping[str, tuple[str, ...]]
    adding: Sequence[Series]
    counted: Sequence[Series]
    created: Sequence[Series]
    speculative: Sequence[Cell]
    gauges: Mapping[tuple[str, Quantity], Sequence[Series]]
    group: Mapping[Series, Group]
    exposed: Mapping[str, frozenset[Quantity]]
    positions: Mapping[str, frozenset[int]]
    mixed_buckets: frozenset[str]
    incomplete: Mapping[tuple[str, str], frozenset[Quantity]]
    v0_cells: Mapping[str, Mapping[Quantity, Cell]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One accepted page: the recognised samples, and which of them cannot be trusted and why."""

    layout: Layout
    values: Mapping[Series, float]
    faults: Mapping[Series, str]
    notes: tuple[str, ...] = ()
