"""How a deployment is set up, as its series tell: draft length, baseline, KV cache."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specgauge.report.grid import Line, Period
from specgauge.report.servers import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftLength:
    """Draft positions in use, and what sidecars suggested, each for most of the drafted tokens.

    `share` is that of the tokens for which something else than what was used was suggested.
    """

    used: int | None
    suggested: int | None
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineState:
    """When the baseline in use at last was recorded, how old that is, and what did not match."""

    created: float | None
    age_seconds: float | None
    mismatches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """KV blocks of an engine and of the baseline's; `reason` says why nothing can be compared."""

    blocks: int | None
    baseline_blocks: int | None
    lost: int | None
    reason: str | None


def draft_length(servers: Sequence[Server]) -> DraftLength:
    """Weigh what was used and what was suggested by drafted tokens."""
    used: dict[int, float] = defaultdict(float)
    hints: dict[int, float] = defaultdict(float)
    other = compared = 0.0
    for server in servers:
        k, hint = server.gauges.get("k", {}), server.gauges.get("suggested_k", {})
        for one in server.grown:
            tokens = one.growth.get("draft_tokens", 0.0)
            if one.last in k:
                used[round(k[one.last])] += tokens
            if one.last in hint:
                hints[round(hint[one.last])] += tokens
            if one.last in k and one.last in hint:
                compared += tokens
                other += tokens if round(k[one.last]) != round(hint[one.last]) else 0.0
    return DraftLength(
        used=max(used, key=lambda one: used[one]) if used else None,
        suggested=max(hints, key=lambda one: hints[one]) if hints else None,
        share=other / compared if compared else None,
    )


def baseline_state(servers: Sequence[Server], period: Period) -> BaselineState:
    """Take the latest word of every server; the oldest baseline among them is told."""
    created = [
        points[max(points)]
        for server in servers
        if (points := server.gauges.get("baseline_created", {}))
    ]
    oldest = min(created, default=None)
    return BaselineState(
        created=oldest,
        age_seconds=None if oldest is None else period.end - oldest,
        mismatches=tuple(
            sorted(
                {
                    name.removeprefix("mismatch ")
                    for server in servers
                    for name, points in server.gauges.items()
                    if name.startswith("mismatch ") and any(points.values())
                }
            )
        ),
    )


def breakeven(servers: Sequence[Server]) -> float | None:
    """Give the acceptance length at which a step pays for itself, weighted by drafts."""
    pairs = [
        (one.growth.get("drafts", 0.0), length[one.last])
        for server in servers
        if (length := server.gauges.get("breakeven_length", {}))
        for one in server.grown
        if one.last in length
    ]
    total = math.fsum(weight for weight, _ in pairs)
    return math.fsum(weight * one for weight, one in pairs) / total if total else None


def cache_state(infos: Iterable[Line], baseline_blocks: int | None) -> CacheState:
    """Compare the blocks that engines tell with those of the baseline's server."""
    told = {line.labels.get("num_gpu_blocks", "") for line in infos}
    known = sorted(int(one) for one in told if one.isascii() and one.isdigit())
    blocks = known[0] if len(known) == 1 else None
    reason = None
    if not told:
        reason = "the engine's own vllm:cache_config_info is not in Prometheus"
    elif not known:
        reason = "the engines do not tell their blocks"
    elif blocks is None:
        reason = f"engines differ, from {known[0]} to {known[-1]} blocks"
    elif baseline_blocks is None:
        reason = "the baseline file does not tell its server's blocks, or none is configured"
    lost = baseline_blocks - blocks if blocks is not None and baseline_blocks is not None else None
    return CacheState(blocks=blocks, baseline_blocks=baseline_blocks, lost=lost, reason=reason)
