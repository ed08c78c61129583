"""One target's state over time: pages and failures in, a view out. No socket, no clock."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from specgauge.derive.acceptance import silenced
from specgauge.derive.accumulate import advance, open_ledger
from specgauge.derive.identities import violations
from specgauge.derive.summary import summarise
from specgauge.derive.window import drafting, snapshot, windows
from specgauge.engines.reader import Reader
from specgauge.errors import SourceError
from specgauge.guard.fall import windows_in
from specgauge.guard.policy import Policy
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Check, Derived
from specgauge.model.guard import Look
from specgauge.model.ledger import EngineKey, Interval, Ledger, ModelWindow
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Cell, Page
from specgauge.model.settings import TargetSettings
from specgauge.model.verdict import Judgement
from specgauge.model.view import TargetView
from specgauge.serve.comparison import Comparison, ComparisonTerms
from specgauge.serve.looks import answers, counts, look
from specgauge.serve.sibling import Sibling
from specgauge.serve.windows import choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When something happened: `time` on the loop's steady clock, `unix` for people; seconds."""

    time: float
    unix: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    time: float
    totals: Mapping[Cell, float]
    doubts: Mapping[Cell, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """What a window says of one model, and from what."""

    snapshot: _Snapshot | None
    window: ModelWindow | None
    derived: Derived
    judgement: Judgement
    baseline: Baseline | None


def _judgement(judged: _Judged) -> Judgement:
    return judged.judgement


def _worth(judged: _Judged, *, policy: Policy, time: float) -> int:
    """Say for how many windows the guard would take this one."""
    if judged.window is None or judged.snapshot is None:
        return 0
    return windows_in(time - judged.snapshot.time, counts(judged.window.sums), policy)


_LONGEST = 1.5
"""So many windows may lie between two pages; beyond that a window has nothing to say."""
_MOST_SEEN = 1000
"""Of so many engines those of models long gone are forgotten."""
_SNAPSHOTS = 120
"""So many a window keeps at most, however often is scraped; it may be that much longer."""


class Tracker:
    """Follows one target; keeps what its window needs and no more."""

    def __init__(
        self,
        settings: TargetSettings,
        window: float,
        comparison: ComparisonTerms | None = None,
        sibling: Sibling | None = None,
    ) -> None:
        self._settings = settings
        self._window = window
        self._comparison = Comparison(comparison or ComparisonTerms(window=window))
        self.sibling = sibling
        self._reader = Reader()
        self._ledger: Ledger | None = None
        self._history: deque[_Snapshot] = deque()
        self._violations: Counter[tuple[str, Check]] = Counter()
        self._scrapes: Counter[ScrapeResult] = Counter(dict.fromkeys(ScrapeResult, 0))
        self._seen: dict[EngineKey, float] = {}
        self.view = TargetView(
            name=settings.name,
            url=settings.url.partition("?")[0],  # a query may hold a secret
            role=settings.role,
            hints=settings.hints,
            scrapes=dict(self._scrapes),
        )

    def page(self, data: bytes, *, complete: bool, at: Moment, seconds: float) -> Interval | None:
        """Take a fetched page in; the interval it closes, or None for the first.

        Raises SourceError where the page is refused: then nothing of it is kept and `failure`
        is to be called. `seconds` is how long the fetch took.
        """
        page = self._reader.read(data, complete=complete)
        before, interval = self._ledger, None
        if before is None:
            self._ledger = open_ledger(page, at.time)
        else:
            self._ledger, interval = advance(before, page, at.time)
            self._compare(before, page, interval, at)
        models, length = self._derive(self._ledger, page, at.time)
        judgements, baselines, looks = self._judge(self._ledger, page, models, interval, at)
        self._note(page, interval, at)
        self.view = replace(
            self.view,
            result=ScrapeResult.OK,
            detail="",
            scrape_seconds=seconds,
            last_success=at.unix,
            window_seconds=length,
            dialect=page.layout.dialect,
            engines=page.layout.engines,
            seen=dict(self._seen),
            models=models,
            totals=self._ledger.totals,
            restarts=self._ledger.restarts,
            scrapes=dict(self._scrapes),
            violations=dict(self._violations),
            silenced=silenced(page.layout),
            judgements=judgements,
            baselines=baselines,
            looks=looks,
            baseline_seconds=dict(self._comparison.baseline_seconds),
            covered_seconds=dict(self._comparison.covered_seconds),
            doubts=self._ledger.doubts,
        )
        return interval

    def failure(self, problem: SourceError, seconds: float) -> None:
        """Take a failed scrape in: the gauges go, the counters stay."""
        self._scrapes[problem.result] += 1
        self.view = replace(
            self.view,
            result=problem.result,
            detail=problem.detail,
            scrape_seconds=seconds,
            window_seconds=None,
            engines={},
            models={},
            judgements={},
            baselines={},
            looks={},
            scrapes=dict(self._scrapes),
        )

    def learn_version(self, version: str | None) -> None:
        """Note which release the engine says it is."""
        self.view = replace(self.view, version=version)

    def adopt(
        self,
        settings: TargetSettings,
        window: float,
        comparison: ComparisonTerms,
        sibling: Sibling | None,
    ) -> None:
        """Go on under changed settings for the same server."""
        self._settings, self._window = settings, window
        self._comparison.terms = comparison
        self.sibling = sibling if self.sibling is None or sibling is None else self.sibling
        self.view = replace(self.view, role=settings.role, hints=settings.hints)

    def _derive(
        self, ledger: Ledger, page: Page, time: float
    ) -> tuple[dict[str, Derived], float | None]:
        """Derive every model over the window that ends now; nothing from a single page."""
        start = self._window_start(time)
        spaced = not self._history or time - self._history[-1].time >= self._window / _SNAPSHOTS
        if spaced:
            kept = _Snapshot(time=time, totals=snapshot(ledger), doubts=ledger.doubts)
            self._history.append(kept)
        if start is None:
            return {}, None
        found = windows(start.totals, ledger, page, time - start.time, start.doubts)
        models = {name: summarise(one, self._settings.hints) for name, one in found.items()}
        return models, time - start.time

    def _compare(self, before: Ledger, page: Page, interval: Interval, at: Moment) -> None:
        """Take an interval in as evidence for a verdict, and for siblings as their baseline."""
        if self._comparison.terms.wanted:
            self._comparison.add(interval, page, self.view.version, at.unix)
        if self.sibling is not None and self._ledger is not None:
            self.sibling.add(before, self._ledger, page, interval, now=at.unix)

    def _judge(
        self,
        ledger: Ledger,
        page: Page,
        models: Mapping[str, Derived],
        interval: Interval | None,
        at: Moment,
    ) -> tuple[dict[str, Judgement], dict[str, Baseline], dict[str, Look]]:
        """Judge every model over its own decision window, and show the guard what it needs."""
        judgements: dict[str, Judgement] = {}
        baselines: dict[str, Baseline] = {}
        looks: dict[str, Look] = {}
        compared = self._comparison
        guarded, policy = compared.terms.guarded, compared.terms.policy
        if not compared.terms.wanted:
            return judgements, baselines, looks
        for model in models:

            def since(begin: float, model: str = model) -> _Judged:
                return self._judge_since(ledger, page, models[model], begin, at)

            begin = compared.start(model, at.time)
            usual = since(begin)
            starts = compared.longer(usual.judgement, begin, at.time, usual.baseline)
            shown, heavy = choose(
                usual,
                map(since, starts),
                _judgement,
                worth=partial(_worth, policy=policy, time=at.time) if guarded else None,
                severe=policy.severe,
            )
            judgements[model] = shown.judgement
            if shown.baseline is not None:
                baselines[model] = shown.baseline
            if guarded and heavy.window and heavy.snapshot and interval:
                looks[model] = look(
                    heavy.window,
                    heavy.derived,
                    heavy.judgement,
                    interval,
                    start=heavy.snapshot.time,
                    served=answers(ledger.totals, heavy.snapshot.totals),
                )
        return judgements, baselines, looks

    def _judge_since(
        self, ledger: Ledger, page: Page, derived: Derived, begin: float, at: Moment
    ) -> _Judged:
        """Judge a model by what was since `begin`; `derived` stands where nothing was kept."""
        compared, version, model = self._comparison, self.view.version, derived.model_name
        snap = next((s for s in self._history if begin - 1e-6 <= s.time < at.time), None)
        since, window = at.time, None
        if snap is not None:
            window = windows(snap.totals, ledger, page, at.time - snap.time, snap.doubts)[model]
            derived, since = summarise(window, self._settings.hints), snap.time
        load = derived.values.get("decode_concurrency", 0.0)
        concurrency = load if isinstance(load, int | float) else 0.0
        baseline = compared.baseline_of(model, page, version, at.unix, concurrency)
        facts = compared.facts(model, page, version)
        return _Judged(
            snapshot=snap,
            window=window,
            derived=derived,
            judgement=compared.verdict(derived, since, baseline, facts, at.unix),
            baseline=baseline,
        )

    def _window_start(self, time: float) -> _Snapshot | None:
        """Find the point a window back; after a long silence there is none, and one begins."""
        history = self._history
        while len(history) > 1 and history[1].time <= time - self._window:
            history.popleft()
        while history and history[0].time < time - _LONGEST * self._window:
            history.popleft()
        return history[0] if history and history[0].time < time else None

    def _note(self, page: Page, interval: Interval | None, at: Moment) -> None:
        """Count what the page showed, beside its totals."""
        self._scrapes[ScrapeResult.OK] += 1
        for model, engines in page.layout.engines.items():
            for engine in engines:
                self._seen[model, engine] = at.unix
        if len(self._seen) > _MOST_SEEN:
            there = page.layout.engines
            self._seen = {key: seen for key, seen in self._seen.items() if key[0] in there}
        if interval is not None:
            for model, window in drafting(interval, page).items():
                self._violations.update((model, check) for check in violations(window))
