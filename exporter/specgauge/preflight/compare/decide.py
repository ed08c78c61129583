"""From cells and quality to one decision with its reasons; never averages classes together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from specgauge.model.outcome import ExitCode
from specgauge.preflight.compare.bouts import CellKey
from specgauge.preflight.compare.cells import Cell
from specgauge.preflight.compare.gates import (
    CellVerdict,
    Gate,
    GateName,
    GateState,
    Terms,
    gates,
    verdict,
)
from specgauge.preflight.compare.quality import Passes, Quality, fallen, unchecked


class Decision(StrEnum):
    """What to do with speculation."""

    PROMOTE = "promote"
    EVEN = "even"
    ONLY_BELOW_LOAD = "only_below_load"
    KEEP_OFF = "keep_off"
    UNDECIDED = "undecided"


class Why(StrEnum):
    """What a decision rests on."""

    EVERY_GATE_PASSED = "every_gate_passed"
    NO_DIFFERENCE = "no_difference"
    FAILS_ABOVE = "fails_above_load"
    NO_LOAD_PASSES = "no_load_passes"
    LOWEST_LOAD_FAILS = "lowest_load_fails"
    GAIN_TOO_SMALL = "gain_too_small"
    NOT_ENOUGH_KNOWN = "not_enough_known"
    QUALITY_FELL = "quality_fell"
    CLASSES_DIFFER = "classes_differ"
    NEVER_SPECULATED = "never_speculated"


EXIT_CODES: Mapping[Decision, ExitCode] = {
    Decision.PROMOTE: ExitCode.OK,
    Decision.EVEN: ExitCode.OK,
    Decision.ONLY_BELOW_LOAD: ExitCode.FAILED,
    Decision.KEEP_OFF: ExitCode.FAILED,
    Decision.UNDECIDED: ExitCode.NO_VERDICT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A cell with its verdict and gates."""

    cell: Cell
    verdict: CellVerdict
    gates: tuple[Gate, ...]

    @property
    def state(self) -> GateState:
        """Pass where every measured gate passes; fail where one fails."""
        states = {gate.state for gate in self.gates}
        if GateState.FAIL in states:
            return GateState.FAIL
        return GateState.UNKNOWN if GateState.UNKNOWN in states else GateState.PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A decision; `below` is the load from which on it does not hold, `reasons` are sentences."""

    decision: Decision
    why: Why
    below: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that was decided; `missing` are cells of the plan that were not measured."""

    overall: Ruling
    by_class: Mapping[str, Ruling]
    cells: tuple[Judged, ...]
    missing: tuple[CellKey, ...] = ()
    quality: Mapping[str, Quality] = field(default_factory=dict)

    @property
    def exit_code(self) -> ExitCode:
        """What the command ends with."""
        return EXIT_CODES[self.overall.decision]


def decide(
    cells: Sequence[Cell],
    terms: Terms,
    *,
    missing: Sequence[CellKey] = (),
    quality: Mapping[str, Quality] | None = None,
    speculated: bool | None = None,
) -> Outcome:
    """Decide class by class and then for all; `speculated` False: no draft was ever seen."""
    judged = tuple(
        Judged(cell=cell, verdict=verdict(cell, terms), gates=gates(cell, terms)) for cell in cells
    )
    names = dict.fromkeys(key.traffic_class or "" for key in (*(c.key for c in cells), *missing))
    by_class = {
        name: _rule(
            [one for one in judged if (one.cell.key.traffic_class or "") == name],
            [key for key in missing if (key.traffic_class or "") == name],
            terms,
        )
        for name in names
    }
    overall = _overall(by_class, quality or {})
    if speculated is False:
        told = "no draft was counted in any cell: what was compared is not speculation"
        overall = Ruling(decision=Decision.UNDECIDED, why=Why.NEVER_SPECULATED, reasons=(told,))
    return Outcome(
        overall=overall,
        by_class=by_class,
        cells=judged,
        missing=tuple(missing),
        quality=quality or {},
    )


def _overall(by_class: Mapping[str, Ruling], quality: Mapping[str, Quality]) -> Ruling:
    if fell := fallen(quality):
        losses = tuple(_fell(name, quality[name]) for name in fell)
        return Ruling(decision=Decision.KEEP_OFF, why=Why.QUALITY_FELL, reasons=losses)
    ruling = _worst(list(by_class.values()))
    if (lacking := unchecked(quality)) and ruling.decision is not Decision.KEEP_OFF:
        told = tuple(_unchecked(name, quality[name]) for name in lacking)
        reasons = (*ruling.reasons, *told)
        return Ruling(decision=Decision.UNDECIDED, why=Why.NOT_ENOUGH_KNOWN, reasons=reasons)
    return ruling


