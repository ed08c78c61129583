"""From both pools' records to the outcome; pass counts come from whoever ran the check."""

from collections.abc import Mapping
from dataclasses import replace

from specgauge.preflight.compare.bouts import CellKey
from specgauge.preflight.compare.cells import Cell, Figures, measure
from specgauge.preflight.compare.decide import Outcome, decide
from specgauge.preflight.compare.gates import Terms
from specgauge.preflight.compare.plan import Contest
from specgauge.preflight.compare.quality import Passes, Quality, compare_texts
from specgauge.preflight.compare.records import AGAIN, GREEDY, Record


def judge(
    contest: Contest,
    baseline: Record,
    speculative: Record,
    terms: Terms,
    *,
    passes: Mapping[str, Passes] | None = None,
) -> Outcome:
    """Judge every cell of the plan; one that a pool has no bout of is missing."""
    cells: list[Cell] = []
    missing: list[CellKey] = []
    for number, key in enumerate(contest.cells):
        first = [bout for bout in baseline.bouts if bout.key == key]
        second = [bout for bout in speculative.bouts if bout.key == key]
        if first and second:
            cells.append(measure(key, first, second, seed=contest.seed + number))
        else:
            missing.append(key)
    cells = _with_logs(cells, baseline, speculative)
    return decide(
        cells,
        terms,
        missing=missing,
        quality=_quality(baseline, speculative, passes or {}),
        speculated=speculative.speculated,
    )


def _with_logs(cells: list[Cell], baseline: Record, speculative: Record) -> list[Cell]:
    """Charge what the logs say of memory to the heaviest load, which nobody can split further."""
    if not cells:
        return cells
    *rest, last = cells
    return [
        *rest,
        replace(
            last,
            baseline=_charged(last.baseline, baseline.out_of_memory_lines),
            speculative=_charged(last.speculative, speculative.out_of_memory_lines),
        ),
    ]


def _charged(figures: Figures, lines: int | None) -> Figures:
    return replace(figures, out_of_memory=figures.out_of_memory + (lines or 0))


def _quality(
    baseline: Record, speculative: Record, passes: Mapping[str, Passes]
) -> dict[str, Quality]:
    found = {}
    for name, first in baseline.texts.items():
        second = speculative.texts.get(name, {})
        one, other = first.get(GREEDY, ()), second.get(GREEDY, ())
        if not one or len(one) != len(other):
            continue
        again = first.get(AGAIN, ())
        found[name] = Quality(
            between=compare_texts(one, other),
            itself=compare_texts(one, again) if len(again) == len(one) else None,
            passes=passes.get(name),
            failed=sum(text is None for text in (*one, *other)),
        )
    return found
