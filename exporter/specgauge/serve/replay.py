"""A recorded timeline through the very code that guards a live server; nothing is written."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from specgauge.errors import SourceError
from specgauge.guard.evidence import read_evidence
from specgauge.guard.policy import Policy
from specgauge.model.guard import Blind, Decision, GuardReason, Look
from specgauge.model.outcome import ScrapeResult
from specgauge.model.settings import TargetSettings
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.pools import Room, room
from specgauge.serve.timeline import Entry
from specgauge.serve.tracker import Moment, Tracker
from specgauge.serve.watchman import Circumstances, Watchman

STANDARD = "standard"
"""The `pool` of a page that a server without speculation showed."""

STANDARD_LINE = "standard_pool"
"""The reason of a line that tells of the standard pool alone, where nothing else is decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a timeline is replayed under; times in seconds.

    `unix` is the clock's offset for what compares dates: a baseline's age.
    """

    policy: Policy
    target: TargetSettings
    comparison: ComparisonTerms
    unix: float = 0.0


def usual_step(times: Sequence[float]) -> float:
    """Give the usual time between the lines of a timeline, in seconds; 1 where there is none."""
    steps = [after - before for before, after in pairwise(times)]
    forward = [step for step in steps if step > 0.0]
    return median(forward) if forward else 1.0


def usual_spacing(entries: Iterable[Entry]) -> float:
    """Give the usual time between two lines of the speculative pool, in seconds.

    Lines of the standard pool may lie between them, or at the same times.
    """
    lines = [(entry.time, entry.pool == STANDARD) for entry in entries]
    ours = [time for time, standard in lines if not standard]
    return usual_step(ours or [time for time, _ in lines])


def replay(entries: Iterable[Entry], terms: Rehearsal) -> Iterator[Decision]:
    """Decide on every line. The flag reads on at first, and every write is obeyed at once.

    A page recorded while the flag is off says nothing of speculation. One that is marked as the
    standard pool's tells of that pool alone, whatever the flag. Where the clock goes back,
    windows begin anew.
    """
    reel = _Reel(terms)
    for entry in entries:
        yield reel.play(entry)


class _Reel:
    """Keeps what lies between two lines: both pools and the watchman."""

    def __init__(self, terms: Rehearsal) -> None:
        window = terms.comparison.decision_window
        acting = replace(terms.policy, dry_run=False, decision_window=window)
        self._terms = replace(terms, policy=acting)
        self._watchman: Watchman | None = None
        self._latest = -math.inf
        self._begin_anew()

    def _begin_anew(self) -> None:
        terms = self._terms
        window = terms.comparison.window
        compared = replace(terms.comparison, guarded=True)
        self._ours = Tracker(terms.target, window, compared)
        plain = replace(terms.target, name=STANDARD, role=STANDARD)
        self._theirs = Tracker(plain, window, replace(compared, baselines=(), live=None))
        self._spare, self._spare_at = Room(), -math.inf
        self._ready_at: dict[str, float] = {}

    def play(self, entry: Entry) -> Decision:
        time = entry.time
        if self._watchman is None:
            self._watchman = Watchman(self._terms.policy, time=time)
            self._watchman.adopt(read_back=True, saved=None, time=time)
        if time < self._latest:
            self._begin_anew()
        self._latest = time
        standard = entry.pool == STANDARD
        looks, error = self._beside(entry) if standard else self._looks(entry)
        decision = self._watchman.consider(
            looks,
            Circumstances(room=self._room(time), confirmed=self._watchman.state.flag),
            time=time,
            unix=self._terms.unix + time,
            error=error,
        )
        if standard and decision.reason == GuardReason.NO_PAGE:
            return replace(decision, reason=STANDARD_LINE)
        return decision

    def _looks(self, entry: Entry) -> tuple[Mapping[str, Look], str | Blind]:
        """Give what a line shows of the speculative pool, or why it shows nothing."""
        if entry.evidence is not None:
            shown = self._read(entry, entry.evidence)
            return {shown.model_name: shown}, ""
        if isinstance(entry.error, Blind):
            return {}, entry.error
        problem = self._scrape(self._ours, entry)
        return self._ours.view.looks, problem

    def _beside(self, entry: Entry) -> tuple[Mapping[str, Look], str]:
        """Take in what a line shows of the standard pool; of the other one it shows nothing."""
        if entry.evidence is not None:
            shown = self._read(entry, entry.evidence)
            self._spare = Room(up=True, numbers=shown.numbers)
        else:
            self._scrape(self._theirs, entry)
            self._spare = room([self._theirs.view])
        self._spare_at = entry.time
        return {}, STANDARD_LINE

    def _scrape(self, tracker: Tracker, entry: Entry) -> str:
        """Take a page in as if it had just been fetched, or its failure; gives what went wrong."""
        if entry.data is None:
            error = str(entry.error or "no page")
            tracker.failure(SourceError(_result(error), error), 0.0)
            return error
        at = Moment(time=entry.time, unix=self._terms.unix + entry.time)
        try:
            tracker.page(entry.data, complete=True, at=at, seconds=0.0)
        except SourceError as problem:
            tracker.failure(problem, 0.0)
            return str(problem.result)
        return ""

    def _read(self, entry: Entry, evidence: Mapping[str, object]) -> Look:
        """Make a look of ready evidence; what overlaps the evidence before is not new."""
        compared = self._terms.comparison
        kept = f"{entry.pool or ''}/{evidence.get('model_name') or ''}"
        spacing = entry.time - self._ready_at.get(kept, -math.inf)
        self._ready_at[kept] = entry.time
        return read_evidence(
            evidence,
            end=entry.time,
            window=compared.decision_window,
            spacing=spacing,
            margin=compared.terms.margin,
        )

    def _room(self, time: float) -> Room:
        """Give what is known of the standard pool, unless that was a window ago."""
        old = time - self._spare_at > self._terms.comparison.window
        return Room() if old else self._spare


def _result(error: str) -> ScrapeResult:
    try:
        return ScrapeResult(error)
    except ValueError:
        return ScrapeResult.UNREACHABLE
