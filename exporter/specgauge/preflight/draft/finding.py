"""What a check of a draft finds, as values; nothing is judged here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

Number = int | float | str | None
NOTHING: Mapping[str, Number] = MappingProxyType({})


class Severity(StrEnum):
    """How much a finding weighs, the heaviest first."""

    ERROR = "error"
    UNKNOWN = "unknown"
    CONDITION = "condition"
    NOTE = "note"


class Fit(StrEnum):
    """Whether a draft may be used with its target."""

    COMPATIBLE = "compatible"
    WITH_CONDITIONS = "with_conditions"
    INCOMPATIBLE = "incompatible"
    UNKNOWN = "unknown"


class Engine(StrEnum):
    """What the engine does with the pair; `fails` is to start, and die at the first request."""

    STARTS = "starts"
    REFUSES = "refuses"
    FAILS = "fails"
    UNKNOWN = "unknown"


class Area(StrEnum):
    """What was compared, or could not be."""

    RELEASE = "release"
    VOCABULARY_SIZE = "vocabulary_size"
    TEXTS = "token_texts"
    SPECIAL_TOKENS = "special_tokens"
    ENCODINGS = "encodings"
    CHAT_TEMPLATE = "chat_template"
    MAX_LENGTH = "max_length"
    DTYPE = "dtype"
    TENSOR_PARALLEL = "tensor_parallel"
    HEAD = "head"
    WEIGHTS = "weights"


class Code(StrEnum):
    """The name of a finding, which scripts may rely on."""

    METHOD_NOT_IN_RELEASE = "method_not_in_release"
    METHOD_NOT_KNOWN = "method_not_known"
    RELEASE_NOT_KNOWN = "release_not_known"
    VOCABULARY_SIZE_UNKNOWN = "vocabulary_size_unknown"
    VOCABULARY_SIZE_DIFFERS = "vocabulary_size_differs"
    VOCABULARY_PADDING_DIFFERS = "vocabulary_padding_differs"
    TOKENS_BEYOND_EMBEDDING = "tokens_beyond_embedding"
    HETEROGENEOUS_VOCABULARY = "heterogeneous_vocabulary"
    HETEROGENEOUS_NOT_IN_RELEASE = "heterogeneous_not_in_release"
    HETEROGENEOUS_NEEDS_DRAFT_MODEL = "heterogeneous_needs_draft_model"
    HETEROGENEOUS_NEEDS_TOKENIZER = "heterogeneous_needs_tokenizer"
    HETEROGENEOUS_NEEDS_UNKNOWN = "heterogeneous_needs_unknown_token"
    SHARED_VOCABULARY_SMALL = "shared_vocabulary_small"
    TOKENIZER_UNKNOWN = "tokenizer_unknown"
    TEXTS_DIFFER = "token_texts_differ"
    FEW_TEXTS_DIFFER = "few_token_texts_differ"
    SPECIAL_TOKENS_DIFFER = "special_tokens_differ"
    ENCODINGS_DIFFER = "encodings_differ"
    CHAT_TEMPLATE_DIFFERS = "chat_template_differs"
    DRAFT_SHORTER = "draft_shorter"
    DRAFT_LENGTH_LIMITED = "draft_length_limited"
    MAX_LENGTH_TOO_LARGE = "max_length_too_large"
    DTYPE_DIFFERS = "dtype_differs"
    QUANTISATION_DIFFERS = "quantisation_differs"
    HEADS_NOT_DIVISIBLE = "heads_not_divisible"
    KV_HEADS_NOT_DIVISIBLE = "kv_heads_not_divisible"
    DRAFT_TENSOR_PARALLEL = "draft_tensor_parallel"
    HEAD_HIDDEN_SIZE = "head_hidden_size"
    HEAD_VOCABULARY_SIZE = "head_vocabulary_size"
    HEAD_MAP_MISSING = "head_token_map_missing"
    HEAD_MAP_SHAPE = "head_token_map_shape"
    HEAD_MAP_NEEDLESS = "head_token_map_needless"
    HEAD_OTHER_TARGET = "head_other_target"
    HEAD_IS_WHOLE_MODEL = "head_is_whole_model"
    DRAFT_IS_HEAD = "draft_is_head"
    HEAD_LAYERS = "head_layers"
    HEAD_TENSOR_SHAPE = "head_tensor_shape"
    HEAD_AUXILIARY_LAYERS = "head_auxiliary_layers"
    HEAD_LACKS_EMBEDDING = "head_lacks_embedding"
    HEAD_NOT_CHECKED = "head_not_checked"
    MEDUSA_HEADS = "medusa_heads"
    TARGET_HAS_NO_MTP = "target_has_no_mtp"
    MTP_NOT_KNOWN = "mtp_not_known"
    MTP_NOT_DIVISIBLE = "mtp_not_divisible"
    MTP_REUSES_MODULE = "mtp_reuses_module"
    NAME_OVERRULES_METHOD = "name_overrules_method"
    METHOD_MUST_BE_NAMED = "method_must_be_named"
    DRAFT_TOO_EXPENSIVE = "draft_too_expensive"
    CONFIG_UNUSABLE = "config_unusable"
    WEIGHTS_INCOMPLETE = "weights_incomplete"
    NEEDS_NO_DRAFT = "needs_no_draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found: its numbers, what the engine will say of it (if it will), and the fix.

    `effect` is what the engine does for this reason alone.
    """

    code: Code
    severity: Severity
    message: str
    numbers: Mapping[str, Number] = field(default_factory=lambda: NOTHING)
    effect: Engine = Engine.STARTS
    engine_says: str | None = None
    fix: str | None = None


def refusal(
    *,
    code: Code,
    message: str,
    numbers: Mapping[str, Number] = NOTHING,
    engine_says: str | None = None,
    fix: str,
) -> Finding:
    """Find something for which the engine does not start."""
    return Finding(
        code=code,
        severity=Severity.ERROR,
        message=message,
        numbers=numbers,
        effect=Engine.REFUSES,
        engine_says=engine_says,
        fix=fix,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """A check that was not made, and why; it never counts as passed."""

    area: Area
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one check came to: its findings, and what it could not measure."""

    area: Area
    findings: tuple[Finding, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()


def fit(findings: Sequence[Finding]) -> Fit:
    """Judge by the heaviest finding: an error outweighs what is unknown."""
    weights = {one.severity for one in findings}
    for severity, verdict in (
        (Severity.ERROR, Fit.INCOMPATIBLE),
        (Severity.UNKNOWN, Fit.UNKNOWN),
        (Severity.CONDITION, Fit.WITH_CONDITIONS),
    ):
        if severity in weights:
            return verdict
    return Fit.COMPATIBLE


def engine(findings: Sequence[Finding]) -> Engine:
    """Say what the engine does: the worst that any finding makes it do."""
    effects = {one.effect for one in findings}
    worst = (Engine.REFUSES, Engine.FAILS, Engine.UNKNOWN)
    return next((one for one in worst if one in effects), Engine.STARTS)


def arrange(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Sort findings, the heaviest first, as found within a weight."""
    order = list(Severity)
    return tuple(sorted(findings, key=lambda one: order.index(one.severity)))
