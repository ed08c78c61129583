"""One target against its baseline, as pages come in. No socket, no clock."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from specgauge.baseline.facts import facts_of
from specgauge.baseline.match import match
from specgauge.baseline.select import Choice, select_baseline
from specgauge.derive.interpolate import covers
from specgauge.derive.judge import SHAPE_REQUESTS, Shape, Terms, fits, judge
from specgauge.derive.pieces import is_evidence, pieces
from specgauge.derive.speedup import Basis, Piece, cost
from specgauge.guard.policy import Policy
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Derived
from specgauge.model.ledger import Interval
from specgauge.model.quantity import Dialect, Kind, Layout, Page, Quantity
from specgauge.model.verdict import Judgement, Verdict, VerdictReason
from specgauge.serve.sibling import MEMORY_SECONDS
from specgauge.serve.windows import points

LEANING = 0.7
"""Confidence at which a guard is told of a loss that the verdict still leaves open."""

_SHAPE_SECONDS = 600.0

LiveBaseline = Callable[[str], Baseline | None]
"""Gives the baseline of a sibling without speculation for a model, as it is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonTerms:
    """What is compared with, and when a verdict is sure; times in seconds.

    `policy` is the guard's, where one looks on.
    `stated` are facts of the server that no page tells, by their dotted path in a baseline file.
    """

    baselines: tuple[Baseline, ...] = ()
    live: LiveBaseline | None = None
    interval: float = 1.0
    decision_window: float = 15.0
    window: float = 60.0
    terms: Terms = field(default_factory=Terms)
    guarded: bool = False
    policy: Policy = field(default_factory=Policy)
    stated: Mapping[str, object] = field(default_factory=dict)

    @property
    def wanted(self) -> bool:
        """Whether there is anything to compare with, or a guard that looks without."""
        return bool(self.baselines) or self.live is not None or self.guarded


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    start: float
    end: float
    by_model: Mapping[str, Piece]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    end: float
    requests: float
    prompts: float
    outputs: float


