"""Gates by a comparison of two pools under the same load, `specgauge.compare/v1`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from specgauge.preflight.checklist.case import Case
from specgauge.preflight.checklist.evidence import COMPARE, Evidence
from specgauge.preflight.checklist.live_gates import usable_live
from specgauge.preflight.checklist.paper import given
from specgauge.preflight.checklist.reading import at, mappings, number, word
from specgauge.preflight.checklist.result import (
    Reason,
    Result,
    Status,
    failed,
    passed,
    unmeasured,
)

_STEADY, _BURST = "steady", "burst"
_DECISION = "promote"
_UNDECIDED = "undecided"
_ENOUGH_PAIRS = 100
_NEAR = 1.5
_NO_RATIO = "no usable ratio of requests that both pools answered"
_REPEATS = "more repeats make the interval narrower"
_LIMITS = "run specgauge compare with this load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times as good it is with speculation, with its 95 % interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.3g}x"
        return f"{self.value:.3g}x ({self.low:.3g} to {self.high:.3g})"

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval, or the point twice."""
        low = self.value if self.low is None else self.low
        return low, self.value if self.high is None else self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One load of a comparison: what it stands for, and its ratios."""

    name: str
    role: str | None
    pairs: float | None
    speedup: Ratio | None
    e2e: Ratio | None
    p99: Ratio | None


Weighed = tuple[Status, str]


def judge_comparison(case: Case) -> Result:
    """Say whether the comparison decided for speculation."""
    found = _compared(case)
    if isinstance(found, Result):
        return found
    decision, why = word(found.body.get("decision")), word(found.body.get("why"))
    says = f"{decision}: {why}" if why else f"{decision}"
    proof = found.proof()
    if decision is None:
        return unmeasured(Reason.INCOMPLETE, f"{found.source}: has no decision", proof)
    if decision == _DECISION:
        return passed(says, proof)
    if decision == _UNDECIDED:
        return unmeasured(Reason.NO_VERDICT, says, proof, fix=_REPEATS)
    return failed(Reason.REJECTED, says, proof, fix="speculate only where the comparison allows it")


def _compared(case: Case) -> Evidence | Result:
    """Give a comparison that is whole, and of nothing but speculation."""
    found = given(case, case.compare, COMPARE)
    if isinstance(found, Result):
        return found
    fields = [
        word(one.get("field")) or "a field"
        for one in mappings(found.body.get("differences"))
        if one.get("expected") is not True
    ]
    if fields:
        says = f"{found.source}: the pools differ in {', '.join(fields)} as well"
        fix = "compare pools that differ in nothing but speculation"
        return unmeasured(Reason.MISMATCH, says, found.proof(), fix=fix)
    if found.body.get("partial") is not False or found.body.get("missing"):
        says = f"{found.source}: it is partial: not every cell was measured"
        return unmeasured(Reason.INCOMPLETE, says, found.proof(), fix="let it run to its end")
    return found


def judge_expected(case: Case) -> Result:
    """Say whether speculation is worth it at the load that is expected."""
    if case.compare is None and case.terms.expected_concurrency is not None:
        return _live_speedup(case, case.terms.expected_concurrency)
    least = case.terms.min_speedup
    return _judge_cells(
        case, _STEADY, lambda cell: _above(cell.speedup, least), f"speedup above {least:g}"
    )


def judge_burst(case: Case) -> Result:
    """Say whether speculation costs nothing in a burst."""
    least = case.terms.min_burst_speedup
    return _judge_cells(
        case, _BURST, lambda cell: _not_below(cell.speedup, least), f"speedup at least {least:g}"
    )


def judge_p99(case: Case) -> Result:
    """Say whether the slowest requests are no slower, at every load."""
    most = case.terms.max_p99_ratio

    def weigh(cell: Cell) -> Weighed:
        if cell.pairs is not None and cell.pairs < _ENOUGH_PAIRS:
            says = f"{cell.pairs:.0f} pairs of requests, a P99 needs {_ENOUGH_PAIRS}"
            return Status.NOT_MEASURED, says
        return _not_below(cell.p99, 1.0 / most if most else float("inf"))

    return _judge_cells(case, None, weigh, f"P99 at most {most:g} times that without speculation")


def _judge_cells(
    case: Case, role: str | None, weigh: Callable[[Cell], Weighed], wanted: str
) -> Result:
    """Hold every cell of a role against what is wanted: the worst one decides."""
    found = _compared(case)
    if isinstance(found, Result):
        return found
    cells = [one for one in _cells(found) if role is None or one.role == role]
    if not cells:
        load = f"{role} load" if role else "load"
        says = f"{found.source}: there is no {load} in it"
        return unmeasured(Reason.INCOMPLETE, says, found.proof(), fix=_LIMITS)
    weighed = [(cell, *weigh(cell)) for cell in cells]
    cell, status, says = min(weighed, key=lambda one: _RANK[one[1]])
    proof = found.proof(**_numbers(cell))
    says = f"{cell.name}: {says}; wanted is {wanted}"
    if status is Status.PASS:
        return passed(says, proof)
    if status is Status.FAIL:
        return failed(Reason.NOT_MET, says, proof, fix="speculate only below this load, or not")
    return unmeasured(Reason.NO_VERDICT, says, proof, fix=_REPEATS)


_RANK = {Status.FAIL: 0, Status.NOT_MEASURED: 1, Status.PASS: 2}


def _above(ratio: Ratio | None, least: float) -> Weighed:
    """Ask for the whole interval above: a promise is to be kept."""
    if ratio is None:
        return Status.NOT_MEASURED, _NO_RATIO
    low, high = ratio.ends
    if low > least:
        return Status.PASS, f"{ratio}"
    return (Status.FAIL if high <= least else Status.NOT_MEASURED), f"{ratio}"


def _not_below(ratio: Ratio | None, least: float) -> Weighed:
    """Ask for the point not below; what may be noise is no loss, and no proof either."""
    if ratio is None:
        return Status.NOT_MEASURED, _NO_RATIO
    if ratio.value >= least:
        return Status.PASS, f"{ratio}"
    return (Status.FAIL if ratio.ends[1] < least else Status.NOT_MEASURED), f"{ratio}"


def _cells(evidence: Evidence) -> Iterator[Cell]:
    for one in mappings(evidence.body.get("cells")):
        parts = (word(one.get("load")), word(one.get("traffic_class")))
        yield Cell(
            name=" ".join(part for part in parts if part) or "a load",
            role=word(one.get("role")),
            pairs=number(one.get("pairs")),
            speedup=_ratio(at(one, "speedup.tpot_mean")),
            e2e=_ratio(at(one, "speedup.e2e_mean")),
            p99=_ratio(at(one, "speedup.e2e_p99")),
        )


def _ratio(value: object) -> Ratio | None:
    """Take a ratio, with its interval where it has one.

    One that is not above 0 is none, and so is one whose interval is half, or somewhere else.
    """
    middle = number(at(value, "value"))
    if middle is None or middle <= 0:
        return None
    if at(value, "low") is None and at(value, "high") is None:
        return Ratio(value=middle)
    low, high = number(at(value, "low")), number(at(value, "high"))
    if low is None or high is None or not low <= middle <= high:
        return None
    return Ratio(value=middle, low=low, high=high)


def _numbers(cell: Cell) -> dict[str, float | None]:
    found: dict[str, float | None] = {"pairs": cell.pairs}
    for name, ratio in (("speedup", cell.speedup), ("e2e", cell.e2e), ("e2e_p99", cell.p99)):
        if ratio is not None:
            found |= {f"{name}_ratio": ratio.value}
            found |= {f"{name}_ratio_low": ratio.low, f"{name}_ratio_high": ratio.high}
    return found


def _live_speedup(case: Case, expected: float) -> Result:
    """Without a comparison the sidecar's word counts, while the load is as expected."""
    live = usable_live(case)
    if isinstance(live, Result):
        return live
    proof = live.proof(
        speedup_ratio=live.speedup,
        speedup_ratio_low=live.speedup_low,
        speedup_ratio_high=live.speedup_high,
        e2e_speedup_ratio=live.e2e_speedup,
        decode_concurrency=live.decode_concurrency,
    )
    load, least = live.decode_concurrency, case.terms.min_speedup
    if load is None or not expected / _NEAR <= load <= expected * _NEAR:
        seen = "no load" if load is None else f"{load:.3g} requests in decode"
        says = f"{seen} now, {expected:g} are expected"
        return unmeasured(Reason.LOW_SAMPLE, says, proof, fix="give --compare, or try again then")
    if live.speedup is None:
        says = f"the sidecar has no speedup: {live.verdict_reason or 'no verdict'}"
        return unmeasured(Reason.NO_VERDICT, says, proof)
    ratio = Ratio(value=live.speedup, low=live.speedup_low, high=live.speedup_high)
    status, told = _above(ratio, least)
    says = f"live at {load:.3g} in decode: {told}; wanted is speedup above {least:g}"
    if status is Status.PASS:
        return passed(says, proof)
    if status is Status.FAIL:
        return failed(Reason.NOT_MET, says, proof, fix="see specgauge verdict for why")
    return unmeasured(Reason.NO_VERDICT, says, proof, fix="give --compare")
