"""What one interval of a server without speculation teaches, or why it teaches nothing.

Pages come in read; nothing here opens anything or looks at a clock.
"""

from dataclasses import dataclass
from enum import StrEnum

from specgauge.derive.accumulate import advance
from specgauge.derive.latency import decode_tokens
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.model.derived import Absent, Derived, Hints, Speculation
from specgauge.model.ledger import Interval, Ledger, ModelWindow
from specgauge.model.quantity import Dialect, Kind, Page, Quantity

UNEVEN = 1.25
"""Steps fuller than the time was by this factor: the load came or went within the interval."""

ONE_TOKEN = 1.05
"""Without speculation a step of a request yields one token; more than this is speculation."""


class Unfit(StrEnum):
    """Why an interval is left out."""

    RESET = "engine_reset"
    GAP = "gap"
    NO_TOKENS = "no_tokens"
    UNEVEN = "uneven_load"
    SPECULATING = "speculation_active"
    HIDDEN = "several_tokens_per_step"
    NOT_EXPOSED = "not_exposed_by_engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One model over one interval: `spent` decode seconds for `tokens` decode tokens.

    `concurrency` is the mean number of requests in decode. The sums behind the means are kept,
    so that intervals can be added up.
    """

    seconds: float
    tokens: float
    spent: float
    concurrency: float
    firsts: float = 0.0
    generated: float = 0.0
    prompts: float = 0.0
    steps: float = 0.0
    ttft_sum: float = 0.0
    finished: float = 0.0
    e2e_sum: float = 0.0
    kv_usage: float | None = None
    uneven: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One interval of one model: what it taught or why nothing, and what was derived."""

    found: Observation | Unfit
    derived: Derived


def follow(before: Ledger, page: Page, time: float) -> tuple[Ledger, Interval, dict[str, Look]]:
    """Take one more page in and look at each model between it and the one before."""
    after, interval = advance(before, page, time)
    found = windows(before.totals, after, page, interval.seconds, before.doubts)
    looks = {
        model: Look(
            found=observe(window, interval, derived := summarise(window, Hints())),
            derived=derived,
        )
        for model, window in found.items()
    }
    return after, interval, looks


def observe(window: ModelWindow, interval: Interval, derived: Derived) -> Observation | Unfit:
    """Measure one model over one interval, unless it forbids that; gaps are the caller's."""
    if any(model in {window.model, ""} for model, _ in interval.reset):
        return Unfit.RESET
    if derived.speculation is Speculation.ACTIVE:
        return Unfit.SPECULATING
    tokens = decode_tokens(window)
    if isinstance(tokens, Absent) or "decode_concurrency" not in derived.values:
        return Unfit.NOT_EXPOSED
    if min(tokens, _value(derived, "tpot_seconds"), _value(derived, "decode_concurrency")) <= 0:
        return Unfit.NO_TOKENS
    if _hidden(window, derived):
        return Unfit.HIDDEN
    return _measure(window, derived, interval.seconds, tokens)


def uneven(window: ModelWindow, concurrency: float) -> bool:
    """Tell whether the load changed so much within an interval that its mean says little.

    Below one request at a time it does not matter: B is the same there whatever the load.
    """
    steps = _sum(window, Quantity.STEP_LATENCY, Kind.COUNT)
    iterations = _sum(window, Quantity.ITERATION_TOKENS, Kind.COUNT)
    return iterations > 0 and steps / iterations > UNEVEN * max(concurrency, 1.0)


def _measure(window: ModelWindow, derived: Derived, seconds: float, tokens: float) -> Observation:
    v0 = window.layout.dialect is Dialect.VLLM_V0
    tpot, concurrency = (_value(derived, name) for name in ("tpot_seconds", "decode_concurrency"))
    has_ttft, has_e2e = (name in derived.values for name in ("ttft_seconds", "e2e_seconds"))
    generated = (
        _sum(window, Quantity.REQUEST_GENERATION, Kind.SUM)
        if v0
        else _sum(window, Quantity.GENERATION_TOKENS, Kind.COUNTER)
    )
    return Observation(
        seconds=seconds,
        tokens=tokens,
        spent=tokens * tpot,
        concurrency=concurrency,
        firsts=_sum(window, Quantity.TTFT, Kind.COUNT) if has_ttft else 0.0,
        generated=generated,
        prompts=_sum(window, Quantity.PROMPT_TOKENS, Kind.COUNTER),
        steps=_sum(window, Quantity.STEP_LATENCY, Kind.COUNT),
        ttft_sum=_sum(window, Quantity.TTFT, Kind.SUM) if has_ttft else 0.0,
        finished=_sum(window, Quantity.E2E, Kind.COUNT) if has_e2e else 0.0,
        e2e_sum=_sum(window, Quantity.E2E, Kind.SUM) if has_e2e else 0.0,
        kv_usage=window.gauges.get(Quantity.KV_CACHE_USAGE),
        uneven=uneven(window, concurrency),
    )


def _hidden(window: ModelWindow, derived: Derived) -> bool:
    """Tell whether steps yield several tokens although the page counts no drafts."""
    v0 = window.layout.dialect is Dialect.VLLM_V0  # steps and finished requests differ there
    return not v0 and _value(derived, "tokens_per_step") > ONE_TOKEN


def _value(derived: Derived, name: str) -> float:
    """Give a derived number; 0 where it is absent."""
    return derived.number(name) or 0.0


def _sum(window: ModelWindow, quantity: Quantity, kind: Kind) -> float:
    return window.sums.get((quantity, kind, ""), 0.0)
