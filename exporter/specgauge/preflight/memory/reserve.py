"""What an engine on a GPU keeps for anything but weights and KV cache, as its profiling finds it.

vLLM runs the largest batch it allows once, takes the peak of what was allocated, adds what
libraries took and an estimate of the CUDA graphs, and gives the KV cache the rest. Here the peak
is reckoned from the model's shape; the figures that no shape tells are constants, each with
where it was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specgauge.preflight.memory.shape import Shape
from specgauge.preflight.memory.weights import VALUE_BYTES, Role

MIB = 1 << 20

DRIVER_BYTES = 615 * MIB
"""What a card has and programs do not see: 143,771 MiB against 143,156 on an H200, driver 580."""

CONTEXT_BYTES = 527 * MIB
"""A CUDA context on an H200; it lies outside the share that an engine asks for."""

LIBRARY_BYTES = 196 * MIB
"""Kernels and workspaces after one batch of an 8B shape in PyTorch 2.11, CUDA 13, on an H200."""

GRAPH_BYTES = MIB
"""The least that vLLM counts for each CUDA graph beyond the first."""

_LARGEST_GRAPH = 512
_SAMPLED = 2 + 4 + 4 + 8 + 4
"""Bytes of a logit while it is sampled: itself, as float32, sorted, its place, its chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What bounds a batch; `draft_tokens` are for each request, `eager` is without graphs."""

    batched_tokens: int
    requests: int
    draft_tokens: int = 0
    eager: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Bytes kept, by what for."""

    activations: int
    graphs: int
    libraries: int
    buffers: int = 0

    @property
    def total(self) -> int:
        """Add it all up."""
        return self.activations + self.graphs + self.libraries + self.buffers


def reserve(
    target: Shape, limits: Limits, *, parallel: int, draft: Shape | None = None, role: Role
) -> Reserve:
    """Reckon what is kept; `role` is the draft's, and TARGET where there is none."""
    tokens, drafts = limits.batched_tokens, role is not Role.TARGET
    rows = limits.requests * (2 if drafts else 1)  # a profiled batch drafts one token a request
    logits = rows * target.vocabulary * _SAMPLED
    hidden = tokens * target.hidden * VALUE_BYTES
    peak = max(_forward(target, tokens, parallel), hidden + logits)
    buffers = 0
    if draft is not None:
        peak = max(peak, hidden + _forward(draft, tokens, parallel))
        if role in {Role.EAGLE, Role.EAGLE3, Role.MTP}:
            buffers = tokens * draft.hidden * VALUE_BYTES  # hidden states handed to the head
    return Reserve(
        activations=peak,
        graphs=0 if limits.eager else _graphs(target, draft, limits, parallel),
        libraries=LIBRARY_BYTES,
        buffers=buffers,
    )


def _forward(shape: Shape, tokens: int, parallel: int) -> int:
    """Give the most that is alive at once in a layer: its input, the residual, and its widest part.

    The gate and up projections stand beside their product; in attention the projections of query,
    key and value beside the output.
    """
    stream = 2 * shape.hidden
    attention = (2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim // parallel
    wide = [attention, _mlp(shape.inner, gated=shape.gated) // parallel]
    if (experts := shape.experts) is not None:
        inner = experts.inner // parallel
        wide.append(experts.active * (max(2 * inner, shape.hidden) + inner))
        wide.append(_mlp(experts.shared_inner, gated=True) // parallel)
    return tokens * (stream + max(wide)) * VALUE_BYTES


def _mlp(inner: int, *, gated: bool) -> int:
    return (3 if gated else 2) * inner


def graph_sizes(limits: Limits) -> tuple[Sequence[int], Sequence[int]]:
    """List the batch sizes of which graphs are kept: of pieces of the model, and of the whole.

    1, 2, 4, then every eighth below 256 and every sixteenth up to twice the requests (with their
    drafts), 512 at most.
    """
    each = 1 + limits.draft_tokens
    top = min(2 * limits.requests * each, _LARGEST_GRAPH, limits.batched_tokens)
    sizes = [*(1, 2, 4), *range(8, 256, 8), *range(256, _LARGEST_GRAPH + 1, 16)]
    pieces = [size for size in sizes if size <= top]
    return pieces, [size for size in pieces if size <= limits.requests * each]


def _graphs(target: Shape, draft: Shape | None, limits: Limits, parallel: int) -> int:
    """Estimate graphs as vLLM does: the first of a kind in full, the others at the least."""
    pieces, whole = graph_sizes(limits)
    number = len(pieces) + len(whole)
    first = _forward(target, max(pieces), parallel)
    if draft is not None:
        number += len(pieces)
        first += _forward(draft, max(pieces), parallel)
    return first + number * GRAPH_BYTES
