"""Figures as people read them; every form of the report writes them the same way."""

import re
from collections.abc import Mapping
from typing import Any

from specgauge.report.plots import load_text

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_MARKED = re.compile(r"([\\`*_\[\]<>#!|~&])")

FIGURES: Mapping[str, str] = {
    "data_share": "time with data",
    "acceptance_ratio": "acceptance",
    "acceptance_length": "acceptance length",
    "speedup_ratio": "speedup",
    "e2e_p50_seconds": "E2E p50",
    "e2e_speedup_ratio": "E2E speedup, lengths matched",
    "net_saved_seconds": "time in decode saved, net",
    "gpu_hours": "GPU-hours saved, net",
    "fallbacks": "fallbacks",
}
"""What the headline figures are called."""

NOTHING = "-"


def ratio(value: float | None) -> str:
    """Write a ratio."""
    return NOTHING if value is None else f"{value:.3f}"


def share(value: float | None) -> str:
    """Write a share."""
    return NOTHING if value is None else f"{value:.1%}"


def count(value: float | None) -> str:
    """Write how many; growth of counters is whole but for rounding."""
    return NOTHING if value is None else f"{round(value):,}".replace(",", "\u202f")


def seconds(value: float | None) -> str:
    """Write a time of any size."""
    if value is None:
        return NOTHING
    size = abs(value)
    if size < 1.0:
        return f"{1000.0 * value:.3g} ms"
    if size < _MINUTE:
        return f"{value:.3g} s"
    if size < _HOUR:
        return f"{value / _MINUTE:.1f} min"
    return f"{value / _HOUR:.1f} h" if size < 3 * _DAY else f"{value / _DAY:.1f} d"


def hours(value: float | None) -> str:
    """Write a number of hours."""
    return NOTHING if value is None else f"{round(value, 1) + 0.0:.1f}"


def interval(one: Mapping[str, Any]) -> str:
    """Write a ratio with its interval."""
    if one["ratio"] is None:
        return NOTHING
    if one["low"] is None:
        return ratio(one["ratio"])
    return f"{one['ratio']:.3f} ({one['low']:.3f} to {one['high']:.3f})"


def headline(name: str, value: float | None) -> str:
    """Write a headline figure by its name."""
    if name == "data_share":
        return share(value)
    if name == "fallbacks":
        return count(value)
    if name == "gpu_hours":
        return hours(value)
    return seconds(value) if name.endswith("_seconds") else ratio(value)


def change(name: str, value: float | None) -> str:
    """Write by how much one grew, with its sign."""
    text = headline(name, value)
    return text if value is None or value < 0.0 else f"+{text}"


def day(text: str) -> str:
    """Write a time of the document shorter."""
    return text.replace("T", " ").removesuffix(":00Z").removesuffix("Z")


def labels(found: Mapping[str, str]) -> str:
    """Write labels."""
    return ", ".join(f"{name}={value}" for name, value in sorted(found.items()))


def plain(text: object) -> str:
    """Write a text of somebody else's into Markdown: on one line, with no mark of its own."""
    line = "".join(one if one.isprintable() else " " for one in str(text))
    return _MARKED.sub(r"\\\1", line)


FILTERS = {
    "ratio": ratio,
    "share": share,
    "count": count,
    "seconds": seconds,
    "hours": hours,
    "interval": interval,
    "day": day,
    "labels": labels,
    "plain": plain,
    "load": load_text,
}
"""What templates call them."""
