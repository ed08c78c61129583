"""How right verdicts are on recorded servers whose clients measured the truth.

    python benchmarks/verdict_accuracy.py

Reads the recordings of the package and of tests/pages; takes seconds. Truths are ratios of what
clients measured without speculation to with it. Beside the verdict stand three simpler judges: an
acceptance of at least 0.4, the ratio of mean inter-token latencies, and E2E at p95 no more than
20 % above the baseline's at one load.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.judged import (
    SPECULATIVE,
    Case,
    cpu_phases,
    h200_cells,
    h200_phases,
    observed_on_ramp,
    plain_phases,
    recorded,
    sliding,
)

from specgauge.model.verdict import Judgement

_SIMPLE = ("acceptance_floor", "step_ratio", "e2e_p95")
_HEAD = ("server", "clients measured", "verdict", "speedup", "error", "acceptance", "ITL", "E2E")
_GAIN = {True: "pays", False: "costs"}


def main() -> None:
    """Print every table."""
    cells, plain = list(h200_cells()), list(h200_cells(["none"]))
    _table("H200, closed loop, fixed lengths, against four levels", [*cells, *plain], "tpot")
    _score(cells, plain)
    for name, baseline in (("recorded", recorded()), ("observed", observed_on_ramp())):
        for spacing in (1, 5):
            title = f"H200, eagle ramp, {name} baseline, a page every {spacing} s (throughput)"
            _table(title, h200_phases(baseline, spacing), "arrivals", basis="throughput")
    _table("CPU, n-gram series, against one observed on the series without", cpu_phases(), "tpot")
    print("\n## No speculation against its own baseline (H200 ramp)\n")
    print("| windows | page every | even | unknown | pays or costs | lowest | highest |")
    print("|---|---|---|---|---|---|---|")
    for spacing in (1, 5):
        _plain("phases", spacing, list(plain_phases(spacing)))
        for length in (15.0, 60.0):
            _plain(f"{length:g} s, one after the other", spacing,
                   list(sliding(length, spacing, disjoint=True)))  # fmt: skip
            _plain(f"{length:g} s, from every page", spacing, list(sliding(length, spacing)))


def _table(title: str, cases: Iterable[Case], truth: str, basis: str = "concurrency") -> None:
    print(f"\n## {title}\n")
    print(f"| {' | '.join(_HEAD)} |")
    print(f"|{'---|' * len(_HEAD)}")
    for case in cases:
        found = case.judged.ratios[basis]
        measured = ", ".join(f"{name} {one:.3f}" for name, one in case.truths.items())
        row = [
            case.name,
            measured,
            f"{case.judged.verdict} ({case.judged.reason})",
            f"{found:.3f}",
            f"{found / case.truths[truth] - 1:+.1%}",
            *(_GAIN[getattr(case, name)] for name in _SIMPLE),
        ]
        print(f"| {' | '.join(row)} |")


def _score(cells: Sequence[Case], plain: Sequence[Case]) -> None:
    """Count right answers by time per token; for a server without speculation `costs` is wrong."""
    print()
    own = sum(case.judged.verdict == _GAIN[case.truths["tpot"] > 1.0] for case in cells)
    open_ = sum(case.judged.verdict in {"even", "unknown"} for case in cells)
    print(f"verdict: {own} of {len(cells)} right, {open_} left open; {len(plain)} of {len(plain)} "
          "without speculation even")  # fmt: skip
    for name in _SIMPLE[:2]:
        _count(name, name, cells, plain)
    for load in (1, 8, 32, 128):
        own_load = (list(h200_cells(modes, single_load=load)) for modes in (SPECULATIVE, ["none"]))
        _count(f"e2e_p95 against c{load}", "e2e_p95", *own_load)


def _count(what: str, judge: str, cells: Sequence[Case], plain: Sequence[Case]) -> None:
    right = sum(getattr(case, judge) is (case.truths["tpot"] > 1.0) for case in cells)
    accused = sum(not getattr(case, judge) for case in plain)
    print(f"{what}: {right} of {len(cells)} right; without speculation {accused} of "
          f"{len(plain)} called a loss")  # fmt: skip


def _plain(what: str, spacing: int, found: Sequence[Judgement]) -> None:
    verdicts = [str(one.verdict) for one in found]
    ratios = [one.ratios["concurrency"] for one in found]
    wrong = len(found) - verdicts.count("even") - verdicts.count("unknown")
    print(f"| {what} | {spacing} s | {verdicts.count('even')} | {verdicts.count('unknown')} | "
          f"{wrong} | {min(ratios):.3f} | {max(ratios):.3f} |")  # fmt: skip


if __name__ == "__main__":
    main()
