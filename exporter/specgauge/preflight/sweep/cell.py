"""What the runs say of each candidate at each load: medians, spread, speedup with its interval.

Numbers in, numbers out; chooses nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from specgauge.baseline.plan import relative_half_width
from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.schema import Repeat, Run, Speculation

NOISY = 0.2
"""A run whose repeats scatter by more than this share of their median says nothing."""

_TO_DEVIATION = 1.4826
"""The median absolute deviation of normal values times this is their standard deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One candidate at one load, over all its rounds.

    `rejected` says why it is no candidate for the choice at this load. `spread` is the scatter
    of the repeats as a share of their median; `half_width` that of the mean's 95 % interval.
    The speedup is over the candidate without speculation, or absent where there is none.
    """

    candidate: str
    k: int | None
    family: tuple[str, str]
    concurrency: int
    rejected: str | None = None
    tpot: float = math.nan
    spread: float = 0.0
    repeats: int = 0
    half_width: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    chain: bool = False
    speculation: Speculation | None = None
    notes: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether it may be chosen."""
        return self.rejected is None

    @property
    def cost(self) -> float:
        """Time per token, raised by what the noise may hide: the choice is for the least."""
        return self.tpot * (1.0 + self.spread / math.sqrt(self.repeats))


def cells(
    candidates: Sequence[Candidate], runs: Sequence[Run], failed: Mapping[str, str]
) -> tuple[Cell, ...]:
    """Sum up all that was measured, by load and in the order of the candidates.

    `failed` names candidates that failed as a whole, with the reason: nothing of them counts.
    """
    ks = {one.name: known_k(one, runs) for one in candidates}
    found = []
    for load in sorted({run.concurrency for run in runs}):
        row = [
            _cell(one, ks[one.name], load, own, failed.get(one.name))
            for one in candidates
            if (own := [r for r in runs if (r.candidate, r.concurrency) == (one.name, load)])
        ]
        base = next((one for one in row if one.k == 0), None)
        found += [compared(one, base) for one in row]
    return tuple(found)


def known_k(candidate: Candidate, runs: Iterable[Run]) -> int | None:
    """Give the k of a candidate: as configured, or as its page told; 0 without speculation."""
    if candidate.k is not None:
        return candidate.k
    told = [run.speculation for run in runs if run.candidate == candidate.name and run.speculation]
    known = [one.num_speculative_tokens for one in told if one.num_speculative_tokens is not None]
    if known:
        return max(known)
    return 0 if any(one.state == "absent" for one in told) else None


def scatter(values: Sequence[float]) -> float:
    """Give the deviation of values as a share of their median, by the median deviation."""
    middle = median(values)
    return _TO_DEVIATION * median(abs(value - middle) for value in values) / middle


def compared(cell: Cell, base: Cell | None) -> Cell:
    """Add the speedup over the server without speculation, where both can be believed."""
    if base is None or not base.usable or not cell.usable:
        return cell
    if cell.candidate == base.candidate:
        return replace(cell, speedup=1.0, low=1.0, high=1.0)
    ratio = base.tpot / cell.tpot
    if cell.half_width is None or base.half_width is None:
        return replace(cell, speedup=ratio)
    half = ratio * math.hypot(cell.half_width, base.half_width)
    return replace(cell, speedup=ratio, low=max(ratio - half, 0.0), high=ratio + half)


def _cell(
    candidate: Candidate, k: int | None, load: int, runs: Sequence[Run], failure: str | None
) -> Cell:
    cell = Cell(
        candidate=candidate.name,
        k=k,
        family=candidate.family,
        concurrency=load,
        chain=candidate.chain,
    )
    good = [run for run in runs if run.failure is None and run.repeats]
    quiet = [run for run in good if scatter([tpot(one) for one in run.repeats]) <= NOISY]
    repeats = [one for run in quiet for one in run.repeats]
    reasons = [run.failure for run in runs if run.failure is not None]
    if failure is not None or not repeats:
        why = failure or (f"{NOISY:.0%} or more noise in every run" if good else reasons[-1])
        return replace(cell, rejected=why)
    values = [tpot(one) for one in repeats]
    notes = [f"round {run.round}: noisy, left out" for run in good if run not in quiet]
    notes += [f"a round failed: {reason}" for reason in reasons]
    return replace(
        cell,
        tpot=median(values),
        spread=scatter(values),
        repeats=len(values),
        half_width=relative_half_width(
            [one.decode_seconds for one in repeats], [one.decode_tokens for one in repeats]
        ),
        speculation=_pooled([run.speculation for run in quiet if run.speculation]),
        notes=tuple(notes),
    )


def tpot(repeat: Repeat) -> float:
    """Give the time per token of one repeat."""
    return repeat.decode_seconds / repeat.decode_tokens


def _pooled(told: Sequence[Speculation]) -> Speculation | None:
    """Take what the rounds said of the drafts as one, weighted by their drafts."""
    drafted = [one for one in told if one.drafts]
    if len(drafted) < 2:  # noqa: PLR2004 - one round is its own mean
        return next(iter((*drafted, *told)), None)
    total = math.fsum(one.drafts or 0.0 for one in drafted)

    def mean(name: str) -> float | None:
        values = [getattr(one, name) for one in drafted]
        if any(value is None for value in values):
            return None
        pairs = zip(drafted, values, strict=True)
        return math.fsum((one.drafts or 0.0) * value for one, value in pairs) / total

    return drafted[0].model_copy(
        update={
            **{name: mean(name) for name in _MEANS},
            "drafts": total,
            "position_acceptance_ratio": _survival(drafted, total),
        }
    )


_MEANS = (
    "acceptance_ratio",
    "acceptance_length",
    "draft_length",
    "draft_coverage_ratio",
    "tokens_per_step",
)


def _survival(drafted: Sequence[Speculation], total: float) -> tuple[float, ...] | None:
    shares = [one.position_acceptance_ratio for one in drafted]
    known = [one for one in shares if one is not None]
    if len(known) < len(shares) or len({len(one) for one in known}) > 1:
        return None
    weights = [(one.drafts or 0.0) / total for one in drafted]
    return tuple(
        math.fsum(weight * value for weight, value in zip(weights, column, strict=True))
        for column in zip(*known, strict=True)
    )
