"""`specgauge verdict`: whether speculation pays in recorded pages, against a baseline."""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from specgauge.baseline.facts import facts_of
from specgauge.baseline.files import load_file
from specgauge.baseline.match import match
from specgauge.baseline.schema import usable
from specgauge.cli.moments import Moment, read_moments
from specgauge.cli.values import LONGEST_WINDOW, READ_BY_US, FiniteRange
from specgauge.cli.verdict_text import ENGINE_RESTARTED, IDENTICAL_PAGES, describe
from specgauge.derive.accumulate import advance, open_ledger
from specgauge.derive.judge import Shape, Terms, judge
from specgauge.derive.pieces import is_evidence, pieces, usual_spacing
from specgauge.derive.speedup import Piece
from specgauge.derive.summary import summarise
from specgauge.derive.verdict_document import document
from specgauge.derive.window import windows
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Derived, Hints
from specgauge.model.ledger import Interval, Ledger
from specgauge.model.outcome import ExitCode
from specgauge.model.quantity import Kind, Measure, Page, Quantity
from specgauge.model.verdict import Judgement, Verdict


@click.command(
    epilog="\b\nExample:\n  specgauge verdict --baseline baseline.json "
    "--window 60 before.prom after.prom"
)
@click.argument("pages", nargs=-1, type=READ_BY_US, metavar="[BEFORE AFTER]")
@click.option("--baseline", "file", required=True, type=READ_BY_US, help="Baseline file.")
@click.option(
    "--window",
    type=FiniteRange(0.0, LONGEST_WINDOW, min_open=True),
    metavar="SECONDS",
    help="Time between BEFORE and AFTER.",
)
@click.option("--timeline", type=READ_BY_US, help="JSONL file of pages with times.")
@click.option(
    "--margin",
    type=FiniteRange(0.0, 0.5),
    default=0.05,
    show_default=True,
    help="A speedup this close to 1 is even.",
)
@click.option("--method", help="Speculation method the server was started with.")
@click.option("--json", "as_json", is_flag=True, help="Print specgauge.verdict/v1.")
def verdict(
    pages: tuple[Path, ...],
    file: Path,
    window: float | None,
    timeline: Path | None,
    margin: float,
    method: str | None,
    as_json: bool,
) -> int:
    """Say whether speculation paid between two pages or over a timeline.

    Exit code 0: it pays or is even; 1: it costs; 4: no verdict is possible.
    """
    run = follow(read_moments(pages, window, timeline))
    baseline = load_baseline(file)
    terms = Terms(margin=margin)
    judged = judge_run(run, baseline, Hints(method=method), terms, now=time.time())
    if as_json:
        click.echo(json.dumps(document(judged), indent=1, allow_nan=False, ensure_ascii=False))
    else:
        for one in judged:
            click.echo(describe(one))
    return exit_code(judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Pages added up: the ledgers at both ends, the last page, the intervals between.

    `still` says that nothing differs from page to page.
    """

    first: Ledger
    last: Ledger
    page: Page
    intervals: tuple[Interval, ...]
    still: bool


def follow(moments: Iterable[Moment]) -> Run:
    """Add the pages of a run up, of which there are at least two."""
    start, *rest = moments
    first = ledger = open_ledger(start.page, start.time)
    intervals = []
    for moment in rest:
        ledger, interval = advance(ledger, moment.page, moment.time)
        intervals.append(interval)
    return Run(
        first=first,
        last=ledger,
        page=rest[-1].page,
        intervals=tuple(intervals),
        still=all(moment.page.values == start.page.values for moment in rest),
    )


def judge_run(
    run: Run, baseline: Baseline, hints: Hints, terms: Terms, *, now: float | None
) -> list[Judgement]:
    """Judge every model of a run by the intervals that are evidence.

    `now` is the Unix time by which the baseline's age is told; None where it is not to matter.
    """
    usual = usual_spacing([interval.seconds for interval in run.intervals])
    by_model: dict[str, list[Piece]] = defaultdict(list)
    for interval in run.intervals:
        if is_evidence(interval, usual):
            for model, piece in pieces(interval, run.page.layout.dialect).items():
                by_model[model].append(piece)
    seconds = run.last.time - run.first.time
    found = windows(run.first.totals, run.last, run.page, seconds, run.first.doubts)
    judged = []
    for model, window in found.items():
        derived = summarise(window, hints)
        fit = match(baseline, facts_of(run.page, model), now=now)
        judged.append(
            judge(
                derived,
                by_model[model],
                baseline,
                shape=_shape(derived, window.sums),
                mismatches=fit.mismatches,
                warnings=(*fit.warnings, *derived.warnings, *_doubts(run, model)),
                spread=fit.spread,
                terms=terms,
            )
        )
    return judged


def load_baseline(path: Path) -> Baseline:
    """Read a baseline file."""
    return usable(load_file(path), source=str(path))


def exit_code(judged: list[Judgement]) -> ExitCode:
    """Give 1 where speculation costs anywhere, 4 where a model has no verdict, else 0."""
    verdicts = {one.verdict for one in judged}
    if Verdict.COSTS in verdicts:
        return ExitCode.FAILED
    return ExitCode.NO_VERDICT if Verdict.UNKNOWN in verdicts or not verdicts else ExitCode.OK


def _doubts(run: Run, model: str) -> tuple[str, ...]:
    """Say what about the pages themselves may be why they tell little."""
    if run.still:
        return (IDENTICAL_PAGES,)
    began_anew = any(name == model for one in run.intervals for name, _ in one.reset)
    return (ENGINE_RESTARTED,) if began_anew else ()


def _shape(derived: Derived, sums: Mapping[Measure, float]) -> Shape:
    """Give the load's shape over the whole run."""
    return Shape(
        requests=sums.get((Quantity.TTFT, Kind.COUNT, ""), 0.0),
        prompt_tokens=derived.number("prompt_tokens_per_request"),
        output_tokens=derived.number("output_tokens_per_request"),
    )
