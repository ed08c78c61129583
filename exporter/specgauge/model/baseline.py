"""A recorded baseline as values: time per output token without speculation, by load."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What was measured at one load; times in seconds, None where it was not measured.

    `decode_concurrency` is the mean number of requests in decode. `tpot_low` and `tpot_high`
    bound the 95 % interval of the mean.
    """

    decode_concurrency: float
    tpot: float
    tpot_low: float | None = None
    tpot_high: float | None = None
    ttft: float | None = None
    e2e: float | None = None
    prompt_tokens_per_request: float | None = None
    output_tokens_per_request: float | None = None
    concurrency: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """B(c): the levels in rising order of decode concurrency, no two within 10 %."""

    levels: tuple[Level, ...]

    @property
    def top(self) -> float:
        """Decode concurrency of the highest level."""
        return self.levels[-1].decode_concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A curve, and whose it is: `facts` by dotted path of the file (`model.name`, ...).

    `created` is Unix seconds. `source` is the file or target that it comes from.
    """

    curve: Curve
    source: str
    created: float | None = None
    method: str = "closed_loop"
    facts: Mapping[str, object] = field(default_factory=dict)
    partial: bool = False
