"""From a Prometheus' samples to the evidence of a pool, model by model. No socket, no clock.

What is missing stays missing: a number that the samples do not give in full is absent or refused.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from specgauge.derive.statistics import Estimate, ratio_estimate
from specgauge.guard.evidence import judge_numbers
from specgauge.model.series_name import MODEL, REPLICAS
from specgauge.model.verdict import Verdict, VerdictReason
from specgauge.serve.fleet_answer import FleetError, FleetReason, Sample
from specgauge.serve.fleet_queries import COUNTS, PIECE, PIECES, QUANTITY, SERVED, Span

CONFIDENCE = 0.95
MOST = 0.5
"""More of the decode time than this must be covered, and of the members be seen, to judge."""

_DRAFTED = ("drafts", "draft_tokens", "accepted_tokens")
_PLAIN = ("requests", "first_tokens", "preemptions", "restarts", *_DRAFTED)
_COMPARED = ("baseline_seconds", "covered_seconds")
_GAUGES = ("requests_waiting", "kv_cache_usage_ratio", "num_speculative_tokens")

Member = tuple[tuple[str, str], ...]


@dataclass(slots=True, kw_only=True)
class _Pool:
    """What one answer says of one model; `parts` is by member and part of the window."""

    numbers: dict[str, float] = field(default_factory=dict)
    parts: dict[tuple[Member, str], dict[str, float]] = field(default_factory=dict)
    top: float = 0.0


def evidence_of(
    samples: Iterable[Sample], span: Span, *, margin: float
) -> dict[str, dict[str, object]]:
    """Give each model's evidence, as `read_evidence` takes it; raises FleetError."""
    pools, servers = _sort(samples)
    if not any("members" in pool.numbers for pool in pools.values()):
        fix = "is guard.prometheus.selector right, and does Prometheus scrape the sidecars?"
        raise FleetError(FleetReason.NO_SERIES, f"no member of the pool is known; {fix}")
    found = {
        model: _evidence(model, pool, servers, span, margin)
        for model, pool in sorted(pools.items())
        if "generated" in pool.numbers and "decode_seconds" in pool.numbers
    }
    if not found:
        fix = "set guard.prometheus.interval to its scrape interval or more"
        seconds = f"{span.window:g} s"
        raise FleetError(
            FleetReason.TOO_FEW_SAMPLES, f"no member was scraped twice within {seconds}; {fix}"
        )
    return found


def _sort(samples: Iterable[Sample]) -> tuple[dict[str, _Pool], dict[str, float]]:
    pools: dict[str, _Pool] = {}
    servers: dict[str, float] = {}
    for one in samples:
        name = one.labels.get(QUANTITY, "")
        if not math.isfinite(one.value) and (name in COUNTS or name in SERVED):
            raise FleetError(FleetReason.NOT_FINITE, f"{name} is {one.value} in {_where(one)}")
        if name in SERVED:
            _put(servers, name, one)
            continue
        pool = pools.setdefault(one.labels.get(MODEL, ""), _Pool())
        if PIECE in one.labels:
            member = tuple(
                sorted(pair for pair in one.labels.items() if pair[0] not in {QUANTITY, PIECE})
            )
            _put(pool.parts.setdefault((member, one.labels[PIECE]), {}), name, one)
        elif name == "level":
            pool.top = max(pool.top, _level(one))
        elif math.isfinite(one.value):
            _put(pool.numbers, name, one)
    return pools, servers


def _put(found: dict[str, float], name: str, one: Sample) -> None:
    if name in found:
        detail = f"more than one {name or 'unnamed series'} in {_where(one)}"
        raise FleetError(FleetReason.SEVERAL_SERIES, detail)
    found[name] = one.value


def _level(one: Sample) -> float:
    try:
        level = float(one.labels.get("concurrency", ""))
    except ValueError:
        return 0.0
    return level if math.isfinite(level) else 0.0


def _where(one: Sample) -> str:
    shown = ",".join(f"{k}={v!r}" for k, v in one.labels.items() if k not in {QUANTITY, PIECE})
    return f"{{{shown}}}"


def _evidence(
    model: str, pool: _Pool, servers: Mapping[str, float], span: Span, margin: float
) -> dict[str, object]:
    """Put one model's evidence together; raises FleetError where too few members are seen."""
    raw = pool.numbers
    members, known = raw.get("members", 0.0), raw.get("known", 0.0)
    if members <= MOST * known and members < known:
        detail = f"{members:g} of {known:g} members were scraped within {span.window:g} s"
        raise FleetError(FleetReason.MEMBERS_MISSING, detail)
    _refuse_halves(pool)
    _refuse_pairs(pool)
    numbers = {name: raw[name] for name in (*_PLAIN, *_GAUGES) if name in raw} | dict(servers)
    tokens = max(raw["generated"] - raw.get("first_tokens", 0.0), 0.0)
    numbers |= {"tokens": tokens, "members": members}
    numbers["decode_concurrency"] = raw["decode_seconds"] / span.window
    numbers |= _ratios(raw, tokens)
    verdict, reason, speed = _speed(pool, span, margin)
    return {
        "model_name": model,
        "speculating": _speculating(raw, tokens),
        "restarted": raw.get("restarts", 0.0) > MOST * members,
        "verdict": str(verdict),
        "verdict_reason": str(reason),
        **numbers,
        **speed,
    }


