"""Judges the recorded servers as a user would, and holds three simpler judges beside it.

Shared by tests/test_verdict_accuracy.py and benchmarks/verdict_accuracy.py. A truth is a ratio of
what clients measured without speculation to what they measured with it: above 1 it pays.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from tests.recorded import H200_LEVELS, H200_MODES, PAGES, load_page, load_series, load_truth

from specgauge.baseline.from_pages import PagePair, TimedPage, from_pairs, from_timeline
from specgauge.baseline.schema import BaselineFile, usable
from specgauge.cli.moments import Moment
from specgauge.cli.verdict import Run, follow, judge_run
from specgauge.derive.judge import Terms
from specgauge.derive.latency import buckets, quantile
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.engines.reader import Reader
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Hints
from specgauge.model.quantity import Quantity
from specgauge.model.settings import TargetSettings
from specgauge.model.verdict import Judgement
from specgauge.serve import tracker
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.demo.recording import RecordingName, load, recorded_baseline

SPECULATIVE = tuple(mode for mode in H200_MODES if mode != "none")
CPU_PHASES = ("t0-c1", "t1-c1", "t0-c4", "t1-c4")
SETTLED = 15.0
"""Seconds after which a live verdict must have followed a change of the load."""

_FLOOR, _REGRESSION = 0.4, 1.2
_CHANGE = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One stretch of one server: the verdict, what clients measured, what simpler judges say.

    `truths` are ratios by what was measured; a simpler judge says True where it sees a gain.
    """

    name: str
    truths: dict[str, float]
    judged: Judgement
    acceptance_floor: bool
    step_ratio: bool
    e2e_p95: bool

    @property
    def agreed(self) -> str | None:
        """The verdict that all truths agree on; None where they do not."""
        if all(one > 1.0 for one in self.truths.values()):
            return "pays"
        return "costs" if all(one < 1.0 for one in self.truths.values()) else None


def h200_cells(modes: Sequence[str] = SPECULATIVE, *, single_load: int = 8) -> Iterator[Case]:
    """Judge cells against the four levels without speculation, fixed lengths.

    `single_load` is the one load whose E2E at p95 the simplest judge knows.
    """
    baseline = fixed_lengths()
    plain = load_truth("h200/none")["levels"]
    single = _e2e_p95(_cell("none", single_load))
    for mode in modes:
        for level in H200_LEVELS:
            own, none = load_truth(f"h200/{mode}")["levels"][str(level)], plain[str(level)]
            truths = {
                "tpot": none["tpot_mean"] / own["tpot_mean"],
                "e2e": none["e2e_p50"] / own["e2e_p50"],
                "throughput": own["tokens"] / own["wall_s"] * none["wall_s"] / none["tokens"],
            }
            yield _case(f"{mode} c{level}", truths, _cell(mode, level), _cell("none", level),
                        baseline, single)  # fmt: skip


def h200_phases(baseline: Baseline, spacing: int = 1) -> Iterator[Case]:
    """Judge the eagle ramp phase by phase; the truth is under identical arrivals."""
    pages, plain = ramp(RecordingName.SPECULATIVE), ramp(RecordingName.STANDARD)
    truth = ramps_truth()
    seconds = truth["phase_seconds"]
    single = _e2e_p95(follow(_between(plain, seconds, 2 * seconds)))
    for place, phase in enumerate(truth["phases"]):
        start = place * seconds
        run = follow(_between(pages[::spacing], start, start + seconds))
        beside = follow(_between(plain[::spacing], start, start + seconds))
        none, eagle = phase["none"], phase["eagle"]
        truths = {
            "arrivals": none["decode_seconds"] / eagle["decode_seconds"],
            "e2e": none["e2e_seconds"] / eagle["e2e_seconds"],
        }
        name = f"eagle ramp {phase['arrivals_per_second']}/s, phase {place + 1}"
        yield _case(name, truths, run, beside, baseline, single)


def cpu_phases() -> Iterator[Case]:
    """Judge the CPU series phase by phase, without the seconds in which the load changes."""
    own, plain = load_series("ngram"), load_series("none")
    single = _e2e_p95(follow(_between(series("none"), *_settled(plain, "t0-c1"))))
    for phase in CPU_PHASES:
        run, beside = (
            follow(_between(series(mode), *_settled(one, phase)))
            for mode, one in (("ngram", own), ("none", plain))
        )
        truths = {"tpot": _client(plain, phase) / _client(own, phase)}
        yield _case(f"ngram {phase}", truths, run, beside, observed_on_cpu(), single)


def live_verdicts(mode: str) -> Iterator[tuple[str, Judgement]]:
    """Replay a CPU series through the sidecar; gives phase and verdict from 15 s into each."""
    terms = ComparisonTerms(baselines=(observed_on_cpu(),), interval=2.0)
    followed = tracker.Tracker(TargetSettings(name="cpu", url="http://cpu"), 60.0, terms)
    recorded = load_series(mode)
    for page in recorded["pages"]:
        at = tracker.Moment(time=page["at"], unix=1e9 + page["at"])
        followed.page(page["text"].encode(), complete=True, at=at, seconds=0.1)
        for phase in recorded["phases"]:
            if phase["start"] + SETTLED <= page["at"] <= phase["end"] and "requests" in phase:
                (judged,) = followed.view.judgements.values()
                yield phase["phase"], judged


