"""Rules on memory: a KV cache that is full or has shrunk, requests that wait, a full card."""

from collections.abc import Iterator

from specgauge.preflight.doctor.case import Case, Model
from specgauge.preflight.doctor.codes import Code
from specgauge.preflight.doctor.finding import LIKELY, MEASURED, POSSIBLE, SEEN, Figure, Finding
from specgauge.preflight.doctor.logs import Mark

FULL = 0.95
"""From this share of the KV cache on, and of a card's memory, there is no headroom."""

_SHRUNK = 0.05
_MUCH = 0.1


def memory_rules(case: Case) -> Iterator[Finding]:
    """Judge KV cache, queue and cards."""
    pressed = False
    for model in case.models:
        found = list(_exhausted(model))
        pressed = pressed or bool(found)
        yield from found
    if not pressed and case.log is not None:
        found = list(_by_log(case))
        pressed = bool(found)
        yield from found
    yield from _shrunk(case, pressed=pressed)
    yield from _cards(case)


def _exhausted(model: Model) -> Iterator[Finding]:
    """Judge one model's headroom: usage, preemptions in the window, requests waiting."""
    usage, waiting = model.derived.number("kv_cache_usage_ratio"), _waiting(model)
    preempted = model.derived.number("preemptions") if model.windowed else None
    numbers: dict[str, Figure] = {
        name: value
        for name, value in (
            ("kv_cache_usage_ratio", usage),
            ("requests_waiting", waiting),
            ("preemptions", preempted),
        )
        if value is not None
    }
    if (usage or 0.0) >= FULL or (preempted or 0.0) > 0.0:
        both = bool(preempted) and bool(waiting or (usage or 0.0) >= FULL)
        told = []
        if usage is not None:
            told.append(f"{usage:.0%} of the KV cache is in use")
        if preempted is not None:
            told.append(f"{preempted:.0f} requests were preempted in the window")
        if waiting is not None:
            told.append(f"{waiting:.0f} wait")
        yield Finding(
            code=Code.KV_CACHE_EXHAUSTED,
            confidence=SEEN - 0.05 if both else MEASURED - 0.05,
            evidence=", ".join(told),
            numbers=numbers,
            where=model.derived.model_name,
        )
    elif waiting:
        running = model.derived.number("requests_running") or 0.0
        if waiting >= max(1.0, _MUCH * running):
            yield Finding(
                code=Code.QUEUEING,
                confidence=LIKELY,
                evidence=f"{waiting:.0f} requests wait while {running:.0f} run",
                numbers={**numbers, "requests_running": running},
                where=model.derived.model_name,
            )


def _by_log(case: Case) -> Iterator[Finding]:
    log = case.log
    if log is not None and (log.most_kv >= FULL or Mark.PREEMPTED in log.marks):
        told = "the log speaks of preempted requests" if Mark.PREEMPTED in log.marks else (
            f"the log shows {log.most_kv:.0%} of the KV cache in use"
        )  # fmt: skip
        yield Finding(
            code=Code.KV_CACHE_EXHAUSTED,
            confidence=MEASURED - 0.05,
            evidence=f"{told}, and up to {log.most_waiting} requests waiting",
            numbers={"kv_cache_usage_ratio": log.most_kv, "requests_waiting": log.most_waiting},
        )


def _shrunk(case: Case, *, pressed: bool) -> Iterator[Finding]:
    """Compare capacities: of two pages, or of the page and its baseline in blocks."""
    before, after, unit = capacity(case)
    if before is None or after is None or before <= 0:
        return
    change = after / before - 1.0
    if change > -_SHRUNK:
        return
    waits = _rise(case)
    yield Finding(
        code=Code.KV_CAPACITY_SHRUNK,
        confidence=SEEN if pressed else POSSIBLE,
        evidence=f"the KV cache held {before} {unit} and holds {after}, {change:+.2%}{waits[0]}",
        numbers={
            "kv_capacity_before": before,
            "kv_capacity_after": after,
            "kv_capacity_change_ratio": change,
            **waits[1],
        },
        hint=not pressed,
    )


def capacity(case: Case) -> tuple[int | None, int | None, str]:
    """Give the KV cache's capacity before and after, and in what."""
    if len(case.pages) > 1:
        first, last = case.pages[0], case.pages[-1]
        if first.kv_tokens != last.kv_tokens and first.kv_tokens and last.kv_tokens:
            return first.kv_tokens, last.kv_tokens, "tokens"
    recorded = next((m.baseline_blocks for m in case.models if m.baseline_blocks), None)
    now = case.pages[-1].kv_blocks if case.pages else None
    return recorded, now, "blocks"


def _rise(case: Case) -> tuple[str, dict[str, Figure]]:
    """Say how many more wait and were preempted since the first page."""
    text, numbers = "", {}
    for model in case.models:
        after, before = _waiting(model), model.waiting_before
        preempted = model.derived.number("preemptions")
        if after is not None and before is not None and after > before:
            text += f"; waiting went from {before:.0f} to {after:.0f}"
            numbers["requests_waiting_rise"] = after - before
        if model.windowed and preempted:
            text += f"; {preempted:.0f} more preemptions"
            numbers["preemptions"] = preempted
    found: dict[str, Figure] = dict(numbers)
    return text, found


def _cards(case: Case) -> Iterator[Finding]:
    """Tell those who look at a card's memory that it says nothing here."""
    for place, gpu in enumerate(case.gpus or ()):
        if gpu.total > 0 and gpu.used >= FULL * gpu.total:
            yield Finding(
                code=Code.GPU_MEMORY_FULL,
                confidence=SEEN,
                evidence=f"GPU {place} ({gpu.name}) has {gpu.used / gpu.total:.0%} of its memory "
                "taken; vLLM takes its share at the start, with or without a draft",
                numbers={"gpu_memory_used_ratio": gpu.used / gpu.total, "gpu": place},
                hint=True,
            )


def _waiting(model: Model) -> float | None:
    return model.derived.number("requests_waiting")