def _refuse_halves(pool: _Pool) -> None:
    """Refuse members whose speed is there in half, as where a limit kept a series out.

    The sum of all would divide the time of some members by that of others.
    """
    for (member, _), part in pool.parts.items():
        there = [name for name in _COMPARED if name in part]
        if len(there) == 1:
            detail = f"{there[0]} alone of {dict(member)}; is it at a limit of series?"
            raise FleetError(FleetReason.PARTIAL, detail)


def _refuse_pairs(pool: _Pool) -> None:
    """Refuse members that two Prometheus of a pair scraped: all sums hold them twice."""
    places: dict[tuple[Member, str], Member] = {}
    for member, part in pool.parts:
        place = tuple(pair for pair in member if pair[0] not in REPLICAS), part
        other = places.setdefault(place, member)
        if other != member:
            label, value = next(one for one in (*member, *other) if one[0] in REPLICAS)
            fix = f'pick one in guard.prometheus.selector, as {label}="{value}", or merge them'
            detail = f"two Prometheus of a pair tell of the same members; {fix}"
            raise FleetError(FleetReason.SEVERAL_SERIES, detail)


def _ratios(raw: Mapping[str, float], tokens: float) -> dict[str, float]:
    """Divide sums by sums, where there is something to divide by."""
    pairs = {
        "acceptance_ratio": (raw.get("accepted_tokens"), raw.get("draft_tokens")),
        "draft_length": (raw.get("draft_tokens"), raw.get("drafts")),
        "tpot_seconds": (raw["decode_seconds"], tokens),
        "ttft_seconds": (raw.get("ttft_sum"), raw.get("ttft_count")),
        "e2e_seconds": (raw.get("e2e_sum"), raw.get("e2e_count")),
        "e2e_speedup_ratio": (raw.get("e2e_weighted"), raw.get("e2e_weight")),
    }
    return {name: top / under for name, (top, under) in pairs.items() if top is not None and under}


def _speculating(raw: Mapping[str, float], tokens: float) -> bool | None:
    drafts = raw.get("drafts")
    if drafts is None:
        return None
    return True if drafts > 0.0 else (False if tokens > 0.0 else None)


def _speed(
    pool: _Pool, span: Span, margin: float
) -> tuple[Verdict, VerdictReason, dict[str, float]]:
    """Judge the pool's speed as one window of one server is judged."""
    refusal = _refusal(pool)
    if refusal is not None:
        return Verdict.UNKNOWN, refusal, {}
    ratio = pool.numbers["baseline_seconds"] / pool.numbers["covered_seconds"]
    parts = [one for one in pool.parts.values() if _is_whole(one)]
    spread = _estimate(parts, math.inf, span)
    speed = {"speedup_ratio": ratio}
    if spread is None or spread.high is None:
        if abs(ratio - 1.0) <= margin:
            return Verdict.EVEN, VerdictReason.WITHIN_MARGIN, speed
        return Verdict.UNKNOWN, VerdictReason.INTERVAL_TOO_WIDE, speed
    half = spread.high - spread.value
    speed |= {"speedup_ratio_low": max(ratio - half, 0.0), "speedup_ratio_high": ratio + half}
    verdict, reason = judge_numbers(speed | _whole_requests(pool.numbers), margin)
    if verdict is Verdict.COSTS and not _still_costs(parts, pool.top, span, margin):
        return Verdict.UNKNOWN, VerdictReason.OUTSIDE_RANGE, speed
    return verdict, reason, speed


def _refusal(pool: _Pool) -> VerdictReason | None:
    """Say why the pool's speed is not known at all; None where it is."""
    raw = pool.numbers
    covered = raw.get("covered_seconds", 0.0)
    if pool.top <= 0.0:
        return VerdictReason.NO_BASELINE
    if raw["decode_seconds"] <= 0.0:
        return VerdictReason.TOO_FEW_TOKENS
    if "baseline_seconds" in raw and covered > MOST * raw["decode_seconds"]:
        return None
    other = raw.get("mismatches", 0.0) > 0.0
    return VerdictReason.BASELINE_MISMATCH if other else VerdictReason.OUTSIDE_RANGE


def _whole_requests(raw: Mapping[str, float]) -> dict[str, float]:
    weight = raw.get("e2e_weight", 0.0)
    return {"e2e_speedup_ratio": raw["e2e_weighted"] / weight} if weight > 0.0 else {}


def _is_whole(part: Mapping[str, float]) -> bool:
    return all(name in part for name in PIECES) and part["covered_seconds"] > 0.0


def _estimate(parts: Iterable[Mapping[str, float]], top: float, span: Span) -> Estimate | None:
    """Estimate the speedup from the parts; above `top` requests by the baseline's upper bound."""
    bases, spent = [], []
    for part in parts:
        load = part["decode_seconds"] / span.piece
        bases.append(part["baseline_seconds"] * max(load / top, 1.0))
        spent.append(part["covered_seconds"])
    return ratio_estimate(bases, spent, confidence=CONFIDENCE) if spent else None


def _still_costs(
    parts: Iterable[Mapping[str, float]], top: float, span: Span, margin: float
) -> bool:
    """Tell whether a loss stands where the baseline's last level was exceeded, at the worst."""
    upper = _estimate(parts, top, span)
    return upper is not None and (upper.high or upper.value) < 1.0 - margin
