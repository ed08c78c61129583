"""A few streamed requests, to see how tokens reach a client; bounded in number and in time.

Sends them one after the other and measures chunks; says nothing of what they mean.
"""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median

from specgauge.baseline.brake import Brake
from specgauge.baseline.load import Ask, Generator, Terms
from specgauge.baseline.prompts import shipped
from specgauge.baseline.stream import BROKEN, Outcome, Request
from specgauge.baseline.trial import try_server
from specgauge.errors import BaselineError
from specgauge.preflight.doctor.case import Probe

REQUESTS = 5
TOKENS = 128
SECONDS = 60.0
"""At most so many requests of at most so many tokens, and no longer than that in all."""

_TOGETHER = 0.1
_FEW = 20


class ProbeError(Exception):
    """A server that answers none of the probe's requests; the rest of the look goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much a probe sends."""

    requests: int = REQUESTS
    tokens: int = TOKENS
    seconds: float = SECONDS

    def __str__(self) -> str:
        """Say what traffic this is."""
        return (
            f"{self.requests} streamed requests of at most {self.tokens} tokens, one after the "
            f"other, and at most {self.seconds:g} s"
        )


async def probe(generator: Generator, terms: Terms, plan: Plan) -> list[Request]:
    """Send the requests; gives their records, also where time ran out or some failed.

    Raises ProbeError where the server answers none at all.
    """
    found: list[Request] = []
    prompts = list(shipped().prompts)
    random.Random(len(prompts)).shuffle(prompts)  # noqa: S311 - any order that repeats
    async with generator.running():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(plan.seconds):
                terms = await _understood(generator, terms)
                for place in range(plan.requests):
                    ask = Ask(prompt=prompts[place % len(prompts)], tokens=plan.tokens)
                    found.append(await generator.send(terms, ask))
    if not found:
        raise ProbeError(f"no answer within {plan.seconds:g} s")
    return found


async def _understood(generator: Generator, terms: Terms) -> Terms:
    """Find out which endpoint the server has, and what it takes beyond the standard."""
    prompt = shipped().prompts[0]
    refusal = ""
    for endpoint in ("completions", "chat"):
        try:
            _, found = await try_server(
                generator, replace(terms, endpoint=endpoint), prompt, Brake()
            )
        except BaselineError as problem:
            refusal = str(problem)
        else:
            return found
    raise ProbeError(refusal)


def summary(found: Sequence[Request], step: float | None) -> Probe:
    """Put the records together; `step` is a step's seconds by the page, where it is known."""
    good = [one for one in found if one.outcome not in BROKEN and one.first is not None]
    whole = [one for one in good if one.outcome is Outcome.COMPLETE]
    gaps = sorted(b - a for one in good for a, b in pairwise(one.arrivals))
    tokens = sum(one.decode_tokens or 0 for one in whole)
    later = sum(max(len(one.arrivals) - 1, 0) for one in whole)
    ttfts = [one.ttft for one in good if one.ttft is not None]
    tpots = [one.tpot for one in good if one.tpot is not None]
    failed = [one for one in found if one.outcome in BROKEN]
    return Probe(
        requests=len(found),
        failed=len(failed),
        detail=failed[0].detail if failed else "",
        tokens=sum(one.tokens or 0 for one in found),
        chunks=sum(len(one.arrivals) for one in found),
        tokens_per_chunk=tokens / later if later else None,
        gap_p50=_quantile(gaps, 0.5),
        gap_p95=_quantile(gaps, 0.95),
        gap_p99=_quantile(gaps, 0.99),
        ttft_p50=median(ttfts) if ttfts else None,
        tpot=fmean(tpots) if tpots else None,
        in_one_piece=sum(_in_one_piece(one) for one in good),
        burst_share=_bursts(gaps, step),
    )


def _in_one_piece(one: Request) -> bool:
    """Tell an answer that came all at once, whether as one chunk or as many."""
    return one.in_one_piece or (len(one.arrivals) == 1 and (one.tokens or 0) > _FEW)


def _bursts(gaps: Sequence[float], step: float | None) -> float | None:
    """Give the share of chunks that came along with the one before: no step is so short."""
    if step is None or step <= 0.0 or len(gaps) < _FEW:
        return None
    return sum(gap < _TOGETHER * step for gap in gaps) / len(gaps)


def _quantile(ordered: Sequence[float], q: float) -> float | None:
    if not ordered:
        return None
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
