"""Weeks that were not: servers simulated tick by tick, seen by real sidecars, kept by Prometheus.

A tick is what an engine did between two scrapes. Whatever a report says of a week can be reckoned
from its ticks alone, without a sidecar, a counter or a query.
"""

import asyncio
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.judging import base, line
from tests.written import Engine, sample, write_page

from specgauge.model.guard import Phase
from specgauge.model.guard_view import FlagStatus, GuardView
from specgauge.model.settings import TargetSettings
from specgauge.model.view import View
from specgauge.serve.collector import ViewCollector
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.tracker import Moment, Tracker

START = 1_700_006_400.0  # a midnight in UTC
CELL = 300.0
HOUR = 3600.0
DAY = 86_400.0
BASELINE_TPOT = 0.010
K = 4
BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0)
READ = (
    "specgauge_draft", "specgauge_accepted_tokens_total", "specgauge_generation_tokens_total",
    "specgauge_requests_finished", "specgauge_decode_seconds", "specgauge_baseline_decode",
    "specgauge_baseline_covered", "specgauge_baseline_created", "specgauge_baseline_mismatch",
    "specgauge_e2e_", "specgauge_breakeven", "specgauge_suggested", "specgauge_num_speculative",
    "specgauge_guard_state", "specgauge_guard_transitions",
)  # fmt: skip


