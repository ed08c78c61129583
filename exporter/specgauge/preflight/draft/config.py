"""A model's config.json as typed facts, read as the engine reads it; opens no file.

A value of the wrong kind is left out and named in `faults`: it is never guessed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specgauge.units import quote

LARGEST = 1 << 40
_NESTED = ("text_config", "transformer_layer_config", "llm_config", "language_config")
_LENGTHS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
    "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk")
_KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num")
_MTP_LAYERS = ("n_predict", "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
_ONE_MODULE = frozenset(
    {"gemma4_assistant", "gemma4_unified_assistant", "longcat_flash", "step3p5", "step3p7",
     "dots3_note", "minimax_m3_vl"}
)  # fmt: skip
_SCALED_ALREADY = frozenset(
    {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "default"}
)
_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gemma3_text": {
        "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "head_dim": 256,
        "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
        "max_position_embeddings": 131072,
    },
}  # fmt: skip
"""What a class takes for what is not in a nested part, of families that leave it out there."""
_NEVER_ZERO = frozenset({"vocab_size", "hidden_size", "num_hidden_layers"})
_QUANTISED = ("quantization_config", "compression_config")
_SPECIALS = ("bos", "eos", "pad")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What config.json says of a model; None where it says nothing usable."""

    architectures: tuple[str, ...] = ()
    model_type: str = ""
    vocab_size: int | None = None
    hidden_size: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    expert_size: int | None = None
    max_length: int | None = None
    length_key: str = ""
    dtype: str | None = None
    quantisation: str | None = None
    quantised_bits: int | None = None
    tied: bool = False
    draft_vocab_size: int | None = None
    target_hidden_size: int | None = None
    auxiliary_layers: tuple[int, ...] = ()
    mtp_layers: int | None = None
    medusa_heads: int | None = None
    speculator: str | None = None
    verifier: str | None = None
    special_ids: Mapping[str, tuple[int, ...]]
    faults: tuple[str, ...] = ()


def read_config(document: Mapping[str, Any]) -> Config:
    """Turn the document of config.json into facts, the text model's where it is nested."""
    faults: list[str] = []
    outer = _Reader(document, faults)
    inner = _Reader(_text_part(document), faults)
    both = _Either(inner, outer)
    length, key = _length(inner if inner.document is not document else outer)
    heads = both.number("num_attention_heads")
    kind = _word(document.get("model_type")) or _word(inner.document.get("model_type"))
    return Config(
        architectures=_names(document.get("architectures")),
        model_type=kind,
        vocab_size=both.number("vocab_size"),
        hidden_size=both.number("hidden_size"),
        layers=both.number("num_hidden_layers"),
        heads=heads,
        kv_heads=both.number(*_KV_HEADS) or heads,
        head_dim=both.number("head_dim"),
        intermediate_size=both.number("intermediate_size"),
        experts=both.number(*_EXPERTS),
        experts_per_token=both.number(*_PER_TOKEN),
        expert_size=both.number("moe_intermediate_size"),
        max_length=length,
        length_key=key,
        dtype=_dtype(document, inner.document),
        quantisation=_quantisation(document, inner.document),
        quantised_bits=_bits(document, inner.document),
        tied=_tied(document, inner.document),
        draft_vocab_size=outer.number("draft_vocab_size"),
        target_hidden_size=outer.number("target_hidden_size"),
        auxiliary_layers=_layer_ids(document),
        mtp_layers=both.number(*_MTP_LAYERS) or (1 if kind in _ONE_MODULE else None),
        medusa_heads=outer.number("medusa_num_heads", "num_heads"),
        speculator=_speculator(document),
        verifier=_verifier(document),
        special_ids={
            name: _ids(document, inner.document, f"{name}_token_id") for name in _SPECIALS
        },
        faults=tuple(dict.fromkeys([*faults, *_unread(document, inner.document)])),
    )


def ids_of(value: object) -> tuple[int, ...]:
    """Read one token id or a list of them; anything else is no id."""
    many = value if isinstance(value, list) else [value]
    return tuple(one for one in many if isinstance(one, int) and not isinstance(one, bool))


