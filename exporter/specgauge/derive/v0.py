"""V0's speculation counters made usable: lifetime totals recovered from sums of totals.

V0 (0.5.3 to 0.9.2) adds the sampler's running totals to its counters at each collection, every
five seconds or more. If exactly one collection lies between two pages, the counters' growth is
those totals: D drafted, A accepted at any position, E emitted with the recovered or bonus token.
The efficiency gauge e = E / (D/K * (K+1)) then gives away K: with x = e*D/E, K = x/(1-x); A must
be the acceptance gauge's share of D. Steps are S = D/K, and between two collections the accepted
prefix is dE - dS of dD drafted tokens.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from specgauge.model.ledger import EngineKey, Ledger, V0Memory
from specgauge.model.quantity import Cell, Dialect, Kind, Measure, Page, Quantity

_TOLERANCE = 1e-6
_DRAFTED: Measure = (Quantity.DRAFT_TOKENS, Kind.COUNTER, "")
_ACCEPTED: Measure = (Quantity.ACCEPTED_TOKENS, Kind.COUNTER, "")
_EMITTED: Measure = (Quantity.EMITTED_TOKENS, Kind.COUNTER, "")
_COUNTED = (_DRAFTED, _ACCEPTED, _EMITTED)
_STEPS: Measure = (Quantity.STEP_LATENCY, Kind.COUNT, "")
_OUTPUTS: Measure = (Quantity.GENERATION_TOKENS, Kind.COUNTER, "")
_FINISHED_TOKENS: Measure = (Quantity.REQUEST_GENERATION, Kind.SUM, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The interval's growth in canonical terms, and what to remember for the next one."""

    totals: dict[Cell, float]
    memory: Mapping[str, V0Memory]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Totals of one collection: K tokens a draft, tokens drafted and emitted, sequence-steps."""

    k: float
    drafted: float
    emitted: float
    steps: float


def lifetime(drafted: float, emitted: float, efficiency: float | None) -> Lifetime | None:
    """Recover a collection's totals from the growth of the counters over it.

    None where more than one collection, or none, must have fallen into the interval: then K does
    not come out an integer within 1e-6.
    """
    if efficiency is None or drafted <= 0.0 or emitted <= 0.0:
        return None
    x = efficiency * drafted / emitted
    if not 0.0 < x < 1.0:
        return None
    k = x / (1.0 - x)
    if k < 1.0 - _TOLERANCE or abs(k - round(k)) > _TOLERANCE:
        return None
    return Lifetime(k=round(k), drafted=drafted, emitted=emitted, steps=drafted / round(k))


def recover_collections(
    ledger: Ledger,
    page: Page,
    grown: Mapping[Cell, float] | None,
    *,
    restarted: frozenset[EngineKey] = frozenset(),
) -> Recovered:
    """Put V0's raw growth into canonical terms; pages of other dialects pass unchanged.

    `grown` is None for the page that opens a ledger.
    """
    memory = dict(ledger.v0)
    totals = dict(grown or {})
    if page.layout.dialect is Dialect.VLLM_V0:
        for model, cells in page.layout.v0_cells.items():
            seen = _Seen(page, model)
            if grown is None:
                memory[model] = _opening(seen)
                totals.update({cells[quantity]: 0.0 for quantity in _opened(page, model)})
                continue
            before = memory.get(model, _NOTHING)
            raw = _take_raw(totals, seen)
            earlier = sum(ledger.totals.get(cell, 0.0) for cell in seen.cells(_STEPS))
            if any(name == model for name, _ in restarted):
                before = replace(_NOTHING, latency_steps=earlier)
            memory[model] = _credit(before, raw, seen, totals, earlier)
    return Recovered(totals=totals, memory=memory)


_NOTHING = V0Memory(drafted=0.0, emitted=0.0, steps=0.0)
"""An engine that has not drafted yet."""


class _Seen:
    """The page as one V0 model shows it: absolute values and cells by measure."""

    def __init__(self, page: Page, model: str) -> None:
        self._cells: dict[Measure, set[Cell]] = defaultdict(set)
        self._values: dict[Measure, float] = defaultdict(float)
        for series in page.layout.adding:
            if series.cell.model == model and series in page.values:
                measure = series.cell.measure
                self._cells[measure].add(series.cell)
                self._values[measure] += page.values[series]
        self.efficiency = _gauge(page, model, Quantity.EFFICIENCY_GAUGE)
        self.acceptance = _gauge(page, model, Quantity.ACCEPTANCE_GAUGE)
        self.credited = page.layout.v0_cells[model]

    def cells(self, measure: Measure) -> Collection[Cell]:
        return self._cells.get(measure, ())

    def value(self, measure: Measure) -> float:
        return self._values.get(measure, 0.0)


def _gauge(page: Page, model: str, quantity: Quantity) -> float | None:
    shown = [page.values.get(series) for series in page.layout.gauges.get((model, quantity), ())]
    return shown[0] if shown else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Raw:
    """What V0's own counters grew by."""

    drafted: float
    accepted: float
    emitted: float

    def read(self, seen: _Seen) -> Lifetime | None:
        """Read it as one collection's totals, if both gauges and the steps taken allow that."""
        found = lifetime(self.drafted, self.emitted, seen.efficiency)
        if found is None or found.steps > seen.value(_STEPS):
            return None
        shown = self.accepted if seen.acceptance is None else seen.acceptance * self.drafted
        return found if abs(shown - self.accepted) <= _TOLERANCE * self.drafted else None


