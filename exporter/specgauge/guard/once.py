"""Reads JSON in which every key stands once, as nobody knows which of two was meant."""

import json
from typing import Any

from specgauge.errors import SpecgaugeError

_SHOWN = 40


class RepeatedKeyError(SpecgaugeError):
    """An object with the same key twice; its text names the key."""


def load_once(text: str | bytes) -> Any:
    """Read JSON; raises RepeatedKeyError, and ValueError or RecursionError for what is none."""
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RepeatedKeyError(f"the key {key[:_SHOWN]!r} stands twice; write it once")
        found[key] = value
    return found