def sliding(length: float, spacing: int, *, disjoint: bool = False) -> Iterator[Judgement]:
    """Judge the ramp without speculation in windows, from every page or one after the other."""
    baseline = recorded()
    for offset in range(1 if disjoint else spacing):
        pages = ramp(RecordingName.STANDARD)[offset::spacing]
        count = round(length / spacing)
        for first in range(0, len(pages) - count, count if disjoint else 1):
            yield only(follow(pages[first : first + count + 1]), baseline)


def plain_phases(spacing: int = 1) -> Iterator[Judgement]:
    """Judge the ramp without speculation phase by phase."""
    seconds = ramps_truth()["phase_seconds"]
    for start in range(0, 7 * seconds, seconds):
        pages = _between(ramp(RecordingName.STANDARD)[::spacing], start, start + seconds)
        yield only(follow(pages), recorded())


def only(run: Run, baseline: Baseline) -> Judgement:
    """Judge the one model of a run, by its time per token."""
    (judged,) = judge_run(run, baseline, Hints(), Terms(), now=None)
    return judged


@cache
def recorded() -> Baseline:
    """Give the packaged baseline: eight levels, mixed lengths."""
    return usable(recorded_baseline(), source="recorded")


@cache
def observed_on_ramp() -> Baseline:
    """Learn a baseline from the ramp without speculation."""
    return _learnt(ramp(RecordingName.STANDARD))


@cache
def observed_on_cpu() -> Baseline:
    """Learn a baseline from the CPU series without speculation."""
    return _learnt(series("none"))


@cache
def fixed_lengths() -> Baseline:
    """Make a baseline of the four H200 levels without speculation."""
    pairs = []
    for level in H200_LEVELS:
        before, after = _cell_pages("none", level)
        pairs.append(PagePair(before=before, after=after, place=f"c{level}",
                              seconds=_wall("none", level)))  # fmt: skip
    return _file(from_pairs(pairs).levels, "target", "from_pages")


@cache
def ramp(name: RecordingName) -> tuple[Moment, ...]:
    """Read a packaged recording."""
    reader = Reader()
    return tuple(
        Moment(time=page.at, page=reader.read(page.text.encode())) for page in load(name).pages
    )


@cache
def series(mode: str) -> tuple[Moment, ...]:
    """Read a CPU series."""
    reader = Reader()
    pages = load_series(mode)["pages"]
    return tuple(Moment(time=one["at"], page=reader.read(one["text"].encode())) for one in pages)


@cache
def ramps_truth() -> Any:
    """Load what the clients of both ramps measured."""
    return json.loads((PAGES / "ramps-truth.json").read_text())


def _case(
    name: str,
    truths: dict[str, float],
    run: Run,
    beside: Run,
    baseline: Baseline,
    single: float | None,
) -> Case:
    judged, own = only(run, baseline), _values(run)
    p95 = _e2e_p95(run)
    return Case(
        name=name,
        truths=truths,
        judged=judged,
        acceptance_floor=own.get("acceptance_ratio", 0.0) >= _FLOOR,
        step_ratio=_values(beside)["step_seconds"] > own["step_seconds"],
        e2e_p95=p95 is not None and single is not None and p95 <= _REGRESSION * single,
    )


def _values(run: Run) -> Any:
    (window,) = windows(
        run.first.totals, run.last, run.page, run.last.time - run.first.time
    ).values()
    return summarise(window, Hints()).values


def _e2e_p95(run: Run) -> float | None:
    (window,) = windows(
        run.first.totals, run.last, run.page, run.last.time - run.first.time
    ).values()
    return quantile(buckets(window, Quantity.E2E), 0.95)


def _cell(mode: str, level: int) -> Run:
    before, after = _cell_pages(mode, level)
    return follow([Moment(time=0.0, page=before), Moment(time=_wall(mode, level), page=after)])


def _cell_pages(mode: str, level: int) -> list[Any]:
    reader = Reader()
    return [
        reader.read(load_page(f"h200/{mode}/c{level}-{moment}.prom"))
        for moment in ("before", "after")
    ]


def _wall(mode: str, level: int) -> float:
    return float(load_truth(f"h200/{mode}")["levels"][str(level)]["wall_s"])


def _between(moments: Sequence[Moment], start: float, end: float) -> list[Moment]:
    """Take the pages whose intervals lie within a stretch, give or take half an interval."""
    spare = min(after.time - before.time for before, after in pairwise(moments)) / 2
    return [one for one in moments if start - spare <= one.time <= end + spare]


def _settled(recording: Any, name: str) -> tuple[float, float]:
    phase = _phase(recording, name)
    return phase["start"] + _CHANGE, phase["end"]


def _phase(recording: Any, name: str) -> Any:
    (phase,) = (one for one in recording["phases"] if one["phase"] == name)
    return phase


def _client(recording: Any, name: str) -> float:
    """Give the seconds of a request's token as the client's totals tell it."""
    phase = _phase(recording, name)
    streams = int(name.rpartition("c")[2])
    return float((phase["end"] - phase["start"]) * streams / phase["generation_tokens"])


def _learnt(moments: Sequence[Moment]) -> Baseline:
    pages = [TimedPage(time=one.time, page=one.page) for one in moments]
    learned = from_timeline(pages, place="recording")
    return _file(learned.levels, learned.model, "observed")


def _file(levels: Any, model: str, method: Any) -> Baseline:
    document = {
        "created": "2026-01-01T00:00:00Z",
        "method": method,
        "model": {"name": model},
        "levels": [one.model_dump() for one in levels],
    }
    return usable(BaselineFile.model_validate(document), source=method)
