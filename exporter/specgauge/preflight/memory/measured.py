"""What two pages say of two servers' KV caches, side by side.

Capacity is in tokens, from the blocks that each engine tells. A share in use says nothing about
gigabytes, as an engine fills its memory with cache whatever happens, so none are told.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from specgauge.model.derived import Derived
from specgauge.model.quantity import Page, Quantity
from specgauge.preflight.memory.finding import Code, Finding, Severity, ordered
from specgauge.preflight.memory.judge import TIGHT

_DIGITS = 15
_COMPARED = ("block_size", "cache_dtype", "gpu_memory_utilization")
_MUCH = -0.2
GAUGES = ("kv_cache_usage_ratio", "requests_waiting", "requests_running", "preemptions")
"""What is told of a server beside its blocks, by the field of a derived model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """One server's cache: what it holds, what goes on in it; unknown values have a reason.

    `draft_tokens` is the k that all its models have.
    """

    models: tuple[str, ...]
    engines: int
    blocks: int | None
    block_size: int | None
    tokens: int | None
    draft_tokens: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two servers and what is to be said of them."""

    before: Capacity
    after: Capacity
    change: float | None
    findings: tuple[Finding, ...]


def capacity_of(page: Page, models: list[Derived]) -> Capacity:
    """Read a page's cache, summed over its engines; `models` are derived from the same page."""
    infos = [dict(one.origin) for one in page.values if one.quantity is Quantity.CACHE_CONFIG]
    absent: dict[str, str] = {}
    blocks, size, tokens = _blocks(infos, absent)
    values: dict[str, float] = {}
    for name in GAUGES:
        told = [one.values.get(name) for one in models]
        known = [one for one in told if isinstance(one, int | float)]
        if known:
            values[name] = max(known) if name.endswith("_ratio") else sum(known)
        else:
            absent[name] = next((m.absent[name] for m in models if name in m.absent), "no_model")
    return Capacity(
        draft_tokens=_draft_tokens(models, absent),
        models=tuple(one.model_name for one in models),
        engines=len(infos),
        blocks=blocks,
        block_size=size,
        tokens=tokens,
        values=values,
        absent=absent,
        labels={name: infos[0].get(name, "") for name in _COMPARED} if infos else {},
    )


def _draft_tokens(models: list[Derived], absent: dict[str, str]) -> int | None:
    """Give the k that every model has; a reason where there is none, or not one."""
    found = {one.values.get("num_speculative_tokens") for one in models}
    k = found.pop() if len(found) == 1 else None
    if isinstance(k, int):
        return k
    told = (one.absent.get("num_speculative_tokens") for one in models)
    why = next((reason for reason in told if reason is not None), "no_model")
    absent["num_speculative_tokens"] = "not_told_or_differs" if found else why
    return None


def _blocks(
    infos: list[dict[str, str]], absent: dict[str, str]
) -> tuple[int | None, int | None, int | None]:
    """Give blocks, tokens a block, and tokens in all; reasons for what is not told."""
    if not infos:
        absent["blocks"] = "not_exposed_by_engine"
        return None, None, None
    counts = [_count(info.get("num_gpu_blocks")) for info in infos]
    sizes = {_count(info.get("block_size")) for info in infos}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None:
        absent["block_size"] = "not_told_or_differs"
    if any(one is None for one in counts):
        told = infos[counts.index(None)].get("num_gpu_blocks", "")
        absent["blocks"] = "none_told" if told in {"", "None"} else "no_number"
        return None, size, None
    blocks = sum(one for one in counts if one is not None)
    held = [_count(info.get("kv_cache_size_tokens")) for info in infos]
    if all(one is not None for one in held):
        tokens = sum(one for one in held if one is not None)
        if size and len(infos) > 1 and blocks * size == tokens * len(infos):
            blocks //= len(infos)  # each engine tells the blocks of all
        return blocks, size, tokens
    return blocks, size, None if size is None else blocks * size


def compare(before: Capacity, after: Capacity) -> Pair:
    """Hold two servers' caches side by side."""
    change = None
    if before.tokens and after.tokens is not None:
        change = after.tokens / before.tokens - 1.0
    found = [*_unknown(before, after), *_differences(before, after), *_smaller(before, after)]
    found += [*_pressure(before, after), *_tight(after)]
    return Pair(before=before, after=after, change=change, findings=ordered(found))


def _unknown(before: Capacity, after: Capacity) -> Iterator[Finding]:
    for name, side in (("before", before), ("after", after)):
        if side.tokens is None:
            why = side.absent.get("blocks") or side.absent.get("block_size", "")
            yield Finding(
                code=Code.BLOCKS_UNKNOWN,
                severity=Severity.WARNING,
                text=f"the server {name} does not tell how many blocks it has ({why})",
                numbers={"side": name},
                fix="read the line 'GPU KV cache size' of its log",
            )


def _differences(before: Capacity, after: Capacity) -> Iterator[Finding]:
    """Say what else than speculation differs."""
    differing = [
        f"{name} {before.labels[name] or 'unknown'} and {after.labels.get(name) or 'unknown'}"
        for name in before.labels
        if after.labels and before.labels[name] != after.labels.get(name)
    ]
    if before.engines != after.engines:
        differing.append(f"engines {before.engines} and {after.engines}")
    if differing:
        yield Finding(
            code=Code.SETTINGS_DIFFER,
            severity=Severity.WARNING,
            text=f"the servers differ in {', '.join(differing)}: not all of the change is the "
            "draft's",
            fix="start both with the same flags but for speculation",
        )
    if before.models and after.models and set(before.models) != set(after.models):
        yield Finding(
            code=Code.MODELS_DIFFER,
            severity=Severity.WARNING,
            text=f"one serves {', '.join(before.models)}, the other {', '.join(after.models)}",
        )


def _smaller(before: Capacity, after: Capacity) -> Iterator[Finding]:
    if not before.tokens or after.tokens is None or after.tokens >= before.tokens:
        return
    change = after.tokens / before.tokens - 1.0
    yield Finding(
        code=Code.KV_SMALLER,
        severity=Severity.WARNING if change <= _MUCH else Severity.NOTE,
        text=f"the KV cache holds {before.tokens} tokens before and {after.tokens} after, "
        f"{change:+.2%}",
        numbers={
            "tokens_before": before.tokens,
            "tokens_after": after.tokens,
            "change_percent": 100.0 * change,
        },
    )


def _pressure(before: Capacity, after: Capacity) -> Iterator[Finding]:
    for name, code, what in (
        ("requests_waiting", Code.MORE_WAITING, "requests wait"),
        ("preemptions", Code.MORE_PREEMPTIONS, "preemptions"),
    ):
        first, last = before.values.get(name), after.values.get(name)
        if first is not None and last is not None and last > first:
            yield Finding(
                code=code,
                severity=Severity.WARNING,
                text=f"{what}: {first:g} before, {last:g} after",
                numbers={"before": first, "after": last},
                fix="a smaller draft or fewer requests at once, if the load was the same",
            )


def _tight(after: Capacity) -> Iterator[Finding]:
    use = after.values.get("kv_cache_usage_ratio")
    if use is not None and use >= TIGHT:
        yield Finding(
            code=Code.KV_ABOVE_95,
            severity=Severity.WARNING,
            text=f"{use:.1%} of the KV cache is in use after",
            numbers={"kv_cache_use_ratio": use, "threshold": TIGHT},
            fix="num_speculative_tokens 3, a smaller draft, or less load",
        )


def _count(text: str | None) -> int | None:
    """Read a label as a number of something; some releases write the word None."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        return None
    return int(text) or None
