"""GuideLLM's reports. Its TPOT is another quantity than ours: it includes the first token's time.

What we call TPOT is its inter-token latency, so that is what is read.
"""

from collections.abc import Sequence
from typing import Any

from specgauge.baseline.results import Document, Run, figure, milliseconds
from specgauge.baseline.schema import Spread
from specgauge.errors import BaselineError

NOT_OURS = (
    "GuideLLM's time_per_output_token_ms includes the time to first token and is not used; "
    "tpot_seconds is its inter_token_latency_ms"
)
_SCALE = 1e-3


def guidellm_parts(document: object) -> Sequence[Document]:
    """Give the benchmarks of a report; none if it is no report."""
    parts = document.get("benchmarks") if isinstance(document, dict) else None
    if isinstance(parts, list) and all(
        isinstance(one, dict) and isinstance(one.get("metrics"), dict) for one in parts
    ):
        return parts
    return ()


def read_guidellm(part: Document, place: str) -> Run:
    """Understand one benchmark of a report."""
    metrics = part["metrics"]
    latency = _finished(metrics, "inter_token_latency_ms")
    tpot = milliseconds(latency, "mean", place)
    if tpot is None:
        zero = "mean" in latency and latency["mean"] is not None
        told = "inter_token_latency_ms is 0" if zero else "no inter_token_latency_ms"
        raise BaselineError([f"{place}: {told}; {NOT_OURS}"])
    rate = figure(_finished(metrics, "output_tokens_per_second"), "mean", place)
    requests = figure(_finished(metrics, "request_concurrency"), "mean", place)
    load = tpot * rate if rate else requests
    if load is None:
        raise BaselineError([f"{place}: neither output_tokens_per_second nor request_concurrency"])
    return Run(
        place=place,
        tpot=tpot,
        decode_concurrency=load,
        seconds=figure(part, "duration", place),
        prompt_tokens_per_request=figure(_finished(metrics, "prompt_token_count"), "mean", place),
        output_tokens_per_request=figure(_finished(metrics, "output_token_count"), "mean", place),
        tpot_spread=_spread(latency, place, _SCALE),
        ttft=_spread(_finished(metrics, "time_to_first_token_ms"), place, _SCALE),
        e2e=_spread(_finished(metrics, "request_latency"), place, 1.0),
        notes=(NOT_OURS, "decode_concurrency: estimated from inter-token latency and throughput"),
        missing=("levels.concurrency", "levels.requests"),
    )


def _finished(metrics: Document, name: str) -> dict[str, Any]:
    """Give the figures of finished requests for one metric."""
    found = metrics.get(name)
    inner = found.get("successful", found) if isinstance(found, dict) else None
    return inner if isinstance(inner, dict) else {}


def _spread(figures: Document, place: str, scale: float) -> Spread:
    percentiles = figures.get("percentiles")
    ranks = percentiles if isinstance(percentiles, dict) else figures
    found = {
        "mean": figure(figures, "mean", place),
        "p50": figure(figures, "median", place),
        "p95": figure(ranks, "p95", place),
        "p99": figure(ranks, "p99", place),
    }
    return Spread.model_validate(
        {key: None if one is None else one * scale for key, one in found.items()}
    )
