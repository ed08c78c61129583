"""Which dialect a page speaks and what it is made of, from the series on it alone."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from specgauge.engines.vllm import TABLE
from specgauge.model.quantity import (
    ADDS_UP,
    Cell,
    Dialect,
    Group,
    Kind,
    Layout,
    Measure,
    Quantity,
    Series,
)

_SERVER_WIDE = frozenset({Quantity.HTTP_REQUESTS, Quantity.PROCESS_START})
_NO_MODEL = _SERVER_WIDE | {Quantity.CACHE_CONFIG, Quantity.OTHER}
_ONLY_V0 = frozenset(
    {Quantity.EMITTED_TOKENS, Quantity.ACCEPTANCE_GAUGE, Quantity.EFFICIENCY_GAUGE}
)
_ONLY_V1 = frozenset({Quantity.DRAFTS, Quantity.ACCEPTED_PER_POSITION, Quantity.DIFFUSION})
_SPECULATION = frozenset(entry.quantity for entry in TABLE if entry.speculation)
_REQUEST_LABELS = frozenset({"handler", "method", "status", "code"})

MakeCell = Callable[[Measure, str, str], Cell]

_V0_CREDITED = (
    Quantity.DRAFTS,
    Quantity.DRAFT_TOKENS,
    Quantity.ACCEPTED_TOKENS,
    Quantity.GENERATION_TOKENS,
    Quantity.V0_ENGINE_OUTPUTS,
    Quantity.V0_RECOVERED,
    Quantity.V0_LOST,
)


def describe(series: Sequence[Series], make_cell: MakeCell) -> Layout:
    """Work out the layout of a page that holds exactly these series."""
    best = _best_ranks(series)
    used = [s for s in series if s.rank == best[s.quantity, s.cell.model, s.cell.engine]]
    own = [s for s in used if s.quantity not in _NO_MODEL]
    gauges: dict[tuple[str, Quantity], list[Series]] = defaultdict(list)
    exposed: dict[str, set[Quantity]] = defaultdict(set)
    positions: dict[str, set[int]] = defaultdict(set)
    for s in own:
        model = s.cell.model
        exposed[model].add(s.quantity)
        part = s.cell.measure[2]
        if s.kind is Kind.GAUGE:
            gauges[model, s.quantity].append(s)
        elif s.quantity is Quantity.ACCEPTED_PER_POSITION and isinstance(part, int):
            positions[model].add(part)
    dialect, engines = _dialect(series), _engines(own)
    return Layout(
        dialect=dialect,
        engines=engines,
        adding=[s for s in used if s.kind in ADDS_UP],
        counted=[s for s in used if s.kind in ADDS_UP and s.quantity is not Quantity.OTHER],
        created=[s for s in used if s.kind is Kind.CREATED],
        speculative=list(
            {s.cell: None for s in own if s.kind in ADDS_UP and s.quantity in _SPECULATION}
        ),
        gauges=gauges,
        group=_groups(used),
        exposed={model: frozenset(found) for model, found in exposed.items()},
        positions={model: frozenset(found) for model, found in positions.items()},
        mixed_buckets=_mixed_buckets(own),
        incomplete={} if dialect is Dialect.VLLM_V1_RAY else _incomplete(own),
        v0_cells={
            model: {q: make_cell((q, Kind.COUNTER, ""), model, names[0]) for q in _V0_CREDITED}
            for model, names in engines.items()
            if dialect is Dialect.VLLM_V0
        },
    )


def recognised(series: Iterable[Series]) -> bool:
    """Tell whether any of these is a series of an engine that the tables know."""
    return any(s.quantity is not Quantity.OTHER and s.quantity not in _SERVER_WIDE for s in series)


def _best_ranks(series: Iterable[Series]) -> dict[tuple[Quantity, str, str], int]:
    """Give the preferred of the names that a quantity has here, for each engine of each model."""
    best: dict[tuple[Quantity, str, str], int] = {}
    for s in series:
        key = (s.quantity, s.cell.model, s.cell.engine)
        best[key] = min(s.rank, best.get(key, s.rank))
    return best


def _dialect(series: Sequence[Series]) -> Dialect:
    present = {s.quantity for s in series}
    v0, v1 = bool(present & _ONLY_V0), bool(present & _ONLY_V1)
    if v0 and v1:
        return Dialect.VLLM_UNKNOWN
    own = [s for s in series if s.quantity not in _SERVER_WIDE]
    if any(s.name.startswith("ray_") or _has(s, "ReplicaId") for s in own):
        return Dialect.VLLM_V1_RAY
    marked = any(s.cell.engine for s in own) or any(
        s.kind is Kind.CREATED and s.quantity is Quantity.OTHER for s in own
    )
    if v1 or (not v0 and marked and Quantity.REQUESTS_SWAPPED not in present):
        return Dialect.VLLM_V1
    return Dialect.VLLM_V0


def _has(series: Series, label: str) -> bool:
    return any(name == label for name, _ in series.origin)


def _engines(own: Iterable[Series]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = defaultdict(set)
    for s in own:
        found[s.cell.model].add(s.cell.engine)
    return {
        model: tuple(sorted(engines - {""}, key=_natural)) or ("",)
        for model, engines in sorted(found.items())
    }


_TOGETHER = (
    frozenset({Quantity.DRAFTS, Quantity.DRAFT_TOKENS, Quantity.ACCEPTED_TOKENS}),
    frozenset({Quantity.GENERATION_TOKENS, Quantity.TTFT, Quantity.STEP_LATENCY}),
)
"""Quantities of which an engine shows all or none: of some, the others are not to be had."""


def _incomplete(own: Iterable[Series]) -> dict[tuple[str, str], frozenset[Quantity]]:
    """Say what an engine of several lacks that its siblings have; Ray makes series late."""
    shown: dict[tuple[str, str], set[Quantity]] = defaultdict(set)
    of_model: dict[str, set[Quantity]] = defaultdict(set)
    for s in own:
        shown[s.cell.model, s.cell.engine].add(s.quantity)
        of_model[s.cell.model].add(s.quantity)
    return {
        engine: frozenset(lacking)
        for engine, found in shown.items()
        if engine[1]
        and (
            lacking := {
                quantity
                for group in _TOGETHER
                if found & group
                for quantity in (group & of_model[engine[0]]) - found
            }
        )
    }


def _natural(engine: str) -> tuple[int, str]:
    """Sort "10" behind "9"."""
    return (len(engine), engine) if engine.isdigit() else (1 << 30, engine)


def _groups(used: Sequence[Series]) -> dict[Series, Group]:
    """Say what restarts together.

    Series of one engine that differ in an unknown label are processes of their own (Ray's
    replicas, say), unless the engine also has series without one: then the label only splits a
    metric.
    """
    whole = {(s.cell.model, s.cell.engine) for s in used if s.kind in ADDS_UP and not s.origin}
    return {
        s: (
            s.cell.model,
            s.cell.engine,
            () if (s.cell.model, s.cell.engine) in whole else _process(s),
        )
        for s in used
    }


def _process(series: Series) -> tuple[tuple[str, str], ...]:
    """Give the labels that may tell processes apart; a request's own labels do not."""
    if series.quantity is Quantity.HTTP_REQUESTS:
        return tuple(pair for pair in series.origin if pair[0] not in _REQUEST_LABELS)
    return series.origin


def _mixed_buckets(own: Iterable[Series]) -> frozenset[str]:
    """Name the models in which engines or processes use different bounds for one histogram."""
    ladders: dict[tuple[str, Quantity], dict[object, set[object]]] = {}
    for s in own:
        if s.kind is Kind.BUCKET:
            by_source = ladders.setdefault((s.cell.model, s.quantity), defaultdict(set))
            by_source[s.cell.engine, s.origin].add(s.cell.measure[2])
    return frozenset(
        model
        for (model, _), by_source in ladders.items()
        if any(bounds != next(iter(by_source.values())) for bounds in by_source.values())
    )
