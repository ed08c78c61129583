"""What the last day looked like, for the page: a bounded memory that grows coarser with age.

It keeps what was shown, as means over ever longer stretches, and judges by none of it.
"""

import math
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, MutableSequence
from dataclasses import dataclass, field
from typing import Any

from specgauge.model.baseline import Baseline
from specgauge.model.view import TargetView, View
from specgauge.serve.points import BASIS, COLUMNS, UNKNOWN, make_point

SCHEMA = "specgauge.trend/v1"

STRETCHES = ((1.0, 600), (10.0, 720), (60.0, 1440))
"""Seconds that a point stands for, and how many such points are kept: ten minutes, two hours and
a day."""

MOST_SERIES = 32
"""Targets and models remembered; of more the first ones, so that memory stays bounded."""

_DECIMALS = 6
_SPOTS = 60
"""So many times in a window is looked at what its tokens would have cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which points: those since a Unix time, of one target or model where one is named."""

    since: float = 0.0
    target: str | None = None
    model_name: str | None = None


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
            "d", (s / n if n else UNKNOWN for s, n in zip(self.sums, self.counts, strict=True))
        )
        return (self.slot + 0.5) * self.seconds, means


@dataclass(slots=True)
class _Memory:
    """A model's points, and what its tokens cost and would have cost over the last window."""

    rings: tuple[_Ring, ...]
    spots: deque[tuple[float, float]] = field(default_factory=deque)

    def longer(self, usual: float, spent: float, window: float) -> float | None:
        """Say how many times as long the window's tokens would have taken without speculation.

        `usual` and `spent` are totals of decode seconds, as they would have been and as they were,
        `window` those of the window; interval by interval, for B of a window's mean load reads
        loads that move as a loss.
        """
        if self.spots and spent < self.spots[-1][1]:
            self.spots.clear()  # the comparison began anew
        while len(self.spots) > 1 and self.spots[1][1] <= spent - window:
            self.spots.popleft()
        found = None
        if self.spots and spent > self.spots[0][1]:
            found = (usual - self.spots[0][0]) / (spent - self.spots[0][1])
        if not self.spots or spent - self.spots[-1][1] > window / _SPOTS:
            self.spots.append((usual, spent))
        return found


def head() -> dict[str, Any]:
    """Write what stands before the series."""
    return {"schema": SCHEMA, "columns": ["unix", *COLUMNS]}


class Trend:
    """Remembers every model of every target; `take` is called after each scrape."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], _Memory] = {}
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
                memory = self._memory(target.name, model)
                if memory is None:
                    continue
                values = make_point(
                    derived,
                    target.judgements.get(model),
                    target.baselines.get(model),
                    _longer(memory, target, model),
                    flag,
                )
                for ring in memory.rings:
                    ring.add(unix, values)

    def _memory(self, target: str, model: str) -> _Memory | None:
        memory = self._series.get((target, model))
        if memory is None and len(self._series) < MOST_SERIES:
            memory = _Memory(
                rings=tuple(
                    _Ring(seconds=seconds, points=deque(maxlen=most)) for seconds, most in STRETCHES
                )
            )
            self._series[target, model] = memory
        return memory

    def document(self, view: View, *, since: float = 0.0) -> dict[str, Any]:
        """Write every series, each point once and the finest there is, the oldest first.

        Points before `since` (Unix seconds) are left out. What is not known is null.
        """
        series = [*self.series(view, Asked(since=since))]
        return {**head(), "series": series}

    def series(self, view: View, asked: Asked) -> Iterator[dict[str, Any]]:
        """Write one series after the other, each when it is its turn; only those asked for."""
        baselines = {
            (one.name, model): baseline
            for one in view.targets
            for model, baseline in one.baselines.items()
        }
        for (name, model), memory in [*self._series.items()]:
            if asked.target not in {None, name} or asked.model_name not in {None, model}:
                continue
            yield {
                "target": name,
                "model_name": model,
                "baseline": _curve(baselines.get((name, model))),
                "points": [
                    [round(unix, 1), *map(_told, values)]
                    for unix, values in _merged(memory.rings)
                    if unix >= asked.since
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


def _longer(memory: _Memory, target: TargetView, model: str) -> float | None:
    """Compare what the window's tokens cost with what they would have, where both are counted."""
    usual = target.baseline_seconds.get((model, BASIS))
    spent = target.covered_seconds.get((model, BASIS))
    load = target.models[model].number("decode_concurrency")
    if usual is None or spent is None or load is None or target.window_seconds is None:
        return None
    return memory.longer(usual, spent, load * target.window_seconds)


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
