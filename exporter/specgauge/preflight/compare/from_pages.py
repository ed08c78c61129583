"""Cells from recorded pages of both pools, instead of a load of our own; reads no file.

Two pages are one measurement without an interval: its point decides, and percentiles, which
only buckets could give, are not judged. Two timelines have an interval: that of each ratio of
sums over their intervals, both added in squares on the log scale.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specgauge.baseline.from_pages import PagePair, TimedPage, pick_model
from specgauge.derive.accumulate import advance, open_ledger
from specgauge.derive.latency import buckets, quantile
from specgauge.derive.pieces import is_evidence, pieces, usual_spacing
from specgauge.derive.statistics import Estimate, ratio_estimate
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.model.derived import Derived, Hints, Speculation
from specgauge.model.ledger import Interval, ModelWindow
from specgauge.model.quantity import Kind, Quantity
from specgauge.preflight.compare.bouts import CellKey
from specgauge.preflight.compare.cells import SHARES, Cell, Figures, Spread
from specgauge.preflight.compare.intervals import CONFIDENCE, around, ratio_of_logs

_SERVER = (
    "tpot_seconds",
    "decode_concurrency",
    "acceptance_ratio",
    "acceptance_length",
    "num_speculative_tokens",
    "drafts",
    "preemptions",
    "generation_tokens",
)
_BROKEN = ("abort", "error")
LOADS_DIFFER = "loads_differ"
"""The note of a cell whose pools had neither the same requests at once nor the same arrivals."""

_ALIKE = 1.5
_LATENCIES = {"ttft": Quantity.TTFT, "e2e": Quantity.E2E}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What pages say of one pool in one cell; `estimate` is its time per token."""

    window: ModelWindow
    derived: Derived
    estimate: Estimate | None

    @property
    def concurrency(self) -> float | None:
        """Mean number of requests in decode."""
        return number(self.derived, "decode_concurrency")

    @property
    def speculates(self) -> bool:
        """Whether drafts were counted."""
        return self.derived.speculation is Speculation.ACTIVE


def see_pair(pair: PagePair, model: str | None) -> Seen:
    """Measure between two pages; BaselineError names what is wrong with the model."""
    name = pick_model(pair.after, model, pair.place)
    before = open_ledger(pair.before, 0.0)
    after, _ = advance(before, pair.after, pair.seconds)
    window = windows(before.totals, after, pair.after, pair.seconds, before.doubts)[name]
    derived = summarise(window, Hints())
    tpot = number(derived, "tpot_seconds")
    point = None if tpot is None else Estimate(value=tpot, low=None, high=None)
    return Seen(window=window, derived=derived, estimate=point)


def see_timeline(pages: Sequence[TimedPage], place: str, model: str | None) -> Seen:
    """Measure over successive pages, of which there are at least two."""
    name = pick_model(pages[-1].page, model, place)
    first = ledger = open_ledger(pages[0].page, pages[0].time)
    intervals: list[Interval] = []
    for one in pages[1:]:
        ledger, interval = advance(ledger, one.page, one.time)
        intervals.append(interval)
    seconds = ledger.time - first.time
    window = windows(first.totals, ledger, pages[-1].page, seconds, first.doubts)[name]
    usual = usual_spacing([interval.seconds for interval in intervals])
    found = [
        piece
        for interval in intervals
        if is_evidence(interval, usual)
        and (piece := pieces(interval, pages[-1].page.layout.dialect).get(name)) is not None
        and piece.tokens > 0.0
    ]
    estimate = None
    if found:
        estimate = ratio_estimate(
            [piece.spent for piece in found],
            [piece.tokens for piece in found],
            confidence=CONFIDENCE,
            successive=True,
        )
    return Seen(window=window, derived=summarise(window, Hints()), estimate=estimate)


