"""Timelines written by hand, line by line, and pools whose pages they may hold.

Evidence is right unless told otherwise: a window of 15 s at 8 requests in decode that pays.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.judging import base, line
from tests.written import Engine, write_page

from specgauge.guard.policy import Policy
from specgauge.model.baseline import Baseline
from specgauge.model.guard import Decision
from specgauge.model.settings import TargetSettings
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.replay import Rehearsal, replay, usual_spacing
from specgauge.serve.timeline import Entry

Change = tuple[float, str, str]

STEP = 5.0
FLAT = base(line((1.0, 0.010), (256.0, 0.010), ttft=0.05))
"""Without speculation a token takes 10 ms at every load."""


def seen(speedup: float | None = 1.3, *, spread: float = 0.02, **more: Any) -> dict[str, Any]:
    """Write the evidence of a window; without a speedup no baseline speaks for it."""
    acceptance = more.pop("acceptance", 0.55)
    found: dict[str, Any] = {
        "tokens": 8000.0,
        "requests": 40.0,
        "first_tokens": 40.0,
        "decode_concurrency": 8.0,
        "drafts": 2600.0,
        "num_speculative_tokens": 4.0,
        "acceptance_ratio": acceptance,
    }
    if speedup is not None:
        found |= {
            "speedup_ratio": speedup,
            "speedup_ratio_low": speedup - spread,
            "speedup_ratio_high": speedup + spread,
            "tpot_seconds": 0.010 / speedup,
        }
    return found | more


def during(
    start: float, end: float, evidence: Callable[[float], dict[str, Any]], *, step: float = STEP
) -> Iterator[Entry]:
    """Give evidence at every step from `start` until before `end`."""
    for place in range(round((end - start) / step)):
        time = start + place * step
        yield Entry(line=0, time=time, evidence=evidence(time))


def steady(start: float, end: float, *args: Any, step: float = STEP, **more: Any) -> list[Entry]:
    """Give the same evidence from `start` until before `end`."""
    return list(during(start, end, lambda _: seen(*args, **more), step=step))


def failed(start: float, end: float, error: str = "timeout", *, step: float = STEP) -> list[Entry]:
    """Give failed scrapes from `start` until before `end`."""
    times = range(round((end - start) / step))
    return [Entry(line=0, time=start + place * step, error=error) for place in times]


def aside(entries: Iterable[Entry]) -> list[Entry]:
    """Mark lines as the standard pool's."""
    return [replace(one, pool="standard") for one in entries]


def moved(entries: Iterable[Entry], by: float) -> list[Entry]:
    """Show lines by a clock that is off by so many seconds."""
    return [replace(one, time=one.time + by) for one in entries]


@dataclass(slots=True, kw_only=True)
class Pool:
    """A server of some engines, whose counters grow as they are told; one page shows them all."""

    engines: int = 1
    k: int = 4
    length: float = 200.0
    drafting: bool = True
    counts: dict[int, dict[str, float]] = field(default_factory=dict)

    def run(
        self,
        seconds: float,
        tpot: float,
        *,
        load: float = 8.0,
        acceptance: float = 0.55,
        engines: Sequence[int] | None = None,
    ) -> None:
        """Decode for a while at a time per token, each of the engines its share of the load."""
        for engine in range(self.engines) if engines is None else engines:
            spent = load / self.engines * seconds
            tokens = spent / tpot
            steps = tokens / (1.0 + acceptance * self.k * self.drafting)
            counts = self.counts.setdefault(engine, {})
            for name, grown in (
                ("firsts", tokens / self.length),
                ("tokens", tokens * (1.0 + 1.0 / self.length)),
                ("steps", steps),
                ("spent", spent),
                ("accepted", steps * self.k * acceptance * self.drafting),
            ):
                counts[name] = counts.get(name, 0.0) + grown

    def restart(self, engine: int = 0) -> None:
        """Begin an engine anew."""
        self.counts[engine] = {}

    def page(self, **more: Any) -> bytes:
        """Write what the page shows now."""
        return write_page(*(self._engine(one, more) for one in range(self.engines)))

    def _engine(self, engine: int, more: dict[str, Any]) -> Engine:
        counts = self.counts.get(engine, {})
        firsts, steps = (float(int(counts.get(name, 0.0))) for name in ("firsts", "steps"))
        drafted: dict[str, Any] = {}
        if self.drafting:
            accepted = float(int(counts.get("accepted", 0.0)))
            each = [accepted / self.k] * self.k
            drafted = {
                "drafts": steps,
                "drafted": self.k * steps,
                "accepted": accepted,
                "positions": each,
            }
        return Engine(
            engine=str(engine),
            tokens=float(int(counts.get("tokens", 0.0))),
            prompts=100.0 * firsts,
            firsts=firsts,
            first_seconds=0.05 * firsts,
            steps=steps,
            step_seconds=counts.get("spent", 0.0),
            finished=firsts,
            **drafted,
            **more,
        )


def paged(
    pool: Pool,
    start: float,
    end: float,
    run: Callable[[Pool, float], None],
    *,
    step: float = 1.0,
    **more: Any,
) -> list[Entry]:
    """Give a page at every step from `start` until before `end`; `run` is what went before each."""
    found = []
    for place in range(round((end - start) / step)):
        time = start + place * step
        run(pool, step)
        found.append(Entry(line=0, time=time, data=pool.page(**more)))
    return found


def under(
    entries: Sequence[Entry],
    *,
    policy: Policy | None = None,
    baseline: Baseline | None = None,
    decision_window: float = 15.0,
) -> Rehearsal:
    """Say what a timeline is replayed under; without a policy the defaults without a grace."""
    return Rehearsal(
        policy=policy or Policy(startup_grace=0.0),
        target=TargetSettings(name="spec", url="http://spec/metrics"),
        comparison=ComparisonTerms(
            baselines=() if baseline is None else (baseline,),
            interval=usual_spacing(entries),
            decision_window=decision_window,
            guarded=True,
            policy=policy or Policy(startup_grace=0.0),
        ),
    )


def decide_all(entries: Sequence[Entry], **terms: Any) -> list[Decision]:
    """Replay a timeline; gives the decision of every line."""
    found = list(replay(entries, under(entries, **terms)))
    assert [one.time for one in found] == [one.time for one in entries]
    return found


def changes(decisions: Iterable[Decision]) -> list[Change]:
    """Give every change: when, to which state and why."""
    return [(one.time, str(one.state), str(one.reason)) for one in decisions if one.changed]


def write_timeline(folder: Path, entries: Iterable[Entry]) -> Path:
    """Write lines as a file, their pages beside it."""
    lines = []
    for place, one in enumerate(entries):
        found: dict[str, Any] = {"t": one.time}
        if one.evidence is not None:
            found["evidence"] = dict(one.evidence)
        elif one.data is not None:
            found["page"] = f"{place}.prom"
            (folder / f"{place}.prom").write_bytes(one.data)
        else:
            found |= {"page": None, "error": one.error}
        if one.pool is not None:
            found["pool"] = one.pool
        lines.append(json.dumps(found))
    path = folder / "timeline.jsonl"
    path.write_text("".join(f"{text}\n" for text in lines))
    return path
