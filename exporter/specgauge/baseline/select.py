"""Picks the baseline that belongs to a server from several; says why it takes none.

What must match is equal where both sides know it. Of those that fit, the one that shares most
facts is taken, then one of the same minor release, then the newest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from specgauge.baseline.faults import shown
from specgauge.baseline.match import MUST_MATCH, Match, match
from specgauge.baseline.schema import BaselineFile, usable
from specgauge.model.baseline import Baseline

_FACTS = (*MUST_MATCH, "engine.version")


class Choice(StrEnum):
    """How the search ended."""

    FOUND = "found"
    NONE = "no_baseline"
    AMBIGUOUS = "ambiguous_baselines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The choice; `source` and `match` only where one was found, `reasons` for people always."""

    choice: Choice
    reasons: tuple[str, ...]
    source: str | None = None
    match: Match | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    source: str
    facts: Mapping[str, object]
    match: Match
    shared: int
    same_release: bool
    created: float

    @property
    def rank(self) -> tuple[int, bool, bool, float]:
        whole = "baseline_partial" not in self.match.warnings
        return (self.shared, whole, self.same_release, self.created)


def select(
    files: Mapping[str, BaselineFile], server: Mapping[str, object], *, now: float | None
) -> Selection:
    """Choose among files by source for a server of which these facts are known."""
    known = [usable(file, source=source) for source, file in files.items()]
    return select_baseline(known, server, now=now)


def select_baseline(
    baselines: Sequence[Baseline], server: Mapping[str, object], *, now: float | None
) -> Selection:
    """Choose among baselines for a server of which these facts are known."""
    fits = [_fit(baseline, server, now) for baseline in baselines]
    fitting = [fit for fit in fits if not fit.match.mismatches]
    if not fitting:
        reasons = tuple(line for fit in fits for line in _differences(fit, server))
        return Selection(choice=Choice.NONE, reasons=reasons or ("there are no baselines",))
    best = max(fitting, key=lambda fit: fit.rank)
    doubts = [line for other in fitting if (line := _doubt(best, other, server))]
    if doubts:
        return Selection(choice=Choice.AMBIGUOUS, reasons=tuple(doubts))
    why = f"{best.source}: {best.shared} facts agree, of {len(fitting)} that fit"
    return Selection(choice=Choice.FOUND, reasons=(why,), source=best.source, match=best.match)


def differences(
    baseline: Mapping[str, object], server: Mapping[str, object], names: Sequence[str]
) -> tuple[str, ...]:
    """Say how facts of these names differ, a line each."""
    return tuple(
        f"{name}: the baseline is of {shown(baseline.get(name))}, "
        f"the server has {shown(server.get(name))}"
        for name in names
    )


def _fit(baseline: Baseline, server: Mapping[str, object], now: float | None) -> _Fit:
    found = match(baseline, server, now=now)
    known = [name for name in _FACTS if _known(baseline.facts, name) and _known(server, name)]
    return _Fit(
        source=baseline.source,
        facts=baseline.facts,
        match=found,
        shared=sum(name in MUST_MATCH for name in known),
        same_release="engine.version" in known and "baseline_engine_release" not in found.warnings,
        created=baseline.created or 0.0,
    )


def _differences(fit: _Fit, server: Mapping[str, object]) -> list[str]:
    lines = differences(fit.facts, server, fit.match.mismatches)
    return [f"{fit.source}: {line}" for line in lines]


def _doubt(best: _Fit, other: _Fit, server: Mapping[str, object]) -> str | None:
    """Say what the server would have to tell to choose between two that fit equally well."""
    if other is best or other.shared < best.shared:
        return None
    open_facts = [
        name
        for name in MUST_MATCH
        if not _known(server, name)
        and _known(best.facts, name)
        and _known(other.facts, name)
        and best.facts[name] != other.facts[name]
    ]
    if open_facts:
        what = " and ".join(open_facts)
        return f"{best.source} and {other.source} differ in {what}, which the server does not tell"
    if other.rank == best.rank:
        return f"{best.source} and {other.source} were made at the same time; remove one of them"
    return None


def _known(facts: Mapping[str, object], name: str) -> bool:
    return facts.get(name) is not None
