"""What a sweep has so far, and its file: added to run by run, written after each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.choose import weigh
from specgauge.preflight.sweep.document import document
from specgauge.preflight.sweep.measure import Site
from specgauge.preflight.sweep.order import Visit
from specgauge.preflight.sweep.prune import prune
from specgauge.preflight.sweep.result import Result, conclude
from specgauge.preflight.sweep.schema import Kept, Run, State


@dataclass(slots=True, kw_only=True)
class Book:
    """The runs and how each candidate stands; `write` takes the document after every change."""

    candidates: tuple[Candidate, ...]
    loads: tuple[int, ...]
    expected: tuple[float, ...]
    settings: Mapping[str, Any]
    created: datetime
    write: Callable[[dict[str, Any]], None]
    visits: int = 0
    runs: list[Run] = field(default_factory=list)
    states: dict[str, State] = field(default_factory=dict)
    complete: bool = False

    def take_up(self, kept: Kept, *, retry: bool) -> None:
        """Go on from what an earlier run left; `retry` gives failures another try."""
        names = {one.name for one in self.candidates}
        self.created = kept.created
        self.runs = [run for run in kept.runs if not (retry and run.failure is not None)]
        for state in kept.states:
            if state.name in names and not (retry and state.status == "failed"):
                self.states[state.name] = state

    def has(self, visit: Visit) -> bool:
        """Tell whether a visit was made."""
        wanted = (visit.candidate, visit.concurrency, visit.round)
        return any((run.candidate, run.concurrency, run.round) == wanted for run in self.runs)

    def status(self, name: str) -> str:
        """Tell how a candidate stands."""
        return self._state(name).status

    def needless(self, candidate: Candidate) -> str | None:
        """Say why a candidate without a single run need not be tried; None where it must be."""
        if any(run.candidate == candidate.name for run in self.runs):
            return None
        weights = weigh(self.loads, self.expected)
        return prune(candidate, self.result().cells, self.loads, weights)

    def add(self, run: Run, site: Site) -> None:
        """Keep a run."""
        self.runs.append(run)
        self._set(run.candidate, status="measured", reason=None, server=site.server)

    def fail(self, name: str, reason: str, tail: Sequence[str]) -> None:
        """Keep why a candidate cannot be measured."""
        self._set(name, status="failed", reason=reason, tail=tuple(tail))

    def prune(self, name: str, reason: str) -> None:
        """Keep why a candidate need not be measured."""
        self._set(name, status="pruned", reason=reason)

    def settle(self) -> None:
        """Note that nothing is left to do."""
        self.complete = True
        self.save()

    def save(self) -> None:
        """Write everything down."""
        self.write(self.document())

    def result(self) -> Result:
        """Work out what follows so far."""
        return conclude(self.candidates, self.runs, list(self.states.values()), self.expected)

    def document(self) -> dict[str, Any]:
        """Give the sweep file's document."""
        return document(
            self.result(),
            states=[self._state(one.name) for one in self.candidates],
            runs=self.runs,
            settings=self.settings,
            created=self.created,
            complete=self.complete,
        )

    def told(self, run: Run) -> str:
        """Put a run on one line."""
        place = f"{run.candidate}: concurrency {run.concurrency}, round {run.round}"
        done = f"{len(self.runs)} of {self.visits}"
        if run.failure is not None or run.level is None or run.level.server is None:
            return f"{place}: failed, {run.failure} ({done})"
        server, told = run.level.server, run.speculation
        ratio = told.acceptance_ratio if told is not None else None
        accepted = "" if ratio is None else f", acceptance {ratio:.1%}"
        return f"{place}: TPOT {server.tpot_seconds * 1e3:.4g} ms{accepted} ({done})"

    def _state(self, name: str) -> State:
        return self.states.get(name) or State(name=name)

    def _set(self, name: str, **changes: Any) -> None:
        self.states[name] = self._state(name).model_copy(update=changes)
        self.save()
