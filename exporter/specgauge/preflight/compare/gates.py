"""What a cell must show before its load may speculate: each gate with its state and numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from specgauge.derive.statistics import Estimate
from specgauge.preflight.compare.bouts import Role
from specgauge.preflight.compare.cells import Cell
from specgauge.preflight.compare.chances import fall_chance

LUCK = 0.05
"""A difference of counts that luck makes less often than this is one."""

ENOUGH_FOR_P99, ENOUGH_FOR_P95 = 100, 20
"""Of fewer pairs the percentile is one request's fate."""


class CellVerdict(StrEnum):
    """What speculation did to a cell's time per token."""

    PAYS = "pays"
    COSTS = "costs"
    EVEN = "even"
    UNDECIDED = "undecided"


class GateName(StrEnum):
    """What is asked of every cell."""

    SPEEDUP = "speedup"
    E2E = "e2e"
    TAIL = "tail"
    ERRORS = "errors"


class GateState(StrEnum):
    """How a gate stands; one that was not measured neither passes nor blocks."""

    PASS = "pass"  # noqa: S105 - no password here
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_MEASURED = "not_measured"


class GateReason(StrEnum):
    """Why a gate stands as it does."""

    SPEEDUP_REACHED = "speedup_reached"
    SPEEDUP_BELOW = "speedup_below_threshold"
    STRADDLES = "interval_straddles_threshold"
    NOTHING_PAIRED = "nothing_paired"
    TOO_FEW_REPEATS = "too_few_repeats"
    NOT_WORSE = "not_worse"
    WORSE = "worse"
    NOT_KNOWN = "not_known"
    TOO_FEW_PAIRS = "too_few_pairs"
    NO_REQUESTS = "no_requests"
    NOT_MORE = "not_more"
    MORE = "more"
    OUT_OF_MEMORY = "out_of_memory"
    SPECULATIVE_DIED = "speculative_died"
    BASELINE_DIED = "baseline_died"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is asked: speedups by role, and how much worse counts as no worse."""

    steady: float = 1.3
    burst: float = 1.0
    idle: float = 1.0
    margin: float = 0.05

    def threshold(self, role: Role) -> float:
        """Give the speedup that a role asks for."""
        return {Role.IDLE: self.idle, Role.STEADY: self.steady, Role.BURST: self.burst}[role]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate of one cell; `told` has its numbers for people."""

    name: GateName
    state: GateState
    reason: GateReason
    told: str


def gates(cell: Cell, terms: Terms) -> tuple[Gate, ...]:
    """Hold a cell against everything that is asked of it."""
    return (_speedup(cell, terms), _e2e(cell, terms), _tail(cell, terms), _errors(cell))


def verdict(cell: Cell, terms: Terms) -> CellVerdict:
    """Say what speculation did to time per token; a loss must not be a gain in whole requests."""
    found = cell.ratios.get("tpot_mean")
    if found is None or (found.low is None and not cell.single):
        return CellVerdict.UNDECIDED
    low, high = _ends(found)
    whole = cell.ratios.get("e2e_mean")
    if low > 1.0 + terms.margin:
        return CellVerdict.PAYS
    if high < 1.0 - terms.margin:
        better = whole is not None and whole.value > 1.0
        return CellVerdict.EVEN if better else CellVerdict.COSTS
    single = found.low is None
    wide = terms.margin if single else 2.0 * terms.margin
    near = 1.0 - wide <= low and high <= 1.0 + wide
    return CellVerdict.EVEN if near else CellVerdict.UNDECIDED


def _speedup(cell: Cell, terms: Terms) -> Gate:
    role, found = cell.key.load.role, cell.ratios.get("tpot_mean")
    wanted = terms.threshold(role)
    sign = ">" if role is Role.STEADY else ">="
    if found is None:
        told = "no request was answered by both pools within the window; give a longer one"
        if cell.pairs:
            told = "no time per token: a server counts no tokens, or answers come in one piece"
        return _gate(GateName.SPEEDUP, GateState.UNKNOWN, GateReason.NOTHING_PAIRED, told)
    told = f"{interval(found)}, asked {sign} {wanted:g}"
    if found.low is None and not cell.single:
        return _gate(GateName.SPEEDUP, GateState.UNKNOWN, GateReason.TOO_FEW_REPEATS, told)
    low, high = _ends(found)
    least = wanted if role is Role.STEADY else wanted * (1.0 - terms.margin)
    if low > least:
        return _gate(GateName.SPEEDUP, GateState.PASS, GateReason.SPEEDUP_REACHED, told)
    if high <= least:
        return _gate(GateName.SPEEDUP, GateState.FAIL, GateReason.SPEEDUP_BELOW, told)
    return _gate(GateName.SPEEDUP, GateState.UNKNOWN, GateReason.STRADDLES, told)