class Comparison:
    """Keeps a window of evidence and the totals of what was compared."""

    def __init__(self, terms: ComparisonTerms) -> None:
        self.terms = terms
        self._evidence: deque[_Evidence] = deque()
        self._loads: dict[str, deque[_Load]] = {}
        self._facts: tuple[Layout | None, str | None, dict[str, dict[str, object]]] = (
            None,
            None,
            {},
        )
        self.baseline_seconds: dict[tuple[str, str], float] = {}
        self.covered_seconds: dict[tuple[str, str], float] = {}

    def add(self, interval: Interval, page: Page, version: str | None, now: float) -> None:
        """Take an interval in; one with a reset or a gap counts for the shape of load only."""
        self._note_load(interval, page.layout.dialect)
        oldest = interval.end - self.terms.window
        while self._evidence and self._evidence[0].start < oldest:
            self._evidence.popleft()
        if not is_evidence(interval, self.terms.interval):
            return
        found = pieces(interval, page.layout.dialect)
        evidence = _Evidence(start=interval.start, end=interval.end, by_model=found)
        self._evidence.append(evidence)
        for model, piece in found.items():
            baseline = self.baseline_of(model, page, version, now, piece.concurrency)
            priced = None
            if (
                baseline is not None
                and not match(baseline, self.facts(model, page, version), now=now).mismatches
                and fits(baseline.curve, self._shape(model))
            ):
                priced = cost(baseline.curve, piece)
            for basis in Basis:
                key = (model, str(basis))
                before = self.baseline_seconds.get(key, 0.0)
                spent = self.covered_seconds.get(key, 0.0)
                self.baseline_seconds[key] = before + (getattr(priced, basis) if priced else 0.0)
                self.covered_seconds[key] = spent + (piece.spent if priced else 0.0)

    def start(self, model: str, time: float) -> float:
        """Say when the decision window of a model begins: it grows until it holds enough."""
        tokens = 0.0
        begin = time
        for evidence in reversed(self._evidence):
            if time - begin >= self.terms.decision_window - self.terms.interval / 2 and (
                tokens >= self.terms.terms.min_tokens
            ):
                break
            begin = evidence.start
            tokens += evidence.by_model[model].tokens if model in evidence.by_model else 0.0
        return begin

    def longer(
        self, usual: Judgement, begin: float, time: float, baseline: Baseline | None
    ) -> Iterator[float]:
        """Say where windows longer than the usual one begin, up to the longest.

        Of a loss only as long as each part that is added points to one as well: else they would
        tell of what was before a change, or of a loss that lies all in one place.
        """
        step, slack = self.terms.decision_window, self.terms.interval / 2
        below = points(usual) < 1.0
        while time - begin + step <= self.terms.window + slack:
            if below and baseline is not None:
                part = self._ratio(usual.model_name, begin - step, begin, baseline)
                if part is not None and part >= 1.0:
                    return
            begin -= step
            yield begin

    def verdict(
        self,
        derived: Derived,
        begin: float,
        baseline: Baseline | None,
        facts: Mapping[str, object],
        now: float,
    ) -> Judgement:
        """Judge a model by the evidence since `begin`; `derived` is over the same window."""
        model = derived.model_name
        used = [
            evidence.by_model[model]
            for evidence in self._evidence
            if evidence.start >= begin and model in evidence.by_model
        ]
        fit = None if baseline is None else match(baseline, facts, now=now)
        asked = partial(
            judge,
            derived,
            used,
            baseline,
            shape=self._shape(model),
            mismatches=fit.mismatches if fit else (),
            warnings=fit.warnings if fit else (),
            spread=fit.spread if fit else 0.0,
        )
        terms = self.terms.terms
        judged = asked(terms=terms)
        undecided = judged.reason is VerdictReason.INTERVAL_TOO_WIDE and points(judged) < 1.0
        if not self.terms.guarded or not undecided or terms.confidence <= LEANING:
            return judged
        less = asked(terms=replace(terms, confidence=LEANING))
        return replace(judged, leans=less.verdict is Verdict.COSTS)

    def _ratio(self, model: str, begin: float, end: float, baseline: Baseline) -> float | None:
        """Give the speedup of a part of the evidence; None where it holds nothing comparable."""
        found = [
            priced
            for evidence in self._evidence
            if begin <= evidence.start < end and model in evidence.by_model
            if (priced := cost(baseline.curve, evidence.by_model[model])) is not None
        ]
        spent = math.fsum(priced.piece.spent for priced in found)
        return math.fsum(priced.concurrency for priced in found) / spent if spent else None

    def baseline_of(
        self, model: str, page: Page, version: str | None, now: float, concurrency: float
    ) -> Baseline | None:
        """Choose: a live sibling that knows this load, else the file that fits best."""
        if self.terms.live is not None:
            live = self.terms.live(model)
            fresh = live is not None and now - (live.created or now) <= MEMORY_SECONDS
            if live is not None and fresh and covers(live.curve, concurrency):
                return live
        recorded = self.terms.baselines
        if len(recorded) == 1:
            return recorded[0]
        found = select_baseline(recorded, self.facts(model, page, version), now=now)
        if found.choice is not Choice.FOUND:
            return None
        return next(one for one in recorded if one.source == found.source)

    def facts(self, model: str, page: Page, version: str | None) -> dict[str, object]:
        """Tell what is known of the server; worked out again only when the page's shape changes.

        What the server tells goes before what was stated of it.
        """
        layout, known, found = self._facts
        if layout is not page.layout or known != version:
            found = {one: facts_of(page, one, version=version) for one in page.layout.engines}
            self._facts = (page.layout, version, found)
        return {**self.terms.stated, **found[model]} if self.terms.stated else found[model]

    def _note_load(self, interval: Interval, dialect: Dialect) -> None:
        sums: dict[str, list[float]] = {}
        shape = _V0_SHAPE if dialect is Dialect.VLLM_V0 else _SHAPE
        for cell, growth in interval.deltas.items():
            place = shape.get(cell.measure[:2])
            if place is not None:
                sums.setdefault(cell.model, [0.0, 0.0, 0.0])[place] += growth
        for model, (requests, prompts, outputs) in sums.items():
            loads = self._loads.setdefault(model, deque())
            loads.append(
                _Load(end=interval.end, requests=requests, prompts=prompts, outputs=outputs)
            )
            while loads and loads[0].end < interval.end - _SHAPE_SECONDS:
                loads.popleft()

    def _shape(self, model: str) -> Shape:
        """Give the shape of the last hundred requests, of at most ten minutes."""
        requests = prompts = outputs = 0.0
        for load in reversed(self._loads.get(model, ())):
            if requests >= SHAPE_REQUESTS:
                break
            requests += load.requests
            prompts += load.prompts
            outputs += load.outputs
        if requests <= 0.0:
            return Shape(requests=0.0)
        return Shape(
            requests=requests, prompt_tokens=prompts / requests, output_tokens=outputs / requests
        )


_SHAPE: Mapping[tuple[Quantity, Kind], int] = {
    (Quantity.TTFT, Kind.COUNT): 0,
    (Quantity.PROMPT_TOKENS, Kind.COUNTER): 1,
    (Quantity.GENERATION_TOKENS, Kind.COUNTER): 2,
}
_V0_SHAPE: Mapping[tuple[Quantity, Kind], int] = {
    (Quantity.REQUEST_GENERATION, Kind.COUNT): 0,
    (Quantity.PROMPT_TOKENS, Kind.COUNTER): 1,
    (Quantity.REQUEST_GENERATION, Kind.SUM): 2,
}
