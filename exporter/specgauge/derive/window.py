"""What one model did between two points of a ledger, summed over its engines."""

from collections import defaultdict
from collections.abc import Mapping

from specgauge.model.derived import Reason
from specgauge.model.ledger import Interval, Ledger, ModelWindow
from specgauge.model.quantity import Cell, Kind, Layout, Measure, Page, Quantity

_DRAFTED = frozenset({Quantity.DRAFTS, Quantity.DRAFT_TOKENS, Quantity.EMITTED_TOKENS})
_MEAN_OVER_ENGINES = frozenset(
    {Quantity.KV_CACHE_USAGE, Quantity.ACCEPTANCE_GAUGE, Quantity.EFFICIENCY_GAUGE}
)
_SHOWN_GAUGES = (
    Quantity.REQUESTS_RUNNING,
    Quantity.REQUESTS_WAITING,
    Quantity.KV_CACHE_USAGE,
    Quantity.ACCEPTANCE_GAUGE,
    Quantity.EFFICIENCY_GAUGE,
)


def snapshot(ledger: Ledger) -> dict[Cell, float]:
    """Keep of a ledger's totals what later windows are measured from."""
    return {cell: total for cell, total in ledger.totals.items() if cell.windowed}


def windows(
    start: Mapping[Cell, float],
    ledger: Ledger,
    page: Page,
    seconds: float | None,
    doubts: Mapping[Cell, str] | None = None,
) -> dict[str, ModelWindow]:
    """Measure each model of the page over the window that began with the totals `start`.

    `seconds` is None where `start` is empty and the totals are an engine's whole life. `doubts`
    are those of the ledger at the start: what is in doubt at either end is not known.
    """
    unsure = {**(doubts or {}), **ledger.doubts}
    totals: dict[str, dict[Measure, float]] = defaultdict(lambda: defaultdict(float))
    engines: dict[str, dict[str, dict[Measure, float]]] = defaultdict(lambda: defaultdict(dict))
    drafted: dict[str, float] = defaultdict(float)
    for cell, total in ledger.totals.items():
        if cell.windowed:
            grown = total - start.get(cell, 0.0)
            totals[cell.model][cell.measure] += grown
            engines[cell.model][cell.engine][cell.measure] = grown
            if cell.measure[0] in _DRAFTED:
                drafted[cell.model] += total
    lived = _drafts_on_page(page)
    return {
        model: ModelWindow(
            model=model,
            layout=page.layout,
            engines=names,
            seconds=seconds,
            sums=totals[model],
            by_engine={name: engines[model][name] for name in names},
            gauges=_gauges(page, model, page.layout),
            faults=_faults(page, unsure, model),
            engine_faults=_engine_faults(page.layout, unsure, model),
            lifetime_drafts=drafted[model] + lived.get(model, 0.0),
            notes=page.notes,
        )
        for model, names in page.layout.engines.items()
    }


def drafting(interval: Interval, page: Page) -> dict[str, ModelWindow]:
    """Measure what speculation alone did in one interval, to hold its identities against."""
    sums: dict[str, dict[Measure, float]] = defaultdict(dict)
    for cell in page.layout.speculative:
        found = sums[cell.model]
        found[cell.measure] = found.get(cell.measure, 0.0) + interval.deltas.get(cell, 0.0)
    return {
        model: ModelWindow(
            model=model,
            layout=page.layout,
            engines=page.layout.engines[model],
            seconds=interval.seconds,
            sums=measured,
            by_engine={},
            gauges={},
            faults=_faults(page, interval.doubts, model),
            engine_faults={},
            lifetime_drafts=0.0,
        )
        for model, measured in sums.items()
    }


def _drafts_on_page(page: Page) -> dict[str, float]:
    """Add up what the engines' own counters say they have drafted since they started."""
    found: dict[str, float] = defaultdict(float)
    for series in page.layout.counted:
        if series.quantity in _DRAFTED:
            found[series.cell.model] += page.values.get(series, 0.0)
    return found


def _gauges(page: Page, model: str, layout: Layout) -> dict[Quantity, float]:
    """Read the gauges: the most over the processes of an engine, then over the engines."""
    found: dict[Quantity, float] = {}
    for quantity in _SHOWN_GAUGES:
        by_engine: dict[str, float] = {}
        shown = layout.gauges.get((model, quantity), ())
        if any(series in page.faults for series in shown):
            continue  # the rest of them is another number
        for series in shown:
            value, engine = page.values[series], series.cell.engine
            by_engine[engine] = max(value, by_engine.get(engine, value))
        if by_engine:
            total = sum(by_engine.values())
            found[quantity] = total / len(by_engine) if quantity in _MEAN_OVER_ENGINES else total
    return found


def _faults(page: Page, doubts: Mapping[Cell, str], model: str) -> dict[Quantity, str]:
    """Say which quantities of a model are in doubt; a bucket leaves none so."""
    found = {q: why for (_, q), why in _engine_faults(page.layout, doubts, model).items()}
    for series, why in page.faults.items():
        if series.cell.model == model and series.kind is Kind.GAUGE:
            found[series.quantity] = why
    return found


def _engine_faults(
    layout: Layout, doubts: Mapping[Cell, str], model: str
) -> dict[tuple[str, Quantity], str]:
    """Say the same of each engine; what one of several does not show is in doubt too."""
    found: dict[tuple[str, Quantity], str] = {
        (engine, quantity): Reason.NOT_EXPOSED
        for (name, engine), lacking in layout.incomplete.items()
        if name == model
        for quantity in lacking
    }
    for cell, why in doubts.items():
        quantity, kind, _ = cell.measure
        if cell.model == model and kind is not Kind.BUCKET:
            found[cell.engine, quantity] = why
    return found