def _opening(seen: _Seen) -> V0Memory:
    """Judge the reference page: before the first collection all is zero, after one it is known."""
    if not seen.cells(_EMITTED):
        return _NOTHING
    drafted, accepted, emitted = map(seen.value, _COUNTED)
    found = _Raw(drafted=drafted, accepted=accepted, emitted=emitted).read(seen)
    if found is None:
        return V0Memory()
    # The steps from that collection to this page came before our own count of them began.
    return _remember(found, latency_steps=found.steps - seen.value(_STEPS))


def _opened(page: Page, model: str) -> Iterator[Quantity]:
    """Name what counts from zero on: of speculation only what the page shows that there is."""
    exposed = page.layout.exposed[model]
    if Quantity.REQUEST_GENERATION in exposed:
        yield Quantity.GENERATION_TOKENS
    if Quantity.EMITTED_TOKENS in exposed:
        yield from (Quantity.DRAFTS, Quantity.DRAFT_TOKENS, Quantity.ACCEPTED_TOKENS)
    yield from (Quantity.V0_ENGINE_OUTPUTS, Quantity.V0_RECOVERED, Quantity.V0_LOST)


def _remember(found: Lifetime, latency_steps: float) -> V0Memory:
    return V0Memory(
        k=found.k,
        drafted=found.drafted,
        emitted=found.emitted,
        steps=found.steps,
        latency_steps=latency_steps,
    )


def _take_raw(totals: dict[Cell, float], seen: _Seen) -> _Raw:
    """Take the growth of V0's own counters out of the canonical totals."""
    drafted, accepted, emitted = (
        sum(totals.pop(cell, 0.0) for cell in seen.cells(measure)) for measure in _COUNTED
    )
    return _Raw(drafted=drafted, accepted=accepted, emitted=emitted)


def _credit(
    before: V0Memory,
    raw: _Raw,
    seen: _Seen,
    totals: dict[Cell, float],
    earlier: float,
) -> V0Memory:
    """Credit what a recovered collection adds to the one before; say so where none was.

    What a collection adds after one that was missed is credited too, but as of no interval.
    """
    cells = seen.credited
    outputs = sum(totals.pop(cell, 0.0) for cell in seen.cells(_OUTPUTS))
    totals[cells[Quantity.V0_ENGINE_OUTPUTS]] = outputs
    for cell in seen.cells(_FINISHED_TOKENS):
        delivered = cells[Quantity.GENERATION_TOKENS]
        totals[delivered] = totals.get(delivered, 0.0) + totals.get(cell, 0.0)
    if raw.drafted <= 0.0 and raw.emitted <= 0.0:
        return before
    found = raw.read(seen)
    if found is None:
        totals[cells[Quantity.V0_LOST]] = 1.0
        return replace(before, gap=True)
    anchored = _remember(found, latency_steps=earlier)
    if before.drafted is None or before.emitted is None or before.steps is None:
        totals[cells[Quantity.V0_LOST]] = 1.0
        return anchored
    steps, drafted = found.steps - before.steps, found.drafted - before.drafted
    accepted = found.emitted - before.emitted - steps
    if before.k not in (None, found.k) or drafted < 0.0 or not 0.0 <= accepted <= drafted:
        totals[cells[Quantity.V0_LOST]] = 1.0  # one of the two was misread; begin again
        return V0Memory()
    taken = sum(totals.get(cell, 0.0) for cell in seen.cells(_STEPS))
    if steps > earlier + taken - before.latency_steps:
        totals[cells[Quantity.V0_LOST]] = 1.0
        return replace(before, gap=True)
    totals[cells[Quantity.DRAFTS]] = steps
    totals[cells[Quantity.DRAFT_TOKENS]] = drafted
    totals[cells[Quantity.ACCEPTED_TOKENS]] = accepted
    totals[cells[Quantity.V0_LOST if before.gap else Quantity.V0_RECOVERED]] = 1.0
    return anchored
