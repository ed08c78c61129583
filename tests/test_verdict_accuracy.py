"""How right verdicts are on recorded servers whose truth the clients measured."""

import statistics
from collections import defaultdict

import pytest
from tests.judged import (
    CPU_PHASES,
    SPECULATIVE,
    Case,
    cpu_phases,
    fixed_lengths,
    h200_cells,
    h200_phases,
    live_verdicts,
    observed_on_ramp,
    plain_phases,
    ramp,
    ramps_truth,
    recorded,
    sliding,
)
from tests.recorded import H200_LEVELS
from tests.test_statistics import RAMPS_CORRELATION

from specgauge.cli.verdict import follow
from specgauge.derive.pieces import pieces
from specgauge.derive.speedup import Piece, cost
from specgauge.derive.statistics import autocorrelation
from specgauge.model.baseline import Baseline
from specgauge.model.verdict import Verdict, VerdictReason
from specgauge.serve.demo.recording import RecordingName

CELLS = {case.name: case for case in h200_cells()}
EVERY_CELL = [f"{mode} c{level}" for mode in SPECULATIVE for level in H200_LEVELS]
CPU = {case.name: case for case in cpu_phases()}
BASELINES = {"recorded": recorded, "observed": observed_on_ramp}

every_cell = pytest.mark.parametrize("name", EVERY_CELL)
every_baseline = pytest.mark.parametrize("learnt", BASELINES)


# A server without speculation against a baseline of its own


@pytest.mark.parametrize("spacing", [1, 5], ids=["every 1 s", "every 5 s"])
@pytest.mark.parametrize("length", [15.0, 60.0], ids=["15 s", "60 s"])
def test_no_difference_where_there_is_none(length: float, spacing: int) -> None:
    """The ramp without speculation is even, window after window, against its own baseline."""
    found = list(sliding(length, spacing, disjoint=True))
    assert len(found) >= 134 // length - 1
    assert {(one.verdict, one.reason) for one in found} == {
        (Verdict.EVEN, VerdictReason.WITHIN_MARGIN)
    }


@pytest.mark.parametrize("spacing", [1, 5], ids=["every 1 s", "every 5 s"])
@pytest.mark.parametrize("length", [15.0, 60.0], ids=["15 s", "60 s"])
def test_never_a_gain_or_loss_where_there_is_none(length: float, spacing: int) -> None:
    """Wherever a window begins it neither pays nor costs; where it is not even it is unknown."""
    found = list(sliding(length, spacing))
    even = sum(one.verdict is Verdict.EVEN for one in found)
    assert {one.verdict for one in found} <= {Verdict.EVEN, Verdict.UNKNOWN}
    assert even >= 0.98 * len(found)
    assert all(0.94 < one.ratios["concurrency"] < 1.06 for one in found)


@pytest.mark.parametrize("spacing", [1, 5], ids=["every 1 s", "every 5 s"])
def test_every_phase_without_speculation_is_even(spacing: int) -> None:
    """Each phase of the ramp is even as well."""
    assert [one.verdict for one in plain_phases(spacing)] == [Verdict.EVEN] * 7


# The speculative ramp, under the same arrivals


@pytest.mark.parametrize("spacing", [1, 5], ids=["every 1 s", "every 5 s"])
@every_baseline
def test_throughput_is_that_of_the_same_arrivals(learnt: str, spacing: int) -> None:
    """In every phase it is within 8 % of what clients of both servers measured."""
    for case in h200_phases(BASELINES[learnt](), spacing):
        assert case.judged.ratios["throughput"] == pytest.approx(case.truths["arrivals"], rel=0.08)


@pytest.mark.parametrize("spacing", [1, 5], ids=["every 1 s", "every 5 s"])
@every_baseline
def test_concurrency_is_on_the_right_side(learnt: str, spacing: int) -> None:
    """It says a gain wherever clients had one, and every second sees it surely."""
    cases = list(h200_phases(BASELINES[learnt](), spacing))
    assert len(cases) == 7
    for case in cases:
        assert case.agreed == "pays"
        assert case.judged.ratios["concurrency"] > 1.05
        assert case.judged.values["e2e_speedup_ratio"] > 1.05
        allowed = {Verdict.PAYS} if spacing == 1 else {Verdict.PAYS, Verdict.UNKNOWN}
        assert case.judged.verdict in allowed


# Cells of fixed load


@every_cell
def test_cell(name: str) -> None:
    """The verdict is right where all that clients measured agrees, and never wrongly `pays`."""
    case = CELLS[name]
    verdict = case.judged.verdict
    if verdict is Verdict.PAYS:
        assert min(case.truths.values()) > 1.0
    if name in OPEN:
        assert (verdict, case.judged.reason) == OPEN[name]
    else:
        assert verdict == case.agreed


OPEN = {
    # tokens are slower, whole requests faster
    "draft c32": (Verdict.EVEN, VerdictReason.LATENCY_TRADEOFF),
    # its load lies above the top level: 108 in decode where the server without speculation had 90
    "eagle c128": (Verdict.UNKNOWN, VerdictReason.OUTSIDE_RANGE),
}


