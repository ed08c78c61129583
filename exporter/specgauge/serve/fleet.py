"""The pool as a Prometheus sees it, asked now and then for as long as the sidecar runs.

It has a task of its own: a server that hangs holds up neither a scrape nor a page. What is no
whole and sure answer is told as the reason why there is no look, and never becomes a number.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from specgauge.guard.assess import OWN_FAULT
from specgauge.guard.evidence import read_evidence
from specgauge.guard.flags.protocol import WriteResult
from specgauge.guard.settings import GuardSettings, PrometheusSettings
from specgauge.model.guard import Blind, Look, Outcome
from specgauge.serve.fleet_answer import FleetError, FleetReason
from specgauge.serve.fleet_api import PrometheusApi
from specgauge.serve.fleet_evidence import evidence_of
from specgauge.serve.fleet_queries import Span, span_of, window_query
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace

Consider = Callable[[Mapping[str, Look], str | Blind], None]
"""Takes the looks of a pool by model, or none and why."""

_PASSING = frozenset(
    {
        WriteResult.TIMEOUT,
        WriteResult.UNREACHABLE,
        WriteResult.SERVER_ERROR,
        WriteResult.TOO_MANY,
        FleetReason.PARTIAL,
        FleetReason.NO_SERIES,
        FleetReason.TOO_FEW_SAMPLES,
        FleetReason.MEMBERS_MISSING,
    }
)
"""Reasons that are no fault of the configuration: `no_data`. Any other is an `error`."""


class FleetSource:
    """Makes looks of a pool out of what its Prometheus answers."""

    def __init__(
        self, settings: PrometheusSettings, *, decision_window: float, margin: float
    ) -> None:
        self.span: Span = span_of(decision_window, settings.interval)
        self._api = PrometheusApi(settings)
        self._query = window_query(settings.selector, self.span)
        self._margin = margin
        self._looked_at = -math.inf

    @property
    def place(self) -> str:
        """Where it asks, for people."""
        return self._api.place

    async def look(self, time: float) -> dict[str, Look]:
        """Look at the pool at `time` on the guard's clock; raises FleetError."""
        samples = await self._api.query(self._query)
        with self._api.quoting():
            found = evidence_of(samples, self.span, margin=self._margin)
        spacing, self._looked_at = time - self._looked_at, time
        return {
            model: read_evidence(
                evidence,
                end=time,
                window=self.span.window,
                spacing=spacing,
                margin=self._margin,
            )
            for model, evidence in found.items()
        }


class FleetLoop:
    """Asks for the pool every interval and hands on what came, until cancelled."""

    def __init__(
        self, source: FleetSource, *, interval: float, consider: Consider, pace: Pace, log: Log
    ) -> None:
        self._source, self._interval = source, interval
        self._consider = consider
        self._pace, self._log = pace, log
        self._told: str | None = None

    async def run(self) -> None:
        """Ask at once, then every interval; a slow answer skips the slots that it takes."""
        await every(self._interval, self._once, pace=self._pace)

    async def _once(self) -> None:
        try:
            looks, blind = await self._look()
            self._consider(looks, blind or "")
            self._tell(blind)
        except Exception:  # noqa: BLE001 - the one loop boundary
            if self._told != "fault":
                self._log.fault("fleet_fault", place=self._source.place)
            self._told = "fault"
            with suppress(Exception):  # whatever failed may fail again
                self._consider({}, f"{OWN_FAULT} specgauge failed on the answer; see its log")

    async def _look(self) -> tuple[Mapping[str, Look], Blind | None]:
        """Give the looks, or none and why."""
        try:
            return await self._source.look(self._pace.now()), None
        except FleetError as error:
            return {}, told(error)

    def _tell(self, blind: Blind | None) -> None:
        """Log what changed: that the pool can be read, or why it cannot."""
        reason = "" if blind is None else blind.reason
        if reason == self._told:
            return
        self._told = reason
        if blind is not None:
            problem = f"{reason}: {blind.detail}"
            self._log.warning("fleet_unknown", place=self._source.place, problem=problem)
        else:
            self._log.info("fleet_known", place=self._source.place)


def told(error: FleetError) -> Blind:
    """Give an error as the reason why there is no look."""
    outcome = Outcome.NO_DATA if error.reason in _PASSING else Outcome.ERROR
    return Blind(reason=str(error.reason), detail=error.detail, outcome=outcome)


def make_fleet(guard: GuardSettings, *, consider: Consider, pace: Pace, log: Log) -> FleetLoop:
    """Make the loop of a guard whose source is prometheus; its `prometheus` must be given."""
    settings = guard.prometheus
    if settings is None:
        raise ValueError("guard.prometheus.url is missing")
    source = FleetSource(
        settings, decision_window=guard.decision_window, margin=guard.policy.margin
    )
    return FleetLoop(source, interval=settings.interval, consider=consider, pace=pace, log=log)


async def every(interval: float, act: Callable[[], Awaitable[None]], *, pace: Pace) -> None:
    """Act now and at every whole number of intervals from now, until cancelled."""
    first, slot = pace.now(), 0
    while True:
        await act()
        slot = max(slot + 1, math.ceil((pace.now() - first) / interval))
        wait = first + slot * interval - pace.now()
        await asyncio.sleep(max(wait, 0.0) / pace.speed)
