"""What the requests of each class and pool add up to, in bounded memory; reads nothing itself.

Requests and classes are never averaged: tokens, times and counts are added up, and whoever looks
divides the sums.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import TypeVar

from specgauge.model.traffic import ClassesView, ClassFigures, Drafted, LineResult, LogState, Spread
from specgauge.serve.classes.line import Record

TTFT_BOUNDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
"""Those of vLLM's own histogram."""

E2E_BOUNDS = (
    0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0,
    60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
"""Those of vLLM's own, and three below for answers of a few tokens."""

LENGTH_BOUNDS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0)

MOST_CLASSES = 64
MOST_POOLS = 4
OTHER = "other"
"""What classes and pools beyond the most are called together."""

_Key = TypeVar("_Key")
_Made = TypeVar("_Made")


class _Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def spread(self) -> Spread:
        return Spread(bounds=self.bounds, counts=tuple(self.counts), total=self.total)


class _Drafted:
    __slots__ = ("accepted", "drafts", "lengths", "proposed")

    def __init__(self) -> None:
        self.drafts = self.proposed = self.accepted = 0
        self.lengths = _Histogram(LENGTH_BOUNDS)

    def add(self, drafts: int, proposed: int, accepted: int) -> None:
        self.drafts += drafts
        self.proposed += proposed
        self.accepted += accepted
        if drafts:
            self.lengths.add(1.0 + accepted / drafts)

    @property
    def values(self) -> Drafted:
        return Drafted(
            drafts=self.drafts,
            draft_tokens=self.proposed,
            accepted_tokens=self.accepted,
            lengths=self.lengths.spread,
        )


class _Figures:
    __slots__ = (
        "completion", "contexts", "decode_seconds", "decode_tokens", "e2e", "errors", "requests",
        "retries", "ttft",
    )  # fmt: skip

    def __init__(self) -> None:
        self.requests = self.errors = self.retries = 0
        self.completion = self.decode_tokens = 0
        self.decode_seconds = 0.0
        self.ttft, self.e2e = _Histogram(TTFT_BOUNDS), _Histogram(E2E_BOUNDS)
        self.contexts: dict[str, _Drafted] = {}

    def add(self, record: Record) -> None:
        self.requests += 1
        self.errors += record.failed
        self.retries += record.retries
        self.completion += record.completion_tokens or 0
        if record.e2e is not None:
            self.e2e.add(record.e2e)
        if record.ttft is not None:
            self.ttft.add(record.ttft)
        if record.decode is not None:
            self.decode_tokens += record.decode[0]
            self.decode_seconds += record.decode[1]
        if record.drafted is not None:
            _kept(self.contexts, record.context, _Drafted).add(*record.drafted)

    @property
    def values(self) -> ClassFigures:
        return ClassFigures(
            requests=self.requests,
            errors=self.errors,
            retries=self.retries,
            completion_tokens=self.completion,
            decode_tokens=self.decode_tokens,
            decode_seconds=self.decode_seconds,
            ttft=self.ttft.spread,
            e2e=self.e2e.spread,
            contexts={name: drafted.values for name, drafted in self.contexts.items()},
        )


class Totals:
    """Adds up lines and requests from `since` on; `crowded` once classes or pools were too many."""

    def __init__(self, *, since: float) -> None:
        self._since = since
        self._lines = dict.fromkeys(LineResult, 0)
        self._classes: set[str] = set()
        self._pools: set[str] = set()
        self._figures: dict[tuple[str, str], _Figures] = {}
        self.crowded = False

    def count(self, result: LineResult, times: int = 1) -> None:
        """Count lines that tell of no request."""
        self._lines[result] += times

    def add(self, record: Record) -> None:
        """Count a line and its request."""
        self._lines[LineResult.OK if record.whole else LineResult.PARTIAL] += 1
        key = (
            self._named(self._classes, record.traffic_class, MOST_CLASSES),
            self._named(self._pools, record.pool, MOST_POOLS),
        )
        _kept(self._figures, key, _Figures).add(record)

    @property
    def lines(self) -> int:
        """How many lines were counted."""
        return sum(self._lines.values())

    def view(self, state: LogState, unread_bytes: int | None) -> ClassesView:
        """Give everything as it is now."""
        return ClassesView(
            since=self._since,
            state=state,
            unread_bytes=unread_bytes,
            lines=dict(self._lines),
            figures={key: figures.values for key, figures in sorted(self._figures.items())},
        )

    def _named(self, known: set[str], name: str, most: int) -> str:
        """Give a name its own series while there is room; `other` itself takes none."""
        if name in known or name == OTHER:
            return name
        if len(known) >= most:
            self.crowded = True
            return OTHER
        known.add(name)
        return name


def _kept(made: dict[_Key, _Made], key: _Key, make: Callable[[], _Made]) -> _Made:
    found = made.get(key)
    if found is None:
        found = made[key] = make()
    return found