@dataclass(frozen=True, slots=True, kw_only=False)
class _Reader:
    """Reads whole numbers out of one mapping and notes what is none."""

    document: Mapping[str, Any]
    faults: list[str]

    def number(self, *names: str) -> int | None:
        """Give the first of some keys that holds a positive whole number."""
        for name in names:
            value = self.document.get(name)
            if value is None:
                continue
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < LARGEST:
                return value
            if value != 0 or isinstance(value, bool) or name in _NEVER_ZERO:
                self.faults.append(f"{name} is {quote(value)}, not a whole number above 0")
        return None


@dataclass(frozen=True, slots=True, kw_only=False)
class _Either:
    """The nested part's number, or else the outer one's."""

    inner: _Reader
    outer: _Reader

    def number(self, *names: str) -> int | None:
        """Read from the inner part first."""
        found = self.inner.number(*names)
        return found if found is not None else self.outer.number(*names)


def _text_part(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Find the text model's part: its own mapping, or the document itself."""
    thinker = document.get("thinker_config")
    within = thinker if isinstance(thinker, dict) else document
    for name in _NESTED:
        part = within.get(name)
        if isinstance(part, dict):
            kind = _word(part.get("model_type")) or f"{_word(document.get('model_type'))}_text"
            return {**_DEFAULTS.get(kind, {}), **part}
    return document


def _length(reader: _Reader) -> tuple[int | None, str]:
    """Give the longest sequence as the engine derives it, and the key it comes from."""
    found = {key: value for key in _LENGTHS if (value := reader.number(key)) is not None}
    if not found:
        return None, ""
    key = min(found, key=lambda one: found[one])
    return int(found[key] * _factor(reader.document)), key


def _factor(document: Mapping[str, Any]) -> float:
    """Give what rope scaling stretches the length by, beyond what the config has counted in."""
    rope = document.get("rope_scaling") or document.get("rope_parameters")
    if not isinstance(rope, dict) or "gemma3" in _word(document.get("model_type")):
        return 1.0
    kind = _word(rope.get("rope_type")) or _word(rope.get("type"))
    factor = rope.get("factor")
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        return 1.0
    return float(factor) if kind not in _SCALED_ALREADY and 0 < factor < LARGEST else 1.0


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _names(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _dtype(*documents: Mapping[str, Any]) -> str | None:
    for document in documents:
        for name in ("dtype", "torch_dtype"):
            if isinstance(document.get(name), str):
                return str(document[name]).removeprefix("torch.")
    return None


def _quantised(documents: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    for document in documents:
        for name in _QUANTISED:
            if isinstance(document.get(name), dict):
                return dict(document[name])
    return None


def _unread(*documents: Mapping[str, Any]) -> list[str]:
    """Name what says how weights are quantised and is no object."""
    return [
        f"{name} is {quote(document[name])}, not an object"
        for document in documents
        for name in _QUANTISED
        if not isinstance(document.get(name), dict | None)
    ]


def _quantisation(*documents: Mapping[str, Any]) -> str | None:
    found = _quantised(documents)
    if found is None:
        return None
    return (_word(found.get("quant_method")) or "unnamed").lower().replace("_", "-")


def _bits(*documents: Mapping[str, Any]) -> int | None:
    found = _quantised(documents) or {}
    bits = found.get("bits")
    return bits if isinstance(bits, int) and not isinstance(bits, bool) and 0 < bits <= 32 else None  # noqa: PLR2004 - bits of a float


def _tied(*documents: Mapping[str, Any]) -> bool:
    return any(document.get("tie_word_embeddings") is True for document in documents)


def _layer_ids(document: Mapping[str, Any]) -> tuple[int, ...]:
    eagle = document.get("eagle_config")
    for part in (document, eagle if isinstance(eagle, dict) else {}):
        if found := ids_of(part.get("eagle_aux_hidden_state_layer_ids")):
            return found
    return ()


def _speculator(document: Mapping[str, Any]) -> str | None:
    """Name the algorithm of a checkpoint in the speculators format."""
    part = document.get("speculators_config")
    named = _word(part.get("algorithm")) if isinstance(part, dict) else ""
    return _word(document.get("speculators_model_type")) or named or None


def _verifier(document: Mapping[str, Any]) -> str | None:
    """Name the target that a checkpoint in the speculators format was made for."""
    part = document.get("speculators_config")
    verifier = part.get("verifier") if isinstance(part, dict) else None
    return _word(verifier.get("name_or_path")) or None if isinstance(verifier, dict) else None


def _ids(*args: Any) -> tuple[int, ...]:
    *documents, name = args
    for document in documents:
        if found := ids_of(document.get(name)):
            return found
    return ()