def cell_of(key: CellKey, rounds: Sequence[tuple[Seen, Seen]]) -> Cell:
    """Make a cell of one or more measurements of both pools."""
    ratios = {
        "tpot_mean": _tpot_ratio([(a.estimate, b.estimate) for a, b in rounds]),
        **{f"{name}_mean": _mean_ratio(rounds, f"{name}_seconds") for name in _LATENCIES},
        "throughput": _mean_ratio([(b, a) for a, b in rounds], "generation_tokens_per_second"),
    }
    notes = [warning for pair in rounds for one in pair for warning in one.derived.warnings]
    notes += [LOADS_DIFFER for pair in rounds if _loads_differ(*pair)]
    return Cell(
        key=key,
        repeats=len(rounds),
        pairs=0,
        baseline=_figures([one for one, _ in rounds]),
        speculative=_figures([one for _, one in rounds]),
        ratios={name: one for name, one in ratios.items() if one is not None},
        single=len(rounds) == 1,
        notes=tuple(dict.fromkeys(notes)),
    )


def number(derived: Derived, name: str) -> float | None:
    """Read a figure above 0."""
    value = derived.number(name)
    return value if value is not None and value > 0 else None


def _loads_differ(one: Seen, other: Seen) -> bool:
    """Tell whether two pools had different work: speculation changes one of these, never both."""
    for name in ("decode_concurrency", "generation_tokens_per_second"):
        a, b = number(one.derived, name), number(other.derived, name)
        if a is None or b is None or max(a, b) <= _ALIKE * min(a, b):
            return False
    return True


def _tpot_ratio(pairs: Sequence[tuple[Estimate | None, Estimate | None]]) -> Estimate | None:
    known = [(a, b) for a, b in pairs if a is not None and b is not None and a.value and b.value]
    logs = [math.log(a.value / b.value) for a, b in known]
    if len(known) != 1:
        return ratio_of_logs(logs)
    a, b = known[0]
    if a.high is None or b.high is None:
        return ratio_of_logs(logs)
    halves = [math.log(one.high / one.value) for one in (a, b) if one.high is not None]
    return around(logs[0], math.hypot(*halves))


def _mean_ratio(rounds: Sequence[tuple[Seen, Seen]], name: str) -> Estimate | None:
    values = [(number(a.derived, name), number(b.derived, name)) for a, b in rounds]
    return ratio_of_logs([math.log(a / b) for a, b in values if a and b])


def _figures(seen: Sequence[Seen]) -> Figures:
    finished = _finished(seen)
    server: dict[str, float] = {}
    for name in _SERVER:
        values = [value for one in seen if (value := number(one.derived, name)) is not None]
        if values:
            server[name] = math.fsum(values) / len(values)
    for name, quantity in _GAUGES.items():
        shown = [one.window.gauges[quantity] for one in seen if quantity in one.window.gauges]
        if shown:
            server[name] = max(shown)
    flow = [v for one in seen if (v := number(one.derived, "generation_tokens_per_second"))]
    return Figures(
        requests=round(sum(finished.values())),
        failed=round(sum(finished.get(reason, 0.0) for reason in _BROKEN)),
        latencies=_latencies(seen),
        tokens_per_second=math.fsum(flow) / len(flow) if flow else None,
        server=server,
        finished=finished,
    )


_GAUGES = {
    "kv_cache_usage_ratio_end": Quantity.KV_CACHE_USAGE,
    "requests_waiting_end": Quantity.REQUESTS_WAITING,
}


def _finished(seen: Sequence[Seen]) -> dict[str, float]:
    """Count finished requests by their reason."""
    found: dict[str, float] = {}
    for one in seen:
        for (quantity, kind, part), count in one.window.sums.items():
            if quantity is Quantity.REQUESTS_FINISHED and kind is Kind.COUNTER:
                found[str(part)] = found.get(str(part), 0.0) + count
    return found


def _latencies(seen: Sequence[Seen]) -> Mapping[str, Spread]:
    """Read latencies: means by sums, percentiles by buckets, which are for show."""
    last = seen[-1]
    found = {}
    tpot = None if last.estimate is None else last.estimate.value
    if tpot is not None:
        found["tpot"] = Spread(mean=tpot)
    for name, quantity in _LATENCIES.items():
        mean = number(last.derived, f"{name}_seconds")
        if mean is not None:
            ladder = buckets(last.window, quantity)
            shares = {label: quantile(ladder, share) for label, share in SHARES.items()}
            found[name] = Spread(mean=mean, **shares)
    return found
