"""A baseline as plain text: its levels as a table and B(c) as a plot, as wide as one asks for."""

import math
from collections.abc import Callable, Sequence

from specgauge.baseline.doubts import tpot_of
from specgauge.baseline.schema import BaselineFile, LevelRecord, usable
from specgauge.derive.interpolate import tpot_at
from specgauge.model.baseline import Curve

_MARGIN = 9
_NARROWEST = 24
_HEADROOM = 1.05
_TICKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

Column = tuple[str, Callable[[LevelRecord], str]]


def draw_table(file: BaselineFile, *, width: int) -> str:
    """Draw the levels, one a line; columns that do not fit are left out, the last ones first."""
    levels = sorted(file.levels, key=lambda one: one.decode_concurrency)
    rows = [[title for title, _ in _COLUMNS]]
    rows += [[write(level) for _, write in _COLUMNS] for level in levels]
    sizes = [max(len(row[place]) for row in rows) for place in range(len(_COLUMNS))]
    shown, used = 0, 0
    for size in sizes:
        used += size + 2
        if used - 2 > width and shown:
            break
        shown += 1
    return "\n".join(
        "  ".join(
            cell.rjust(size) for cell, size in zip(row[:shown], sizes[:shown], strict=True)
        ).rstrip()
        for row in rows
    )


def draw_plot(file: BaselineFile, *, width: int, height: int = 12) -> str:
    """Draw time per token over decode concurrency: `o` is a level, `.` the line between."""
    curve = usable(file, source="").curve
    columns = max(width, _NARROWEST) - _MARGIN
    low, high = curve.levels[0].decode_concurrency, curve.top
    top = _HEADROOM * max(level.tpot for level in curve.levels)
    grid = [[" "] * columns for _ in range(height)]
    for x in range(columns):
        grid[_row(tpot_at(curve, _load(x, columns, low, high)), top, height)][x] = "."
    for level in curve.levels:
        place = _column(level.decode_concurrency, columns, low, high)
        grid[_row(level.tpot, top, height)][place] = "o"
    lines = ["ms a token"]
    for number, row in enumerate(grid):
        value = 1000.0 * top * (height - 1 - number) / (height - 1)
        label = f"{value:.4g}" if number % 3 == 2 or number == height - 1 else ""  # noqa: PLR2004 - every third
        lines.append(f"{label:>{_MARGIN - 2}} |{''.join(row)}".rstrip())
    lines.append(" " * (_MARGIN - 1) + "+" + "-" * columns)
    lines.append((" " * _MARGIN + _axis(curve, columns)).rstrip())
    lines.append(f"{'requests in decode':>{_MARGIN + columns}}")
    return "\n".join(lines)


def _load(x: int, columns: int, low: float, high: float) -> float:
    return low * math.exp(math.log(high / low) * x / max(columns - 1, 1))


def _column(load: float, columns: int, low: float, high: float) -> int:
    if high <= low:
        return 0
    return round((columns - 1) * math.log(load / low) / math.log(high / low))


def _row(tpot: float, top: float, height: int) -> int:
    return height - 1 - round((height - 1) * min(tpot / top, 1.0))


def _axis(curve: Curve, columns: int) -> str:
    """Write the loads under the plot, as many as there is room for."""
    low, high = curve.levels[0].decode_concurrency, curve.top
    line = ""
    for tick in [low, *(one for one in _TICKS if low < one <= high)]:
        place = _column(tick, columns, low, high)
        label = f"{tick:.3g}"
        if place + len(label) <= columns and (not line or place > len(line)):
            line = line.ljust(place) + label
    return line


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{1000.0 * value:.4g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _spread(level: LevelRecord) -> str:
    """Write the half-width of TPOT as a share."""
    client = level.client.tpot_seconds.ci95 if level.client else None
    bounds = level.server.tpot_ci95 if level.server else client
    if bounds is None:
        return "-"
    return f"{(bounds[1] - bounds[0]) / 2.0 / tpot_of(level):.1%}"


def _ttft(level: LevelRecord) -> float | None:
    if level.server is not None:
        return level.server.ttft_seconds
    return level.client.ttft_seconds.mean if level.client else None


def _throughput(level: LevelRecord) -> float:
    return level.decode_concurrency / tpot_of(level)


_COLUMNS: Sequence[Column] = (
    ("load", lambda one: _number(one.decode_concurrency)),
    ("TPOT ms", lambda one: _milliseconds(tpot_of(one))),
    ("+/-", _spread),
    ("tokens/s", lambda one: _number(_throughput(one))),
    ("TTFT ms", lambda one: _milliseconds(_ttft(one))),
    ("requests", lambda one: str(one.requests)),
    ("prompt", lambda one: _number(one.prompt_tokens_per_request)),
    ("output", lambda one: _number(one.output_tokens_per_request)),
    ("failed", lambda one: str(one.failed_requests)),
    ("seconds", lambda one: _number(one.window_seconds)),
)
