"""Makes folders of models for the tests of memory: a configuration, and headers without weights."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 16000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
"""The target of the recordings on an H200."""

SMALL = {
    **LLAMA,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
}
"""Their draft model: 8 KV heads of 64."""

HEAD = {**LLAMA, "num_hidden_layers": 1}
"""Their EAGLE head: one layer of the target's shape."""

MIXTURE = {
    **LLAMA,
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}

LATENT = {
    **LLAMA,
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "intermediate_size": 18432,
    "first_k_dense_replace": 3,
    "num_nextn_predict_layers": 1,
    "vocab_size": 129280,
    "quantization_config": {"quant_method": "fp8"},
}

Shapes = Mapping[str, tuple[str, Sequence[int]]]


def header(tensors: Shapes) -> bytes:
    """Write the head of a `safetensors` file, as long as it says and nothing behind it."""
    listed = {
        name: {"dtype": kind, "shape": list(shape), "data_offsets": [0, 0]}
        for name, (kind, shape) in tensors.items()
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **listed}).encode()
    return struct.pack("<Q", len(text)) + text


def make_folder(
    place: Path,
    config: object,
    files: Mapping[str, Shapes] | None = None,
    index: Mapping[str, str] | None = None,
) -> Path:
    """Make a model's folder."""
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    for name, tensors in (files or {}).items():
        (place / name).write_bytes(header(tensors))
    if index is not None:
        written = json.dumps({"weight_map": dict(index)})
        (place / "model.safetensors.index.json").write_text(written)
    return place
