"""The shape of a model as its configuration tells it: sizes, experts, windows, quantisation.

A mapping goes in and a value comes out; ValueError names the key that is missing or wrong. No
file is opened here and no size in bytes is worked out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]

_MOST = 10**8
_MOST_LAYERS = 10_000
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
_INNER = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_ACTIVE = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts")
_MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")
_LENGTH = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_UNGATED = frozenset(
    {"gpt2", "opt", "gpt_neox", "gptj", "bloom", "falcon", "gpt_bigcode", "starcoder2", "phi"}
)
_ATTENTION = {"full_attention": False, "sliding_attention": True, "global": False, "local": True}
_STATE_SPACE = (
    "ssm_cfg",
    "mamba_d_state",
    "mamba_d_ssm",
    "ssm_state_size",
    "hybrid_override_pattern",
    "linear_num_value_heads",
    "attn_layer_period",
)
_BITS_BY_NAME = {"mxfp8": 8.25, "fp8": 8.0, "mxfp4": 4.25, "nvfp4": 4.5, "fp4": 4.0, "int8": 8.0}
"""Widths with what a block's scale adds, by the part of a name that tells them; in this order."""

_TIED = frozenset({"gpt2", "opt", "bloom", "gemma", "gemma2", "gemma3_text", "cohere", "cohere2"})
"""Kinds whose output layer is the embedding where the configuration does not say otherwise."""

_GEMMA3: Config = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window_pattern": 6,
    "max_position_embeddings": 131_072,
}
"""What this kind's published configurations leave out, as it is their library's default."""
_FULL_BITS = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The experts of a mixture: how many, how many a token takes, how wide, and in what layers."""

    count: int
    active: int
    inner: int
    shared_inner: int
    layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention: the widths of what is cached and of what is not."""

    rank: int
    rope: int
    nope: int
    value: int
    query_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of one model.

    `windows` has an entry for each layer that keeps keys and values of its own: its sliding
    window in tokens, or None for full attention. `weight_bits` is None where the configuration
    names a quantisation and not its width. `unmodelled` names kinds of layers that keep
    something else than keys and values. A head that drafts may know fewer tokens than its
    target: `output_vocabulary`.
    """

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    output_vocabulary: int
    windows: tuple[int | None, ...]
    tied: bool = False
    gated: bool = True
    latent: Latent | None = None
    experts: Experts | None = None
    mtp_layers: int = 0
    max_length: int | None = None
    quantisation: str | None = None
    weight_bits: float | None = _FULL_BITS
    unmodelled: tuple[str, ...] = ()


def read_shape(config: Config) -> Shape:
    """Read a configuration; raises ValueError naming the key that is missing or no number."""
    nested = config.get("text_config")
    text: Config = {**config, **nested} if isinstance(nested, Mapping) else config
    if text.get("model_type") == "gemma3_text":
        text = {**_GEMMA3, **text}
    layers = _needed(text, _LAYERS, most=_MOST_LAYERS)
    hidden, heads = _needed(text, _HIDDEN), _needed(text, _HEADS)
    quantisation, bits = _quantised(text)
    kv_heads = _count(text, _KV_HEADS) or (1 if text.get("multi_query") is True else heads)
    windows, unmodelled = _windows(text, layers)
    kind, tied = str(text.get("model_type")), text.get("tie_word_embeddings")
    return Shape(
        layers=layers,
        hidden=hidden,
        inner=_count(text, _INNER) or 4 * hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_count(text, ("head_dim",)) or max(hidden // heads, 1),
        vocabulary=(vocabulary := _needed(text, ("vocab_size",))),
        output_vocabulary=_count(text, ("draft_vocab_size",)) or vocabulary,
        windows=windows,
        tied=tied if isinstance(tied, bool) else kind in _TIED,
        gated=kind not in _UNGATED,
        latent=_latent(text),
        experts=_experts(text, layers),
        mtp_layers=_count(text, _MTP) or 0,
        max_length=_count(text, _LENGTH),
        quantisation=quantisation,
        weight_bits=bits,
        unmodelled=unmodelled,
    )


def _needed(config: Config, names: Sequence[str], *, most: int = _MOST) -> int:
    found = _count(config, names, most=most)
    if found is None:
        raise ValueError(f"no {names[0]} in it")
    return found


def _count(config: Config, names: Sequence[str], *, most: int = _MOST) -> int | None:
    """Give the first of some keys that is there; 0 and null say nothing."""
    for name in names:
        value = config.get(name)
        if value is None or value == 0:
            continue
        if type(value) is not int or not 0 < value <= most:
            raise ValueError(f"{name} is {_shown(value)}, not a whole number from 1 to {most}")
        return value
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 30 else f"{text[:28]}…"  # noqa: PLR2004 - fits one line


def _latent(config: Config) -> Latent | None:
    rank = _count(config, ("kv_lora_rank",))
    if rank is None:
        return None
    return Latent(
        rank=rank,
        rope=_count(config, ("qk_rope_head_dim",)) or 0,
        nope=_count(config, ("qk_nope_head_dim",)) or 0,
        value=_count(config, ("v_head_dim",)) or 0,
        query_rank=_count(config, ("q_lora_rank",)) or 0,
    )


def _experts(config: Config, layers: int) -> Experts | None:
    count = _count(config, _EXPERTS)
    if count is None or count == 1:
        return None
    inner = _count(config, ("moe_intermediate_size", *_INNER))
    if inner is None:
        raise ValueError("no intermediate_size in it")
    shared = _count(config, ("shared_expert_intermediate_size",))
    if shared is None:
        shared = inner * (_count(config, ("n_shared_experts",)) or 0)
    dense = min(_count(config, ("first_k_dense_replace",)) or 0, layers)
    step = _count(config, ("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step"))
    return Experts(
        count=count,
        active=min(_count(config, _ACTIVE) or 1, count),
        inner=inner,
        shared_inner=shared,
        layers=(layers - dense) // (step or 1),
    )


def _windows(config: Config, layers: int) -> tuple[tuple[int | None, ...], tuple[str, ...]]:
    """Tell each caching layer's window, and the kinds of layers that cache otherwise."""
    window = None
    if config.get("use_sliding_window") is not False:
        window = _count(config, ("sliding_window",))
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and len(kinds) >= layers:
        kinds = [str(kind) for kind in kinds[:layers]]
        strange = tuple(sorted(set(kinds) - set(_ATTENTION)))
        slides = [_ATTENTION.get(kind, False) for kind in kinds]
    else:
        strange = tuple(name for name in _STATE_SPACE if config.get(name) is not None)
        slides = _pattern(config, layers)
    own = layers - min(_count(config, ("num_kv_shared_layers",)) or 0, layers - 1)
    return tuple(window if one else None for one in slides[:own]), strange


