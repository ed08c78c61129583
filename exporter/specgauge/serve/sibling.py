"""A pool without speculation, watched live: its baseline as it is now. No socket, no clock."""

from collections import deque

from specgauge.baseline.bins import bin_of, fill
from specgauge.baseline.observation import Observation, observe
from specgauge.derive.interpolate import curve
from specgauge.derive.pieces import is_evidence
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.model.baseline import Baseline, Level
from specgauge.model.derived import Hints
from specgauge.model.ledger import Interval, Ledger
from specgauge.model.quantity import Page

MEMORY_SECONDS = 900.0
"""So far back a live baseline remembers: long enough to have seen several loads."""

_REFRESH_SECONDS = 5.0


class Sibling:
    """Learns B(c) of one target from its intervals, and forgets what is old."""

    def __init__(self, name: str, interval: float) -> None:
        self._name = name
        self._interval = interval
        self._seen: dict[str, deque[tuple[float, Observation]]] = {}
        self._made: dict[str, tuple[float, Baseline | None]] = {}

    def add(
        self, before: Ledger, after: Ledger, page: Page, interval: Interval, *, now: float
    ) -> None:
        """Take an interval in; one with a reset, a gap or speculation teaches nothing."""
        if not is_evidence(interval, self._interval):
            return
        found = windows(before.totals, after, page, interval.seconds, before.doubts)
        for model, window in found.items():
            seen = self._seen.setdefault(model, deque())
            one = observe(window, interval, summarise(window, Hints()))
            if isinstance(one, Observation) and not one.uneven:
                seen.append((interval.end, one))
            while seen and seen[0][0] < interval.end - MEMORY_SECONDS:
                seen.popleft()
            at, known = self._made.get(model, (0.0, None))
            if known is None or interval.end - at >= _REFRESH_SECONDS:
                self._made[model] = (interval.end, self._make(model, now))

    def baseline(self, model: str) -> Baseline | None:
        """Give the curve learnt for a model; None while no load was seen for long enough."""
        made = self._made.get(model)
        return made[1] if made else None

    def _make(self, model: str, now: float) -> Baseline | None:
        bins: dict[int, list[Observation]] = {}
        for _, one in self._seen[model]:
            bins.setdefault(bin_of(one.concurrency), []).append(one)
        levels = [level for held in bins.values() if (level := _level(held)) is not None]
        if not levels:
            return None
        return Baseline(
            curve=curve(levels),
            source=f"target {self._name}",
            created=now,
            method="live",
            facts={"model.name": model},
        )


def _level(held: list[Observation]) -> Level | None:
    filling = fill(held)
    if not filling.usable or filling.half_width is None:
        return None
    firsts = sum(one.firsts for one in held)
    half = filling.half_width * filling.tpot
    ttft = sum(one.ttft_sum for one in held) / firsts if firsts > 0 else None
    return Level(
        decode_concurrency=filling.concurrency,
        tpot=filling.tpot,
        tpot_low=filling.tpot - half,
        tpot_high=filling.tpot + half,
        ttft=ttft or None,
        prompt_tokens_per_request=_per_request([one.prompts for one in held], firsts),
        output_tokens_per_request=_per_request([one.generated for one in held], firsts),
    )


def _per_request(tokens: list[float], requests: float) -> float | None:
    return sum(tokens) / requests if requests > 0 else None
