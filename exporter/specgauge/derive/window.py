"""What one model did between two points of a ledger, summed over its engines."""

from collections import defaultdict
from collections.abc import Mapping

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
    start: Mapping[Cell, float], ledger: Ledger, page: Page, seconds: float | None
) -> dict[str, ModelWindow]:
    """Measure each model of the page over the window that began with the totals `start`.

    `seconds` is None where `start` is empty and the totals are an engine's whole life.
    """
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
            faults=_faults(page, model),
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
            faults=_faults(page, model),
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
        for series in layout.gauges.get((model, quantity), ()):
            value = page.values.get(series)
            if value is not None:
                engine = series.cell.engine
                by_engine[engine] = max(value, by_engine.get(engine, value))
        if by_engine:
            total = sum(by_engine.values())
            found[quantity] = total / len(by_engine) if quantity in _MEAN_OVER_ENGINES else total
    return found


def _faults(page: Page, model: str) -> dict[Quantity, str]:
    """Say which quantities of a model the page leaves in doubt; a bucket leaves none."""
    return {
        series.quantity: reason
        for series, reason in page.faults.items()
        if series.cell.model == model and series.kind is not Kind.BUCKET
    }
