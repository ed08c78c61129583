"""Flat JSON of a measuring script: one object a load, latencies in milliseconds.

`tpot_p50_ms`, `ttft_p50_ms`, `e2e_p50_ms` and the like, with `concurrency`,
`mean_output_tokens`, `output_tok_s`, `temperature` and `dataset` where the script gives them.
"""

from collections.abc import Sequence

from specgauge.baseline.results import Document, Run, figure, milliseconds, over, text
from specgauge.baseline.schema import Spread
from specgauge.errors import BaselineError

_LISTS = ("baselines", "baseline")
_KEYS = frozenset(
    {"tpot_p50_ms", "tpot_mean_ms", "tpot_ms", "ttft_p50_ms", "e2e_p50_ms", "output_tok_s"}
)
_MEANS = ("tpot_mean_ms", "tpot_ms")
_ACCEPTANCE = (
    "accept_ratio",
    "acceptance_rate",
    "acceptance_ratio",
    "acceptance_length",
    "mean_acceptance_length",
    "num_speculative_tokens",
)


def flat_parts(document: object) -> Sequence[Document]:
    """Give the loads of a flat document, be it one or a list of them; none if it is not flat."""
    if isinstance(document, dict):
        inner = next((document[key] for key in _LISTS if key in document), document)
    else:
        inner = document
    parts = inner if isinstance(inner, list) else [inner]
    known = _KEYS | set(_ACCEPTANCE)
    if parts and all(isinstance(one, dict) and known & one.keys() for one in parts):
        return parts
    return ()


def read_flat(part: Document, place: str) -> Run:
    """Understand one load."""
    refuse_speculation(part, _ACCEPTANCE, place)
    concurrency = figure(part, "concurrency", place)
    notes = [] if concurrency else ["concurrency: not given; taken for one request at a time"]
    load = concurrency or 1.0
    tpot, note = _tpot(part, load, place)
    ttft, e2e = (milliseconds(part, key, place) for key in ("ttft_p50_ms", "e2e_p50_ms"))
    share, how = 1.0, "taken for the concurrency"
    if ttft and e2e and e2e > ttft:
        share, how = (e2e - ttft) / e2e, "the concurrency times the share of time in decode"
    total, rate = (figure(part, key, place) for key in ("total_tokens", "avg_tokens_per_sec"))
    output = figure(part, "mean_output_tokens", place)
    temperature = part.get("temperature")
    return Run(
        place=place,
        tpot=tpot,
        decode_concurrency=load * share,
        seconds=over(total, rate or 0.0) if load == 1.0 else None,
        concurrency=load,
        output_tokens_per_request=output,
        tpot_spread=_spread(part, "tpot", place),
        ttft=_spread(part, "ttft", place),
        e2e=_spread(part, "e2e", place),
        facts={
            "model.name": text(part, "model"),
            "workload.name": text(part, "dataset"),
            "workload.temperature": None if temperature is None else _number(temperature, place),
        },
        notes=(*notes, note, f"decode_concurrency: estimated, {how}"),
        missing=() if output else ("levels.output_tokens_per_request",),
    )


def refuse_speculation(part: Document, keys: Sequence[str], place: str) -> None:
    """Refuse figures of a run that speculated: they are what a baseline is held against."""
    for key in keys:
        value = part.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            raise BaselineError(
                [f"{place}: {key} is {value:g}: measured with speculation, so no baseline"]
            )


def _tpot(part: Document, load: float, place: str) -> tuple[float, str]:
    """Find the time per token in whatever form it is given, the best first."""
    for key in _MEANS:
        if value := milliseconds(part, key, place):
            return value, f"tpot_seconds: from {key}"
    chunks = "if the script counted stream chunks as tokens, they must have been one token each"
    if median := milliseconds(part, "tpot_p50_ms", place):
        return median, f"tpot_seconds.mean: the median tpot_p50_ms stands for it; {chunks}"
    e2e, tokens = milliseconds(part, "e2e_p50_ms", place), figure(part, "mean_output_tokens", place)
    ttft = milliseconds(part, "ttft_p50_ms", place)
    if e2e and tokens and tokens > 1.0 and e2e > (ttft or 0.0):
        without = "" if ttft else ", the time to first token included"
        return (e2e - (ttft or 0.0)) / (tokens - 1.0), (
            f"tpot_seconds.mean: from e2e_p50_ms over mean_output_tokens - 1{without}"
        )
    if rate := figure(part, "output_tok_s", place):
        return load / rate, (
            "tpot_seconds.mean: from concurrency over output_tok_s, first tokens included"
        )
    zeros = [key for key in (*_MEANS, "tpot_p50_ms") if part.get(key) == 0]
    why = f": {zeros[0]} is 0; " if zeros else ": "
    raise BaselineError(
        [f"{place}: no time per token{why}tpot_p50_ms, or e2e_p50_ms with mean_output_tokens"]
    )


def _spread(part: Document, name: str, place: str) -> Spread:
    keys = ("mean", "p50", "p95", "p99")
    return Spread.model_validate(
        {key: milliseconds(part, f"{name}_{key}_ms", place) for key in keys}
    )


def _number(value: object, place: str) -> float:
    return figure({"temperature": value}, "temperature", place) or 0.0
