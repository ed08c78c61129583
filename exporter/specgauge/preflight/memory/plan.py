"""What a server would have for KV cache without speculation and with it: models in, figures out.

Reads nothing. Raises ValueError only where an engine could not lay the caches out.
"""

from dataclasses import dataclass

from specgauge.preflight.memory.model import Model
from specgauge.preflight.memory.pool import Layer, Pool, layers_of, make_pool
from specgauge.preflight.memory.reserve import Limits, Reserve, reserve
from specgauge.preflight.memory.shape import Shape
from specgauge.preflight.memory.weights import Role

_MODELS = frozenset({Role.DRAFT, Role.EAGLE, Role.EAGLE3, Role.MTP})
"""Roles of drafts that keep a KV cache of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The server: its memory and its flags.

    `memory` is what programs see of one card, or None on the CPU engine, whose cache has
    `kv_space` bytes whatever else is held.
    """

    memory: int | None
    kv_space: int | None = None
    utilisation: float = 0.92
    parallel: int = 1
    count: int = 1
    value_bytes: int = 2
    block_size: int = 16
    max_model_len: int
    limits: Limits
    mean_tokens: int | None = None
    concurrency: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a cache holds: blocks and tokens of one engine, requests of all engines.

    `use_ratio` is the share of the blocks that the expected load takes.
    """

    blocks: int
    tokens: int
    max_concurrency: float
    mean_concurrency: float | None
    use_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One server: where its memory goes, in bytes on one GPU, and what its cache holds.

    `kv_memory` may be below zero: then the weights do not fit.
    """

    target_weights: int
    draft_weights: int
    reserve: Reserve | None
    kv_memory: int
    target_token_bytes: int
    draft_token_bytes: int
    pool: Pool
    holds: Holding


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The server without speculation and, if a method was named, with it."""

    setting: Setting
    target: Model
    draft: Model | None
    role: Role
    before: Side
    after: Side | None

    @property
    def change(self) -> float | None:
        """The change of the tokens that the cache holds, as a share; None where it holds none."""
        if self.after is None or not self.before.holds.tokens:
            return None
        return self.after.holds.tokens / self.before.holds.tokens - 1.0


def make_plan(target: Model, draft: Model | None, role: Role, setting: Setting) -> Plan:
    """Reckon both sides; `role` is the draft's, and TARGET where nothing is to draft."""
    after = None if role is Role.TARGET else _side(target, draft, role, setting)
    return Plan(
        setting=setting,
        target=target,
        draft=draft,
        role=role,
        before=_side(target, None, Role.TARGET, setting),
        after=after,
    )


def _side(target: Model, draft: Model | None, role: Role, setting: Setting) -> Side:
    parallel = setting.parallel
    own = layers_of(target.shape, parallel=parallel, value_bytes=setting.value_bytes)
    more = _draft_layers(target, draft, role, setting)
    weights = target.weights.loaded(Role.TARGET, tied=target.shape.tied) // parallel
    drafted = _draft_weights(target, draft, role) // parallel
    kept = None
    if setting.memory is None:
        free = setting.kv_space or 0
    else:
        kept = reserve(
            target.shape,
            setting.limits,
            parallel=parallel,
            draft=_drafting_shape(target, draft, role),
            role=role,
        )
        free = int(setting.memory * setting.utilisation) - weights - drafted - kept.total
    pool = make_pool([*own, *more], setting.block_size)
    return Side(
        target_weights=weights,
        draft_weights=drafted,
        reserve=kept,
        kv_memory=free,
        target_token_bytes=_width(own),
        draft_token_bytes=_width(more),
        pool=pool,
        holds=_holding(pool, free, setting, role),
    )


def _holding(pool: Pool, free: int, setting: Setting, role: Role) -> Holding:
    """Say what the blocks are good for."""
    blocks, limits = pool.blocks(free), setting.limits
    engines = max(setting.count // setting.parallel, 1)
    length = setting.max_model_len
    longest = blocks / pool.needed(length, in_flight=limits.batched_tokens)
    tokens = blocks * setting.block_size
    if pool.hybrid:
        tokens = int(longest * length)
    ahead = limits.draft_tokens if role in _MODELS else 0
    usual = setting.mean_tokens if setting.mean_tokens is not None else length
    each = pool.needed(usual + ahead, in_flight=1 + ahead)
    use = None
    if setting.concurrency is not None and blocks:
        use = setting.concurrency / engines * each / blocks
    return Holding(
        blocks=blocks,
        tokens=tokens,
        max_concurrency=engines * longest,
        mean_concurrency=None if setting.mean_tokens is None else engines * blocks / each,
        use_ratio=use,
    )


def _drafting_shape(target: Model, draft: Model | None, role: Role) -> Shape | None:
    """Give the shape of what runs beside the target, if something does."""
    if role not in _MODELS:
        return None
    return target.shape if draft is None else draft.shape


def _draft_layers(target: Model, draft: Model | None, role: Role, setting: Setting) -> list[Layer]:
    if role not in _MODELS:
        return []
    drafting = role is Role.MTP and draft is None
    shape = target.shape if draft is None else draft.shape
    return layers_of(
        shape, parallel=setting.parallel, value_bytes=setting.value_bytes, mtp=drafting
    )


def _draft_weights(target: Model, draft: Model | None, role: Role) -> int:
    if draft is not None:
        return draft.weights.loaded(role, tied=draft.shape.tied)
    return target.weights.loaded(Role.MTP, tied=False) if role is Role.MTP else 0


def _width(layers: list[Layer]) -> int:
    return sum(layer.width for layer in layers)
