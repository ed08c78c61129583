"""How many bytes of weights an engine holds: counted from headers, or estimated from a shape.

Pure arithmetic over what was read. Unquantised weights are held with 16 bits a value, whatever
width the files have: engines convert them when they load.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from specgauge.preflight.memory.shape import Experts, Shape

VALUE_BYTES = 2
"""Bytes of an activation and of an unquantised weight."""

_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4}
_BITS |= {"I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32}
_BITS |= {"F64": 64, "I64": 64, "U64": 64, "F6_E2M3": 6, "F6_E3M2": 6}
_FLOATS = frozenset({"F64", "F32"})
_EMBEDDING = ("embed_tokens", "wte.", "word_embeddings", "embed_in", "tok_embeddings")
_OUTPUT = ("lm_head", "embed_out", "output.weight")
_FULL = 16.0
_MOST, _MOST_SIZES = 1 << 50, 16


class Role(StrEnum):
    """What a model does in a server, which decides what of it is loaded."""

    TARGET = "target"
    DRAFT = "draft_model"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    MTP = "mtp"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor of a header: its name, and the bits that it has in the file and in memory."""

    name: str
    values: int
    bits: int
    floating: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Bytes of a model's weights by part; `mtp` are layers that only draft."""

    embedding: int
    output: int
    layers: int
    mtp: int = 0
    estimated: bool = False

    def loaded(self, role: Role, *, tied: bool) -> int:
        """Give the bytes that are held by a model in this role.

        An EAGLE head shares the target's embedding, and an EAGLE-1 head its output layer too. A
        target that is its own drafter shares both with its drafting layers.
        """
        output = 0 if tied else self.output
        if role is Role.MTP:
            return self.mtp
        if role is Role.EAGLE:
            return self.layers
        if role is Role.EAGLE3:
            return self.layers + self.output
        return self.embedding + output + self.layers


def read_header(header: Mapping[str, Any]) -> list[Tensor]:
    """Read the tensors of a `safetensors` header; raises ValueError naming one that is amiss."""
    found = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind = entry.get("dtype") if isinstance(entry, Mapping) else None
        shape = entry.get("shape") if isinstance(entry, Mapping) else None
        if not isinstance(kind, str) or kind not in _BITS:
            raise ValueError(f"{name[:60]} has no dtype that is known")
        sizes = [one for one in shape if type(one) is int] if isinstance(shape, list) else []
        whole = isinstance(shape, list) and len(sizes) == len(shape) <= _MOST_SIZES
        if not whole or min(sizes, default=0) < 0:
            raise ValueError(f"{name[:60]} has no shape")
        values = math.prod(min(one, _MOST) for one in sizes)
        if values > _MOST:
            raise ValueError(f"{name[:60]} is larger than any tensor")
        found.append(Tensor(name=name, values=values, bits=_BITS[kind], floating=kind in _FLOATS))
    return found


def count(tensors: Iterable[Tensor], shape: Shape) -> Weights:
    """Add tensors up by part."""
    sums = dict.fromkeys(("embedding", "output", "layers", "mtp"), 0)
    whole = shape.quantisation is None
    for one in tensors:
        bits = VALUE_BYTES * 8 if one.floating and whole else one.bits
        sums[_part(one.name, shape)] += (one.values * bits + 7) // 8
    return Weights(
        embedding=sums["embedding"],
        output=sums["output"],
        layers=sums["layers"],
        mtp=sums["mtp"],
    )


def _part(name: str, shape: Shape) -> str:
    if shape.mtp_layers and ("mtp" in name.lower() or _layer(name) >= shape.layers):
        return "mtp"
    if any(mark in name for mark in _EMBEDDING):
        return "embedding"
    return "output" if any(mark in name for mark in _OUTPUT) else "layers"


def _layer(name: str) -> int:
    """Give the number of the layer that a tensor is of; -1 for one of none."""
    parts = name.split(".")
    for before, number in pairwise(parts):
        if before in {"layers", "h"} and number.isascii() and number.isdigit():
            return int(number[:6])
    return -1


def estimate(shape: Shape, role: Role) -> Weights:
    """Estimate what a model of this shape weighs; an EAGLE head's is that of its layers."""
    bits = shape.weight_bits or _FULL
    table = shape.vocabulary * shape.hidden * VALUE_BYTES
    attention = _attention(shape)
    dense = (3 if shape.gated else 2) * shape.hidden * shape.inner
    routed = _routed(shape.hidden, shape.experts) if shape.experts else dense
    sparse = min(shape.experts.layers, shape.layers) if shape.experts else 0
    values = shape.layers * attention + (shape.layers - sparse) * dense + sparse * routed
    norms = (2 * shape.layers + 1) * shape.hidden * VALUE_BYTES
    output = shape.output_vocabulary * shape.hidden * VALUE_BYTES
    drafting = attention + routed + 2 * shape.hidden**2
    return Weights(
        embedding=table,
        output=0 if shape.tied else output,
        layers=int(values * bits / 8) + norms + _fusing(shape, role) * VALUE_BYTES,
        mtp=int(shape.mtp_layers * drafting * bits / 8),
        estimated=True,
    )


def _fusing(shape: Shape, role: Role) -> int:
    """Count what a head adds to its layers: it takes the target's hidden states in."""
    if role is Role.EAGLE:
        return 2 * shape.hidden**2
    if role is Role.EAGLE3:  # three hidden states, and attention over two vectors instead of one
        asked = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        return 3 * shape.hidden**2 + shape.layers * shape.hidden * asked
    return 0


def _attention(shape: Shape) -> int:
    """Count the values of one layer's attention."""
    hidden, heads = shape.hidden, shape.heads
    if (latent := shape.latent) is None:
        wide, narrow = heads * shape.head_dim, shape.kv_heads * shape.head_dim
        return 2 * hidden * wide + 2 * hidden * narrow
    query = heads * (latent.nope + latent.rope)
    asked = hidden * query
    if latent.query_rank:
        asked = latent.query_rank * (hidden + query)
    kept = hidden * (latent.rank + latent.rope)
    spread = latent.rank * heads * (latent.nope + latent.value)
    return asked + kept + spread + heads * latent.value * hidden


def _routed(hidden: int, experts: Experts) -> int:
    """Count the values of one layer of experts with its router."""
    return hidden * (3 * experts.count * experts.inner + 3 * experts.shared_inner + experts.count)