def _pattern(config: Config, layers: int) -> list[bool]:
    """Say which layers slide where the configuration does not list them."""
    every = _count(config, ("sliding_window_pattern", "_sliding_window_pattern"))
    if every is None and config.get("model_type") == "gemma2":
        every = 2
    if every is None and config.get("use_sliding_window") is True:
        first = config.get("max_window_layers")  # the layers before it keep everything
        return [type(first) is not int or at >= first for at in range(layers)]
    return [every is None or (at + 1) % every != 0 for at in range(layers)]


def _quantised(config: Config) -> tuple[str | None, float | None]:
    """Name the quantisation and its bits a weight; 16 bits where there is none."""
    found = config.get("quantization_config", config.get("compression_config"))
    if not isinstance(found, Mapping) or not found:
        return None, _FULL_BITS
    name = str(found.get("quant_method") or found.get("quant_algo") or "unnamed")
    groups = found.get("config_groups")
    listed = list(groups.values()) if isinstance(groups, Mapping) else []
    inner = [one.get("weights") for one in listed if isinstance(one, Mapping)]
    for place in [found, *(one for one in inner if isinstance(one, Mapping))]:
        for key in ("bits", "w_bit", "num_bits", "weight_bits", "nbits"):
            bits = place.get(key)
            if isinstance(bits, int | float) and bits is not True and 0 < bits <= _FULL_BITS:
                return name, float(bits)
    for key, width in (("load_in_4bit", 4.0), ("load_in_8bit", 8.0)):
        if found.get(key) is True:
            return name, width
    named = (name, str(found.get("quant_algo", "")))
    return name, next(
        (bits for key, bits in _BITS_BY_NAME.items() if any(key in one.lower() for one in named)),
        None,
    )
