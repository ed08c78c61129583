"""What is said of a command line or a configuration: a code, how bad it is, and the fix.

Values only; who finds what is elsewhere.
"""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    ERROR = "error"
    """The engine refuses to start, or the thing cannot be said to this release."""
    SEVERE = "severe"
    """The engine starts, and its answers are not to be used."""
    WARNING = "warning"
    """The engine starts and does something else than what stands there."""
    INFO = "info"
    """Worth knowing."""


class Code(StrEnum):
    """What a finding is called."""

    ALIAS_CONFLICT = "alias_conflict"
    BATCH_THRESHOLD = "batch_threshold"
    DASH_IN_KEY = "dash_in_key"
    DRAFT_TENSOR_PARALLEL = "draft_tensor_parallel"
    DUPLICATE_FLAG = "duplicate_flag"
    DUPLICATE_KEY = "duplicate_key"
    EAGLE3_HEAD = "eagle3_head"
    ENGINE_CHANGED = "engine_changed"
    FLAG_GONE = "flag_gone"
    FLAG_NEWER = "flag_newer"
    HETEROGENEOUS_VOCAB = "heterogeneous_vocab"
    K_FROM_MODEL = "k_from_model"
    K_MISSING = "k_missing"
    KEY_GONE = "key_gone"
    KEY_NEWER = "key_newer"
    LOSSY_ACCEPTANCE = "lossy_acceptance"
    METHOD_GONE = "method_gone"
    METHOD_INFERRED = "method_inferred"
    METHOD_NEWER = "method_newer"
    METHOD_RENAMED = "method_renamed"
    METHOD_UNKNOWN = "method_unknown"
    METHOD_UNSURE = "method_unsure"
    MIXED_RELEASES = "mixed_releases"
    MODEL_MISSING = "model_missing"
    MTP_N_PREDICT = "mtp_n_predict"
    NEEDS_PACKAGE = "needs_package"
    NEVER_EXISTED = "never_existed"
    NO_SPECULATION = "no_speculation"
    NO_TARGET = "no_target"
    PROMPT_LOOKUP_DEFAULT = "prompt_lookup_default"
    PROMPT_LOOKUP_ORDER = "prompt_lookup_order"
    RENAMED = "renamed"
    REPLACED = "replaced"
    SAMPLER_GONE = "sampler_gone"
    SCHEDULE_CLIPPED = "schedule_clipped"
    SCHEDULE_IGNORED = "schedule_ignored"
    SCHEDULE_MALFORMED = "schedule_malformed"
    SYNTHETIC_ACCEPTANCE_ON = "synthetic_acceptance_on"
    SYNTHETIC_SHAPE = "synthetic_shape"
    SYNTHETIC_WITHOUT_METHOD = "synthetic_without_method"
    UNKNOWN_FLAG = "unknown_flag"
    UNKNOWN_KEY = "unknown_key"
    VALUE_CHANGED = "value_changed"
    VALUE_RANGE = "value_range"
    VALUE_TYPE = "value_type"
    VALUE_UNKNOWN = "value_unknown"
    VANISHED = "vanished"
    WITHOUT_EFFECT = "without_effect"
    WRONG_KEY = "wrong_key"
    WRONG_METHOD = "wrong_method"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is said: of what, what is the matter, and what to do."""

    code: Code
    severity: Severity
    subject: str
    message: str
    fix: str = ""


_ORDER = list(Severity)


def error(code: Code, subject: str, message: str, fix: str = "") -> Finding:
    """Make a finding that the engine refuses."""
    return Finding(code=code, severity=Severity.ERROR, subject=subject, message=message, fix=fix)


def severe(code: Code, subject: str, message: str, fix: str = "") -> Finding:
    """Make a finding that makes answers useless."""
    return Finding(code=code, severity=Severity.SEVERE, subject=subject, message=message, fix=fix)


def warning(code: Code, subject: str, message: str, fix: str = "") -> Finding:
    """Make a finding of something that is not what it seems."""
    return Finding(code=code, severity=Severity.WARNING, subject=subject, message=message, fix=fix)


def info(code: Code, subject: str, message: str, fix: str = "") -> Finding:
    """Make a finding that is worth knowing."""
    return Finding(code=code, severity=Severity.INFO, subject=subject, message=message, fix=fix)


def ordered(findings: list[Finding]) -> tuple[Finding, ...]:
    """Put the worst first, and say each thing once."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda one: _ORDER.index(one.severity)))


def has_errors(findings: tuple[Finding, ...]) -> bool:
    """Tell whether the engine would refuse."""
    return any(one.severity is Severity.ERROR for one in findings)
