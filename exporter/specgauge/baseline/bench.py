"""Results of `vllm bench serve` (and of SGLang's benchmark, which has the same keys).

Its mean TPOT is over requests, ours over tokens; with `--save-detailed` the result holds every
request, and ours is exact. Its window takes in the ramp at both ends.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from specgauge.baseline.flat import refuse_speculation
from specgauge.baseline.results import (
    FAILING_SHARE,
    Document,
    Run,
    count,
    figure,
    lacking,
    milliseconds,
    over,
    text,
)
from specgauge.baseline.schema import Spread
from specgauge.errors import BaselineError

_SPECULATION = (
    "spec_decode_num_drafts",
    "spec_decode_draft_tokens",
    "spec_decode_acceptance_rate",
    "spec_decode_acceptance_length",
    "accept_length",
)

_SLACK = 1.05
"""A tokenizer of the tool's own may count a few tokens less than the server sent."""


def is_bench(document: Document) -> bool:
    """Tell such a result by its keys."""
    return {"completed", "total_output_tokens", "duration"} <= document.keys()


def read_bench(document: Document, place: str) -> Run:
    """Understand one result."""
    refuse_speculation(document, _SPECULATION, place)
    completed = count(document, "completed", place)
    output = figure(document, "total_output_tokens", place) or 0.0
    seconds = figure(document, "duration", place)
    if not seconds:
        raise BaselineError([f"{place}: {lacking(document, 'duration')}: no time was measured"])
    if not completed or output <= completed:
        raise BaselineError([f"{place}: no request finished with more than one token"])
    spent, tokens, exact = _decode(document, output - completed, place)
    failed = count(document, "failed", place)
    if "failed" not in document:
        failed = max(count(document, "num_prompts", place) - completed, 0)
    rate = document.get("request_rate")
    return Run(
        place=place,
        tpot=spent / tokens,
        decode_concurrency=spent / seconds,
        seconds=seconds,
        tokens=tokens,
        concurrency=figure(document, "max_concurrency", place),
        request_rate=None if rate == "inf" else figure(document, "request_rate", place),
        requests=completed,
        failed=failed,
        prompt_tokens_per_request=over(
            figure(document, "total_input_tokens", place), float(completed)
        ),
        output_tokens_per_request=output / completed,
        tpot_spread=_spread(document, "tpot", place),
        ttft=_spread(document, "ttft", place),
        e2e=_spread(document, "e2el", place),
        facts=_facts(document, place),
        created=_created(document),
        notes=(*_notes(exact=exact), *_failures(failed, completed, place)),
    )


def _decode(document: Document, decoded: float, place: str) -> tuple[float, float, bool]:
    """Give decode seconds and decode tokens, summed over requests where the result lists them."""
    gaps, lengths = document.get("itls"), document.get("output_lens")
    pairs = []
    if isinstance(gaps, list) and isinstance(lengths, list):
        if len(gaps) != len(lengths):
            told = f"itls is of {len(gaps)} requests, output_lens of {len(lengths)}"
            raise BaselineError([f"{place}: {told}: the result contradicts itself"])
        pairs = _requests(gaps, lengths)
    spent, tokens = math.fsum(s for s, _, _ in pairs), float(sum(n for _, n, _ in pairs))
    chunks = sum(count for _, _, count in pairs)
    if chunks > _SLACK * tokens + len(pairs):
        told = f"itls has {chunks} gaps where output_lens has {tokens:.0f} tokens after the first"
        raise BaselineError([f"{place}: {told}: the result contradicts itself"])
    if 0.0 < spent < math.inf and tokens > 0.0:
        return spent, tokens, True
    mean = milliseconds(document, "mean_tpot_ms", place)
    if mean is None:
        told = f"{place}: {lacking(document, 'mean_tpot_ms')}"
        raise BaselineError([f"{told}; add tpot to --percentile-metrics, and more output tokens"])
    return mean * decoded, decoded, False


def _requests(gaps: list[object], lengths: list[object]) -> list[tuple[float, int, int]]:
    """Give decode seconds, decode tokens and gaps of requests; none if the lists are no such."""
    found = []
    for gap, length in zip(gaps, lengths, strict=True):
        if not isinstance(gap, list) or not isinstance(length, int):
            return []
        if not all(isinstance(one, int | float) for one in gap):
            return []
        if length > 1:
            found.append((math.fsum(gap), length - 1, len(gap)))
    return found


def _failures(failed: int, completed: int, place: str) -> tuple[str, ...]:
    """Say that so many requests failed that the load was another one."""
    if failed <= FAILING_SHARE * (failed + completed):
        return ()
    told = f"{failed} of {failed + completed} requests failed"
    return (f"{place}: {told}: the load was not the one asked for; measure it again",)


def _notes(*, exact: bool) -> tuple[str, ...]:
    load = "decode_concurrency: the mean over the whole run, its ramp at both ends included"
    if exact:
        return (load, "tpot_seconds.mean: over tokens, from the gaps of every request")
    return (
        "decode_concurrency: estimated, mean TPOT times decode tokens a second",
        "tpot_seconds.mean: over requests, not over tokens; --save-detailed gives the latter",
    )


def _facts(document: Document, place: str) -> dict[str, object]:
    backend = text(document, "backend") or ""
    temperature = document.get("temperature")
    known = isinstance(temperature, int | float)
    return {
        "engine.name": "sglang" if backend.startswith("sglang") else "vllm",
        "model.name": text(document, "model_id"),
        "workload.name": text(document, "dataset_name"),
        "workload.temperature": (figure(document, "temperature", place) or 0.0) if known else None,
    }


def _created(document: Document) -> datetime | None:
    """Read the date as UTC: the result does not tell its zone."""
    try:
        return datetime.strptime(str(document.get("date")), "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _spread(document: Document, name: str, place: str) -> Spread:
    parts: Sequence[tuple[str, str]] = (
        ("mean", "mean"),
        ("p50", "median"),
        ("p95", "p95"),
        ("p99", "p99"),
    )
    return Spread.model_validate(
        {ours: milliseconds(document, f"{theirs}_{name}_ms", place) for ours, theirs in parts}
    )
