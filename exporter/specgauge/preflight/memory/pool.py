"""The KV cache as vLLM lays it out: layers in groups, and one pool of blocks for them all.

Layers that need a slot for every token share one block table, whatever their widths: a block then
holds a page of each, and a draft's layers make it larger. Where full and sliding attention meet,
the layers are split into groups of equal size that draw equal pages from the pool.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from specgauge.preflight.memory.shape import Shape

_CLOSE = 1.5
"""Groups are as large as the most numerous kind of layer if that is below so many of the least."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Layer:
    """One layer's cache on one GPU: bytes a token, and its sliding window in tokens (0: none)."""

    width: int
    window: int = 0
    latent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers with one block table; `block_size` is in tokens."""

    layers: int
    block_size: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """How a server's cache is divided: bytes of a block, and who draws blocks."""

    block_bytes: int
    groups: tuple[Group, ...]

    @property
    def hybrid(self) -> bool:
        """Whether a request holds blocks in more than one group."""
        return len(self.groups) > 1

    def blocks(self, memory: int) -> int:
        """Give the number of blocks that fit into some memory."""
        return max(memory, 0) // self.block_bytes

    def needed(self, tokens: int, *, in_flight: int) -> int:
        """Give the blocks that a request of so many tokens holds.

        `in_flight` tokens may be computed at once, beyond what a window keeps.
        """
        total = 0
        for group in self.groups:
            if group.window:
                held = min(group.window - 1 + in_flight, tokens)
                total += -(-held // group.block_size) + 1
            else:
                total += -(-tokens // group.block_size)
        return total


def layers_of(shape: Shape, *, parallel: int, value_bytes: int, mtp: bool = False) -> list[Layer]:
    """List the cache of each layer on one of `parallel` GPUs; with `mtp` of those that draft."""
    if shape.latent is not None:
        width, latent = (shape.latent.rank + shape.latent.rope) * value_bytes, True
    else:
        heads = max(shape.kv_heads // parallel, 1)
        width, latent = 2 * heads * shape.head_dim * value_bytes, False
    windows: Sequence[int | None] = shape.windows
    if mtp:
        windows = (None,) * max(shape.mtp_layers, 1)
    return [Layer(width=width, window=window or 0, latent=latent) for window in windows]


def make_pool(layers: Sequence[Layer], block_size: int) -> Pool:
    """Lay layers out; raises ValueError where an engine could not."""
    windows = {layer.window for layer in layers}
    if len(windows) <= 1:
        window = windows.pop() if windows else 0
        group = Group(layers=len(layers), block_size=block_size, window=window)
        total = sum(layer.width for layer in layers) * block_size
        return Pool(block_bytes=max(total, 1), groups=(group,))
    return _hybrid(layers, block_size)


def _hybrid(layers: Sequence[Layer], block_size: int) -> Pool:
    """Split layers into groups of one size, whose pages are all as large as the largest."""
    page = max(layer.width for layer in layers)
    kinds = Counter(layers)
    for layer in kinds:
        if layer.latent and page % layer.width:
            raise ValueError("latent attention beside a cache whose pages it does not divide")
    fewest, most = min(kinds.values()), max(kinds.values())
    size = most if most < _CLOSE * fewest else fewest
    groups: list[Group] = []
    for layer, number in kinds.items():
        stretch = page // layer.width if page % layer.width == 0 else 1
        one = Group(layers=size, block_size=block_size * stretch, window=layer.window)
        groups += [one] * -(-number // size)
    return Pool(block_bytes=size * page * block_size, groups=tuple(groups))
