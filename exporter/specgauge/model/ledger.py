"""What is kept of a target between pages, and what one interval added."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from specgauge.model.quantity import Cell, Layout, Measure, Quantity, Series

EngineKey = tuple[str, str]
"""Model name and engine label; the label is '' on releases that have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class V0Memory:
    """The lifetime totals of a V0 engine at the last collection that could be recovered.

    `drafted`, `emitted` and `steps` are None while they are not known; `latency_steps` is the
    step count that the page before that collection showed, as our own total. `gap` says that a
    later collection could not be recovered: what the next one adds is then not of one interval.
    """

    k: float | None = None
    drafted: float | None = None
    emitted: float | None = None
    steps: float | None = None
    latency_steps: float = 0.0
    gap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Everything remembered of one target; each page makes a new one.

    `last` holds the value last seen of every series, also of those that have vanished: NaN where
    the series was there but could not be trusted. `totals` only ever grow, whatever the engine's
    own counters do. `time` is in seconds on the caller's clock. `doubts` names the totals that
    the last page did not bring up to date, with the reason: among them those of `vanished`
    cells, which the engine showed before and does not show now.
    """

    time: float
    last: Mapping[Series, float] = field(default_factory=dict)
    totals: Mapping[Cell, float] = field(default_factory=dict)
    restarts: Mapping[EngineKey, int] = field(default_factory=dict)
    layout: Layout | None = None
    vanished: frozenset[Cell] = frozenset()
    doubts: Mapping[Cell, str] = field(default_factory=dict)
    v0: Mapping[str, V0Memory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What lies between two pages: the growth of each cell, and where that is in doubt."""

    start: float
    end: float
    deltas: Mapping[Cell, float]
    reset: frozenset[EngineKey] = frozenset()
    doubts: Mapping[Cell, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Length of the interval."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWindow:
    """The growth of one model's measures over a window, by engine and in all.

    `seconds` is None where there is no window: then the sums are totals since the engine
    started. `faults` names quantities that are in doubt at either end, with the reason,
    `engine_faults` the same for an engine; `gauges` are the last page's.
    """

    model: str
    layout: Layout
    engines: tuple[str, ...]
    seconds: float | None
    sums: Mapping[Measure, float]
    by_engine: Mapping[str, Mapping[Measure, float]]
    gauges: Mapping[Quantity, float]
    faults: Mapping[Quantity, str]
    engine_faults: Mapping[tuple[str, Quantity], str]
    lifetime_drafts: float
    notes: tuple[str, ...] = ()

    @property
    def exposed(self) -> frozenset[Quantity]:
        """The quantities of which the last page shows a series."""
        return self.layout.exposed.get(self.model, frozenset())
