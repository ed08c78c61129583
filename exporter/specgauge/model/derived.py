"""What is known of one model, and for what is not, why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Number = int | float
Value = Number | Sequence[Number]


class Reason(StrEnum):
    """Why a quantity is absent."""

    NO_DRAFTS = "no_drafts"
    NO_TOKENS = "no_tokens"
    NO_REQUESTS = "no_requests"
    NEEDS_WINDOW = "needs_window"
    NUM_DRAFTS_MISSING = "num_drafts_missing"
    NOT_EXPOSED = "not_exposed_by_engine"
    VARYING_DRAFT_LENGTH = "varying_draft_length"
    ALL_INVALID = "all_draft_tokens_invalid"
    V0_NOT_RECOVERABLE = "v0_not_recoverable"
    NOT_FINITE = "not_finite"
    NEGATIVE_VALUE = "negative_value"
    DUPLICATE_SERIES = "duplicate_series"
    ABOVE_ONE = "acceptance_above_one"
    IMPLAUSIBLE_TTFT = "implausible_ttft"
    NOT_MONOTONE = "per_position_not_monotone"
    POSITION_SUM = "per_position_sum_mismatch"
    NOT_SPECULATIVE = "not_speculative"
    CONFLICTING_DIALECTS = "conflicting_dialects"
    CANNOT_PAY = "cannot_pay"
    BELOW_ONE = "breakeven_below_one"
    SINGLE_WINDOW = "single_window"
    BASELINE_LACKS_TTFT = "baseline_lacks_ttft"


class Warn(StrEnum):
    """What a reader of the numbers should know; `identity_violation:<check>` comes besides."""

    LIFETIME_VALUE = "lifetime_value"
    V0_ANY_POSITION = "v0_any_position"
    LOW_SAMPLE = "low_sample"
    UNEVEN_LOAD = "uneven_load"
    NOT_MONOTONE = "per_position_not_monotone"
    ABOVE_ONE = "acceptance_above_one"
    IMPLAUSIBLE_TTFT = "implausible_ttft"
    BELOW_FIRST_BUCKET = "latency_below_first_bucket"
    DUPLICATE_SERIES = "duplicate_series"
    ENGINES_MISSING = "engines_missing"
    MIXED_BUCKETS = "mixed_buckets"
    NO_FINAL_NEWLINE = "no_final_newline"
    PADDED_DRAFTS = "padded_drafts_possible"
    SYNTHETIC_ACCEPTANCE = "synthetic_acceptance"


class Check(StrEnum):
    """Identities that every honest page keeps; the `check` label of violations."""

    ACCEPTED_WITHIN_DRAFTED = "accepted_within_drafted"
    POSITIONS_FALL = "positions_fall"
    POSITIONS_SUM = "positions_sum_to_accepted"
    DRAFTED_WITHIN_K = "drafted_within_k"


class Speculation(StrEnum):
    """What a server's speculation is doing."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    IDLE = "idle"
    ABSENT = "absent"
    NOT_SPECULATIVE = "not_speculative"
    UNKNOWN = "unknown"


class Method(StrEnum):
    """Where acceptance was derived from."""

    COUNTERS = "counters"
    V0_INTERVAL = "v0_interval"
    V0_LIFETIME = "v0_lifetime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A quantity that cannot be known, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the page cannot tell: the configured method and how many engines there should be."""

    method: str | None = None
    engines: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAcceptance:
    """One engine's share: the acceptance of its own drafts, or why there is none."""

    engine: str
    acceptance_ratio: float | Absent
    acceptance_length: float | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """One model's quantities over a window or, with `lifetime`, since its engine started.

    `values` and `absent` together name every field of `FIELDS`, each in one of the two.
    """

    model_name: str
    engines: tuple[str, ...]
    speculation: Speculation
    speculation_reason: str | None
    method: Method
    values: Mapping[str, Value]
    absent: Mapping[str, str]
    warnings: tuple[str, ...]
    violations: tuple[Check, ...]
    per_engine: tuple[EngineAcceptance, ...]

    def number(self, name: str) -> float | None:
        """Give a quantity that is one number; None where it is absent, or is a list."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int | float) else None


FIELDS = (
    "num_speculative_tokens",
    "acceptance_ratio",
    "acceptance_length",
    "draft_length",
    "position_acceptance_ratio",
    "position_conditional_acceptance_ratio",
    "tokens_per_step",
    "draft_coverage_ratio",
    "tpot_seconds",
    "request_tpot_seconds",
    "step_seconds",
    "ttft_seconds",
    "e2e_seconds",
    "decode_concurrency",
    "decode_tokens_per_second",
    "generation_tokens_per_second",
    "prompt_tokens_per_request",
    "output_tokens_per_request",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "accepted_tokens_per_position",
    "generation_tokens",
    "requests_running",
    "requests_waiting",
    "kv_cache_usage_ratio",
    "preemptions",
)
"""The fields of a model in `specgauge.inspect/v1`, in their order."""
