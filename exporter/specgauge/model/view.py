"""What the sidecar knows at a moment: made by the loop, read by the page, the API and /metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from specgauge.model.baseline import Baseline
from specgauge.model.derived import Check, Derived, Hints
from specgauge.model.guard import Look
from specgauge.model.guard_view import GuardView
from specgauge.model.ledger import EngineKey
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Cell, Dialect
from specgauge.model.traffic import ClassesView
from specgauge.model.verdict import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetView:
    """One target: its totals always, its gauges (`models`) only while it answers.

    Times are Unix seconds. `silenced` names models whose draft counters are no speculation,
    `doubts` the totals that the last page did not bring up to date. `baseline_seconds` and
    `covered_seconds` are by model and basis: what the tokens of the covered intervals would have
    cost without speculation, and what they did cost.
    """

    name: str
    url: str
    role: str
    hints: Hints
    result: ScrapeResult | None = None
    detail: str = ""
    scrape_seconds: float | None = None
    last_success: float | None = None
    window_seconds: float | None = None
    dialect: Dialect | None = None
    version: str | None = None
    engines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seen: Mapping[EngineKey, float] = field(default_factory=dict)
    models: Mapping[str, Derived] = field(default_factory=dict)
    totals: Mapping[Cell, float] = field(default_factory=dict)
    restarts: Mapping[EngineKey, int] = field(default_factory=dict)
    scrapes: Mapping[ScrapeResult, int] = field(default_factory=dict)
    violations: Mapping[tuple[str, Check], int] = field(default_factory=dict)
    silenced: frozenset[str] = frozenset()
    judgements: Mapping[str, Judgement] = field(default_factory=dict)
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    looks: Mapping[str, Look] = field(default_factory=dict)
    baseline_seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    covered_seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    doubts: Mapping[Cell, str] = field(default_factory=dict)

    @property
    def up(self) -> bool:
        """Whether the last scrape fetched a page that could be parsed."""
        return self.result is not None and self.result.page_arrived


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All targets, how the last reading of the configuration went, guard and classes if any."""

    targets: tuple[TargetView, ...]
    reload_ok: bool = True
    guard: GuardView | None = None
    classes: ClassesView | None = None
