"""Gathers all evidence at once, each piece within its timeout, into one case for the gates."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from time import time

from specgauge.cli.checklist.ask import (
    SECONDS,
    Server,
    ask_dashboards,
    ask_guard,
    ask_rules,
    ask_status,
    find_dashboards,
    read_answer,
    read_audit,
    read_bytes,
    read_given,
)
from specgauge.cli.checklist.exercise import exercise
from specgauge.cli.checklist.terms import (
    baseline_in,
    guard_in,
    lock_file,
    stated_in,
    terms_of,
    wanted_by,
)
from specgauge.cli.progress import waiting
from specgauge.config import Config
from specgauge.preflight.checklist.case import Answer, Case, Shown, Wanted
from specgauge.preflight.checklist.deployment import deployed
from specgauge.preflight.checklist.evidence import COMPARE, DRAFT, MEMORY, SWEEP
from specgauge.preflight.checklist.live import Live, find_live
from specgauge.preflight.checklist.lock import Lock, read_lock
from specgauge.preflight.checklist.result import Reason, Trouble

_LONG = 60.0
_RENDERED = frozenset({"rules", "dashboards", "runbook"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where evidence is to be had; None is what was not given. `recorded` goes before `sidecar`."""

    config_file: Path | None = None
    sidecar: Server
    recorded: Path | None = None
    prometheus: Server | None = None
    grafana: Server | None = None
    dashboards: Path | None = None
    draft: Path | None = None
    sweep: Path | None = None
    compare: Path | None = None
    memory: Path | None = None
    target: str | None = None
    model: str | None = None
    exercises: bool = False


async def gather(config: Config, sources: Sources, *, gates: Collection[str]) -> Case:
    """Ask and read everything; what takes a while to render only for gates that look at it."""
    recorded = sources.recorded
    sidecar = sources.sidecar.open("--url")
    exercises = sources.exercises and "guard_exercised" in gates
    async with waiting(_LONG if exercises else SECONDS, "gathering evidence"):
        done = await exercise(sidecar) if exercises else None
        status, guard, rules, shown = await asyncio.gather(
            ask_status(sidecar) if recorded is None else _read(recorded / "status.json"),
            ask_guard(sidecar) if recorded is None else _read(recorded / "guard.json"),
            _rules(sources),
            _shown(sources),
        )
    live = _live(status, sources)
    stated = stated_in(config)
    return Case(
        now=time(),
        terms=terms_of(config),
        deployment=deployed(live if isinstance(live, Live) else None, stated),
        stated=stated,
        live=live,
        recorded=recorded is not None,
        baseline=baseline_in(config),
        draft=read_given(DRAFT, sources.draft),
        sweep=read_given(SWEEP, sources.sweep),
        compare=read_given(COMPARE, sources.compare),
        memory=read_given(MEMORY, sources.memory),
        guard_config=guard_in(config),
        guard=guard,
        audit=read_audit(None if config.guard is None else config.guard.audit_file),
        exercise=done,
        rules=rules,
        shown=shown,
        wanted=wanted_by(config) if _RENDERED.intersection(gates) else Wanted(),
        lock=find_lock(lock_file(config, sources.config_file)),
    )


def _live(status: Answer | Trouble, sources: Sources) -> Live | Trouble:
    if isinstance(status, Trouble):
        return status
    return find_live(status.body, status.source, target=sources.target, model=sources.model)


async def _rules(sources: Sources) -> Answer | Trouble | None:
    if sources.prometheus is not None:
        return await ask_rules(sources.prometheus.open("--prometheus"))
    recorded = None if sources.recorded is None else sources.recorded / "rules.json"
    return await _read(recorded) if recorded is not None and recorded.exists() else None


async def _shown(sources: Sources) -> Shown | Trouble | None:
    if sources.dashboards is not None:
        return find_dashboards(sources.dashboards)
    if sources.grafana is not None:
        return await ask_dashboards(sources.grafana.open("--grafana"))
    return None


async def _read(path: Path) -> Answer | Trouble:
    return read_answer(path)


def find_lock(path: Path) -> Lock | Trouble | None:
    """Read the lock file, if there is one."""
    try:
        return read_lock(read_bytes(path), str(path)) if path.exists() else None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        detail = f"{path}: {reason}"
        return Trouble(source=str(path), reason=Reason.UNREADABLE, detail=detail)


async def observe(sources: Sources) -> tuple[Live | Trouble, Shown | Trouble | None]:
    """Ask only for what is pinned: what runs, and the dashboards."""
    sidecar = sources.sidecar.open("--url")
    async with waiting(SECONDS, "asking the sidecar"):
        status, shown = await asyncio.gather(ask_status(sidecar), _shown(sources))
    return _live(status, sources), shown
