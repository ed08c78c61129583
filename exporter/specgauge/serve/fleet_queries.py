"""What is asked of a Prometheus about a pool: one query that has all of a window; asks nothing.

Everything comes from a single evaluation, so that numbers that are divided by each other are of
the same moment and the same samples. Every answer says in two labels of ours what it is.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from specgauge.model import names
from specgauge.model.guard_names import GUARD_STATE
from specgauge.model.quantity import Kind, Quantity
from specgauge.model.series_name import MODEL, SeriesName

QUANTITY = "specgauge_quantity"
PIECE = "specgauge_piece"

SCRAPES = 4.0
"""A window holds at least so many scrapes, so that one that is missed does not empty it."""

MOST_PIECES = 8
KNOWN_FOR = 600.0
"""A member that was there within so many seconds is one of the pool's, also while it is missing."""

_TTFT = names.HISTOGRAMS[Quantity.TTFT]
_E2E = names.HISTOGRAMS[Quantity.E2E]
_SPEED = 'basis="concurrency"'

COUNTS: Mapping[str, tuple[str, str]] = {
    "generated": (names.COUNTERS[Quantity.GENERATION_TOKENS, Kind.COUNTER].name, ""),
    "first_tokens": (names.COUNTERS[Quantity.TTFT, Kind.COUNT].name, ""),
    "requests": (names.COUNTERS[Quantity.REQUESTS_FINISHED, Kind.COUNTER].name, ""),
    "drafts": (names.COUNTERS[Quantity.DRAFTS, Kind.COUNTER].name, ""),
    "draft_tokens": (names.COUNTERS[Quantity.DRAFT_TOKENS, Kind.COUNTER].name, ""),
    "accepted_tokens": (names.COUNTERS[Quantity.ACCEPTED_TOKENS, Kind.COUNTER].name, ""),
    "decode_seconds": (names.COUNTERS[Quantity.STEP_LATENCY, Kind.SUM].name, ""),
    "preemptions": (names.COUNTERS[Quantity.PREEMPTIONS, Kind.COUNTER].name, ""),
    "restarts": (names.ENGINE_RESTARTS.name, ""),
    "baseline_seconds": (names.BASELINE_DECODE_SECONDS.name, _SPEED),
    "covered_seconds": (names.BASELINE_COVERED_SECONDS.name, _SPEED),
    "ttft_sum": (f"{_TTFT.name}_sum", ""),
    "ttft_count": (f"{_TTFT.name}_count", ""),
    "e2e_sum": (f"{_E2E.name}_sum", ""),
    "e2e_count": (f"{_E2E.name}_count", ""),
}
"""Counters whose growth over the window is added up by model, and what picks among their series."""

SERVED: Mapping[str, tuple[str, str]] = {
    "served": (names.HTTP_REQUESTS.name, ""),
    "errors": (names.HTTP_REQUESTS.name, 'code=~"5.*"'),
}
"""The same of counters that know servers and no models."""

GAUGES: Mapping[str, tuple[str, SeriesName]] = {
    "requests_waiting": ("sum", names.GAUGES["requests_waiting"]),
    "kv_cache_usage_ratio": ("avg", names.GAUGES["kv_cache_usage_ratio"]),
    "num_speculative_tokens": ("max", names.GAUGES["num_speculative_tokens"]),
    "mismatches": ("sum", names.BASELINE_MISMATCH),
}

PIECES = ("baseline_seconds", "covered_seconds", "decode_seconds")
"""Counts that are also asked of each member and part of the window."""

