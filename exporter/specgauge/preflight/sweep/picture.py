"""A sweep as plain text: its speedups as bars, load by load. Draws; knows no terminal."""

from collections.abc import Sequence

from specgauge.preflight.sweep.cell import Cell
from specgauge.preflight.sweep.choose import Pick

_NARROWEST = 16
_ONE = "|"


def draw_bars(cells: Sequence[Cell], picks: Sequence[Pick], *, width: int) -> str:
    """Draw the speedup of every candidate at every load; `|` marks 1, `-` the interval.

    The choice at each load has a star. Without a baseline it is the speed over the slowest.
    """
    shown = [(cell, speed) for cell in cells if (speed := _speed(cell, cells)) is not None]
    if not shown:
        return ""
    names = max(len(cell.candidate) for cell, _ in shown)
    room = max(width - names - 12, _NARROWEST)
    top = max(max(speed, cell.high or 0.0) for cell, speed in shown)
    top = min(top, 2.0 * max(speed for _, speed in shown))
    chosen = {(one.concurrency, one.candidate) for one in picks}
    lines = []
    for load in sorted({cell.concurrency for cell, _ in shown}):
        lines.append(f"concurrency {load}")
        for cell, speed in shown:
            if cell.concurrency == load:
                mark = "*" if (load, cell.candidate) in chosen else " "
                bar = _bar(speed, cell, room, top)
                lines.append(f"{mark} {cell.candidate:<{names}} {speed:6.2f} {bar}".rstrip())
    return "\n".join(lines)


def _speed(cell: Cell, cells: Sequence[Cell]) -> float | None:
    """Give a cell's speedup, or its speed over the slowest where nothing is without speculation."""
    if not cell.usable:
        return None
    row = [one for one in cells if one.usable and one.concurrency == cell.concurrency]
    if any(one.speedup is not None for one in row):
        return cell.speedup
    return max(one.tpot for one in row) / cell.tpot


def _bar(speed: float, cell: Cell, room: int, top: float) -> str:
    def place(value: float) -> int:
        return min(round(room * value / top), room)

    bar = list("#" * place(speed) + " " * (room - place(speed)))
    for at in range(place(speed), place(cell.high or speed)):
        bar[at] = "-"
    one = place(1.0)
    if one < room and cell.speedup is not None:
        bar[one] = _ONE
    return "".join(bar)
