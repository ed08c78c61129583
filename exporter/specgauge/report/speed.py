"""How much faster tokens came than without speculation, at which load, and what that was worth.

From the two counters that sidecars keep of it, cell by cell; a mean of gauges would weigh an idle
hour as much as a busy one.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specgauge.derive.statistics import Estimate, ratio_estimate
from specgauge.report.grid import HOUR, Period
from specgauge.report.growth import Stretch
from specgauge.report.servers import Server

CONFIDENCE = 0.95
EDGES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBin:
    """Cells whose mean number of requests in decode lay from `low` up to below `high`.

    `high` is None for the last one.
    """

    low: float
    high: float | None
    cells: int
    decode_seconds: float
    speedup: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """Time in decode that requests were spared, and lost where speculation cost; in seconds.

    `server_seconds` is the difference in time of whole servers: divided by the load of the cell.
    """

    saved_seconds: float
    lost_seconds: float
    server_seconds: float

    @property
    def net_seconds(self) -> float:
        """What is left of the one after the other."""
        return self.saved_seconds - self.lost_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """The speedup of an hour; None where nothing was compared."""

    start: float
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The speedup of a period; `covered` is the share of decode time that a baseline covers."""

    speedup: Estimate | None
    covered: float | None
    bins: tuple[LoadBin, ...]
    hours: tuple[Hour, ...]
    worth: Worth


def speed(servers: Sequence[Server], period: Period) -> Speed:
    """Compare what all servers of a group took with what they would have taken."""
    every = [one for server in servers for one in server.grown]
    compared = [one for one in every if one.growth.get("covered_seconds", 0.0) > 0.0]
    spent = math.fsum(one.growth.get("decode_seconds", 0.0) for one in every)
    covered = math.fsum(one.growth["covered_seconds"] for one in compared)
    return Speed(
        speedup=_successive(compared),
        covered=min(covered / spent, 1.0) if spent else None,
        bins=tuple(_bins(compared, period.step)),
        hours=tuple(_hours(compared, period)),
        worth=_worth(compared, period.step),
    )


def _successive(compared: Sequence[Stretch]) -> Estimate | None:
    """Estimate over the pool: servers are added up first, as cells follow each other in time."""
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in compared:
        sums[one.last][0] += _would(one)
        sums[one.last][1] += one.growth["covered_seconds"]
    if not sums:
        return None
    pairs = [sums[at] for at in sorted(sums)]
    return ratio_estimate(
        [would for would, _ in pairs],
        [did for _, did in pairs],
        confidence=CONFIDENCE,
        successive=True,
    )


def _bins(compared: Sequence[Stretch], step: float) -> Iterator[LoadBin]:
    """Sort single cells by load; a stretch of several has no load of its own."""
    for place, low in enumerate(EDGES[:-1]):
        high = EDGES[place + 1]
        cells = [one for one in compared if one.cells == 1 and low <= concurrency(one, step) < high]
        if cells:
            did = [one.growth["covered_seconds"] for one in cells]
            yield LoadBin(
                low=low,
                high=None if math.isinf(high) else high,
                cells=len(cells),
                decode_seconds=math.fsum(did),
                speedup=ratio_estimate(list(map(_would, cells)), did, confidence=CONFIDENCE),
            )


def _hours(compared: Sequence[Stretch], period: Period) -> Iterator[Hour]:
    per = round(HOUR / period.step)
    for number in range(period.hours.count):
        found = [one for one in compared if (one.last - 1) // per == number]
        did = math.fsum(one.growth["covered_seconds"] for one in found)
        yield Hour(
            start=period.hours.time(number),
            ratio=math.fsum(map(_would, found)) / did if found else None,
        )


def _worth(compared: Sequence[Stretch], step: float) -> Worth:
    gains = [(_would(one) - one.growth["covered_seconds"], one) for one in compared]
    return Worth(
        saved_seconds=math.fsum(gain for gain, _ in gains if gain > 0.0),
        lost_seconds=math.fsum(-gain for gain, _ in gains if gain < 0.0),
        server_seconds=math.fsum(
            gain / load for gain, one in gains if (load := concurrency(one, step)) > 0.0
        ),
    )


def concurrency(one: Stretch, step: float) -> float:
    """Give the mean number of requests in decode; at least those that were compared."""
    spent = max(one.growth.get("decode_seconds", 0.0), one.growth.get("covered_seconds", 0.0))
    return spent / (one.cells * step)


def _would(one: Stretch) -> float:
    return one.growth.get("baseline_seconds", 0.0)
