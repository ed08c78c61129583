"""From the view to metric families; absent values make no series, and nothing is remembered."""

import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from specgauge import __version__
from specgauge.model import names
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Check, Method, Speculation
from specgauge.model.quantity import Kind, Quantity
from specgauge.model.series_name import SeriesName
from specgauge.model.verdict import Judgement, Verdict
from specgauge.model.view import TargetView, View
from specgauge.serve.classes.series import class_histograms, class_series
from specgauge.serve.guard_series import guard_series

_DRAFT_COUNTERS = frozenset(
    {
        Quantity.DRAFTS,
        Quantity.DRAFT_TOKENS,
        Quantity.ACCEPTED_TOKENS,
        Quantity.ACCEPTED_PER_POSITION,
    }
)
_PER_POSITION = frozenset({"position_acceptance_ratio", "position_conditional_acceptance_ratio"})
_DEFAULT_ENGINE = "0"
_INFINITY = float("inf")


class ViewCollector(Collector):
    """Prometheus' collector protocol over whatever `view` answers at the time."""

    def __init__(
        self, view: Callable[[], View], *, histograms: bool = True, positions: bool = True
    ) -> None:
        self._view = view
        self._histograms = histograms
        self._positions = positions

    def collect(self) -> Iterator[Metric]:
        """Give every family that has a sample."""
        view = self._view()
        families = _Families()
        for target in view.targets:
            _counters(families, target, positions=self._positions)
            _gauges(families, target, positions=self._positions)
            _compared(families, target)
            _about(families, target)
        if view.guard is not None:
            for name, labels, value in guard_series(view.guard):
                families.add(name, labels, value)
        if view.classes is not None:
            for name, labels, value in class_series(view.classes):
                families.add(name, labels, value)
        families.add(names.RELOAD_SUCCESS, (), float(view.reload_ok))
        families.add(names.BUILD_INFO, (__version__, platform.python_version()), 1.0)
        yield from families.made()
        if self._histograms:
            for quantity, name in names.HISTOGRAMS.items():
                yield from _histogram(quantity, name, view.targets)
            if view.classes is not None:
                yield from class_histograms(view.classes)


class _Families:
    """Families in the order of their first sample, each made once.

    A series that comes twice is one: a server that was replaced by a release with engine labels
    has cells without one and with the same "0". Counters add up, of gauges the later one stands.
    """

    def __init__(self) -> None:
        self._samples: dict[SeriesName, dict[tuple[str, ...], float]] = {}

    def add(self, name: SeriesName, labels: tuple[str, ...], value: float) -> None:
        samples = self._samples.setdefault(name, {})
        before = samples.get(labels, 0.0) if name.kind == "counter" else 0.0
        samples[labels] = before + value

    def made(self) -> Iterator[Metric]:
        for name, samples in self._samples.items():
            make = CounterMetricFamily if name.kind == "counter" else GaugeMetricFamily
            family = make(name.name, name.help, labels=name.labels)
            for labels, value in samples.items():
                family.add_metric(labels, value)
            yield family


def _counters(families: _Families, target: TargetView, *, positions: bool) -> None:
    by_code: dict[str, float] = defaultdict(float)
    for cell, total in target.totals.items():
        quantity, kind, part = cell.measure
        if quantity is Quantity.HTTP_REQUESTS:
            by_code[str(part)] += total
        name = names.COUNTERS.get((quantity, kind))
        if name is None or (quantity in _DRAFT_COUNTERS and cell.model in target.silenced):
            continue
        if not total and cell in target.doubts:
            continue  # never known so far, which is not 0
        labels: tuple[str, ...] = (target.name, cell.model, cell.engine or _DEFAULT_ENGINE)
        if quantity is Quantity.ACCEPTED_PER_POSITION and not positions:
            continue
        if len(name.labels) > len(labels):
            labels = (*labels, str(part))
        families.add(name, labels, total)
    for code, total in by_code.items():
        families.add(names.HTTP_REQUESTS, (target.name, code), total)
    for model, engine in target.seen:
        families.add(
            names.ENGINE_RESTARTS,
            (target.name, model, engine or _DEFAULT_ENGINE),
            target.restarts.get((model, engine), 0),
        )


def _gauges(families: _Families, target: TargetView, *, positions: bool) -> None:
    for model, derived in target.models.items():
        labels = (target.name, model)
        for field, name in names.GAUGES.items():
            value = derived.values.get(field)
            if isinstance(value, int | float):
                families.add(name, labels, value)
            elif value is not None and positions:
                for position, share in enumerate(value):
                    families.add(name, (*labels, str(position)), share)
        for state in Speculation:
            families.add(
                names.SPECULATION_STATE, (*labels, state), float(state is derived.speculation)
            )
        v0 = derived.method is not Method.COUNTERS
        for quantity, method in (
            ("acceptance_ratio", derived.method),
            ("tpot_seconds", "v0_finished_requests" if v0 else Method.COUNTERS),
        ):
            if quantity in derived.values:
                families.add(names.DERIVATION_INFO, (*labels, quantity, method), 1.0)


