"""Rank what could draft for a target: what was checked before what is only known by name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specgauge.preflight.draft.families import Family, Known
from specgauge.preflight.draft.finding import Fit
from specgauge.preflight.draft.judge import Report
from specgauge.preflight.draft.releases import NEEDS_NO_DRAFT, rules

_RANKS = {
    Fit.COMPATIBLE: 1, Fit.WITH_CONDITIONS: 2, Fit.UNKNOWN: 4, Fit.INCOMPATIBLE: 5,
}  # fmt: skip
_FIRST = 0
_BY_NAME = 3
_LIKELY_COST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One candidate with why it stands where it does; `report` is None where not checked."""

    name: str
    method: str
    why: str
    report: Report | None = None
    rank: int
    cost: float = 1.0


def order(
    target_rows: int | None,
    reports: Sequence[Report],
    family: Family | None,
    *,
    release: str,
) -> list[Suggestion]:
    """Put candidates in order: no draft at all, then what fits, by what a drafted token costs."""
    found = [_checked(one) for one in reports]
    there = {one.name for one in found}
    known = family.drafts if family is not None else ()
    found += [
        _known(one, target_rows, release=release)
        for one in known
        if one.name not in there and _is_other(one, reports)
    ]
    return sorted(found, key=lambda one: (one.rank, one.cost, one.name))


def _is_other(known: Known, reports: Iterable[Report]) -> bool:
    """Say whether a known draft is something else than the target itself."""
    sources = {one.pair.target.source for one in reports}
    return known.name not in sources and not any(
        source.rstrip("/").endswith(known.name.split("/")[-1]) for source in sources
    )


def _checked(report: Report) -> Suggestion:
    method = report.pair.method
    if method in NEEDS_NO_DRAFT:
        ngram = method == "ngram"
        return Suggestion(
            name=method,
            method=method,
            why="the least clever method, and nothing to load or match: try it first where the "
            "output repeats its prompt (code, extraction, summaries)"
            if ngram
            else "like ngram, and remembers earlier outputs too; needs arctic-inference",
            report=report,
            rank=_FIRST if report.fit is not Fit.INCOMPATIBLE else _RANKS[report.fit],
            cost=0.0 if ngram else 0.001,
        )
    cost = report.cost.ratio
    return Suggestion(
        name=report.pair.draft.source if report.pair.draft is not report.pair.target else method,
        method=method,
        why=_why(report),
        report=report,
        rank=_RANKS[report.fit],
        cost=_LIKELY_COST if cost is None else cost,
    )


def _why(report: Report) -> str:
    """Give the reason in a few words: the heaviest finding, and the cost."""
    cost = report.cost.ratio
    told = "" if cost is None else f"a drafted token costs about {cost:.2f} of a step"
    if not report.findings or report.fit is Fit.COMPATIBLE:
        return told or "fits"
    first = f"{report.findings[0].code}: {report.findings[0].message}"
    return first if report.fit is Fit.INCOMPATIBLE or not told else f"{told}; {first}"


def _known(one: Known, rows: int | None, *, release: str) -> Suggestion:
    """Say of a draft known by name what its published size promises."""
    why = "not checked: known by name"
    fits = rows is None or one.method != "draft_model" or one.vocab_size == rows
    if not rules(release, one.method).has_method:
        fits, why = False, f"not checked: {release} has no method {one.method}"
    elif not fits:
        why += f"; its {one.vocab_size} rows are not the target's {rows}"
    return Suggestion(
        name=one.name, method=one.method, why=why, rank=_BY_NAME if fits else _RANKS[Fit.UNKNOWN]
    )