def _worst(rulings: Sequence[Ruling]) -> Ruling:
    """Give the worst ruling of all classes, with the reasons of each."""
    if not rulings:
        told = "nothing was measured"
        return Ruling(decision=Decision.UNDECIDED, why=Why.NOT_ENOUGH_KNOWN, reasons=(told,))
    if len(rulings) == 1:
        return rulings[0]
    reasons = tuple(text for one in rulings for text in one.reasons)
    worst = max(rulings, key=lambda one: _RANK[one.decision])
    same = {one.decision for one in rulings} == {worst.decision}
    limits = [one.below for one in rulings if one.below is not None]
    below = min(limits) if worst.decision is Decision.ONLY_BELOW_LOAD else None
    why = worst.why if same else Why.CLASSES_DIFFER
    return Ruling(decision=worst.decision, why=why, below=below, reasons=reasons)


def _rule(judged: Sequence[Judged], missing: Sequence[CellKey], terms: Terms) -> Ruling:
    """Decide for the cells of one class, from the lowest load to the highest."""
    loads = sorted({key.load.concurrency for key in (*(j.cell.key for j in judged), *missing)})
    at = {load: [j for j in judged if j.cell.key.load.concurrency == load] for load in loads}
    gaps = {key.load.concurrency for key in missing}
    states = [_state(at[load], missing=load in gaps) for load in loads]
    leading = next((n for n, s in enumerate(states) if s is not GateState.PASS), len(states))
    passing = [one for load in loads[:leading] for one in at[load]]
    decision, why = _word(states, leading)
    if decision is not Decision.PROMOTE and not missing and all(_is_even(one) for one in judged):
        decision, why = Decision.EVEN, Why.NO_DIFFERENCE
    if decision is Decision.ONLY_BELOW_LOAD and _best(passing) <= terms.steady:
        decision, why = Decision.KEEP_OFF, Why.GAIN_TOO_SMALL
    below = loads[leading] if decision is Decision.ONLY_BELOW_LOAD else None
    return Ruling(decision=decision, why=why, below=below, reasons=_reasons(judged, missing))


def _word(states: Sequence[GateState], leading: int) -> tuple[Decision, Why]:
    """Decide by the states of the loads, of which so many pass from the lowest on."""
    if leading == len(states):
        return Decision.PROMOTE, Why.EVERY_GATE_PASSED
    if GateState.FAIL not in states[leading:]:
        return Decision.UNDECIDED, Why.NOT_ENOUGH_KNOWN
    if leading:
        return Decision.ONLY_BELOW_LOAD, Why.FAILS_ABOVE
    if states[0] is not GateState.FAIL:
        return Decision.UNDECIDED, Why.NOT_ENOUGH_KNOWN
    others = GateState.PASS in states
    return Decision.KEEP_OFF, Why.LOWEST_LOAD_FAILS if others else Why.NO_LOAD_PASSES


def _best(judged: Sequence[Judged]) -> float:
    return max(one.cell.ratios["tpot_mean"].value for one in judged)


def _state(judged: Sequence[Judged], *, missing: bool) -> GateState:
    states = {one.state for one in judged}
    if GateState.FAIL in states:
        return GateState.FAIL
    return GateState.UNKNOWN if missing or GateState.UNKNOWN in states else GateState.PASS


def _is_even(judged: Judged) -> bool:
    """Tell whether only the speedup that was asked for is not there, and nothing else is lost."""
    wrong = {gate.name for gate in judged.gates if gate.state is GateState.FAIL}
    return judged.verdict is CellVerdict.EVEN and wrong <= {GateName.SPEEDUP}


def _reasons(judged: Sequence[Judged], missing: Sequence[CellKey]) -> tuple[str, ...]:
    """Tell the speedup of every cell, and what else of it does not pass."""
    lines = [
        f"{one.cell.key}: {gate.name} {gate.state} ({gate.reason})"
        + (f": {gate.told}" if gate.told else "")
        for one in judged
        for gate in one.gates
        if gate.name is GateName.SPEEDUP or gate.state is not GateState.PASS
    ]
    return (*lines, *(f"{key}: not measured" for key in missing))


def _unchecked(name: str, found: Quality) -> str:
    prefix, passes = _checked(name, found)
    return (
        f"{prefix}the check had {passes.baseline_of} answers of the baseline pool and "
        f"{passes.speculative_of} with speculation to look at: quality is not known"
    )


def _fell(name: str, found: Quality) -> str:
    prefix, passes = _checked(name, found)
    return (
        f"{prefix}{passes.speculative} of {passes.speculative_of} answers pass the check with "
        f"speculation, {passes.baseline} of {passes.baseline_of} without (chance if it made no "
        f"difference: {passes.chance:.2g})"
    )


def _checked(name: str, found: Quality) -> tuple[str, Passes]:
    assert found.passes is not None
    return f"{name}: " if name else "", found.passes


_RANK: Mapping[Decision, int] = {
    Decision.PROMOTE: 0,
    Decision.EVEN: 1,
    Decision.ONLY_BELOW_LOAD: 2,
    Decision.UNDECIDED: 3,
    Decision.KEEP_OFF: 4,
}