_MATCHER = re.compile(
    r"""\s*([A-Za-z_]\w*)\s*(=~|!~|!=|=)\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)\s*,?"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The window that is judged and the parts it is cut into; times in seconds."""

    window: float
    pieces: int

    @property
    def piece(self) -> float:
        """How long a part is."""
        return self.window / self.pieces


def span_of(decision_window: float, interval: float) -> Span:
    """Choose the window: the decision window, but never fewer than `SCRAPES` intervals.

    Growth is seen between two scrapes, so a part of the window holds two of them.
    """
    window = max(decision_window, SCRAPES * interval)
    parts = int(window / (SCRAPES / 2.0 * interval) + 1e-9)
    return Span(window=window, pieces=min(max(parts, 2), MOST_PIECES))


def window_query(selector: str | None, span: Span) -> str:
    """Ask for all that a look at the pool is made of, over the window that ends now."""
    parts = [*_by_model(selector or "", span.window), *_by_member(selector or "", span)]
    return "\nor ".join(parts)


def share_query(selector: str | None) -> str:
    """Ask how many members have a guard, and how many of those are in fallback."""
    where = servers_alone(selector or "")
    off = _pick(GUARD_STATE.name, where, 'state=~"fallback|latched"')
    one_each = _pick(GUARD_STATE.name, where, 'state="fallback"')
    parts = (_named("fallen", f"sum({off})"), _named("guards", f"count({one_each})"))
    return "\nor ".join(parts)


def servers_alone(selector: str) -> str:
    """Drop matchers of the model: series of whole servers carry none and would never match."""
    return matchers(selector, lambda label: label != MODEL)


def matchers(selector: str, wanted: Callable[[str], bool]) -> str:
    """Keep the matchers of labels that are wanted."""
    return ",".join(
        f"{label}{sign}{value}"
        for label, sign, value in _MATCHER.findall(selector)
        if wanted(label)
    )


def milliseconds(seconds: float) -> str:
    """Write a time as every server of this API reads it."""
    return f"{max(round(seconds * 1000.0), 1)}ms"


def _by_model(selector: str, window: float) -> Iterator[str]:
    over = f"[{milliseconds(window)}]"
    for name, (series, extra) in COUNTS.items():
        grown = f"increase({_pick(series, selector, extra)}{over})"
        yield _named(name, f"sum by ({MODEL}) ({grown})")
    for name, (series, extra) in SERVED.items():
        grown = f"increase({_pick(series, servers_alone(selector), extra)}{over})"
        yield _named(name, f"sum({grown})")
    for name, (how, gauge) in GAUGES.items():
        yield _named(name, f"{how} by ({MODEL}) ({_pick(gauge.name, selector)})")
    yield _named("e2e_weighted", f"sum by ({MODEL}) ({_whole_requests(selector, over, ' * ')})")
    yield _named("e2e_weight", f"sum by ({MODEL}) ({_whole_requests(selector, over, ' and ')})")
    lately = f"[{milliseconds(max(KNOWN_FOR, 2.0 * window))}]"
    levels = f"last_over_time({_pick(names.BASELINE_TPOT.name, selector)}{lately})"
    yield _named("level", f"max by ({MODEL}, concurrency) ({levels})")
    for name, there in (("members", over), ("known", lately)):
        seen = f"last_over_time({_pick(COUNTS['generated'][0], selector)}{there})"
        yield _named(name, f"count by ({MODEL}) (max without (engine) ({seen}))")


def _by_member(selector: str, span: Span) -> Iterator[str]:
    for part in range(span.pieces):
        before = f" offset {milliseconds(part * span.piece)}" if part else ""
        for name in PIECES:
            series, extra = COUNTS[name]
            picked = f"{_pick(series, selector, extra)}[{milliseconds(span.piece)}]{before}"
            one = _named(name, f"sum without (engine, basis) (increase({picked}))")
            yield f'label_replace({one}, "{PIECE}", "{part}", "", "")'


def _whole_requests(selector: str, over: str, sign: str) -> str:
    """Weigh the members' speedup of whole requests by their load."""
    load = f"avg_over_time({_pick(names.GAUGES['decode_concurrency'].name, selector)}{over})"
    speedup = f"avg_over_time({_pick(names.JUDGED['e2e_speedup_ratio'].name, selector)}{over})"
    return f"{load}{sign}{speedup}"


def _pick(series: str, *matchers: str) -> str:
    where = ",".join(one.strip().rstrip(",") for one in matchers if one)
    return f"{series}{{{where}}}"


def _named(name: str, expression: str) -> str:
    return f'label_replace({expression}, "{QUANTITY}", "{name}", "", "")'
