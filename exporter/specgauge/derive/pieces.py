"""Intervals as pieces of evidence: decode tokens and the time spent on them, model by model."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from specgauge.derive.speedup import Piece
from specgauge.model.ledger import Interval
from specgauge.model.quantity import Dialect, Kind, Quantity

GAP = 2.0
"""An interval longer than so many usual ones is a gap: it counts in totals, not as evidence."""

_V1 = {
    (Quantity.GENERATION_TOKENS, Kind.COUNTER): ("tokens", 1.0),
    (Quantity.TTFT, Kind.COUNT): ("tokens", -1.0),
    (Quantity.STEP_LATENCY, Kind.SUM): ("spent", 1.0),
    (Quantity.STEP_LATENCY, Kind.COUNT): ("steps", 1.0),
    (Quantity.ITERATION_TOKENS, Kind.COUNT): ("iterations", 1.0),
}
_V0 = {
    (Quantity.REQUEST_GENERATION, Kind.SUM): ("tokens", 1.0),
    (Quantity.REQUEST_GENERATION, Kind.COUNT): ("tokens", -1.0),
    (Quantity.DECODE_TIME, Kind.SUM): ("spent", 1.0),
}


def pieces(interval: Interval, dialect: Dialect) -> dict[str, Piece]:
    """Give each model's piece of an interval, unless what it is made of is in doubt.

    Tokens are never below zero.
    A step of the engine serves requests in decode and those whose first token it yields. V0
    counts steps of a request nowhere, so that its pieces do not tell how full the steps were.
    """
    wanted = _V0 if dialect is Dialect.VLLM_V0 else _V1
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for cell, growth in interval.deltas.items():
        use = wanted.get(cell.measure[:2])
        if use is not None:
            sums[cell.model][use[0]] += use[1] * growth
        if use is not None and cell.measure[0] is Quantity.TTFT:
            sums[cell.model]["steps"] += growth
    doubted = {cell.model for cell in interval.doubts if cell.measure[:2] in wanted}
    return {
        model: Piece(
            tokens=max(found["tokens"], 0.0),
            spent=found["spent"],
            seconds=interval.seconds,
            fullness=found["steps"] / found["iterations"] if found["iterations"] > 0 else 0.0,
        )
        for model, found in sums.items()
        if model not in doubted
    }


def usual_spacing(seconds: Sequence[float]) -> float:
    """Give the median spacing of a recorded timeline; 0 for an empty one."""
    return median(seconds) if seconds else 0.0


def is_evidence(interval: Interval, usual: float) -> bool:
    """Tell whether an interval may enter a verdict: no reset in it, and no gap."""
    return not interval.reset and 0.0 < interval.seconds <= GAP * usual * (1.0 + 1e-6)
