"""Adds pages up: deltas a series at a time, resets an engine at a time, then sums.

Totals never fall. Time is an argument; nothing here looks at a clock.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from specgauge.derive.v0 import recover_collections
from specgauge.model.derived import Reason
from specgauge.model.ledger import EngineKey, Interval, Ledger
from specgauge.model.quantity import ADDS_UP, Cell, Group, Kind, Page, Quantity, Series

_MANY = 4
_SPARE = 10_000
_UNKNOWN = math.nan


def open_ledger(page: Page, time: float) -> Ledger:
    """Start from a page that is only the reference: what it shows was before our time."""
    last: dict[Series, float] = dict(page.values)
    last.update(dict.fromkeys(page.faults, _UNKNOWN))
    totals = {series.cell: 0.0 for series in page.layout.counted}
    started = Ledger(
        time=time, last=last, totals=totals, layout=page.layout, doubts=_doubts(page, (), ())
    )
    v0 = recover_collections(started, page, None)
    return replace(started, totals={**totals, **v0.totals}, v0=v0.memory)


def whole_life(page: Page, time: float) -> Ledger:
    """Count a single page from zero: its totals are those since the engine started."""
    return advance(Ledger(time=time), page, time)[0]


def advance(ledger: Ledger, page: Page, time: float) -> tuple[Ledger, Interval]:
    """Take one more page in, `time` seconds on the clock of the page before.

    A reset belongs to an engine: if any counter, count or bucket of it falls, or one of its
    `_created` moves, each of its series is taken to have restarted from zero. A series that
    appears counts from zero; one that returns is compared with its last value.
    """
    reset = _reset_groups(ledger.last, page)
    deltas, fallen = _deltas(ledger.last, page, reset)
    last = _remember(ledger.last, page, reset, fallen)
    grown: dict[Cell, float] = defaultdict(float)
    for series, delta in deltas:
        grown[series.cell] += delta
    # Counters of the web server, or of a model as a whole, are of no engine.
    engines = page.layout.engines
    restarted = frozenset((m, e) for m, e, _ in reset if e in engines.get(m, ()))
    restarts = _count_restarts(ledger.restarts, restarted)
    v0 = recover_collections(ledger, page, grown, restarted=restarted)
    grown = v0.totals
    totals = _kept_totals(ledger.totals, page)
    for cell, growth in grown.items():
        totals[cell] = totals.get(cell, 0.0) + growth
    vanished = _vanished(ledger, page, restarted)
    doubts = _doubts(page, fallen, vanished)
    after = Ledger(
        time=time,
        last=last,
        totals=totals,
        restarts=restarts,
        layout=page.layout,
        vanished=vanished,
        doubts=doubts,
        v0=v0.memory,
    )
    interval = Interval(
        start=ledger.time,
        end=time,
        deltas=grown,
        reset=restarted,
        doubts={**ledger.doubts, **doubts} if ledger.doubts or doubts else {},
    )
    return after, interval


def _reset_groups(last: Mapping[Series, float], page: Page) -> frozenset[Group]:
    """Find which engines began anew between the last page and this one."""
    values, group = page.values, page.layout.group
    found: set[Group] = set()
    for series in page.layout.created:
        value = values.get(series)
        before = last.get(series)
        if value is None or before is None or not (value < before or value > before):
            continue  # not there, the same, or NaN: there before but not to be trusted
        if series.quantity is Quantity.PROCESS_START:
            found.update(_of_process(series, group.values()))
        else:
            found.add(group[series])
    for series in page.layout.adding:
        if series.falls_on_reset:
            value = values.get(series)
            if value is not None and value < last.get(series, 0.0):
                found.add(group[series])
    return frozenset(found)


def _deltas(
    last: Mapping[Series, float], page: Page, reset: frozenset[Group]
) -> tuple[list[tuple[Series, float]], list[Series]]:
    """Give the growth of every series that adds up, and the sums that fell without a reset."""
    group = page.layout.group
    found: list[tuple[Series, float]] = []
    fallen: list[Series] = []
    for series in page.layout.counted:
        value = page.values.get(series)
        if value is None:
            continue
        before = last.get(series)
        if before is None or (reset and group[series] in reset):
            found.append((series, value))
        else:
            # No growth where the series was there before but not to be trusted: NaN is below
            # nothing. A sum that falls (a clock was set back) has none until it is back.
            found.append((series, value - before if value > before else 0.0))
            if value < before:
                fallen.append(series)
    return found, fallen


def _of_process(start: Series, groups: Iterable[Group]) -> list[Group]:
    """Pick what runs in a process that began anew: all, but for labels that set it apart."""
    own = set(start.origin)
    return [group for group in groups if own.issubset(group[2])]


def _kept_totals(totals: Mapping[Cell, float], page: Page) -> dict[Cell, float]:
    """Carry the totals on; of models long gone only while there are not very many of them."""
    kept = dict(totals)
    if len(kept) > _MANY * len(page.layout.counted) + _SPARE:
        models = page.layout.engines
        kept = {cell: total for cell, total in kept.items() if cell.model in models}
    return kept


def _vanished(ledger: Ledger, page: Page, restarted: frozenset[EngineKey]) -> frozenset[Cell]:
    """Find what an engine that is still there showed before and does not show now."""
    if page.layout is ledger.layout and not restarted:
        return ledger.vanished
    fed = {series.cell for series in page.layout.counted}
    engines = page.layout.engines
    found = {
        series.cell
        for series, before in ledger.last.items()
        if before > 0.0
        and series.kind in ADDS_UP
        and series.quantity is not Quantity.OTHER
        and series.cell not in fed
        and series.cell.engine in engines.get(series.cell.model, ())
        and (series.cell.model, series.cell.engine) not in restarted
    }
    return frozenset(found)


def _doubts(page: Page, fallen: Iterable[Series], vanished: Iterable[Cell]) -> Mapping[Cell, str]:
    """Say which totals a page did not bring up to date, and why."""
    found: dict[Cell, str] = dict.fromkeys(vanished, Reason.NOT_EXPOSED)
    found.update((series.cell, Reason.NEGATIVE_VALUE) for series in fallen)
    found.update((s.cell, why) for s, why in page.faults.items() if s.kind in ADDS_UP)
    return found


def _remember(
    last: Mapping[Series, float],
    page: Page,
    reset: frozenset[Group],
    fallen: Iterable[Series] = (),
) -> dict[Series, float]:
    """Carry the last values on; an engine that restarted has all its series at zero."""
    group = page.layout.group
    kept = dict(last)
    if len(kept) > _MANY * len(page.values) + _SPARE:
        kept = {series: kept[series] for series in page.values if series in kept}
    if reset:
        for series in kept:
            if series.kind is not Kind.CREATED and _belongs(series, group, reset):
                kept[series] = 0.0
    kept.update(page.values)
    kept.update((series, last[series]) for series in fallen)
    for series in page.faults:
        kept.setdefault(series, _UNKNOWN)
    return kept


def _belongs(series: Series, group: Mapping[Series, Group], reset: frozenset[Group]) -> bool:
    """Tell whether a series, on the page or not, is one of an engine that restarted."""
    known = group.get(series)
    if known is not None:
        return known in reset
    model, engine = series.cell.model, series.cell.engine
    return (model, engine, ()) in reset or (model, engine, series.origin) in reset


def _count_restarts(
    before: Mapping[EngineKey, int], restarted: frozenset[EngineKey]
) -> Mapping[EngineKey, int]:
    if not restarted:
        return before
    return {**before, **{key: before.get(key, 0) + 1 for key in restarted}}
