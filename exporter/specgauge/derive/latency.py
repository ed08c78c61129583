"""How long a token, a step, a request takes; nothing here reads one for the other.

vLLM observes its "inter-token latency" once per step in every release, so its mean is the time
of a step. The time per output token is its sum over the tokens after each request's first.
"""

import math
from collections.abc import Mapping

from specgauge.derive.acceptance import whole_number
from specgauge.model.derived import Absent, Reason, Value
from specgauge.model.ledger import ModelWindow
from specgauge.model.quantity import Dialect, Kind, Measure, Quantity

MIN_TTFT_SECONDS = 0.001
"""No server answers a first token faster than this; a mean below it is a broken histogram."""

_DISCONNECTS = {Dialect.VLLM_V0: 2.0}
_MOST_DISCONNECTS = 10.0
_SPARE_REQUESTS = 50
_HALF = 0.5


def latency(window: ModelWindow, drafts: float | Absent) -> dict[str, Value | Absent]:
    """Derive every field of time and flow of one model; `drafts` is its count of drafts."""
    generated = _counter(window, Quantity.GENERATION_TOKENS)
    firsts = first_tokens(window)
    decoded = decode_tokens(window)
    steps = _part(window, Quantity.STEP_LATENCY, Kind.COUNT)
    seconds: float | Absent = (
        Absent(reason=Reason.NEEDS_WINDOW) if window.seconds is None else window.seconds
    )
    in_decode = _part(window, Quantity.STEP_LATENCY, Kind.SUM)
    ttft = _mean(window, Quantity.TTFT, Reason.NO_REQUESTS)
    return {
        "tokens_per_step": over(decoded, steps, Reason.NO_TOKENS),
        "draft_coverage_ratio": over(drafts, steps, Reason.NO_TOKENS),
        "tpot_seconds": _tpot(window, decoded),
        "request_tpot_seconds": _mean(window, Quantity.REQUEST_TPOT, Reason.NO_REQUESTS),
        "step_seconds": _mean(window, Quantity.STEP_LATENCY, Reason.NO_TOKENS),
        "ttft_seconds": Absent(reason=Reason.IMPLAUSIBLE_TTFT)
        if implausible_ttft(window)
        else ttft,
        "e2e_seconds": _mean(window, Quantity.E2E, Reason.NO_REQUESTS),
        "decode_concurrency": over(in_decode, seconds, Reason.NEEDS_WINDOW),
        "decode_tokens_per_second": over(decoded, seconds, Reason.NEEDS_WINDOW),
        "generation_tokens_per_second": over(generated, seconds, Reason.NEEDS_WINDOW),
        "prompt_tokens_per_request": over(
            _counter(window, Quantity.PROMPT_TOKENS), firsts, Reason.NO_REQUESTS
        ),
        "output_tokens_per_request": over(generated, firsts, Reason.NO_REQUESTS),
        "generation_tokens": generated
        if isinstance(generated, Absent)
        else whole_number(generated),
        "requests_running": _gauge(window, Quantity.REQUESTS_RUNNING),
        "requests_waiting": _gauge(window, Quantity.REQUESTS_WAITING),
        "kv_cache_usage_ratio": _gauge(window, Quantity.KV_CACHE_USAGE, count=False),
        "preemptions": _preemptions(window),
    }


def first_tokens(window: ModelWindow) -> float | Absent:
    """Count the first tokens, one a request; absent where the histogram cannot be believed."""
    if implausible_ttft(window):
        return Absent(reason=Reason.IMPLAUSIBLE_TTFT)
    return _part(window, Quantity.TTFT, Kind.COUNT)


def decode_tokens(window: ModelWindow) -> float | Absent:
    """Count the tokens after each request's first; on V0 those of finished requests."""
    if window.layout.dialect is Dialect.VLLM_V0:
        return minus(
            _part(window, Quantity.REQUEST_GENERATION, Kind.SUM),
            _part(window, Quantity.REQUEST_GENERATION, Kind.COUNT),
        )
    return minus(_counter(window, Quantity.GENERATION_TOKENS), first_tokens(window))


def implausible_ttft(window: ModelWindow) -> bool:
    """Tell a time-to-first-token histogram that cannot be one observation a request.

    Its mean lies under a millisecond, or it has more observations than tokens were generated, or
    many times more than requests that finished or are there (V0 observed each chunk of a
    prefill; disconnected clients, which no release counts as finished, are allowed for).
    """
    count = _part(window, Quantity.TTFT, Kind.COUNT)
    total = _part(window, Quantity.TTFT, Kind.SUM)
    if isinstance(count, Absent) or isinstance(total, Absent) or count <= 0:
        return False
    if total / count < MIN_TTFT_SECONDS:
        return True
    generated = _counter(window, Quantity.GENERATION_TOKENS)
    v0 = window.layout.dialect is Dialect.VLLM_V0
    if not v0 and not isinstance(generated, Absent) and count > generated:
        return True
    finished = _part(window, Quantity.E2E, Kind.COUNT)
    if isinstance(finished, Absent):
        return False
    present = sum(
        window.gauges.get(q, 0.0) for q in (Quantity.REQUESTS_RUNNING, Quantity.REQUESTS_WAITING)
    )
    most = _DISCONNECTS.get(window.layout.dialect, _MOST_DISCONNECTS)
    return count > most * (finished + present) + _SPARE_REQUESTS


