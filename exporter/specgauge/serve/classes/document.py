"""Classes of traffic as a JSON document for `/api/v1/classes`: pools side by side in each class.

Nothing is averaged over classes, pools or requests: each ratio is one of sums. What is not known is
not there.
"""

from itertools import accumulate
from typing import Any

from specgauge.model.traffic import ClassesView, ClassFigures, Drafted, LogState, Spread
from specgauge.serve.classes.line import CONTEXT_NAMES

SCHEMA = "specgauge.classes/v1"
_SHARES = (("p50", 0.5), ("p95", 0.95))


def classes_document(classes: ClassesView | None) -> dict[str, Any]:
    """Write everything known now; without an access log there are no classes."""
    view = classes or ClassesView(since=0.0, state=LogState.OFF)
    log: dict[str, Any] = {
        "state": str(view.state),
        "lines": {str(result): count for result, count in view.lines.items() if count},
    }
    if view.unread_bytes is not None:
        log["unread_bytes"] = view.unread_bytes
    by_class: dict[str, list[dict[str, Any]]] = {}
    for (name, pool), figures in view.figures.items():
        by_class.setdefault(name, []).append({"pool": pool, **_figures(figures)})
    return {
        "schema": SCHEMA,
        **({"since": view.since} if classes is not None else {}),
        "log": log,
        "classes": [{"class": name, "pools": pools} for name, pools in by_class.items()],
    }


def _figures(figures: ClassFigures) -> dict[str, Any]:
    parts = figures.contexts.values()
    drafts = sum(part.drafts for part in parts)
    proposed = sum(part.draft_tokens for part in parts)
    accepted = sum(part.accepted_tokens for part in parts)
    return {
        "requests": figures.requests,
        "errors": figures.errors,
        "retries": figures.retries,
        "completion_tokens": figures.completion_tokens,
        "ttft_seconds": _spread(figures.ttft),
        "e2e_seconds": _spread(figures.e2e),
        **_ratio("tpot_seconds", figures.decode_seconds, figures.decode_tokens),
        **_acceptance(drafts, proposed, accepted),
        "contexts": [
            {"context": name, **_context(figures.contexts[name])}
            for name in CONTEXT_NAMES
            if name in figures.contexts
        ],
    }


def _context(part: Drafted) -> dict[str, Any]:
    return {
        "requests": part.lengths.count,
        "drafts": part.drafts,
        "draft_tokens": part.draft_tokens,
        "accepted_tokens": part.accepted_tokens,
        **_acceptance(part.drafts, part.draft_tokens, part.accepted_tokens),
    }


def _acceptance(drafts: int, proposed: int, accepted: int) -> dict[str, float]:
    return {
        **_ratio("acceptance_ratio", accepted, proposed),
        **_ratio("acceptance_length", drafts + accepted, drafts),
    }


def _ratio(name: str, upper: float, lower: float) -> dict[str, float]:
    return {name: upper / lower} if lower else {}


def _spread(spread: Spread) -> dict[str, float]:
    """Give mean and percentiles, these as good as the buckets; without a value only the count."""
    if not spread.count:
        return {"count": 0}
    found = {name: quantile(spread, share) for name, share in _SHARES}
    return {"count": spread.count, "mean": spread.total / spread.count, **found}


def quantile(spread: Spread, share: float) -> float:
    """Estimate a percentile as Prometheus' histogram_quantile does; above all bounds the last."""
    wanted, below, low = share * spread.count, 0, 0.0
    for bound, count, reached in zip(
        spread.bounds, spread.counts, accumulate(spread.counts), strict=False
    ):
        if count and reached >= wanted:
            return low + (bound - low) * (wanted - below) / count
        below, low = reached, bound
    return spread.bounds[-1]