def _compared(families: _Families, target: TargetView) -> None:
    """Give what the comparison with a baseline says."""
    for name, totals in (
        (names.BASELINE_DECODE_SECONDS, target.baseline_seconds),
        (names.BASELINE_COVERED_SECONDS, target.covered_seconds),
    ):
        for (model, basis), total in totals.items():
            families.add(name, (target.name, model, basis), total)
    for model, judgement in target.judgements.items():
        _judgement(families, (target.name, model), judgement)
    for model, baseline in target.baselines.items():
        _baseline(families, (target.name, model), baseline)


def _judgement(families: _Families, labels: tuple[str, str], judgement: Judgement) -> None:
    for name, by_basis in (
        (names.SPEEDUP, judgement.ratios),
        (names.SPEEDUP_LOW, judgement.lows),
        (names.SPEEDUP_HIGH, judgement.highs),
    ):
        for basis, value in by_basis.items():
            families.add(name, (*labels, basis), value)
    for field, name in names.JUDGED.items():
        if field in judgement.values:
            families.add(name, labels, judgement.values[field])
    for verdict in Verdict:
        families.add(names.VERDICT, (*labels, verdict), float(verdict is judgement.verdict))
    for mismatch in judgement.mismatches:
        families.add(names.BASELINE_MISMATCH, (*labels, mismatch), 1.0)


def _baseline(families: _Families, labels: tuple[str, str], baseline: Baseline) -> None:
    if baseline.created is not None:
        families.add(names.BASELINE_CREATED, labels, baseline.created)
    # A live curve moves a little all the time: rounded more, it makes no new series of it.
    digits = 2 if baseline.method == "live" else 4
    for level in baseline.curve.levels:
        at = f"{float(f'{level.decode_concurrency:.{digits}g}'):g}"
        families.add(names.BASELINE_TPOT, (*labels, at), level.tpot)
        if level.ttft is not None:
            families.add(names.BASELINE_TTFT, (*labels, at), level.ttft)


def _about(families: _Families, target: TargetView) -> None:
    label = (target.name,)
    families.add(names.TARGET_UP, label, float(target.up))
    for result, count in target.scrapes.items():
        families.add(names.SCRAPES, (*label, result), count)
    if target.scrape_seconds is not None:
        families.add(names.SCRAPE_DURATION, label, target.scrape_seconds)
    if target.last_success is not None:
        families.add(names.LAST_SUCCESS, label, target.last_success)
    for (model, engine), seen in target.seen.items():
        families.add(names.ENGINE_SEEN, (*label, model, engine or _DEFAULT_ENGINE), seen)
    for model in {model: None for model, _ in target.seen}:
        for check in Check:
            broken = target.violations.get((model, check), 0)
            families.add(names.IDENTITY_VIOLATIONS, (*label, model, check), broken)
    for model, engines in target.engines.items():
        for engine in engines:
            what = (engine or _DEFAULT_ENGINE, target.version or "", str(target.dialect))
            families.add(names.ENGINE_INFO, (*label, model, *what), 1.0)


def _histogram(
    quantity: Quantity, name: SeriesName, targets: Iterable[TargetView]
) -> Iterator[Metric]:
    """Sum one histogram over the engines of each model, at the bounds that they share.

    A model's is left out while a part of it is in doubt, and where its buckets contradict it.
    """
    family = HistogramMetricFamily(name.name, name.help, labels=name.labels)
    for target in targets:
        ladders: dict[str, dict[str, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
        sums: dict[str, float] = defaultdict(float)
        counts: dict[str, dict[str, float]] = defaultdict(dict)
        for cell, total in target.totals.items():
            found, kind, part = cell.measure
            if found is not quantity:
                continue
            if kind is Kind.BUCKET:
                ladders[cell.model][cell.engine][float(part)] = total
            elif kind is Kind.SUM:
                sums[cell.model] += total
            else:
                counts[cell.model][cell.engine] = total
        doubted = {c.model for c in target.doubts if c.measure[0] is quantity}
        for model, by_engine in counts.items():
            buckets = _shared(ladders[model], by_engine)
            whole = model in sums and model not in doubted and _rises(buckets)
            if whole:
                family.add_metric([target.name, model], buckets=buckets, sum_value=sums[model])
    if family.samples:
        yield family


def _shared(
    ladders: dict[str, dict[float, float]], counts: dict[str, float]
) -> list[tuple[str, float]]:
    """Add cumulative counts where every engine has the bound; +Inf is the engines' count."""
    bounds = set.intersection(*(set(ladders.get(engine, {})) for engine in counts))
    finite = sorted(bounds - {_INFINITY})
    shared = [(_bound(bound), sum(ladders[engine][bound] for engine in counts)) for bound in finite]
    return [*shared, ("+Inf", sum(counts.values()))]


def _rises(buckets: list[tuple[str, float]]) -> bool:
    """Tell whether cumulative counts are that."""
    return all(below <= above for (_, below), (_, above) in pairwise(buckets))


def _bound(bound: float) -> str:
    """Write a bucket's bound as Prometheus' client does, with its decimal point."""
    return repr(bound)
