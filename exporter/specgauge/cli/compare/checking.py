"""Runs the check of answers over what both pools said, and counts what passes."""

import asyncio
from collections.abc import Mapping

from specgauge.preflight.compare.quality import Passes
from specgauge.preflight.compare.records import GREEDY, PRODUCTION, Record
from specgauge.preflight.compare.validate import Check

_AT_ONCE = 2
_REASONS = 3


async def count_passes(check: Check, baseline: Record, speculative: Record) -> dict[str, Passes]:
    """Check the greedy and the production texts of every class that both pools answered."""
    found = {}
    for name in baseline.texts:
        if name in speculative.texts:
            one = await _checked(check, _texts(baseline, name))
            two = await _checked(check, _texts(speculative, name))
            found[name] = Passes(
                baseline=one.count(None),
                baseline_of=len(one),
                speculative=two.count(None),
                speculative_of=len(two),
                why=_reasons(two),
            )
    return found


def _texts(record: Record, name: str) -> list[str]:
    kinds = record.texts[name]
    return [
        text for kind in (GREEDY, PRODUCTION) for text in kinds.get(kind, ()) if text is not None
    ]


async def _checked(check: Check, texts: list[str]) -> list[str | None]:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(text: str) -> str | None:
        async with turns:
            return await check(text)

    return list(await asyncio.gather(*(one(text) for text in texts)))


def _reasons(found: list[str | None]) -> tuple[str, ...]:
    reasons: Mapping[str, None] = dict.fromkeys(one for one in found if one is not None)
    return tuple(reasons)[:_REASONS]
