"""What one signal found in one look; a value, and how counts are read out of a look."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from specgauge.model.guard import Look, Outcome, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A signal's own answer, before its switch is asked."""

    signal: Signal
    outcome: Outcome
    reason: str
    severe: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)


def requests_seen(look: Look) -> float:
    """Give a lower bound of the requests that decoded in the window.

    Long streams finish rarely and short ones start rarely; each that was in decode at some time
    counts once, so the mean number in decode is never above the number of requests either.
    """
    names = ("requests", "first_tokens", "decode_concurrency")
    return max(look.numbers.get(name, 0.0) for name in names)
