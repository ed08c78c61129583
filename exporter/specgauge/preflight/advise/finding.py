"""Reasons for and against speculation as values; judged elsewhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Number = int | float | str


class Advice(StrEnum):
    """What a server is."""

    CANDIDATE = "candidate"
    POOR = "poor_candidate"
    NOT_MEASURED = "not_measured"


class FirstMethod(StrEnum):
    """The least clever method that is worth trying."""

    NGRAM = "ngram"
    MODEL = "draft_model_or_head"


class Weight(StrEnum):
    """Which way a reason points, the decisive ones first."""

    AGAINST = "against"
    UNKNOWN = "unknown"
    CAUTION = "caution"
    FOR = "for"


class Code(StrEnum):
    """The name of a reason, which scripts may rely on."""

    ALREADY_SPECULATING = "already_speculating"
    SATURATED = "saturated"
    VERIFICATION_TOO_DEAR = "verification_too_dear"
    MANY_REQUESTS = "many_requests"
    TIGHT_KV = "tight_kv_cache"
    SHORT_OUTPUTS = "short_outputs"
    HIGH_TEMPERATURE = "high_temperature"
    LOAD_NOT_MEASURED = "load_not_measured"
    KV_NOT_MEASURED = "kv_cache_not_measured"
    OUTPUTS_NOT_MEASURED = "outputs_not_measured"
    TEMPERATURE_NOT_GIVEN = "temperature_not_given"
    PROMPTS_NOT_GIVEN = "prompts_not_given"
    UNPINNED_VERSION = "unpinned_version"
    FEW_REQUESTS = "few_requests"
    FEW_ANSWERS = "few_answers"
    OUTSIDE_BASELINE = "outside_baseline_range"
    ROOM_IN_LOAD = "room_in_load"
    KV_HEADROOM = "kv_cache_headroom"
    LONG_OUTPUTS = "long_outputs"
    LOW_TEMPERATURE = "low_temperature"
    NGRAM_MATCHES = "ngram_matches"
    NGRAM_SELDOM_MATCHES = "ngram_seldom_matches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason: what, which way it points, its numbers, and what to do."""

    code: Code
    weight: Weight
    text: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    fix: str | None = None


def ordered(found: Iterable[Reason]) -> tuple[Reason, ...]:
    """Put reasons in order: by weight, then as the codes are listed."""
    weights, places = list(Weight), list(Code)
    return tuple(sorted(found, key=lambda r: (weights.index(r.weight), places.index(r.code))))
