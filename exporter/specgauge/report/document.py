"""The report as `specgauge.report/v1`, which every other form of it is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from specgauge import __version__
from specgauge.derive.statistics import Estimate
from specgauge.report.acceptance import Window
from specgauge.report.changes import changes
from specgauge.report.classes import ClassFigures
from specgauge.report.coverage import Span
from specgauge.report.fallbacks import Fallback
from specgauge.report.figures import Figures, GroupFigures
from specgauge.report.grid import Period
from specgauge.report.recommend import recommend
from specgauge.report.speed import LoadBin
from specgauge.report.terms import Terms

SCHEMA = "specgauge.report/v1"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Where a report comes from: who was asked, for what, and when (Unix seconds)."""

    source: str
    selector: str
    created: float


def document(now: Figures, before: Figures | None, terms: Terms, about: About) -> Json:
    """Write everything; times as RFC 3339 in UTC."""
    return {
        "schema": SCHEMA,
        "created": moment(about.created),
        "created_by": f"specgauge {__version__}",
        "source": about.source,
        "selector": about.selector,
        "period": _period(now.period),
        "compared_to": None if before is None else _period(before.period),
        "limits": asdict(terms.limits),
        "min_draft_tokens": terms.min_draft_tokens,
        "gpus_per_server": terms.gpus_per_server,
        "groups": [
            _group(one, now, None if before is None else before.group(one.name), before, terms)
            for one in now.groups
        ],
        "gone": _gone(now, before),
        "classes": [_class(one) for one in now.classes],
        "fallbacks_elsewhere": [_fallback(one) for one in now.strays],
        "alerts": [
            {
                **asdict(one),
                "start": moment(one.start),
                "end": moment(one.end),
                "seconds": one.end - one.start,
            }
            for one in now.alerts
        ],
    }


def moment(unix: float) -> str:
    """Write a time; to the second."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _period(period: Period) -> Json:
    return {
        "from": moment(period.start),
        "to": moment(period.end),
        "seconds": period.seconds,
        "cell_seconds": period.step,
    }


def _gone(now: Figures, before: Figures | None) -> list[Json]:
    """Name the groups that there were before and are not any more."""
    there = {one.name for one in now.groups}
    past = () if before is None else before.groups
    return [asdict(one.name) for one in past if one.name not in there]


def _group(
    group: GroupFigures,
    every: Figures,
    past: GroupFigures | None,
    before: Figures | None,
    terms: Terms,
) -> Json:
    compared = changes(group, past) if before is not None else ()
    return {
        **asdict(group.name),
        "data": {
            "share": group.coverage.share,
            "missing": [_span(one) for one in group.coverage.missing],
            "servers": [asdict(one) for one in group.coverage.servers],
        },
        "acceptance": _acceptance(group),
        "speedup": _speedup(group),
        "latency": {
            "requests": group.latency.requests,
            "e2e_p50_seconds": group.latency.p50,
            "e2e_p50_is_at_least": group.latency.at_least,
            "e2e_speedup_ratio": group.latency.matched,
            "e2e_speedup_requests": group.latency.matched_requests,
        },
        "worth": _worth(group),
        "fallbacks": {
            "count": group.fallback_count,
            "events": [_fallback(one) for one in group.fallbacks],
        },
        "draft_length": asdict(group.draft_length),
        "breakeven_acceptance_length": group.breakeven_length,
        "baseline": {
            "created": None if group.baseline.created is None else moment(group.baseline.created),
            "age_seconds": group.baseline.age_seconds,
            "mismatches": list(group.baseline.mismatches),
        },
        "kv_cache": asdict(group.cache),
        "changes": [{**asdict(one), "change": one.change} for one in compared],
        "recommendations": [asdict(one) for one in recommend(group, every, terms.limits)],
    }


def _acceptance(group: GroupFigures) -> Json:
    found = group.acceptance
    return {
        "ratio": found.ratio,
        "length": found.length,
        "draft_tokens": found.draft_tokens,
        "accepted_tokens": found.accepted_tokens,
        "lowest_hour": None if found.lowest is None else _window(found.lowest),
        "highest_hour": None if found.highest is None else _window(found.highest),
        "days": [_window(one) for one in found.days],
        "hours": [_window(one) for one in found.hours],
    }


def _speedup(group: GroupFigures) -> Json:
    return {
        **estimate(group.speed.speedup),
        "covered_share": group.speed.covered,
        "by_load": [_bin(one) for one in group.speed.bins],
        "hours": [{**asdict(one), "start": moment(one.start)} for one in group.speed.hours],
    }


def _worth(group: GroupFigures) -> Json:
    """Without a baseline nobody knows what time was saved, and without drafts no tokens."""
    worth, known = group.speed.worth, group.speed.speedup is not None
    drafted = group.acceptance.ratio is not None
    return {
        "saved_decode_seconds": worth.saved_seconds if known else None,
        "lost_decode_seconds": worth.lost_seconds if known else None,
        "net_decode_seconds": worth.net_seconds if known else None,
        "gpu_hours": group.gpu_hours if known else None,
        "tokens_saved": group.acceptance.accepted_tokens if drafted else None,
        "tokens_wasted": group.acceptance.wasted_tokens if drafted else None,
    }


def estimate(found: Estimate | None) -> Json:
    """Write a ratio and its interval."""
    if found is None:
        return {"ratio": None, "low": None, "high": None}
    return {"ratio": found.value, "low": found.low, "high": found.high}


def _bin(one: LoadBin) -> Json:
    return {
        "concurrency_from": one.low,
        "concurrency_below": one.high,
        "cells": one.cells,
        "decode_seconds": one.decode_seconds,
        **estimate(one.speedup),
    }


def _window(one: Window) -> Json:
    return {
        "start": moment(one.start),
        "end": moment(one.end),
        "draft_tokens": one.draft_tokens,
        "ratio": one.ratio,
    }


def _span(one: Span) -> Json:
    return {"start": moment(one.start), "end": moment(one.end), "seconds": one.end - one.start}


def _fallback(one: Fallback) -> Json:
    return {
        "guard": dict(one.guard),
        "began": moment(one.began),
        "began_after": None if one.after is None else moment(one.after),
        "ended": None if one.ended is None else moment(one.ended),
        "seconds": one.seconds,
        "reason": one.reason,
        "before_period": one.before,
    }


def _class(one: ClassFigures) -> Json:
    pools: Sequence[Mapping[str, Any]] = [
        {
            "pool": pool.pool,
            "requests": pool.requests,
            "errors": pool.errors,
            "retries": pool.retries,
            "tpot_seconds": None if pool.tpot is None else pool.tpot.value,
            "e2e_mean_seconds": pool.e2e,
            "acceptance_length": pool.length,
        }
        for pool in one.pools
    ]
    return {"cluster": one.cluster, "class": one.name, "pools": pools, **estimate(one.ratio)}
