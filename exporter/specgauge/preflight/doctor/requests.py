"""Per-request objects of speculation, pooled and split by what the server's counters cannot tell.

Values in, values out. A request's own object is `metrics.speculative_decoding` of its answer
(vLLM 0.29.0 on); plain objects with the same keys do as well.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIN_DRAFTED = 100
"""Below so many drafted tokens a segment's acceptance is a guess."""

FALL = 0.6
"""A segment below this share of the best one's acceptance has fallen."""

_CONTEXTS = (4_000, 16_000, 64_000)
_TEMPERATURES = (0.3, 0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One object: how many requests it stands for, and their drafted and accepted tokens each."""

    count: int
    drafted: float
    accepted: float
    prompt: float | None = None
    temperature: float | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Requests that share something, pooled."""

    name: str
    requests: int
    drafted: float
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Segmented:
    """All requests: pooled by tokens, averaged by request, and split in three ways."""

    requests: int
    drafted: float
    pooled: float
    mean_over_requests: float
    by_context: tuple[Segment, ...]
    by_temperature: tuple[Segment, ...]
    by_model: tuple[Segment, ...]


def read_requests(text: str) -> Segmented:
    """Read JSON, or one JSON object a line; ValueError says what is wrong."""
    found = [one for entry in _entries(text) if (one := _request(entry)) is not None]
    if not found:
        raise ValueError(
            "no request with num_draft_tokens and num_accepted_draft_tokens in it; start vLLM "
            "with --per-request-spec-decode-metrics summary and keep its answers"
        )
    return split(found)


def split(found: Sequence[Request]) -> Segmented:
    """Pool and split requests of which at least one drafted."""
    drafted = math.fsum(one.count * one.drafted for one in found)
    accepted = math.fsum(one.count * one.accepted for one in found)
    count = sum(one.count for one in found)
    mean = math.fsum(one.count * one.accepted / one.drafted for one in found) / count
    return Segmented(
        requests=count,
        drafted=drafted,
        pooled=accepted / drafted,
        mean_over_requests=mean,
        by_context=_segments(found, lambda one: _band(one.prompt, _CONTEXTS)),
        by_temperature=_segments(found, lambda one: _band(one.temperature, _TEMPERATURES)),
        by_model=_segments(found, lambda one: one.model),
    )


def _segments(
    found: Sequence[Request], key: Callable[[Request], str | None]
) -> tuple[Segment, ...]:
    """Pool by a key, in the order of its first request; what has no key is left out."""
    groups: dict[str, list[Request]] = {}
    for one in found:
        name = key(one)
        if name is not None:
            groups.setdefault(name, []).append(one)
    return tuple(
        Segment(
            name=name,
            requests=sum(one.count for one in group),
            drafted=(drafted := math.fsum(one.count * one.drafted for one in group)),
            ratio=math.fsum(one.count * one.accepted for one in group) / drafted,
        )
        for name, group in sorted(groups.items(), key=lambda pair: _low(pair[0]))
    )


def _band(value: float | None, bounds: Sequence[float]) -> str | None:
    """Name the band that a value lies in."""
    if value is None:
        return None
    for bound in bounds:
        if value < bound:
            return f"below {bound:g}"
    return f"from {bounds[-1]:g}"


def _low(name: str) -> tuple[float, str]:
    """Sort bands by where they begin, other names by themselves."""
    word, _, number = name.partition(" ")
    if word not in {"below", "from"}:
        return 0.0, name
    return float(number) + (0.5 if word == "from" else 0.0), ""


def _entries(text: str) -> Iterator[Any]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        yield from _lines(text)
        return
    listed = whole.get("requests", whole) if isinstance(whole, dict) else whole
    yield from listed if isinstance(listed, list) else (listed,)


def _lines(text: str) -> Iterator[Any]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                raise ValueError(f"line {number} is no JSON; one object a line") from None


def _request(entry: Any) -> Request | None:
    """Take one object apart; None where it says nothing of drafts."""
    if not isinstance(entry, dict):
        return None
    own = _inner(entry)
    usage = entry.get("usage") if isinstance(entry.get("usage"), dict) else entry
    count, drafted = _number(entry.get("n", 1)), _number(own.get("num_draft_tokens"))
    accepted = _number(own.get("num_accepted_draft_tokens"))
    if not count or not drafted or accepted is None or accepted > drafted or count > _MOST:
        return None
    model = entry.get("lora_name") or entry.get("adapter") or entry.get("model")
    return Request(
        count=int(count),
        drafted=drafted,
        accepted=accepted,
        prompt=_number(usage.get("prompt_tokens")) if isinstance(usage, dict) else None,
        temperature=_number(entry.get("temperature")),
        model=model if isinstance(model, str) else None,
    )


_MOST = 1e9


def _inner(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = entry.get("metrics")
    own = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    return own if isinstance(own, dict) else entry


def _number(value: Any) -> float | None:
    """Take a finite number that is not below 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 else None  # noqa: PLR2004 - beyond every count
