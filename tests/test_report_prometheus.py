"""The report over a real Prometheus: every number of it against the ticks that it is made of.

And over a real VictoriaMetrics, held against the same ticks.
"""

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.baselines import document as baseline_document
from tests.fleets import running
from tests.victoria import fill, victoria
from tests.weeks import (
    BOUNDS,
    CELL,
    DAY,
    HOUR,
    START,
    Change,
    K,
    Kept,
    Life,
    Series,
    Tick,
    Week,
    keep,
    live,
    openmetrics,
)

from specgauge.cli.main import main
from specgauge.derive.statistics import ratio_estimate
from specgauge.model.guard import Phase
from specgauge.report.speed import EDGES

pytestmark = pytest.mark.slow

Json = dict[str, Any]
END = START + 7 * DAY
FALLBACK, ACTIVE, PROBING = Phase.FALLBACK, Phase.ACTIVE, Phase.PROBING


def change(at: float, before: Phase, state: Phase, reason: str) -> Change:
    return Change(time=START + at, before=before, state=state, reason=reason)


LIFE = Life(
    sidecar_restarts=(2.4 * DAY,),
    engine_restarts=(4.2 * DAY,),
    changes=(
        change(DAY + 11_233, ACTIVE, FALLBACK, "speedup_below_one"),
        change(DAY + 11_533, FALLBACK, PROBING, "probe_due"),
        change(DAY + 11_593, PROBING, FALLBACK, "probe_failed"),
        change(DAY + 14_400, FALLBACK, PROBING, "probe_due"),
        change(DAY + 14_460, PROBING, ACTIVE, "probe_succeeded"),
        change(3 * DAY + 18_010, ACTIVE, FALLBACK, "acceptance_below_floor"),
        change(3 * DAY + 18_040, FALLBACK, ACTIVE, "override_lifted"),
        change(5 * DAY + 43_200, ACTIVE, FALLBACK, "speedup_below_one"),
        change(5 * DAY + 54_000, FALLBACK, ACTIVE, "probe_succeeded"),
    ),
)
RIDDEN = Life(
    days=0.3,
    scrape=60.0,
    seed=8,
    sidecar_restarts=tuple(HOUR * number + 517.0 for number in range(1, 7)),
    acceptance=lambda _: 0.8,
    busiest=12.0,
)
CLASSES = {
    ("chat", "speculative"): (0.010, 3.0),
    ("chat", "standard"): (0.015, 1.0),
    ("json", "speculative"): (0.020, 1.4),
    ("json", "standard"): (0.016, 1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Ticks of the cells after `first` up to `last`."""

    first: int
    last: int
    ticks: Sequence[Tick]

    def sum(self, value: Callable[[Tick], float]) -> float:
        return math.fsum(map(value, self.ticks))


def stretches(
    week: Week,
    start: float,
    end: float,
    *,
    cell: float = CELL,
    bridge: int = 3,
    missed: Callable[[float], bool] = lambda _: False,
) -> list[Stretch]:
    """Cut a week's ticks as told: from the last scrape of a cell to that of the next one."""
    last: dict[int, float] = {}
    for tick in week.ticks:
        number = math.ceil((tick.time - start) / cell)
        if number >= 0 and tick.time <= end and not missed(tick.time):
            last[number] = tick.time
    return [
        Stretch(
            first=a,
            last=b,
            ticks=[t for t in week.ticks if last[a] < t.time <= last[b] and t.seen],
        )
        for a, b in pairwise(sorted(last))
        if b - a <= bridge
    ]


def joined(cells: Sequence[Stretch]) -> list[Stretch]:
    """Put what lies around a sidecar's absence together, as what was compared begins a cell late.

    Only what was compared stays.
    """
    away = {one.last for one in cells if not one.ticks}
    found: list[Stretch] = []
    for one in cells:
        first, ticks = one.first, [tick for tick in one.ticks if tick.compared]
        if away & {one.last, one.last - 1}:
            before = found.pop()
            first, ticks = before.first, [*before.ticks, *ticks]
        found.append(Stretch(first=first, last=one.last, ticks=ticks))
    return [one for one in found if one.ticks]


@pytest.fixture(scope="module")
def week() -> Week:
    """Return the week of one server."""
    return live(LIFE)


@pytest.fixture(scope="module")
def ridden() -> Week:
    """Return some hours of a server whose sidecar begins anew every hour."""
    return live(RIDDEN)


def further() -> list[Series]:
    """Write what comes from others than the sidecar's own engine: alerts, classes, the cache."""
    place = {"instance": "a:1", "job": "specgauge"}
    firing = {START + 3.5 * DAY + 60.0 * n: float(n % 30 < 20) for n in range(51)}
    name = {"alertname": "SpecgaugeAcceptanceLow", "alertstate": "firing", "severity": "warning"}
    found: list[Series] = [("ALERTS", {**name, **place}, firing)]
    cache = {"instance": "v:1", "num_gpu_blocks": "9000"}
    found.append(
        ("vllm:cache_config_info", cache, {END - 3000.0 + 300.0 * n: 1.0 for n in range(9)})
    )
    for (kind, pool), (tpot, length) in CLASSES.items():
        labels = {**place, "class": kind, "pool": pool}
        times = [START + CELL * n - 50.0 for n in range(1, 2017)]
        for series, each in {
            "requests": 2.0,
            "errors": 0.5,
            "decode_tokens": 400.0,
            "decode_seconds": 400.0 * tpot,
            "e2e_seconds_sum": 2.0 * 3.0,
            "e2e_seconds_count": 2.0,
        }.items():
            suffix = "" if "e2e" in series else "_total"
            rows = {time: each * (n + 1) for n, time in enumerate(times)}
            found.append((f"specgauge_class_{series}{suffix}", labels, rows))
        for series, each in {"drafts": 100.0, "accepted_tokens": 100.0 * (length - 1.0)}.items():
            rows = {time: each * (n + 1) for n, time in enumerate(times)}
            found.append((f"specgauge_class_{series}_total", {**labels, "context": "1k"}, rows))
    return found


async def reported(url: str, folder: Path, *words: str, until: float = END) -> Json:
    """Report on the week, as JSON."""
    file = folder / "report.json"
    command = ["report", "--prometheus", url, "--until", str(until), "-o", str(file), *words]
    assert await asyncio.to_thread(main, command) == 0
    found: Json = json.loads(file.read_text())
    return found


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9)


def check_sums(group: Json, found: Sequence[Stretch]) -> None:
    """Hold everything that is a sum over the period against the ticks."""
    ticks = [tick for one in found for tick in one.ticks]
    drafted = sum(K * one.drafts for one in ticks)
    accepted = sum(one.accepted for one in ticks)
    assert group["acceptance"]["draft_tokens"] == near(drafted)
    assert group["acceptance"]["accepted_tokens"] == near(accepted)
    assert group["acceptance"]["ratio"] == near(accepted / drafted)
    assert group["acceptance"]["length"] == near(1.0 + accepted / sum(one.drafts for one in ticks))
    assert group["worth"]["tokens_wasted"] == near(drafted - accepted)
    covered = [one for one in ticks if one.compared]
    would, did = (math.fsum(getattr(one, key) for one in covered) for key in ("would", "spent"))
    assert group["speedup"]["ratio"] == near(would / did)
    assert group["worth"]["net_decode_seconds"] == near(would - did)
    assert group["speedup"]["covered_share"] == near(did / math.fsum(one.spent for one in ticks))


def median(counts: Sequence[int]) -> float:
    """Find the median of counts by bucket, even within it."""
    rank, below = sum(counts) / 2.0, 0.0
    edges = (0.0, *BOUNDS)
    for place, count in enumerate(counts):
        if below + count >= rank:
            return edges[place] + (edges[place + 1] - edges[place]) * (rank - below) / count
        below += count
    raise AssertionError(counts)


async def test_every_number(prometheus: str, promtool: str, tmp_path: Path, week: Week) -> None:
    """Whatever the report says of a week is what the week's ticks say."""
    await keep(promtool, tmp_path, openmetrics([Kept(week=week)], further()))
    async with running(prometheus, tmp_path) as url:
        found = await reported(url, tmp_path, *configured(tmp_path))
        beside = await reported(url, tmp_path, "--last", "2d", "--compare-to", "2d")
    check_every_number(found, week)
    check_changes(beside, week)


async def test_every_number_of_victoria(victoria_metrics: str, tmp_path: Path, week: Week) -> None:
    """A VictoriaMetrics below a path that kept the same week gives the same numbers."""
    async with victoria(victoria_metrics, tmp_path, prefix="/select/0/prometheus") as url:
        await fill(url, openmetrics([Kept(week=week)], further()))
        found = await reported(url, tmp_path, *configured(tmp_path))
    check_every_number(found, week)


def configured(folder: Path) -> tuple[str, ...]:
    """Write a configuration with a baseline, and the options that name it."""
    text = json.dumps(baseline_document(hardware={"kv_blocks": 10_000}))
    (folder / "base.json").write_text(text)
    config = folder / "specgauge.yaml"
    config.write_text(f"baseline: {{file: {folder}/base.json}}\n")
    return "--config", str(config), "--gpus-per-server", "4"


def check_every_number(found: Json, week: Week) -> None:
    """Hold a report on the whole week against its ticks."""
    (group,) = found["groups"]
    cells = stretches(week, START, END)
    assert (group["model_name"], group["cluster"]) == ("target", "")
    assert group["data"]["share"] == near(2015 / 2016)
    (server,) = group["data"]["servers"]
    assert (server["name"], server["resets"], server["not_numbers"]) == ("a:1 spec", 1, 0)
    check_sums(group, cells)
    check_acceptance(group, cells)
    check_speed(group, cells, gpus=4)
    check_latency(group, week)
    check_fallbacks(group)
    check_others(found)
    assert group["kv_cache"] == {
        "blocks": 9000, "baseline_blocks": 10_000, "lost": 1000, "reason": None,
    }  # fmt: skip


def check_acceptance(group: Json, cells: Sequence[Stretch]) -> None:
    """Hold hours and days against the ticks, and the lowest and highest of them."""
    for name, length in (("hours", 12), ("days", 288)):
        for number, one in enumerate(group["acceptance"][name]):
            ticks = [t for c in cells if (c.last - 1) // length == number for t in c.ticks]
            drafted = sum(K * t.drafts for t in ticks)
            assert one["draft_tokens"] == near(drafted)
            assert one["ratio"] == near(sum(t.accepted for t in ticks) / drafted)
    ratios = [one["ratio"] for one in group["acceptance"]["hours"]]
    assert group["acceptance"]["lowest_hour"]["ratio"] == min(ratios)
    assert group["acceptance"]["highest_hour"]["ratio"] == max(ratios)


def check_speed(group: Json, cells: Sequence[Stretch], *, gpus: int) -> None:
    """Hold the speedup by load, and what it was worth, against the ticks."""
    every = joined(cells)
    by_bin: dict[int, list[Stretch]] = {}
    for one in every:
        load = one.sum(lambda t: t.spent) / CELL
        if one.last - one.first == 1:
            place = next(n for n, edge in enumerate(EDGES[1:]) if load < edge)
            by_bin.setdefault(place, []).append(one)
    bins = group["speedup"]["by_load"]
    assert [one["concurrency_from"] for one in bins] == [EDGES[place] for place in sorted(by_bin)]
    for one, place in zip(bins, sorted(by_bin), strict=True):
        found = ratio_estimate(
            [c.sum(lambda t: t.would) for c in by_bin[place]],
            [c.sum(lambda t: t.spent) for c in by_bin[place]],
            confidence=0.95,
        )
        assert one["cells"] == len(by_bin[place])
        assert [one[key] for key in ("ratio", "low", "high")] == [
            near(value) for value in (found.value, found.low or 0, found.high or 0)
        ]
    gains = [one.sum(lambda t: t.would - t.spent) for one in every]
    assert group["worth"]["saved_decode_seconds"] == near(sum(max(one, 0.0) for one in gains))
    assert group["worth"]["lost_decode_seconds"] == near(sum(max(-one, 0.0) for one in gains))
    loads = [one.sum(lambda t: t.spent) / (one.last - one.first) / CELL for one in every]
    hours = [gain / load * gpus / HOUR for gain, load in zip(gains, loads, strict=True)]
    assert group["worth"]["gpu_hours"] == near(math.fsum(hours))
    whole = ratio_estimate(
        [one.sum(lambda t: t.would) for one in every],
        [one.sum(lambda t: t.spent) for one in every],
        confidence=0.95,
        successive=True,
    )
    assert group["speedup"]["low"] == near(whole.low or 0.0)


def check_latency(group: Json, week: Week) -> None:
    """Hold the median and the length-matched speedup against ticks and gauges."""
    ticks = [t for one in stretches(week, START, END, cell=HOUR, bridge=1) for t in one.ticks]
    counts = [sum(one) for one in zip(*(tick.buckets for tick in ticks), strict=True)]
    assert group["latency"]["requests"] == near(sum(counts))
    assert group["latency"]["e2e_p50_seconds"] == near(median(counts))
    weights = []
    cells = stretches(week, START, END)
    (away,) = (one.last for one in cells if not one.ticks)
    for one in cells:
        for tick in one.ticks if abs(one.last - away) > 1 else ():
            rows = {name: value for name, _, value in week.rows[tick.time]}
            if "specgauge_e2e_speedup_ratio" in rows:
                weights.append((tick.requests, rows["specgauge_e2e_speedup_ratio"]))
    total = sum(requests for requests, _ in weights)
    matched = math.fsum(requests * value for requests, value in weights) / total
    assert group["latency"]["e2e_speedup_requests"] == near(total)
    assert group["latency"]["e2e_speedup_ratio"] == near(matched)


def check_fallbacks(group: Json) -> None:
    """Fallbacks are events: each with its reason and time, also one that no scrape saw."""
    events = [
        (one["began"], one["ended"], one["seconds"], one["reason"])
        for one in group["fallbacks"]["events"]
    ]
    assert group["fallbacks"]["count"] == 3
    assert events == [
        ("2023-11-16T03:07:13Z", "2023-11-16T04:01:00Z", 3227.0, "speedup_below_one"),
        ("2023-11-18T05:05:00Z", None, None, "acceptance_below_floor"),  # by this time
        ("2023-11-20T12:00:00Z", "2023-11-20T15:00:00Z", 10_800.0, "speedup_below_one"),
    ]


def check_others(found: Json) -> None:
    """Alerts are occurrences, classes stay apart, and what follows says by which rule."""
    alerts = [(one["start"], one["seconds"], one["firing"]) for one in found["alerts"]]
    assert alerts == [
        ("2023-11-18T12:00:00Z", 1140.0, False),
        ("2023-11-18T12:30:00Z", 1140.0, False),
    ]
    for one in found["classes"]:
        for pool in one["pools"]:
            tpot, length = CLASSES[one["class"], pool["pool"]]
            assert pool["tpot_seconds"] == near(tpot)
            assert pool["acceptance_length"] == near(length)
            assert (pool["requests"], pool["errors"]) == (near(2.0 * 2015), near(0.5 * 2015))
            assert pool["e2e_mean_seconds"] == near(3.0)
    assert [one["ratio"] for one in found["classes"]] == [near(1.5), near(0.8)]
    (group,) = found["groups"]
    assert [one["rule"] for one in group["recommendations"]] == [
        "speedup_low", "baseline_stale", "class_off",
    ]  # fmt: skip
    assert group["baseline"]["age_seconds"] == near(47 * DAY)


def check_changes(found: Json, week: Week) -> None:
    """Hold the period before against its ticks, too."""
    (group,) = found["groups"]
    told = {one["figure"]: one for one in group["changes"]}
    for key, end in (("now", END), ("before", END - 2 * DAY)):
        ticks = [t for one in stretches(week, end - 2 * DAY, end) for t in one.ticks]
        ratio = sum(one.accepted for one in ticks) / sum(K * one.drafts for one in ticks)
        assert told["acceptance_ratio"][key] == near(ratio)
    assert (told["fallbacks"]["before"], told["fallbacks"]["now"]) == (1, 1)
    assert group["data"]["share"] == 1.0


async def test_missing_days(prometheus: str, promtool: str, tmp_path: Path, week: Week) -> None:
    """Two days without a scrape are said to be missing, and nothing is made up for them."""

    def missed(time: float) -> bool:
        return START + 2 * DAY < time <= START + 4 * DAY

    await keep(promtool, tmp_path, openmetrics([Kept(week=week, missed=missed)]))
    async with running(prometheus, tmp_path) as url:
        found = await reported(url, tmp_path)
    (group,) = found["groups"]
    assert [(one["start"], one["seconds"]) for one in group["data"]["missing"]] == [
        ("2023-11-15T00:00:00Z", 300.0),
        ("2023-11-17T00:00:00Z", 2 * DAY + CELL),
    ]
    assert group["data"]["share"] == near((5 * 288 - 2) / 2016)
    check_sums(group, stretches(week, START, END, missed=missed))
    empty = [one for one in group["acceptance"]["hours"] if one["ratio"] is None]
    assert len(empty) == 48
    events = [(one["began_after"], one["began"]) for one in group["fallbacks"]["events"]]
    assert events == [
        (None, "2023-11-16T03:07:13Z"),
        ("2023-11-17T00:00:00Z", "2023-11-19T00:05:00Z"),
        (None, "2023-11-20T12:00:00Z"),
    ], "one happened where nobody looked"


async def test_two_clusters(
    prometheus: str, promtool: str, tmp_path: Path, week: Week, ridden: Week
) -> None:
    """Clusters stay apart, a pair of Prometheus counts once, resets add and lose nothing."""
    hour, end = START + 3 * HOUR, START + DAY
    kept = [
        Kept(week=week, labels={"cluster": "a"}, missed=lambda time: time > end),
        Kept(
            week=ridden,
            labels={"cluster": "b", "replica": "0"},
            missed=lambda time: hour < time < hour + HOUR,
        ),
        Kept(
            week=ridden,
            labels={"cluster": "b", "replica": "1"},
            missed=lambda time: time > hour + 2 * HOUR,
        ),
    ]
    await keep(promtool, tmp_path, openmetrics(kept))
    async with running(prometheus, tmp_path) as url:
        found = await reported(url, tmp_path, "--last", "24h", until=end)
        words = ("--last", "24h", "--selector", 'cluster="b", model_name="target"')
        alone = await reported(url, tmp_path, *words, until=end)
    first, second = found["groups"]
    assert (first["cluster"], second["cluster"]) == ("a", "b")
    check_sums(first, stretches(week, START, end))
    check_sums(second, stretches(ridden, START, end))
    assert second["data"]["servers"][0]["resets"] == 6
    assert second["data"]["share"] == near(86 / 288)
    assert alone["groups"] == [second]
    assert alone["selector"] == 'cluster="b", model_name="target"'


async def test_nothing(prometheus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is nothing, the exit code says so and one line what is missing."""
    async with running(prometheus, tmp_path) as url:
        words = ["report", "--prometheus", url, "--last", "1h"]
        empty = await asyncio.to_thread(main, words)
        told = capsys.readouterr()
        wrong = await asyncio.to_thread(main, [*words, "--selector", 'job=~"("'])
        refused = capsys.readouterr()
    gone = await asyncio.to_thread(main, words)
    away = capsys.readouterr()
    assert (empty, wrong, gone) == (4, 3, 3)
    assert told.out == refused.out == away.out == ""
    assert "no specgauge_generation_tokens_total from" in told.err
    assert "error parsing regexp" in refused.err
    for one in (told, refused, away):
        assert len(one.err.splitlines()) == 1