Row = tuple[str, Mapping[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What an engine did in the time up to `time`, and whether a sidecar saw all of it."""

    time: float
    load: float
    spent: float
    tokens: int
    requests: int
    drafts: int
    accepted: int
    buckets: tuple[int, ...]
    seen: bool = True
    reset: bool = False

    @property
    def would(self) -> float:
        """What the same tokens would have taken without speculation."""
        return self.tokens * BASELINE_TPOT

    @property
    def compared(self) -> bool:
        """Whether the sidecar compared it: not where the engine began anew."""
        return self.seen and not self.reset


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the guard's state."""

    time: float
    before: Phase
    state: Phase
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What happens to a server: times in seconds since `START`; a sidecar is away for a tick."""

    days: float = 7.0
    scrape: float = 300.0
    seed: int = 7
    sidecar_restarts: tuple[float, ...] = ()
    engine_restarts: tuple[float, ...] = ()
    changes: tuple[Change, ...] = ()
    speedup: Callable[[float], float] = lambda load: 2.0 - load / 25.0
    acceptance: Callable[[float], float] = lambda day: 0.7 if day < 3 else 0.5
    busiest: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """The ticks of a server and the rows that a Prometheus kept of it, by their time."""

    ticks: tuple[Tick, ...]
    rows: Mapping[float, tuple[Row, ...]]


def live(life: Life) -> Week:
    """Let a server live, with a sidecar beside it that is scraped as often as it scrapes."""
    ticks = list(_ticks(life))
    rows: dict[float, tuple[Row, ...]] = {}
    tracker = _tracker(life.scrape)
    engine = Engine()
    buckets = [0] * (len(BOUNDS) + 1)
    phase_from = START - 100.0
    collector = ViewCollector(lambda: view)
    _see(tracker, engine, buckets, ticks[0].time - life.scrape)
    for tick in ticks:
        if tick.reset:
            engine, buckets = Engine(), [0] * (len(BOUNDS) + 1)
        engine, buckets = _grown(engine, buckets, tick)
        if not tick.seen:
            tracker = _tracker(life.scrape)  # began anew, and this page is only its reference
            phase_from = tick.time
        _see(tracker, engine, buckets, tick.time)
        guard = _guard(life.changes, tick.time, phase_from)
        view = View(targets=(tracker.view,), guard=guard)
        rows[tick.time] = tuple(
            (one.name, one.labels, one.value)
            for family in collector.collect()
            if family.name.startswith(READ) or f"{family.name}_total".startswith(READ)
            for one in family.samples
        )
    return Week(ticks=tuple(ticks), rows=rows)


def _ticks(life: Life) -> Iterator[Tick]:
    chance = random.Random(life.seed)  # noqa: S311 - no secret is drawn
    away = {math.ceil(at / life.scrape) for at in life.sidecar_restarts}
    anew = {math.ceil(at / life.scrape) for at in life.engine_restarts}
    for number in range(1, round(life.days * DAY / life.scrape) + 1):
        at = (number - 0.7) * life.scrape
        swing = 0.5 - 0.5 * math.cos(2.0 * math.pi * at / DAY)
        load = 1.5 + (life.busiest - 1.5) * swing * chance.uniform(0.8, 1.0)
        spent = load * life.scrape
        tokens = round(life.speedup(load) * spent / BASELINE_TPOT)
        share = life.acceptance(at / DAY) * chance.uniform(0.95, 1.05)
        drafts = round(tokens / (1.0 + K * share))
        requests = max(tokens // 200, 1)
        parts = [chance.random() + 0.2 for _ in range(len(BOUNDS) + 1)]
        counts = [math.floor(requests * one / sum(parts)) for one in parts]
        counts[1] += requests - sum(counts)
        yield Tick(
            time=START + at,
            load=load,
            spent=spent,
            tokens=tokens,
            requests=requests,
            drafts=drafts,
            accepted=round(drafts * K * share),
            buckets=tuple(counts),
            seen=number not in away,
            reset=number in anew,
        )


def _tracker(scrape: float) -> Tracker:
    baseline = replace(
        base(line((1.0, BASELINE_TPOT), (100.0, BASELINE_TPOT), ttft=0.05)),
        created=START - 40.0 * DAY,
    )
    terms = ComparisonTerms(
        baselines=(baseline,), interval=scrape, decision_window=scrape, window=2.0 * scrape
    )
    return Tracker(TargetSettings(name="spec", url="http://engine:8000"), 2.0 * scrape, terms)


def _grown(engine: Engine, buckets: list[int], tick: Tick) -> tuple[Engine, list[int]]:
    grown = replace(
        engine,
        drafts=(engine.drafts or 0) + tick.drafts,
        drafted=(engine.drafted or 0) + K * tick.drafts,
        accepted=(engine.accepted or 0) + tick.accepted,
        positions=[(engine.drafted or 0) / K + tick.drafts] * K,
        tokens=(engine.tokens or 0) + tick.tokens + tick.requests,
        prompts=(engine.prompts or 0) + 100 * tick.requests,
        firsts=(engine.firsts or 0) + tick.requests,
        first_seconds=engine.first_seconds + 0.05 * tick.requests,
        steps=(engine.steps or 0) + tick.drafts,
        step_seconds=engine.step_seconds + tick.spent,
    )
    return grown, [a + b for a, b in zip(buckets, tick.buckets, strict=True)]


def _see(tracker: Tracker, engine: Engine, buckets: Sequence[int], time: float) -> None:
    own = {"model_name": "target", "engine": "0"}
    name, total, extra = "vllm:e2e_request_latency_seconds", 0, []
    for bound, count in zip((*BOUNDS, math.inf), buckets, strict=True):
        total += count
        le = "+Inf" if math.isinf(bound) else repr(bound)
        extra.append(sample(f"{name}_bucket", {**own, "le": le}, total))
    extra += [sample(f"{name}_count", own, total), sample(f"{name}_sum", own, 2.0 * total)]
    done = {**own, "finished_reason": "stop"}
    extra.append(sample("vllm:request_success_total", done, total))
    tracker.page(
        write_page(engine, extra=extra),
        complete=True,
        at=Moment(time=time, unix=time),
        seconds=0.01,
    )


def _guard(changes: Sequence[Change], time: float, counted_from: float) -> GuardView:
    """Show the guard at a time; its state outlives the sidecar, its counters do not."""
    past = [one for one in changes if one.time <= time]
    counts: dict[tuple[str, str, str], int] = {}
    for one in past:
        if one.time > counted_from:
            key = (one.before, one.state, one.reason)
            counts[key] = counts.get(key, 0) + 1
    return GuardView(
        target="spec",
        dry_run=False,
        phase=past[-1].state if past else Phase.ACTIVE,
        since=past[-1].time if past else START - 1000.0,
        flag=FlagStatus(key="k", backend="embedded", place="memory", desired=True),
        transitions=counts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A week as one Prometheus kept it: labels that it added, and what it missed."""

    week: Week
    labels: Mapping[str, str] = field(default_factory=dict)
    missed: Callable[[float], bool] = lambda _: False


Series = tuple[str, Mapping[str, str], Mapping[float, float]]


def openmetrics(kept: Iterable[Kept], further: Iterable[Series] = ()) -> Iterator[str]:
    """Write everything as Prometheus' own tool takes it in; the last value of an alert is 0."""
    families: dict[str, list[str]] = {}
    for one in kept:
        added = {"job": "specgauge", "instance": "a:1", **one.labels}
        for time, rows in one.week.rows.items():
            if one.missed(time):
                continue
            for name, labels, value in rows:
                row = f"{sample(name, {**added, **labels}, value)} {time:.3f}"
                families.setdefault(name, []).append(row)
    for name, labels, values in further:
        families.setdefault(name, []).extend(
            f"{sample(name, labels, one)} {time:.3f}" for time, one in values.items()
        )
    for lines in families.values():
        yield "\n".join(lines).replace(" nan ", " NaN ") + "\n"
    yield "# EOF\n"


async def keep(promtool: str, folder: Path, text: Iterable[str]) -> None:
    """Make blocks of it."""
    file = folder / "week.om"
    with file.open("w") as out:
        out.writelines(text)
    process = await asyncio.create_subprocess_exec(
        *(promtool, "tsdb", "create-blocks-from", "openmetrics", "-q"),
        *("--max-block-duration=24h", str(file), str(folder / "data")),
    )
    assert await process.wait() == 0
    file.unlink()
