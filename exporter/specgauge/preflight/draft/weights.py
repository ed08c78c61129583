"""The tensors that safetensors headers name, with their sizes; opens no file."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MOST_HEADER = 100_000_000
_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16,
    "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor: its shape, type and the bytes it takes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Every tensor of a model; `missing` names files that an index promises and are not there."""

    tensors: Mapping[str, Tensor]
    missing: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Give the bytes of all of them."""
        return sum(one.size for one in self.tensors.values())

    def ending(self, name: str) -> Tensor | None:
        """Find a tensor by the end of its name, whatever it is nested in."""
        for key, tensor in self.tensors.items():
            if key == name or key.endswith(f".{name}"):
                return tensor
        return None


def parse_header(text: bytes, body: int) -> list[Tensor]:
    """Read one file's header; raises ValueError saying what is wrong with it.

    `body` is how many bytes follow the header: a tensor may not reach beyond.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("its header is not JSON") from error
    if not isinstance(document, dict):
        raise ValueError("its header is not a JSON object")  # noqa: TRY004 - one kind of fault
    return [_tensor(name, one, body) for name, one in document.items() if name != "__metadata__"]


def gather(tensors: Iterable[Tensor], missing: Iterable[str] = ()) -> Weights:
    """Put the tensors of a model's files together."""
    return Weights(tensors={one.name: one for one in tensors}, missing=tuple(missing))


def _tensor(name: str, one: Any, body: int) -> Tensor:
    try:
        dtype, shape, (begin, end) = one["dtype"], one["shape"], one["data_offsets"]
        sound = (
            all(isinstance(size, int) and size >= 0 for size in (*shape, begin, end))
            and begin <= end <= body
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its header describes {name[:60]!r} wrongly") from error
    if not sound or not isinstance(dtype, str):
        raise ValueError(f"tensor {name[:60]!r} reaches beyond the file: it was cut off")
    bits = _BITS.get(dtype)
    if bits is not None and math.prod(shape) * bits > (end - begin) * 8 + 7:
        raise ValueError(f"tensor {name[:60]!r} has fewer bytes than its shape asks for")
    return Tensor(name=name, shape=tuple(shape), dtype=dtype, size=end - begin)