def _e2e(cell: Cell, terms: Terms) -> Gate:
    found = cell.ratios.get("e2e_mean")
    if found is None:
        return _gate(GateName.E2E, GateState.NOT_MEASURED, GateReason.NO_REQUESTS, "")
    return _not_worse(GateName.E2E, found, "whole requests", terms)


def _tail(cell: Cell, terms: Terms) -> Gate:
    label = "p99" if cell.pairs >= ENOUGH_FOR_P99 else "p95"
    found = cell.ratios.get(f"e2e_{label}") if cell.pairs >= ENOUGH_FOR_P95 else None
    if found is None:
        told = f"{cell.pairs} pairs of requests"
        return _gate(GateName.TAIL, GateState.NOT_MEASURED, GateReason.TOO_FEW_PAIRS, told)
    return _not_worse(GateName.TAIL, found, f"{label.upper()} of whole requests", terms)


def _not_worse(name: GateName, found: Estimate, what: str, terms: Terms) -> Gate:
    """Judge whether a latency is no worse: within the margin, or on the better side."""
    low, high = _ends(found)
    told = f"{what} {interval(found)}"
    if low >= 1.0 - terms.margin:
        return _gate(name, GateState.PASS, GateReason.NOT_WORSE, told)
    if high < 1.0:
        return _gate(name, GateState.FAIL, GateReason.WORSE, told)
    if found.value >= 1.0:
        return _gate(name, GateState.PASS, GateReason.NOT_WORSE, told)
    return _gate(name, GateState.UNKNOWN, GateReason.NOT_KNOWN, told)


def _errors(cell: Cell) -> Gate:
    one, two = cell.baseline, cell.speculative
    failed, of, before, before_of = two.failed, two.requests, one.failed, one.requests
    told = f"{failed} of {of} against {before} of {before_of}"
    if "speculative" in cell.died:
        return _errors_gate(GateState.FAIL, GateReason.SPECULATIVE_DIED, cell.died["speculative"])
    if "baseline" in cell.died:
        return _errors_gate(GateState.UNKNOWN, GateReason.BASELINE_DIED, cell.died["baseline"])
    if two.out_of_memory and not one.out_of_memory:
        told = f"{two.out_of_memory} out of memory; {told}"
        return _errors_gate(GateState.FAIL, GateReason.OUT_OF_MEMORY, told)
    if not of or not before_of:
        return _errors_gate(GateState.NOT_MEASURED, GateReason.NO_REQUESTS, "")
    if failed and fall_chance(of - failed, of, before_of - before, before_of) < LUCK:
        return _errors_gate(GateState.FAIL, GateReason.MORE, told)
    return _errors_gate(GateState.PASS, GateReason.NOT_MORE, told)


def _errors_gate(state: GateState, reason: GateReason, told: str) -> Gate:
    return _gate(GateName.ERRORS, state, reason, told)


def _gate(name: GateName, state: GateState, reason: GateReason, told: str) -> Gate:
    return Gate(name=name, state=state, reason=reason, told=told)


def interval(found: Estimate) -> str:
    """Write a ratio with its interval for people."""
    if found.low is None or found.high is None:
        return f"{found.value:.2f}x"
    return f"{found.value:.2f}x ({found.low:.2f} to {found.high:.2f})"


def _ends(found: Estimate) -> tuple[float, float]:
    low = found.value if found.low is None else found.low
    return low, found.value if found.high is None else found.high


STATES: Mapping[GateState, int] = {
    GateState.FAIL: 3,
    GateState.UNKNOWN: 2,
    GateState.NOT_MEASURED: 1,
    GateState.PASS: 0,
}
"""From the worst to the best."""
