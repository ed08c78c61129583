"""The loop of one target: fetch, take in, tell of changes, wait for the next slot.

Slots do not drift: they lie a whole number of intervals behind the first, and those that pass
during a slow scrape are skipped.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from specgauge.errors import SourceError
from specgauge.model.derived import Derived
from specgauge.model.ledger import Interval
from specgauge.model.outcome import ScrapeResult
from specgauge.model.settings import Settings, TargetSettings
from specgauge.serve.log import Log
from specgauge.serve.scrape import Endpoint, Scraper
from specgauge.serve.tracker import Moment, Tracker

_HUGE_BYTES = 4 << 20
"""Larger pages are read in a thread, so that a hostile one holds up nobody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the loop's time goes: `speed` of its seconds pass in one of the wall's.

    1 everywhere but in the demo, where a recording is played faster than it was recorded.
    """

    speed: float = 1.0
    steady: Callable[[], float] = time.monotonic
    unix: Callable[[], float] = time.time

    def now(self) -> float:
        """Give the loop's time in seconds."""
        return self.steady() * self.speed


@dataclass(slots=True, kw_only=True)
class TargetLoop:
    """Scrapes one target for as long as it runs; `changed` is called after every scrape."""

    target: TargetSettings
    settings: Settings
    tracker: Tracker
    pace: Pace
    log: Log
    changed: Callable[[], None]
    _known_version: bool = False
    _states: dict[str, str] = field(default_factory=dict)
    _notes: tuple[str, ...] = ()

    async def run(self) -> None:
        """Scrape until cancelled."""
        scraper = Scraper(endpoint(self.target, self.settings))
        first = self.pace.now()
        slot = 0
        try:
            while True:
                await self._scrape(scraper)
                slot = max(slot + 1, math.ceil((self.pace.now() - first) / self.settings.interval))
                wait = first + slot * self.settings.interval - self.pace.now()
                await asyncio.sleep(max(wait, 0.0) / self.pace.speed)
        finally:
            await scraper.close()

    async def _scrape(self, scraper: Scraper) -> None:
        """Scrape once; whatever happens the loop goes on."""
        began_wall = self.pace.steady()
        try:
            body = await scraper.fetch()
            # A busy server writes the page just before it sends it, so its end is its time.
            at = Moment(time=self.pace.now(), unix=self.pace.unix())
            read = partial(
                self.tracker.page,
                body.data,
                complete=body.complete,
                at=at,
                seconds=self.pace.steady() - began_wall,
            )
            huge = len(body.data) > _HUGE_BYTES
            interval = await asyncio.to_thread(read) if huge else read()
            self._tell_page(interval, body.notes)
            self.changed()
            if not await self._ask_version(scraper):
                return
        except SourceError as problem:
            self._tell_failure(problem, self.pace.steady() - began_wall)
        except Exception:  # noqa: BLE001 - the one loop boundary; the totals are kept
            self._tell_fault(self.pace.steady() - began_wall)
        self.changed()

    async def _ask_version(self, scraper: Scraper) -> bool:
        """Ask a server that is new to us which release it is, and say whether it told."""
        if self._known_version:
            return False
        self._known_version = True
        version = await scraper.fetch_version()
        if version is not None:
            self.tracker.learn_version(version)
        return version is not None

    def _tell_page(self, interval: Interval | None, notes: tuple[str, ...]) -> None:
        view = self.tracker.view
        name = self.target.name
        if self._states.get("up") != "ok":
            self._states["up"] = "ok"
            self.log.info("target_up", target=name, dialect=view.dialect or "")
        if notes != self._notes:
            self._notes = notes
            for note in notes:
                self.log.warning("scrape_note", target=name, note=note)
        if interval is not None:
            for model, engine in sorted(interval.reset):
                self._known_version = False
                self.log.warning(
                    "engine_restarted", target=name, model_name=model, engine=engine or "0"
                )
        for model, derived in view.models.items():
            self._tell_model(name, model, derived)

    def _tell_model(self, target: str, model: str, derived: Derived) -> None:
        """Tell of a changed state, and of warnings that were not there before."""
        state = str(derived.speculation)
        if self._states.get(f"speculation {model}") != state:
            self._states[f"speculation {model}"] = state
            self.log.info("speculation", target=target, model_name=model, state=state)
        told = self._states.get(f"warnings {model}", "")
        lasting = [w for w in derived.warnings if w not in _PASSING]
        new = [warning for warning in lasting if warning not in told.split()]
        for warning in new:
            self.log.warning("derivation_warning", target=target, model_name=model, warning=warning)
        if new:
            self._states[f"warnings {model}"] = " ".join([*told.split(), *new])

    def _tell_failure(self, problem: SourceError, seconds: float) -> None:
        self.tracker.failure(problem, seconds)
        if self._states.get("up") != problem.result:
            self._states["up"] = problem.result
            self._known_version = False
            self.log.warning(
                "target_down" if not problem.result.page_arrived else "target_silent",
                target=self.target.name,
                result=problem.result,
                detail=problem.detail,
            )

    def _tell_fault(self, seconds: float) -> None:
        """Tell of a fault of our own, once for as long as it lasts; its gauges go like any's."""
        problem = SourceError(ScrapeResult.NOT_METRICS, "specgauge failed on the page; see its log")
        self.tracker.failure(problem, seconds)
        if self._states.get("up") != "fault":
            self._states["up"] = "fault"
            self.log.fault("scrape_fault", target=self.target.name)


_PASSING = frozenset({"low_sample", "uneven_load", "latency_below_first_bucket"})
"""Warnings that come and go with the load; they stand in the status, not in the log."""


def endpoint(target: TargetSettings, settings: Settings) -> Endpoint:
    """Say where and on which terms a target's page is fetched."""
    return Endpoint(
        url=target.url,
        headers=target.headers,
        ca_file=target.ca_file,
        cert_file=target.cert_file,
        key_file=target.key_file,
        server_name=target.server_name,
        timeout=settings.timeout,
        max_bytes=settings.max_bytes,
    )
