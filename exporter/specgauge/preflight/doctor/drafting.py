"""Acceptance as one view, whether a page or a log tells it; judges nothing."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specgauge.derive.acceptance import FULL_DRAFTS
from specgauge.model.derived import Derived, Method
from specgauge.preflight.doctor.case import Case
from specgauge.preflight.doctor.logs import Log, Speculated

_Z = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """What was drafted and kept of it; None where the source does not say.

    `comparable` is false where positions after a rejection count as accepted too, as in V0.
    """

    source: str
    where: str
    ratio: float
    drafts: float
    length: float | None = None
    drafted: float | None = None
    k: int | None = None
    survival: tuple[float, ...] = ()
    conditional: tuple[float, ...] = ()
    coverage: float | None = None
    comparable: bool = True

    @property
    def ratio_high(self) -> float:
        """The upper end of acceptance's 95 % interval, a draft counting once (Wilson)."""
        n, p = self.drafts, self.ratio
        centre = p + _Z * _Z / (2.0 * n)
        spread = _Z * math.sqrt(p * (1.0 - p) / n + _Z * _Z / (4.0 * n * n))
        return (centre + spread) / (1.0 + _Z * _Z / n)


def draftings(case: Case) -> Iterator[Drafting]:
    """Give what each model's page says; where no page says anything, what the log says."""
    told = False
    for model in case.models:
        one = of_page(model.derived)
        if one is not None:
            told = True
            yield one
    if not told and case.log is not None:
        one = of_log(case.log)
        if one is not None:
            yield one


def of_page(derived: Derived) -> Drafting | None:
    """Read a model's figures; None where it drafted nothing that can be counted."""
    values = derived.values
    ratio, drafts = derived.number("acceptance_ratio"), derived.number("drafts")
    if ratio is None:
        return None
    count = _guessed(derived) if drafts is None else drafts
    if count <= 0.0:
        return None
    return Drafting(
        source="page",
        where=derived.model_name,
        ratio=ratio,
        drafts=count,
        length=derived.number("acceptance_length"),
        drafted=derived.number("draft_tokens"),
        k=_whole(values.get("num_speculative_tokens")),
        survival=_list(values.get("position_acceptance_ratio")),
        conditional=_list(values.get("position_conditional_acceptance_ratio")),
        coverage=derived.number("draft_coverage_ratio"),
        comparable=derived.method is not Method.V0_LIFETIME,
    )


def _guessed(derived: Derived) -> float:
    """Stand in for a count of drafts that the page lacks: its drafted tokens, at most 8 a draft."""
    drafted = derived.number("draft_tokens")
    if drafted is not None:
        return drafted / 8.0
    return 1000.0 if derived.method is Method.V0_LIFETIME else 0.0


def of_log(log: Log) -> Drafting | None:
    """Pool V1's lines; of V0's, which are of a whole life, take the last."""
    lines = [one for one in log.speculated if one.v1 and one.drafted > 0]
    if not lines:
        old = [one for one in log.speculated if not one.v1 and one.drafted > 0]
        if not old:
            return None
        last = old[-1]
        return Drafting(
            source="log",
            where="",
            ratio=last.accepted / last.drafted,
            drafts=last.drafted / 8.0,
            drafted=last.drafted,
            comparable=False,
        )
    weights = [_drafts(one) for one in lines]
    drafts, k = math.fsum(weights), max(len(one.positions) for one in lines)
    accepted = math.fsum(one.accepted for one in lines)
    drafted = math.fsum(one.drafted for one in lines)
    survival = _pooled(lines, weights, k)
    full = bool(k) and drafted >= FULL_DRAFTS * k * drafts * 0.99
    return Drafting(
        source="log",
        where="",
        ratio=accepted / drafted,
        length=1.0 + accepted / drafts,
        drafts=drafts,
        drafted=drafted,
        k=k or None,
        survival=survival,
        conditional=_conditional(survival) if full else (),
    )


def _drafts(line: Speculated) -> float:
    """Count a line's drafts, which it does not tell: accepted over length less one."""
    if line.length is not None and line.length > 1.0:
        return line.accepted / (line.length - 1.0)
    return line.drafted / max(len(line.positions), 1)


def _pooled(lines: Sequence[Speculated], weights: Sequence[float], k: int) -> tuple[float, ...]:
    total = math.fsum(weights)
    padded = [(*one.positions, *(0.0,) * (k - len(one.positions))) for one in lines]
    return tuple(
        math.fsum(weight * shares[place] for weight, shares in zip(weights, padded, strict=True))
        / total
        for place in range(k)
    )


def _conditional(survival: Sequence[float]) -> tuple[float, ...]:
    found, before = [], 1.0
    for share in survival:
        if before <= 0.0:
            break
        found.append(share / before)
        before = share
    return tuple(found)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _list(value: object) -> tuple[float, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(float(one) for one in value)
    return ()
