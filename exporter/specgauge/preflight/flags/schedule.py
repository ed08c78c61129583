"""Schedules of k by the number of running requests: [[from, to, k], …], as the engine reads them.

Thinks only; who may have a schedule is checked elsewhere.
"""

from collections.abc import Sequence
from itertools import pairwise

from specgauge.units import quote

_ENTRY = 3
TOP = 1024
"""Where a schedule that we write ends; the engine carries its last k on."""


def schedule_for(threshold: int, k: int, *, top: int | None = None) -> list[list[int]]:
    """Write `no drafts at this many requests and above` as a schedule."""
    return [[1, threshold - 1, k], [threshold, max(threshold, top or TOP), 0]]


def faults(value: object) -> list[str]:
    """Tell what the engine would refuse about a schedule."""
    if not isinstance(value, list) or not value:
        return [f"{quote(value)} is no list of [from, to, k]"]
    wrong = [one for one in value if not _is_entry(one)]
    if wrong:
        return [f"{quote(one)} is not [from, to, k] in whole numbers" for one in wrong]
    return [*_bad_ranges(value), *_bad_order(value)]


def _is_entry(one: object) -> bool:
    return (
        isinstance(one, list | tuple)
        and len(one) == _ENTRY
        and all(isinstance(part, int) and not isinstance(part, bool) for part in one)
    )


def _bad_ranges(rows: Sequence[Sequence[int]]) -> list[str]:
    found = []
    for start, end, k in rows:
        shown = quote([start, end, k])
        if start < 1 or end < 1:
            found.append(f"{shown} has a number of requests below 1")
        elif start > end:
            found.append(f"{shown} ends before it begins")
        if k < 0:
            found.append(f"{shown} has a negative k")
    return found


def _bad_order(rows: Sequence[Sequence[int]]) -> list[str]:
    ranges = sorted((start, end) for start, end, _ in rows)
    found = [
        f"{quote(list(one))} and {quote(list(other))} overlap"
        for one, other in pairwise(ranges)
        if other[0] <= one[1]
    ]
    if ranges[0][0] != 1:
        found.append(f"it begins at {ranges[0][0]}; the first range must begin at 1")
    return found
