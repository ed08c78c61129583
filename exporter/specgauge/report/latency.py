"""End-to-end latency of a period, and the speedup of whole requests of the length seen."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specgauge.report.grid import Line
from specgauge.report.growth import stretches
from specgauge.report.servers import Key, Server, clean, key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Requests of a histogram and their median in seconds; `matched` is the speedup beside it.

    `at_least` says that the median lies above the last bound, which is what is given then.
    `matched` is weighted by requests; `matched_requests` is how many it rests on.
    """

    requests: float
    p50: float | None
    at_least: bool
    matched: float | None
    matched_requests: float


def latency(servers: Sequence[Server], buckets: Iterable[Line]) -> Latency:
    """Take the histogram of a group's servers, summed by bound, and their length-matched gauge."""
    ladder = _ladder(buckets)
    p50, at_least = median_of(ladder)
    weights: list[tuple[float, float]] = []
    for server in servers:
        matched = server.gauges.get("e2e_speedup", {})
        weights += [
            (one.growth.get("requests", 0.0), matched[one.last])
            for one in server.grown
            if one.cells == 1 and one.last in matched
        ]
    total = math.fsum(weight for weight, _ in weights)
    return Latency(
        requests=ladder.get(math.inf, 0.0),
        p50=p50,
        at_least=at_least,
        matched=math.fsum(weight * one for weight, one in weights) / total if total else None,
        matched_requests=total,
    )


def median_of(ladder: dict[float, float]) -> tuple[float | None, bool]:
    """Give the median of cumulative counts by upper bound, even within its bucket.

    The second says that it lies above the last finite bound.
    """
    bounds = sorted(ladder)
    total = ladder.get(math.inf, 0.0)
    if total <= 0.0 or len(bounds) < 2:  # noqa: PLR2004 - one bound tells nothing
        return None, False
    rank = total / 2.0
    below = (0.0, 0.0)
    for bound in bounds[:-1]:
        count = ladder[bound]
        if count >= rank:
            share = (rank - below[1]) / (count - below[1])
            return below[0] + share * (bound - below[0]), False
        below = (bound, count)
    return below[0], True


def _ladder(buckets: Iterable[Line]) -> dict[float, float]:
    """Add up how the buckets of all servers grew, at the bounds that all of them have."""
    servers: dict[Key, dict[str, dict[int, float]]] = defaultdict(dict)
    for line in buckets:
        place = key_of({name: value for name, value in line.labels.items() if name != "le"})
        servers[place][line.labels.get("le", "")] = clean(line)
    ladders = []
    for levels in servers.values():
        found: dict[float, float] = defaultdict(float)
        for stretch in stretches(levels, bridge=1):
            for bound, grown in stretch.growth.items():
                found[float(bound)] += grown
        if found:
            ladders.append(found)
    shared = set.intersection(*(set(one) for one in ladders)) if ladders else set()
    summed = {bound: math.fsum(one[bound] for one in ladders) for bound in sorted(shared)}
    return _rising(summed)


def _rising(ladder: dict[float, float]) -> dict[float, float]:
    """Let no bucket hold fewer than the one below: scrapes may fall between two of them."""
    for low, high in pairwise(list(ladder)):
        ladder[high] = max(ladder[high], ladder[low])
    return ladder
