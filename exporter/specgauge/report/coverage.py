"""How much of a period there are figures of, and which stretches are missing; smooths nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from specgauge.report.grid import Grid, Period
from specgauge.report.growth import gaps
from specgauge.report.servers import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time, in Unix seconds."""

    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCoverage:
    """One server: the share of the period that it is known of, and how often it began anew."""

    name: str
    share: float
    drafted: bool
    resets: int
    not_numbers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The share of the period with figures of any server, and the spans with those of none."""

    share: float
    missing: tuple[Span, ...]
    servers: tuple[ServerCoverage, ...]


def coverage(servers: Sequence[Server], period: Period) -> Coverage:
    """Say what is known of a group; a cell counts where growth in it is known."""
    grid = period.cells
    each = [_cells(one) for one in servers]
    anything = set().union(*each)
    return Coverage(
        share=len(anything) / grid.count,
        missing=tuple(_span(grid, first, last) for first, last in gaps(anything, grid.count)),
        servers=tuple(
            ServerCoverage(
                name=one.name,
                share=len(cells) / grid.count,
                drafted=one.drafted,
                resets=one.resets,
                not_numbers=one.not_numbers,
            )
            for one, cells in zip(servers, each, strict=True)
        ),
    )


def _cells(server: Server) -> set[int]:
    return {cell for one in server.grown for cell in range(one.first + 1, one.last + 1)}


def _span(grid: Grid, first: int, last: int) -> Span:
    return Span(start=grid.time(first - 1), end=grid.time(last))
