"""Everything that follows from the runs of a sweep: cells, choices, schedule. A pure summary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.cell import Cell, cells
from specgauge.preflight.sweep.choose import Pick, Recommendation, picks, recommend, weigh
from specgauge.preflight.sweep.schedule import Schedule, schedule
from specgauge.preflight.sweep.schema import Run, State

NO_BASELINE = "no_candidate_without_speculation"
NO_RESULT = "no_result"
"""Why a speedup or a recommendation is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a sweep found."""

    cells: tuple[Cell, ...]
    picks: tuple[Pick, ...]
    recommended: Recommendation | None
    schedule: Schedule


def conclude(
    candidates: Sequence[Candidate],
    runs: Sequence[Run],
    states: Sequence[State],
    expected: Sequence[float],
) -> Result:
    """Work everything out; it may be called after every run."""
    failed = {one.name: one.reason or "failed" for one in states if one.status == "failed"}
    found = cells(candidates, runs, failed)
    loads = sorted({one.concurrency for one in found if one.usable})
    recommended = recommend(found, weigh(loads, expected)) if loads else None
    family = _family(candidates, found, recommended)
    servers = {one.name: one.server for one in states if one.server is not None}
    own = [s for one in candidates if one.family == family and (s := servers.get(one.name))]
    return Result(
        cells=found,
        picks=picks(found),
        recommended=recommended,
        schedule=schedule(
            candidates,
            found,
            family,
            version=next((one.engine_version for one in own if one.engine_version), None),
            engines=max((one.engines or 1 for one in own), default=None),
        ),
    )


def _family(
    candidates: Sequence[Candidate], found: Sequence[Cell], chosen: Recommendation | None
) -> tuple[str, str]:
    """Pick the method that the schedule is for: the recommended one's, else the quickest's."""
    families: Mapping[str, tuple[str, str]] = {one.name: one.family for one in candidates}
    if chosen is not None and chosen.k != 0:
        return families[chosen.candidate]
    rivals = [one for one in found if one.usable and one.k]
    quickest = max(rivals, key=lambda one: one.speedup or 0.0, default=None)
    return quickest.family if quickest is not None else ("", "")
