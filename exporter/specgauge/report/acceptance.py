"""Acceptance over a period and its hours: sums of counters first, then their ratio."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specgauge.report.grid import HOUR, Period
from specgauge.report.servers import Server

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Acceptance of one stretch of time; the ratio is None where too few tokens were drafted."""

    start: float
    end: float
    draft_tokens: float
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Of the whole period, by day and by hour; `lowest` and `highest` are hours that hold enough.

    `length` has the bonus token of each step in it.
    """

    draft_tokens: float
    accepted_tokens: float
    ratio: float | None
    length: float | None
    lowest: Window | None
    highest: Window | None
    days: tuple[Window, ...]
    hours: tuple[Window, ...]

    @property
    def wasted_tokens(self) -> float:
        """Tokens that were drafted in vain."""
        return self.draft_tokens - self.accepted_tokens


def acceptance(servers: Sequence[Server], period: Period, *, enough: float) -> Acceptance:
    """Add up what all servers of a group drafted; a window needs `enough` drafted tokens."""
    drafted, accepted, drafts = (
        math.fsum(one.growth.get(name, 0.0) for server in servers for one in server.grown)
        for name in ("draft_tokens", "accepted_tokens", "drafts")
    )
    hours = tuple(_windows(servers, period, HOUR, enough))
    known = [(one.ratio, one) for one in hours if one.ratio is not None]
    return Acceptance(
        draft_tokens=drafted,
        accepted_tokens=accepted,
        ratio=accepted / drafted if drafted else None,
        length=1.0 + accepted / drafts if drafts else None,
        lowest=min(known, key=lambda one: one[0])[1] if known else None,
        highest=max(known, key=lambda one: one[0])[1] if known else None,
        days=tuple(_windows(servers, period, DAY, enough)),
        hours=hours,
    )


def _windows(
    servers: Sequence[Server], period: Period, length: float, enough: float
) -> Iterable[Window]:
    """Cut the period into windows of a length, the last of which may be shorter.

    A stretch belongs to the window in which it ends.
    """
    grid = period.cells
    per = round(length / grid.step)
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for server in servers:
        for one in server.grown:
            found = sums[(one.last - 1) // per]
            found[0] += one.growth.get("draft_tokens", 0.0)
            found[1] += one.growth.get("accepted_tokens", 0.0)
    for number in range(math.ceil(grid.count / per)):
        drafted, accepted = sums.get(number, (0.0, 0.0))
        yield Window(
            start=grid.time(number * per),
            end=grid.time(min((number + 1) * per, grid.count)),
            draft_tokens=drafted,
            ratio=accepted / drafted if drafted >= enough else None,
        )
