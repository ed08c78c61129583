"""The sidecar: one loop a target and the web server, with a life from start to stop."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector

from specgauge.errors import ConfigError
from specgauge.guard.policy import Policy
from specgauge.guard.settings import GuardSettings, other_keys
from specgauge.model.baseline import Baseline
from specgauge.model.guard import Blind, Look
from specgauge.model.settings import Settings, TargetSettings
from specgauge.model.traffic import LogState
from specgauge.model.view import TargetView, View
from specgauge.serve.appoint import check_guard, guarded_name, judging, make_guardian
from specgauge.serve.classes.desk import ClassDesk
from specgauge.serve.collector import ViewCollector
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.events import Events
from specgauge.serve.exposition import Oven
from specgauge.serve.fleet import make_fleet
from specgauge.serve.guard_document import guard_document
from specgauge.serve.guardian import Guardian
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace, TargetLoop
from specgauge.serve.route_state import RouteState
from specgauge.serve.sibling import Sibling
from specgauge.serve.status import status_document
from specgauge.serve.tracker import Tracker
from specgauge.serve.trend import Trend
from specgauge.serve.web import Site, WebServer

_STOP_SECONDS = 1.0
_FRESH_SECONDS = 15.0
"""Points so young go to open pages with every change, so that one that missed a few has them."""

STANDARD = "standard"
"""The role of a target that serves without speculation."""


class Sidecar:
    """Runs until stopped; `read_settings` is asked again at each reload."""

    def __init__(
        self,
        settings: Settings,
        *,
        read_settings: Callable[[], Settings] | None = None,
        pace: Pace | None = None,
        log: Log | None = None,
        guard: GuardSettings | None = None,
        read_guard: Callable[[], GuardSettings | None] | None = None,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._read_guard = read_guard or (lambda: guard)
        self._guardian: Guardian | None = None
        self._fleet: asyncio.Task[None] | None = None
        self._read_settings = read_settings or (lambda: settings)
        self._pace = pace or Pace()
        self._log = log or Log()
        self._loops: dict[str, tuple[TargetLoop, asyncio.Task[None]]] = {}
        self._reload_ok = True
        self._view = View(targets=())
        self._server: WebServer | None = None
        self._oven = self._make_oven()
        self._trend = Trend()
        self._events = Events(self._picture)
        self._classes = ClassDesk(pace=self._pace, log=self._log)
        self._routes = RouteState(settings.routing, pace=self._pace, log=self._log)

    @property
    def url(self) -> str:
        """Where it listens, with the real port; raises RuntimeError before it has started."""
        if self._server is None:
            raise RuntimeError("the sidecar has not started")
        return self._server.url

    @property
    def view(self) -> View:
        """What is known now."""
        return self._view

    async def start(self) -> None:
        """Open the port, then begin to scrape; raises OSError where the port cannot be had.

        Raises ConfigError for a flag that cannot be, before anything is opened.
        """
        made = None
        if self._guard is not None:
            made = make_guardian(self._guard, self._settings, pace=self._pace, log=self._log)
        site = Site(
            oven=lambda: self._oven,
            view=lambda: self._view,
            reload=self.reload,
            token=lambda: self._settings.token,
            running=lambda: all(not task.done() for _, task in self._loops.values()),
            guard=lambda: self._guardian,
            trend=lambda asked: self._trend.series(self._view, asked),
            events=self._events.stream,
            routes=self._routes.answer,
        )
        server = WebServer(site, host=self._settings.host, port=self._settings.port, log=self._log)
        await server.start()
        self._server = server
        self._log.info("listening", url=server.url, targets=len(self._settings.targets))
        if made is not None:
            await made.start()
            self._guardian = made
        self._apply(self._settings)
        if self._guard is not None and self._guard.source == "prometheus":
            fleet = make_fleet(
                self._guard, consider=self._seen_in_fleet, pace=self._pace, log=self._log
            )
            self._fleet = asyncio.create_task(fleet.run(), name="fleet")

    async def stop(self) -> None:
        """Stop scraping and serving; open requests get a second to end."""
        tasks = [task for _, task in self._loops.values()]
        tasks += [] if self._fleet is None else [self._fleet]
        self._loops = {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)
        if self._guardian is not None:
            await self._guardian.stop()
        await self._routes.close()
        await self._classes.close()
        if self._server is not None:
            await self._server.stop()
        self._log.info("stopped")

    def reload(self) -> list[str]:
        """Read the configuration again; gives its problems, and then the old one stays."""
        try:
            settings, guard = self._read()
        except ConfigError as error:
            self._reload_ok = False
            for problem in error.problems:
                self._log.warning("config_refused", problem=problem)
            self._refresh()
            return list(error.problems)
        self._reload_ok = True
        if (settings.host, settings.port) != (self._settings.host, self._settings.port):
            self._log.warning("listen_unchanged", fix="restart to listen on another address")
        changed = settings != self._settings or guard != self._guard
        taken = self._change_guard(guard)
        if self._guardian is not None:
            self._guardian.follow(guarded_name(settings, self._guardian.guarded.target))
        self._apply(settings, same_guard=not taken)
        if changed:
            self._log.info("config_reloaded", targets=len(settings.targets))
        return []

    def _read(self) -> tuple[Settings, GuardSettings | None]:
        """Read everything and try the flag out; raises ConfigError with all that is wrong."""
        settings, problems = self._settings, list[str]()
        try:
            settings = self._read_settings()
        except ConfigError as error:
            problems += error.problems
        try:
            guard = self._read_guard()
            check_guard(guard)
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))
        return settings, guard

    def _change_guard(self, guard: GuardSettings | None) -> bool:
        """Take over a changed policy; another flag, other files or no guard need a restart.

        Says whether there was one.
        """
        if guard == self._guard:
            return False
        if guard is None or self._guardian is None or not self._guardian.reconfigure(guard):
            self._log.warning("guard_unchanged", keys=other_keys(self._guard, guard), fix="restart")
            return False
        self._guard = guard
        return True

    def _apply(self, settings: Settings, *, same_guard: bool = True) -> None:
        """Run the loops that the settings name; an unchanged target goes on undisturbed."""
        before = self._loops
        same_terms = settings == self._settings and same_guard
        self._settings = settings
        self._routes.follow(settings.routing)
        self._classes.follow(settings.access_log, settings.access_log_state)
        self._oven = self._make_oven()
        self._loops = {}
        for target in settings.targets:
            loop, task = before.pop(target.name, (None, None))
            if loop and task and same_terms and not task.done() and loop.target == target:
                self._loops[target.name] = (loop, task)
                continue
            if task:
                task.cancel()
            terms, sibling = self._terms(target, settings), self._sibling(target)
            if loop and loop.target.url == target.url:
                loop.tracker.adopt(target, settings.window, terms, sibling)
                made = replace(loop, target=target, settings=settings)
            else:
                made = TargetLoop(
                    target=target,
                    settings=settings,
                    tracker=Tracker(target, settings.window, terms, sibling),
                    pace=self._pace,
                    log=self._log,
                    changed=partial(self._scraped, target.name),
                )
            self._loops[target.name] = (made, asyncio.create_task(made.run()))
        for _, task in before.values():
            task.cancel()
        self._refresh()

    def _terms(self, target: TargetSettings, settings: Settings) -> ComparisonTerms:
        """Say what a target is compared with; a live sibling is looked up when it is asked."""
        other = settings.baseline_target
        guard = self._guard
        return ComparisonTerms(
            baselines=settings.baselines,
            live=self._live if other not in {None, target.name} else None,
            interval=settings.interval,
            decision_window=guard.decision_window if guard else settings.decision_window,
            window=settings.window,
            terms=judging(settings, guard),
            guarded=guard is not None,
            policy=guard.policy if guard else Policy(),
            stated=target.facts,
        )

    def _sibling(self, target: TargetSettings) -> Sibling | None:
        """Let the target that others are compared with learn its own curve."""
        if target.name != self._settings.baseline_target:
            return None
        return Sibling(target.name, self._settings.interval)

    def _live(self, model: str) -> Baseline | None:
        """Give the live baseline of a model, as the sibling knows it now."""
        found = self._loops.get(self._settings.baseline_target or "")
        sibling = found[0].tracker.sibling if found else None
        return sibling.baseline(model) if sibling else None

    def _scraped(self, name: str) -> None:
        """Have the guard look at a target that was just scraped, if it is the one it guards."""
        guardian, loop = self._guardian, self._loops.get(name)
        if guardian is not None and loop is not None and guardian.watches(name):
            guardian.consider(loop[0].tracker.view, self._standards())
        self._refresh()

    def _seen_in_fleet(self, looks: Mapping[str, Look], error: str | Blind) -> None:
        """Have the guard look at the pool as Prometheus knows it."""
        if self._guardian is not None:
            self._guardian.judge(looks, self._standards(), error)
        self._refresh()

    def _standards(self) -> list[TargetView]:
        """Give what is known of the servers without speculation."""
        views = [loop.tracker.view for loop, _ in self._loops.values()]
        return [view for view in views if view.role == STANDARD]

    def _refresh(self) -> None:
        self._view = View(
            targets=tuple(loop.tracker.view for loop, _ in self._loops.values()),
            reload_ok=self._reload_ok,
            guard=self._guardian.view if self._guardian else None,
            classes=self._classes.view,
        )
        self._trend.take(self._view)
        self._routes.take(self._view)
        self._events.change()

    def _picture(self) -> dict[str, Any]:
        """Write all that the page shows, and the newest of its curves."""
        view = self._view
        return {
            "status": status_document(view),
            "guard": guard_document(view.guard),
            "trend": self._trend.document(view, since=self._pace.unix() - _FRESH_SECONDS),
            "classes": str(LogState.OFF if view.classes is None else view.classes.state),
            "acting": self._settings.token is not None,
        }

    def _make_oven(self) -> Oven:
        registry = CollectorRegistry()
        export = self._settings
        registry.register(
            ViewCollector(
                lambda: self._view, histograms=export.histograms, positions=export.positions
            )
        )
        ProcessCollector(registry=registry)
        return Oven(registry=registry, version=lambda: self._view)
