"""The sidecar's `specgauge.status/v1` as values of the one model that goes live.

Takes the document as it came; asks nobody.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specgauge.preflight.checklist.reading import (
    at,
    mappings,
    moment,
    number,
    whole,
    word,
    words,
)
from specgauge.preflight.checklist.result import Proof, Reason, Trouble

SCHEMA = "specgauge.status/v1"
_HINT = "choose one with --target and --model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What the sidecar says of one model now; `at` is the time of its last page, Unix seconds."""

    source: str
    target: str
    model_name: str
    at: float | None = None
    up: bool = False
    version: str | None = None
    method: str | None = None
    speculation: str | None = None
    k: int | None = None
    engines: int | None = None
    drafts: float | None = None
    acceptance_ratio: float | None = None
    acceptance_length: float | None = None
    breakeven_length: float | None = None
    breakeven_absent: str | None = None
    verdict: str | None = None
    verdict_reason: str | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    speedup: float | None = None
    e2e_speedup: float | None = None
    decode_concurrency: float | None = None
    kv_usage: float | None = None
    mismatches: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    siblings: tuple[tuple[str, bool], ...] = ()

    def proof(self, **numbers: float | None) -> Proof:
        """Cite it."""
        spoken = (self.method, None if self.k is None else f"k={self.k}")
        return Proof(
            source=self.source,
            created=self.at,
            model_name=self.model_name,
            engine_version=self.version,
            speculation=", ".join(one for one in spoken if one) or None,
            numbers={name: value for name, value in numbers.items() if value is not None},
        )


def find_live(
    status: Mapping[str, Any], source: str, *, target: str | None, model: str | None
) -> Live | Trouble:
    """Find the model that goes live; there must be one only, or it must be named."""
    if status.get("schema") != SCHEMA:
        detail = f"{source}: the answer is not {SCHEMA}; is it a sidecar of this release?"
        return Trouble(source=source, reason=Reason.WRONG_SCHEMA, detail=detail)
    targets = [
        one
        for one in mappings(status.get("targets"))
        if (target is None and one.get("role") != "standard")
        or (target is not None and one.get("name") == target)
    ]
    found = [
        (one, each)
        for one in targets
        for each in mappings(one.get("models"))
        if word(each.get("model_name")) and model in {None, each.get("model_name")}
    ]
    if len(found) == 1:
        return _live(*found[0], source=source, siblings=tuple(_standard(status)))
    return _not_one(targets, found, source)


def _not_one(
    targets: list[Mapping[str, Any]],
    found: list[tuple[Mapping[str, Any], Mapping[str, Any]]],
    source: str,
) -> Trouble:
    """Say why there is no single model."""
    if found:
        names = ", ".join(f"{word(one['name'])}/{word(each['model_name'])}" for one, each in found)
        detail = f"{source}: {len(found)} models ({names}); {_HINT}"
        return Trouble(source=source, reason=Reason.DEPLOYMENT_UNKNOWN, detail=detail)
    down = [one for one in targets if one.get("up") is not True]
    if targets and len(down) == len(targets):
        name, result = word(targets[0].get("name")), word(targets[0].get("result"))
        detail = f"{source}: the target {name} is down ({result or 'not scraped yet'})"
        return Trouble(source=source, reason=Reason.TARGET_DOWN, detail=detail)
    what = "no model of that name" if targets else "no such target"
    detail = f"{source}: {what}, or it has served nothing yet; {_HINT}"
    return Trouble(source=source, reason=Reason.DEPLOYMENT_UNKNOWN, detail=detail)


def _standard(status: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for one in mappings(status.get("targets")):
        if one.get("role") == "standard":
            yield word(one.get("name")) or "", one.get("up") is True


def _live(
    target: Mapping[str, Any],
    model: Mapping[str, Any],
    *,
    source: str,
    siblings: tuple[tuple[str, bool], ...],
) -> Live:
    engines = model.get("engines")
    judged = model.get("verdict")
    return Live(
        source=source,
        target=word(target.get("name")) or "",
        model_name=word(model.get("model_name")) or "",
        at=moment(target.get("last_scrape_success_timestamp_seconds")),
        up=target.get("up") is True,
        version=word(target.get("engine_version")),
        method=word(target.get("method")),
        speculation=word(model.get("speculation")),
        k=whole(model.get("num_speculative_tokens")),
        engines=len(engines) if isinstance(engines, list) and engines else None,
        drafts=number(model.get("drafts")),
        acceptance_ratio=number(model.get("acceptance_ratio")),
        acceptance_length=number(at(judged, "acceptance_length")),
        breakeven_length=number(at(judged, "breakeven_acceptance_length")),
        breakeven_absent=word(at(judged, "absent.breakeven_acceptance_length")),
        verdict=word(at(judged, "verdict")),
        verdict_reason=word(at(judged, "reason")),
        speedup=number(at(judged, "speedup_ratio.concurrency")),
        e2e_speedup=number(at(judged, "e2e_speedup_ratio")),
        speedup_low=number(at(judged, "speedup_ratio_low.concurrency")),
        decode_concurrency=number(model.get("decode_concurrency")),
        kv_usage=number(model.get("kv_cache_usage_ratio")),
        speedup_high=number(at(judged, "speedup_ratio_high.concurrency")),
        mismatches=words(at(judged, "mismatches")),
        warnings=tuple({*words(model.get("warnings")), *words(at(judged, "warnings"))}),
        siblings=siblings,
    )
