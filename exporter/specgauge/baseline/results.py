"""Figures out of another tool's document, and a run of it as we understand it.

A document is untrusted: a figure is a finite number above zero, or it is not there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from specgauge.baseline.schema import Spread
from specgauge.errors import BaselineError

Document = Mapping[str, Any]

_LEAST, _MOST = 1e-6, 1e9
_MILLI = 1e-3

FAILING_SHARE = 0.1
"""So many failed requests make another load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One load of another tool: `spent` decode seconds for `tokens` decode tokens over `seconds`.

    `decode_concurrency` is given where it does not follow from these. `missing` names what the
    document does not say, `notes` how it was understood.
    """

    place: str
    tpot: float
    decode_concurrency: float
    seconds: float | None = None
    tokens: float | None = None
    concurrency: float | None = None
    request_rate: float | None = None
    requests: int = 0
    failed: int = 0
    prompt_tokens_per_request: float | None = None
    output_tokens_per_request: float | None = None
    tpot_spread: Spread = field(default_factory=Spread)
    ttft: Spread = field(default_factory=Spread)
    e2e: Spread = field(default_factory=Spread)
    facts: Mapping[str, object] = field(default_factory=dict)
    created: datetime | None = None
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def figure(document: Document, key: str, place: str) -> float | None:
    """Read a figure; None where it is not there or zero, an error where it is no number."""
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BaselineError([f"{place}: {key}: a number is expected, is {str(value)[:40]!r}"])
    if value != 0 and not _LEAST <= value <= _MOST:
        raise BaselineError([f"{place}: {key}: must be from {_LEAST:g} to {_MOST:g}, is {value:g}"])
    return float(value) or None


def lacking(document: Document, key: str) -> str:
    """Say in which way a figure is not there: it is missing, or zero."""
    return f"{key} is {'missing' if document.get(key) is None else '0'}"


def count(document: Document, key: str, place: str) -> int:
    """Read a whole number; 0 where it is not there."""
    return round(figure(document, key, place) or 0.0)


def milliseconds(document: Document, key: str, place: str) -> float | None:
    """Read a figure in milliseconds as seconds."""
    value = figure(document, key, place)
    return None if value is None else value * _MILLI


def text(document: Document, key: str) -> str | None:
    """Read a short text on one line; None where there is none."""
    value = document.get(key)
    fit = isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable()  # noqa: PLR2004 - one line
    return value if fit else None


def over(total: float | None, number: float) -> float | None:
    """Give a mean where both are known."""
    return total / number if total and number > 0 else None
