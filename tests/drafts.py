"""Small models to check drafts against: tokenizers, configurations and safetensors by hand.

They mirror real families in what is compared; no weight in them is anything but zero.
"""

import json
import math
import struct
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

Json = dict[str, Any]
Shape = tuple[int, ...]
WIDTH = {"F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "U8": 1}

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
LLAMA: Json = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 172,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
TEXT = [
    "the quick brown fox jumps over the lazy dog and runs home again before it is dark",
    "def add(first: int, second: int) -> int:\n    return first + second\n",
    "Übermut tut selten gut; größer, schöner, weiter.",
    "Сегодня хорошая погода, не правда ли?",
    "今天天气很好我们去公园散步吧。",
]


@cache
def _trained(size: int, specials: tuple[str, ...]) -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT * 3, trainer)
    return tokenizer.to_str()


def bpe(size: int = 320, *, specials: tuple[str, ...] = ("<|endoftext|>", "<|im_end|>")) -> Json:
    """Train a byte-level tokenizer on a few sentences; gives its tokenizer.json."""
    found: Json = json.loads(_trained(size, specials))
    return found


def words(size: int, *, mark: str, specials: tuple[str, ...] = ("<s>", "</s>")) -> Json:
    """Make a tokenizer of many words, without training, as large as a real one."""
    vocab = {text: number for number, text in enumerate(specials)}
    vocab |= {f"{mark}{number}": number for number in range(len(specials), size)}
    return {
        "version": "1.0",
        "added_tokens": [_added(number, text) for number, text in enumerate(specials)],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": specials[0]},
    }


def with_token(tokenizer: Json, text: str, number: int | None = None) -> Json:
    """Add one token, behind the last unless another id is given."""
    made = deepcopy(tokenizer)
    made["added_tokens"].append(_added(count(made) if number is None else number, text))
    return made


def swapped(tokenizer: Json, first: int, second: int) -> Json:
    """Let two tokens change their ids."""
    made = deepcopy(tokenizer)
    vocab = made["model"]["vocab"]
    names = {number: text for text, number in vocab.items()}
    vocab[names[first]], vocab[names[second]] = second, first
    for one in made["added_tokens"]:
        one["id"] = {first: second, second: first}.get(one["id"], one["id"])
    return made


def count(tokenizer: Json) -> int:
    """Count the tokens, the added ones too."""
    numbers = set(tokenizer["model"]["vocab"].values())
    return len(numbers | {one["id"] for one in tokenizer["added_tokens"]})


def dense(config: Mapping[str, Any], *, tied: bool = True) -> dict[str, Shape]:
    """Name the tensors of a dense model with their shapes."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim", hidden // config["num_attention_heads"])
    keys, queries = config["num_key_value_heads"] * head, config["num_attention_heads"] * head
    rows = config["vocab_size"]
    tensors: dict[str, Shape] = {"model.embed_tokens.weight": (rows, hidden)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        tensors |= {
            f"{at}.self_attn.q_proj.weight": (queries, hidden),
            f"{at}.self_attn.k_proj.weight": (keys, hidden),
            f"{at}.self_attn.v_proj.weight": (keys, hidden),
            f"{at}.self_attn.o_proj.weight": (hidden, queries),
            f"{at}.mlp.gate_proj.weight": (inner, hidden),
            f"{at}.mlp.up_proj.weight": (inner, hidden),
            f"{at}.mlp.down_proj.weight": (hidden, inner),
            f"{at}.input_layernorm.weight": (hidden,),
            f"{at}.post_attention_layernorm.weight": (hidden,),
        }
    tensors["model.norm.weight"] = (hidden,)
    return tensors if tied else {**tensors, "lm_head.weight": (rows, hidden)}


def eagle(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Name the tensors of an EAGLE head: two hidden states in, and a layer without its norm."""
    hidden = config["hidden_size"]
    own = dense({**config, "num_hidden_layers": 1})
    kept = {
        name.removeprefix("model."): shape
        for name, shape in own.items()
        if ".layers." in name and "input_layernorm" not in name
    }
    return {"fc.weight": (hidden, 2 * hidden), **kept}


def eagle3(config: Mapping[str, Any], rows: int, *, target: int | None = None) -> dict[str, Shape]:
    """Name the tensors of an EAGLE-3 head that matter: three hidden states in, and the map out."""
    hidden = config["hidden_size"]
    return {
        "fc.weight": (hidden, 3 * (target or hidden)),
        "midlayer.self_attn.q_proj.weight": (hidden, 2 * hidden),
        "lm_head.weight": (rows, hidden),
        "d2t": (rows,),
    }


def write(
    folder: Path,
    config: Mapping[str, Any],
    *,
    tokenizer: Json | None = None,
    tokenizer_config: Json | None = None,
    template: str | None = None,
    tensors: Mapping[str, Shape] | None = None,
) -> Path:
    """Write a model's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "config.json", config)
    if tokenizer is not None:
        save(folder / "tokenizer.json", tokenizer)
        save(folder / "tokenizer_config.json", tokenizer_config or {})
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    if tensors is not None:
        write_weights(folder / "model.safetensors", tensors)
    return folder


def save(path: Path, document: object) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(document, ensure_ascii=False))


def write_weights(
    path: Path, tensors: Mapping[str, Shape], *, dtype: str = "BF16", body: bool = True
) -> None:
    """Write a safetensors file of zeros: a length, a header, the numbers; maps are whole."""
    header: Json = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors.items():
        kind = "I64" if name == "d2t" else dtype
        begin, end = end, end + math.prod(shape) * WIDTH[kind]
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + (end if body else 0))


def _added(number: int, text: str) -> Json:
    return {
        "id": number, "content": text, "special": True, "single_word": False,
        "lstrip": False, "rstrip": False, "normalized": False,
    }  # fmt: skip
