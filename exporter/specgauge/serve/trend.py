"""What the last day looked like, for the page: a bounded memory that grows coarser with age.

It keeps what was shown, as means over ever longer stretches, and judges by none of it.
"""

import math
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, MutableSequence
from dataclasses import dataclass
from typing import Any

from specgauge.derive.interpolate import covers, spread_at, tpot_at
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Derived
from specgauge.model.verdict import Judgement
from specgauge.model.view import View

SCHEMA = "specgauge.trend/v1"

COLUMNS = (
    "speedup_ratio",
    "speedup_ratio_low",
    "speedup_ratio_high",
    "decode_concurrency",
    "acceptance_ratio",
    "acceptance_length",
    "breakeven_acceptance_length",
    "tokens_per_step",
    "tpot_seconds",
    "baseline_tpot_seconds",
    "baseline_tpot_low_seconds",
    "baseline_tpot_high_seconds",
    "flag",
)
"""What a point holds beside its time; the flag is 1 where the guard wants speculation on."""

STRETCHES = ((1.0, 600), (10.0, 720), (60.0, 1440))
"""Seconds that a point stands for, and how many such points are kept: ten minutes, two hours and
a day."""

MOST_SERIES = 32
"""Targets and models remembered; of more the first ones, so that memory stays bounded."""

_DECIMALS = 6
_UNKNOWN = math.nan  # in memory only: what is told is null


@dataclass(slots=True)
class _Ring:
    """Points of one length, and the one that is being made."""

    seconds: float
    points: deque[tuple[float, MutableSequence[float]]]
    slot: float = -math.inf
    sums: MutableSequence[float] | None = None
    counts: MutableSequence[float] | None = None

    def add(self, unix: float, values: MutableSequence[float]) -> None:
        """Take a scrape's values into the point that its time falls into."""
        slot = math.floor(unix / self.seconds)
        if slot != self.slot or self.sums is None or self.counts is None:
            self.close()
            self.slot = slot
            self.sums = array("d", bytes(8 * len(values)))
            self.counts = array("d", bytes(8 * len(values)))
        for place, value in enumerate(values):
            if not math.isnan(value):
                self.sums[place] += value
                self.counts[place] += 1.0

    def close(self) -> None:
        """Keep the point that is being made."""
        found = self.open_point()
        if found is not None:
            self.points.append(found)

    def open_point(self) -> tuple[float, MutableSequence[float]] | None:
        """Give the point that is being made as it is now; its time is the middle of it."""
        if self.sums is None or self.counts is None:
            return None
        means = array(
            "d", (s / n if n else _UNKNOWN for s, n in zip(self.sums, self.counts, strict=True))
        )
        return (self.slot + 0.5) * self.seconds, means


class Trend:
    """Remembers every model of every target; `take` is called after each scrape."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], tuple[_Ring, ...]] = {}
        self._taken: dict[str, float] = {}

    def take(self, view: View) -> None:
        """Take in what is new in a view; a target counts once for each scrape that succeeded."""
        for target in view.targets:
            unix = target.last_success
            if unix is None or self._taken.get(target.name) == unix or not target.up:
                continue
            self._taken[target.name] = unix
            guarded = view.guard if view.guard and view.guard.target == target.name else None
            flag = None if guarded is None else guarded.flag.desired
            for model, derived in target.models.items():
                rings = self._rings(target.name, model)
                if rings is None:
                    continue
                values = _values(
                    derived, target.judgements.get(model), target.baselines.get(model), flag
                )
                for ring in rings:
                    ring.add(unix, values)

    def _rings(self, target: str, model: str) -> tuple[_Ring, ...] | None:
        rings = self._series.get((target, model))
        if rings is None and len(self._series) < MOST_SERIES:
            rings = tuple(
                _Ring(seconds=seconds, points=deque(maxlen=most)) for seconds, most in STRETCHES
            )
            self._series[target, model] = rings
        return rings

    def document(self, view: View, *, since: float = 0.0) -> dict[str, Any]:
        """Write every series, each point once and the finest there is, the oldest first.

        Points before `since` (Unix seconds) are left out. What is not known is null.
        """
        baselines = {
            (target.name, model): baseline
            for target in view.targets
            for model, baseline in target.baselines.items()
        }
        return {
            "schema": SCHEMA,
            "columns": ["unix", *COLUMNS],
            "series": [
                {
                    "target": target,
                    "model_name": model,
                    "baseline": _curve(baselines.get((target, model))),
                    "points": [
                        [round(unix, 1), *map(_told, values)]
                        for unix, values in _merged(rings)
                        if unix >= since
                    ],
                }
                for (target, model), rings in self._series.items()
            ],
        }


def _merged(rings: tuple[_Ring, ...]) -> Iterator[tuple[float, MutableSequence[float]]]:
    """Give coarse points as far as no finer ones reach, then the finer ones."""
    by_age = []
    until = math.inf
    for ring in rings:
        found = [*ring.points]
        if ring is rings[0] and (last := ring.open_point()) is not None:
            found.append(last)
        kept = [point for point in found if point[0] + ring.seconds / 2 <= until]
        if found:
            until = min(until, found[0][0] - ring.seconds / 2)
        by_age.append(kept)
    for kept in reversed(by_age):
        yield from kept


def _values(
    derived: Derived, judgement: Judgement | None, baseline: Baseline | None, flag: bool | None
) -> MutableSequence[float]:
    """Give a point's columns."""
    found: dict[str, float | None] = {
        name: derived.number(name)
        for name in (
            "decode_concurrency",
            "acceptance_ratio",
            "acceptance_length",
            "tokens_per_step",
            "tpot_seconds",
        )
    }
    if judgement is not None:
        basis = "concurrency"
        found["speedup_ratio"] = judgement.ratios.get(basis)
        found["speedup_ratio_low"] = judgement.lows.get(basis)
        found["speedup_ratio_high"] = judgement.highs.get(basis)
        found["breakeven_acceptance_length"] = judgement.values.get("breakeven_acceptance_length")
    load = found["decode_concurrency"]
    if baseline is not None and load is not None and covers(baseline.curve, load):
        usual, spread = tpot_at(baseline.curve, load), spread_at(baseline.curve, load)
        found["baseline_tpot_seconds"] = usual
        found["baseline_tpot_low_seconds"] = usual * (1.0 - spread)
        found["baseline_tpot_high_seconds"] = usual * (1.0 + spread)
    found["flag"] = flag
    known = (found.get(name) for name in COLUMNS)
    return array("d", (_UNKNOWN if value is None else value for value in known))


def _told(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.{_DECIMALS}g}")


def _curve(baseline: Baseline | None) -> list[Mapping[str, float | None]]:
    """Write the levels of a baseline."""
    levels = () if baseline is None else baseline.curve.levels
    return [
        {
            "decode_concurrency": level.decode_concurrency,
            "tpot_seconds": level.tpot,
            "tpot_low_seconds": level.tpot_low,
            "tpot_high_seconds": level.tpot_high,
        }
        for level in levels
    ]