@every_cell
def test_speedup_of_a_cell(name: str) -> None:
    """At equal concurrency it is within 4 % of what the clients measured."""
    case = CELLS[name]
    assert case.judged.ratios["concurrency"] == pytest.approx(case.truths["tpot"], rel=0.04)
    assert case.judged.extrapolated is (name in {f"{mode} c128" for mode in SPECULATIVE})


def test_why_a_cell_stays_open() -> None:
    """Were the baseline above its top as slow as it may be, the loss would lie within the margin.

    That bound is a server whose throughput no longer grows, so what is left is the ratio of
    throughputs: the clients', too, lies within the margin of 1.
    """
    case = CELLS["eagle c128"]
    load = case.judged.values["decode_concurrency"]
    bound = case.judged.ratios["concurrency"] * load / fixed_lengths().curve.top
    assert load > fixed_lengths().curve.top
    assert 0.95 < bound < 1.0
    assert bound == pytest.approx(case.truths["throughput"], rel=0.01)
    assert 0.95 < case.truths["e2e"] < 1.0


@every_cell
def test_e2e_of_a_cell(name: str) -> None:
    """The ratio of whole requests of equal length is near the one that clients measured."""
    case = CELLS[name]
    # a mean here, a median there: they differ most where requests queue in waves
    assert case.judged.values["e2e_speedup_ratio"] == pytest.approx(case.truths["e2e"], rel=0.13)


# The CPU, live


def test_live_verdict_follows_the_load() -> None:
    """From 15 s after each change of the load to the next the sidecar is right."""
    found = defaultdict(list)
    for phase, judged in live_verdicts("ngram"):
        found[phase].append(judged.verdict)
    assert tuple(found) == CPU_PHASES
    for phase, wanted in zip(CPU_PHASES, ("pays", "costs", "pays", "costs"), strict=True):
        assert len(found[phase]) >= 2
        assert set(found[phase]) == {wanted}
        assert CPU[f"ngram {phase}"].agreed == wanted


def test_live_verdict_without_speculation() -> None:
    """The server without speculation never pays nor costs."""
    verdicts = [judged.verdict for _, judged in live_verdicts("none")]
    assert len(verdicts) >= 8
    assert set(verdicts) <= {Verdict.EVEN, Verdict.UNKNOWN}


@pytest.mark.parametrize("phase", CPU_PHASES)
def test_speedup_on_the_cpu(phase: str) -> None:
    """Over a whole phase it is near what the client's totals tell."""
    case = CPU[f"ngram {phase}"]
    assert case.judged.ratios["concurrency"] == pytest.approx(case.truths["tpot"], rel=0.15)


# Simpler judges


def test_simpler_judges_are_wrong_more_often() -> None:
    """Acceptance is right in seven of the twelve cells, the ratio of step times in nine."""
    right = {
        name: sum(getattr(case, name) is (case.truths["tpot"] > 1.0) for case in CELLS.values())
        for name in ("acceptance_floor", "step_ratio")
    }
    assert right["acceptance_floor"] == 7
    assert right["step_ratio"] == 9
    assert sum(_is_wrong(case) for case in CELLS.values()) == 0


def test_latency_of_requests_accuses_the_load() -> None:
    """Held against one load, E2E at p95 calls a server without speculation a loss at others."""
    found = list(h200_cells(["none"]))
    assert [case.e2e_p95 for case in found] == [True, True, True, False]
    assert {case.judged.verdict for case in found} == {Verdict.EVEN}
    busy = list(h200_cells(single_load=128))
    assert sum(case.e2e_p95 is not (case.truths["tpot"] > 1.0) for case in busy) >= 4


def _is_wrong(case: Case) -> bool:
    opposite = {Verdict.PAYS: "costs", Verdict.COSTS: "pays"}.get(case.judged.verdict)
    return opposite is not None and (case.agreed is None or case.agreed == opposite)


# What the intervals of verdicts rest on


@pytest.mark.parametrize(
    "name", [RecordingName.STANDARD, RecordingName.SPECULATIVE], ids=["none", "eagle"]
)
def test_correlation_of_the_ramps(name: RecordingName) -> None:
    """Within a phase a second's residual resembles the next one's no more than is allowed for."""
    seconds = ramps_truth()["phase_seconds"]
    found = []
    for start in range(0, 7 * seconds, seconds):
        chosen = [one for one in ramp(name) if start - 0.5 <= one.time <= start + seconds + 0.5]
        run = follow(chosen)
        seen = [pieces(one, run.page.layout.dialect)["target"] for one in run.intervals]
        found.append(autocorrelation(_residuals(recorded(), seen)))
    assert statistics.mean(found) <= RAMPS_CORRELATION


def _residuals(baseline: Baseline, seen: list[Piece]) -> list[float]:
    priced = [one for each in seen if (one := cost(baseline.curve, each)) is not None]
    ratio = sum(one.concurrency for one in priced) / sum(one.piece.spent for one in priced)
    return [one.concurrency - ratio * one.piece.spent for one in priced]
