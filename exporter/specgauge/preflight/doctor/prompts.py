"""Rules on acceptance that differs within the traffic: by time, context, temperature, adapter."""

import math
from collections.abc import Iterator, Sequence

from specgauge.preflight.doctor.acceptance import LOW, WARM, on_cpu
from specgauge.preflight.doctor.case import Case, Model, Stretch
from specgauge.preflight.doctor.codes import Code, Symptom
from specgauge.preflight.doctor.drafting import draftings
from specgauge.preflight.doctor.finding import LIKELY, MEASURED, POSSIBLE, SEEN, Figure, Finding
from specgauge.preflight.doctor.requests import FALL, MIN_DRAFTED, Segment, Segmented

GOOD = 0.45
"""From this acceptance on a stretch of time is fine."""

_GAP = 0.25
_LEAST_SHARE = 0.1
_LEAST_DRAFTED = 8.0


def prompt_rules(case: Case) -> Iterator[Finding]:
    """Judge what the pooled acceptance hides."""
    if case.segmented is not None:
        yield from _segmented(case.segmented)
    for model in case.models:
        yield from _in_part(case, model.stretches, model.derived.model_name)
        yield from _adapters(case, model)
    if case.log is not None and not any(model.stretches for model in case.models):
        lines = [one for one in case.log.speculated if one.v1]
        told = [Stretch(seconds=1.0, drafted=x.drafted, accepted=x.accepted) for x in lines]
        yield from _in_part(case, told, "")
    yield from _warm(case)


def _segmented(found: Segmented) -> Iterator[Finding]:
    """Compare the segments of per-request objects."""
    base: dict[str, Figure] = {
        "pooled": found.pooled,
        "mean_over_requests": found.mean_over_requests,
        "requests": found.requests,
    }
    for code, segments, what in (
        (Code.CONTEXT_LENGTH, found.by_context, "prompts"),
        (Code.HIGH_TEMPERATURE, found.by_temperature, "temperatures"),
        (Code.ADAPTERS, found.by_model, "adapters"),
    ):
        pair = _fallen(segments, ordered=code is not Code.ADAPTERS)
        if pair is not None:
            best, worst = pair
            yield Finding(
                code=code,
                confidence=SEEN,
                evidence=f"acceptance is {best.ratio:.3f} for {what} {best.name} and "
                f"{worst.ratio:.3f} for {what} {worst.name}; pooled it is {found.pooled:.3f}, "
                f"averaged over requests {found.mean_over_requests:.3f}",
                numbers={
                    **base,
                    "segments": [one.ratio for one in segments],
                    "names": ", ".join(one.name for one in segments),
                },
            )


def _fallen(segments: Sequence[Segment], *, ordered: bool) -> tuple[Segment, Segment] | None:
    """Give the best segment and the worst, if the worst has fallen and, in order, comes later."""
    sure = [one for one in segments if one.drafted >= MIN_DRAFTED]
    if len(sure) < 2:  # noqa: PLR2004 - one against another
        return None
    best = max(sure, key=lambda one: one.ratio)
    behind = sure[sure.index(best) :] if ordered else sure
    worst = min(behind, key=lambda one: one.ratio)
    return (best, worst) if worst.ratio < FALL * best.ratio else None


def _in_part(case: Case, stretches: Sequence[Stretch], where: str) -> Iterator[Finding]:
    """Find stretches of time in which acceptance collapses while it is fine in others."""
    told = [one for one in stretches if one.drafted >= _LEAST_DRAFTED]
    low = [one for one in told if one.accepted < LOW * one.drafted]
    good = [one for one in told if one.accepted >= GOOD * one.drafted]
    seconds = math.fsum(one.seconds for one in told)
    if not low or not good:
        return
    shares = [math.fsum(one.seconds for one in part) / seconds for part in (low, good)]
    drafted = [math.fsum(one.drafted for one in part) for part in (low, good)]
    ratios = [
        math.fsum(one.accepted for one in part) / total
        for part, total in zip((low, good), drafted, strict=True)
    ]
    if min(shares) < _LEAST_SHARE or min(drafted) < MIN_DRAFTED or ratios[1] - ratios[0] < _GAP:
        return
    numbers: dict[str, Figure] = {
        "acceptance_ratio_low": ratios[0],
        "acceptance_ratio_good": ratios[1],
        "share_of_time_low": shares[0],
    }
    nothing = ratios[0] == 0.0 and drafted[0] >= MIN_DRAFTED and on_cpu(case)
    yield Finding(
        code=Code.CPU_SAMPLER if nothing else Code.ACCEPTANCE_FALLS_IN_PART,
        confidence=MEASURED,
        evidence=f"in {shares[0]:.0%} of the time that drafts were made {ratios[0]:.1%} was "
        f"accepted, in {shares[1]:.0%} of it {ratios[1]:.1%}",
        numbers=numbers,
        where=where,
    )


def _adapters(case: Case, model: Model) -> Iterator[Finding]:
    """Say that adapters cannot be told apart here; their names alone prove no loss."""
    named = sorted({name for page in case.pages for name in page.adapters})
    configured = case.setup is not None and case.setup.lora
    ratio = model.derived.values.get("acceptance_ratio")
    if not (named or configured) or not isinstance(ratio, int | float):
        return
    length = model.derived.values.get("acceptance_length")
    extra: dict[str, Figure] = (
        {"acceptance_length": length} if isinstance(length, int | float) else {}
    )
    running = f" ({', '.join(named[:5])})" if named else ""
    yield Finding(
        code=Code.ADAPTERS,
        confidence=LIKELY if case.symptom is Symptom.PROMPTS else POSSIBLE,
        evidence=f"acceptance is {ratio:.3f} over all traffic, adapters{running} included; no "
        "series has an adapter in its labels, so a bad one among them stays hidden",
        numbers={"acceptance_ratio": ratio, **extra, "adapters": len(named)},
        where=model.derived.model_name,
    )


def _warm(case: Case) -> Iterator[Finding]:
    """Point to a default temperature that makes drafts hard to guess."""
    told = case.setup.temperature if case.setup is not None else None
    if told is None or told < WARM:
        return
    for one in draftings(case):
        if one.ratio < LOW and one.comparable:
            yield Finding(
                code=Code.HIGH_TEMPERATURE,
                confidence=MEASURED + 0.05,
                evidence=f"requests that name none are sampled at temperature {told:g}, and "
                f"{one.ratio:.1%} is accepted",
                numbers={"temperature": told, "acceptance_ratio": one.ratio},
                where=one.where,
            )
