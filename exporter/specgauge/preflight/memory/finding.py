"""Findings about memory as values, the gravest first; judged elsewhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Number = int | float | str


class Severity(StrEnum):
    """How much a finding weighs, the heaviest first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Code(StrEnum):
    """The name of a finding, which scripts may rely on."""

    WEIGHTS_EXCEED_MEMORY = "weights_exceed_memory"
    MAX_LENGTH_DOES_NOT_FIT = "max_length_does_not_fit"
    PARALLEL_INDIVISIBLE = "tensor_parallel_indivisible"
    LAYERS_NOT_MODELLED = "layers_not_modelled"
    KV_ABOVE_95 = "kv_cache_above_95"
    UTILISATION_TOO_HIGH = "utilisation_too_high"
    KV_SMALLER = "kv_cache_smaller"
    WEIGHTS_ESTIMATED = "weights_estimated"
    QUANTISATION_UNKNOWN = "quantisation_unknown"
    SLIDING_WINDOW = "sliding_window"
    NO_DRAFT_MEMORY = "no_draft_memory"
    BLOCKS_UNKNOWN = "blocks_unknown"
    SETTINGS_DIFFER = "settings_differ"
    MODELS_DIFFER = "models_differ"
    MORE_WAITING = "more_waiting"
    MORE_PREEMPTIONS = "more_preemptions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding: what, how grave, its numbers, what the engine will say, and the fix."""

    code: Code
    severity: Severity
    text: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    engine_says: str | None = None
    fix: str | None = None


def ordered(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Put findings in order: by severity, then as the codes are listed."""
    ranks, places = list(Severity), list(Code)
    return tuple(sorted(found, key=lambda f: (ranks.index(f.severity), places.index(f.code))))