def below_first_bucket(window: ModelWindow) -> bool:
    """Tell whether a median of the latencies shown lies below the first bucket's bound."""
    return any(
        _median_below(buckets(window, quantity)) for quantity in (Quantity.TTFT, Quantity.E2E)
    )


def buckets(window: ModelWindow, quantity: Quantity) -> dict[float, float]:
    """Give a histogram's cumulative counts by upper bound in seconds, in rising order."""
    found = {
        float(part): total
        for (name, kind, part), total in window.sums.items()
        if name is quantity and kind is Kind.BUCKET
    }
    return dict(sorted(found.items()))


def quantile(ladder: Mapping[float, float], q: float) -> float | None:
    """Estimate a quantile by linear interpolation within its bucket, for display only.

    None where the histogram is empty or the quantile lies above its highest finite bound.
    """
    total = max(ladder.values(), default=0.0)
    if total <= 0:
        return None
    below, lower = 0.0, 0.0
    for bound, count in ladder.items():
        if count >= q * total:
            if math.isinf(bound):
                return None
            return lower + (bound - lower) * (q * total - below) / max(count - below, 1e-300)
        below, lower = count, bound
    return None


def uneven_load(window: ModelWindow) -> bool:
    """Tell whether the load changed within the window: steps were fuller than the time was.

    Requests in decode per engine step against their mean over time; a difference of more than a
    quarter says that part of the window was idle.
    """
    steps = window.sums.get((Quantity.STEP_LATENCY, Kind.COUNT, ""), 0.0)
    spent = window.sums.get((Quantity.STEP_LATENCY, Kind.SUM, ""), 0.0)
    iterations = window.sums.get((Quantity.ITERATION_TOKENS, Kind.COUNT, ""), 0.0)
    if not window.seconds or window.seconds <= 1.0 or iterations <= 0 or steps <= 0:
        return False
    return steps / iterations > 1.25 * spent / window.seconds


def minus(total: float | Absent, part: float | Absent) -> float | Absent:
    """Subtract, where both are known and the rest is not below zero."""
    if isinstance(total, Absent):
        return total
    if isinstance(part, Absent):
        return part
    return total - part if total >= part else Absent(reason=Reason.NO_TOKENS)


def over(total: float | Absent, count: float | Absent, empty: Reason) -> float | Absent:
    """Divide, where both are known and there is something to divide by."""
    if isinstance(total, Absent):
        return total
    if isinstance(count, Absent):
        return count
    return total / count if count > 0 else Absent(reason=empty)


def _median_below(ladder: Mapping[float, float]) -> bool:
    total = max(ladder.values(), default=0.0)
    first = next(iter(ladder.values()), 0.0)
    return total > 0 and len(ladder) > 1 and first >= _HALF * total


def _part(window: ModelWindow, quantity: Quantity, kind: Kind) -> float | Absent:
    measure: Measure = (quantity, kind, "")
    if quantity in window.faults:
        return Absent(reason=window.faults[quantity])
    if quantity not in window.exposed or measure not in window.sums:
        return Absent(reason=Reason.NOT_EXPOSED)
    return window.sums[measure]


def _counter(window: ModelWindow, quantity: Quantity) -> float | Absent:
    v0_tokens = quantity is Quantity.GENERATION_TOKENS and window.layout.dialect is Dialect.VLLM_V0
    if v0_tokens:  # the counter of that name counts steps there
        return _part(window, Quantity.REQUEST_GENERATION, Kind.SUM)
    return _part(window, quantity, Kind.COUNTER)


def _mean(window: ModelWindow, quantity: Quantity, empty: Reason) -> float | Absent:
    return over(_part(window, quantity, Kind.SUM), _part(window, quantity, Kind.COUNT), empty)


def _tpot(window: ModelWindow, decoded: float | Absent) -> float | Absent:
    v0 = window.layout.dialect is Dialect.VLLM_V0
    spent = _part(window, Quantity.DECODE_TIME if v0 else Quantity.STEP_LATENCY, Kind.SUM)
    return over(spent, decoded, Reason.NO_TOKENS)


def _gauge(window: ModelWindow, quantity: Quantity, *, count: bool = True) -> Value | Absent:
    value = window.gauges.get(quantity)
    if value is None:
        return Absent(reason=window.faults.get(quantity, Reason.NOT_EXPOSED))
    return whole_number(value) if count else value


def _preemptions(window: ModelWindow) -> Value | Absent:
    found = _counter(window, Quantity.PREEMPTIONS)
    return found if isinstance(found, Absent) else whole_number(found)
