"""Whether speculation pays, and every number that the answer rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """The answer."""

    PAYS = "pays"
    COSTS = "costs"
    EVEN = "even"
    UNKNOWN = "unknown"


class VerdictReason(StrEnum):
    """Why the answer is what it is."""

    ABOVE_ONE = "speedup_above_one"
    BELOW_ONE = "speedup_below_one"
    WITHIN_MARGIN = "within_margin"
    LATENCY_TRADEOFF = "latency_tradeoff"
    INTERVAL_TOO_WIDE = "interval_too_wide"
    NO_BASELINE = "no_baseline"
    OUTSIDE_RANGE = "outside_baseline_range"
    TOO_FEW_TOKENS = "too_few_tokens"
    BASELINE_MISMATCH = "baseline_mismatch"
    WORKLOAD_MISMATCH = "workload_mismatch"
    UNEVEN_LOAD = "uneven_load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One model's verdict and its numbers.

    `ratios`, `lows` and `highs` are by basis; `absent` says what is not known and why;
    `mismatches` names the facts in which server and baseline differ. `leans` says that it would
    be `costs` at a lower confidence: for a guard, which knows what was before.
    """

    model_name: str
    verdict: Verdict
    reason: VerdictReason
    ratios: Mapping[str, float] = field(default_factory=dict)
    lows: Mapping[str, float] = field(default_factory=dict)
    highs: Mapping[str, float] = field(default_factory=dict)
    confidence: float = 0.95
    values: Mapping[str, float] = field(default_factory=dict)
    extrapolated: bool = False
    mismatches: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    leans: bool = False
    absent: Mapping[str, str] = field(default_factory=dict)
