"""Times and the numbers of evidence, short enough for a row; knows no decision."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime

_FORMS = (
    ("speedup_ratio", "speedup {:.2f}"),
    ("acceptance_length", "acceptance length {:.2f}"),
    ("acceptance_ratio", "acceptance {:.0%}"),
    ("decode_concurrency", "{:.1f} in decode"),
    ("tokens", "{:.0f} tokens"),
)
_A_DATE = 1e8
"""Seconds from which a time is taken to be Unix time: in 1973."""


def figures(evidence: Mapping[str, object]) -> str:
    """Write the numbers that matter most, as far as they are there."""
    found = {
        name: float(value)
        for name, value in evidence.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
    parts = [form.format(found[name]) for name, form in _FORMS if name in found]
    if parts and "speedup_ratio_low" in found and "speedup_ratio_high" in found:
        low, high = found["speedup_ratio_low"], found["speedup_ratio_high"]
        parts[0] += f" ({low:.2f} to {high:.2f})" if "speedup_ratio" in found else ""
    return ", ".join(parts)


def moment(time: float) -> str:
    """Write a time: the date and hour of a Unix time, else seconds since the start."""
    if time < _A_DATE:
        return f"{time:.10g} s"
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"{time:.10g} s"
