"""What the pool without speculation could take, from its targets' views; decides nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specgauge.model.view import TargetView

FULL_KV = 0.9
"""A pool whose KV cache is fuller has no room for the traffic of another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Whether the pool is up and has room, None where it is not watched, and its numbers now."""

    up: bool | None = None
    has_room: bool | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


def room(standards: Sequence[TargetView]) -> Room:
    """Look at the targets that serve without speculation: one that can take traffic is enough.

    A target not scraped yet is not known to be up, nor to be down.
    """
    if not standards:
        return Room()
    known = [one for one in standards if one.result is not None]
    alive = [one for one in known if one.up]
    if not alive:
        return Room(up=False if known else None)
    told = [found for found in map(_has_room, alive) if found is not None]
    return Room(up=True, has_room=any(told) if told else None, numbers=pool_numbers(alive))


def pool_numbers(targets: Sequence[TargetView]) -> dict[str, float]:
    """Add the targets of a pool up: load and counts as sums, time per token by its share of them.

    Time per token is time in decode over tokens, so of several servers it is
    sum(tokens * tpot) / sum(tokens) (contract, section 1). Restarts are those that the last
    pages told of.
    """
    sums: dict[str, float] = {}
    spent = tokens = 0.0
    for target in targets:
        for shown in target.looks.values():
            numbers = shown.numbers
            for name in ("decode_concurrency", "errors", "served", "requests", "tokens"):
                if name in numbers:
                    sums[name] = sums.get(name, 0.0) + numbers[name]
            if "tpot_seconds" in numbers and numbers.get("tokens", 0.0) > 0.0:
                spent += numbers["tpot_seconds"] * numbers["tokens"]
                tokens += numbers["tokens"]
        restarts = sum(shown.restarted for shown in target.looks.values())
        sums["restarts"] = sums.get("restarts", 0.0) + restarts
    if tokens > 0.0:
        sums["tpot_seconds"] = spent / tokens
    return sums


def _has_room(target: TargetView) -> bool | None:
    """Tell whether a server takes more: nobody waits for it, and its KV cache is not full."""
    found: list[bool] = []
    for derived in target.models.values():
        waiting = derived.number("requests_waiting")
        usage = derived.number("kv_cache_usage_ratio")
        if waiting is not None:
            found.append(waiting < 1.0)
        if usage is not None:
            found.append(usage < FULL_KV)
    return all(found) if found else None
