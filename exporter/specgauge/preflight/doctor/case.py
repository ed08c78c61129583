"""Everything that was found out about a server before anything is said of it; values alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specgauge.derive.speedup import Piece
from specgauge.model.baseline import Curve
from specgauge.model.derived import Derived
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Dialect
from specgauge.model.verdict import Judgement
from specgauge.preflight.doctor.codes import Symptom
from specgauge.preflight.doctor.logs import Log
from specgauge.preflight.doctor.queries import Query
from specgauge.preflight.doctor.requests import Segmented
from specgauge.preflight.doctor.setup import Setup
from specgauge.preflight.doctor.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A page that was not had, or refused: how, in one line, and where."""

    result: ScrapeResult
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One interval's drafting: its seconds and what was drafted and accepted in it."""

    seconds: float
    drafted: float
    accepted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model of the page: its figures, its verdict, and the intervals that both rest on."""

    derived: Derived
    windowed: bool
    judgement: Judgement | None = None
    curve: Curve | None = None
    pieces: Sequence[Piece] = ()
    stretches: Sequence[Stretch] = ()
    restarted: bool = False
    baseline_blocks: int | None = None
    waiting_before: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU's memory in bytes."""

    name: str
    used: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a few streamed requests showed; times in seconds, None where it was not to be had."""

    requests: int
    failed: int
    detail: str
    tokens: int
    chunks: int
    tokens_per_chunk: float | None
    gap_p50: float | None
    gap_p95: float | None
    gap_p99: float | None
    ttft_p50: float | None
    tpot: float | None
    in_one_piece: int
    burst_share: float | None
    page: Derived | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is known; what is not is empty or None, and `not_measured` says why.

    `pages` says what the page's text shows besides the figures, first page first.
    """

    symptom: Symptom | None = None
    models: tuple[Model, ...] = ()
    dialect: Dialect | None = None
    release: str | None = None
    failure: Failure | None = None
    looked: bool = False
    still: bool = False
    pages: tuple[Shown, ...] = ()
    log: Log | None = None
    setup: Setup | None = None
    segmented: Segmented | None = None
    queries: tuple[Query, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    probe: Probe | None = None
    probe_failed: bool = False
    not_measured: Mapping[str, str] = field(default_factory=dict)
