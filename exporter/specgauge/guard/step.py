"""What one rule of the guard answers; holds no rule."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from specgauge.model.guard import GuardState, Phase

# Pages are taken at the same instants for two windows that touch; only rounding may part them.
TOUCHING = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where a rule goes and why; `wanted` is where it would have gone if it were let."""

    state: GuardState
    reason: str
    wanted: Phase | None = None
    warnings: tuple[str, ...] = ()


def known(numbers: Mapping[str, float], name: str) -> float | None:
    """Give a number that can be reckoned with, else None."""
    value = numbers.get(name)
    if value is None or not math.isfinite(value) or value < 0.0:
        return None
    return value
