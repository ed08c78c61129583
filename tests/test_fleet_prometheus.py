"""A real Prometheus over a pool: what the guard reads there, live and of the past."""

import asyncio
import json
import math
from pathlib import Path

import pytest
from tests.fleets import SCRAPE, Member, past, pool, running, scraped

from specgauge.cli.main import main
from specgauge.guard.policy import Policy
from specgauge.guard.settings import PrometheusSettings
from specgauge.model.guard import Decision, Look, Phase
from specgauge.model.settings import TargetSettings
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.fleet import FleetSource
from specgauge.serve.fleet_answer import FleetError
from specgauge.serve.fleet_history import Past, history
from specgauge.serve.fleet_share import FallbackShare
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace
from specgauge.serve.replay import Rehearsal, replay
from specgauge.serve.timeline import Entry

SELECTOR = 'job="specgauge", model_name="m",'
WINDOW = 6.0 * SCRAPE


def source(url: str, selector: str | None = SELECTOR) -> FleetSource:
    """Ask about the pool as a guard would whose Prometheus scrapes as often."""
    settings = PrometheusSettings(url=url, selector=selector, interval=SCRAPE)
    return FleetSource(settings, decision_window=WINDOW, margin=0.05)


async def look(url: str) -> Look:
    """Look at the one model of the pool."""
    (found,) = (await source(url).look(100.0)).values()
    return found


async def failure(url: str, selector: str | None = SELECTOR) -> FleetError:
    """Look in vain."""
    with pytest.raises(FleetError) as caught:
        await source(url, selector).look(100.0)
    return caught.value


async def test_pool(prometheus: str, tmp_path: Path) -> None:
    """The speedup of a pool is a ratio of sums over all members; the rest adds up too."""
    members = Member(speedup=0.5), Member(speedup=0.7)
    async with pool(prometheus, tmp_path, *members) as url:
        await scraped(*members, times=8)
        found = await look(url)
        (unselected,) = (await source(url, None).look(1.0)).values()
    numbers = found.numbers
    assert (found.model_name, found.end) == ("m", 100.0)
    assert found.start == pytest.approx(100.0 - WINDOW)
    assert (str(found.verdict), found.verdict_reason) == ("costs", "speedup_below_one")
    assert numbers["speedup_ratio"] == pytest.approx(0.6, rel=0.02)
    assert 0.4 < numbers["speedup_ratio_low"] < numbers["speedup_ratio_high"] < 0.8
    assert numbers["members"] == 2
    assert numbers["decode_concurrency"] == pytest.approx(32.0 / SCRAPE, rel=0.15)
    assert numbers["tokens"] == pytest.approx(2 * 200 * 6, rel=0.15)
    assert numbers["requests"] == pytest.approx(2 * 10 * 6, rel=0.15)
    assert numbers["drafts"] == pytest.approx(2 * 100 * 6, rel=0.15)
    assert numbers["acceptance_ratio"] == pytest.approx(0.2)
    assert numbers["acceptance_length"] == pytest.approx(1.6)
    assert numbers["tpot_seconds"] == pytest.approx(0.08)
    assert numbers["errors"] / numbers["served"] == pytest.approx(0.1)
    assert numbers["requests_waiting"] == 2
    assert found.speculating is True
    assert not found.restarted
    assert unselected.numbers["members"] == 2


async def test_missing_member(prometheus: str, tmp_path: Path) -> None:
    """A pool is judged by most of its members, not by half of them or fewer."""
    members = Member(speedup=0.6), Member(speedup=0.6), Member(speedup=1.2)
    async with pool(prometheus, tmp_path, *members) as url:
        await scraped(*members, times=3)
        members[2].down = True
        await scraped(*members[:2], times=8)
        found = await look(url)
        members[1].down = True
        await scraped(members[0], times=8)
        error = await failure(url)
    assert found.numbers["members"] == 2
    assert found.numbers["speedup_ratio"] == pytest.approx(0.6, rel=0.01)
    assert (error.reason, error.detail) == (
        "members_missing",
        f"1 of 3 members were scraped within {WINDOW:g} s",
    )


async def test_restarted_member(prometheus: str, tmp_path: Path) -> None:
    """A sidecar that begins anew in the window neither adds its past again nor takes it away."""
    members = Member(speedup=0.6), Member(speedup=0.6)
    async with pool(prometheus, tmp_path, *members) as url:
        await scraped(*members, times=8)
        members[1].restart()
        await scraped(*members, times=3)
        found = await look(url)
    assert found.numbers["speedup_ratio"] == pytest.approx(0.6, rel=0.01)
    assert found.numbers["decode_concurrency"] == pytest.approx(32.0 / SCRAPE, rel=0.3)
    assert not found.restarted


async def test_not_a_number(prometheus: str, tmp_path: Path) -> None:
    """A member whose counter is no number makes the pool unknown, and is not left out."""
    members = Member(speedup=0.6), Member(speedup=0.6)
    async with pool(prometheus, tmp_path, *members) as url:
        await scraped(*members, times=3)
        for series in members[1].counters:
            if "covered" in series:
                members[1].counters[series] = math.nan
        await scraped(*members, times=4)
        error = await failure(url)
    assert error.reason == "not_finite"
    assert error.detail.startswith("covered_seconds is nan")


async def test_nothing(prometheus: str, tmp_path: Path) -> None:
    """A selector that picks nothing, and one that Prometheus refuses, are no evidence."""
    member = Member()
    async with pool(prometheus, tmp_path, member) as url:
        assert (await failure(url, 'job="other"')).reason == "no_series"
        refused = await failure(url, 'job=~"("')
    assert refused.reason == "400"
    assert "error parsing regexp" in refused.detail


async def test_several_models(prometheus: str, tmp_path: Path) -> None:
    """Each model of a pool gets a look of its own."""
    members = Member(speedup=0.6), Member(speedup=1.5, model="n")
    async with pool(prometheus, tmp_path, *members) as url:
        await scraped(*members, times=8)
        found = await source(url, 'job="specgauge"').look(1.0)
    assert {model: round(one.numbers["speedup_ratio"], 1) for model, one in found.items()} == {
        "m": 0.6,
        "n": 1.5,
    }


async def test_share(prometheus: str, tmp_path: Path) -> None:
    """Members in fallback or latched count against the share that may be so at once."""
    members = Member(state="fallback"), Member(state="latched"), Member(), Member(state="probing")
    async with pool(prometheus, tmp_path, *members) as url:
        await scraped(*members, times=2)
        settings = PrometheusSettings(url=url, selector=SELECTOR)
        share = FallbackShare(settings, pace=Pace(), log=Log())
        assert share.used_up(0.9)
        await share._once()
    assert not share.used_up(0.75)
    assert share.used_up(0.74)
    assert not share.used_up(None)


async def test_history(prometheus: str, promtool: str, tmp_path: Path) -> None:
    """The past replayed decides as it should have been: off while it cost, on again after."""
    began, lasted = 1_700_000_000.0, 5400.0
    await backfill(promtool, tmp_path, "".join(past(began, lasted, 15.0)))
    async with running(prometheus, tmp_path) as url:
        decisions = await asyncio.to_thread(
            rehearse, url, Past(start=began - 60.0, end=began + lasted, step=15.0)
        )
    assert len(decisions) == 365
    assert decisions[0].reason == "no_series"
    changes = [(one.time - began, one.state) for one in decisions if one.changed]
    assert [state for _, state in changes][:2] == [Phase.FALLBACK, Phase.PROBING]
    assert 1800.0 < changes[0][0] < 2000.0
    assert changes[-1][1] is Phase.ACTIVE
    assert 3600.0 < changes[-1][0] < lasted
    idle = [one for one in decisions if one.state is Phase.FALLBACK and not one.changed]
    assert {one.reason for one in idle} == {"cooling_down"}


async def test_history_on_the_command_line(
    prometheus: str, promtool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`guard replay --prometheus` prints a decision for every step, on the terms configured."""
    began = 1_700_000_000.0
    await backfill(promtool, tmp_path, "".join(past(began, 900.0, 15.0)))
    (tmp_path / "specgauge.yaml").write_text(
        "guard: {startup_grace: 0s, prometheus: {selector: 'model_name=\"m\"', interval: 15s}}\n"
    )
    words = ["guard", "replay", "--config", str(tmp_path / "specgauge.yaml"), "--json"]
    async with running(prometheus, tmp_path) as url:
        words += ["--prometheus", url, "--from", str(began), "--to", "2023-11-14T22:28:20Z"]
        code = await asyncio.to_thread(main, words)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert [one["t"] for one in found] == [began + at * 15.0 for at in range(61)]
    (first, *_) = [one for one in found if one["changed"]]
    assert (first["state"], first["reason"]) == ("fallback", "speedup_below_one")
    assert 300.0 < first["t"] - began < 480.0


async def test_history_of_several_chunks(prometheus: str, promtool: str, tmp_path: Path) -> None:
    """How many steps are asked for at once changes nothing of what comes."""
    began = 1_700_000_000.0
    await backfill(promtool, tmp_path, "".join(past(began, 600.0, 15.0)))
    async with running(prometheus, tmp_path) as url:
        whole, parts = await asyncio.to_thread(
            lambda: [
                entries(url, Past(start=began, end=began + 600.0, step=10.0), n) for n in (500, 7)
            ]
        )
    assert whole == parts
    assert len(whole) == 61
    assert sum(1 for one in whole if one.evidence) > 50


def entries(url: str, stretch: Past, points: int) -> list[Entry]:
    """Read a stretch of history."""
    settings = PrometheusSettings(url=url, selector=SELECTOR)
    return list(history(settings, stretch, decision_window=15.0, margin=0.05, points=points))


def rehearse(url: str, stretch: Past) -> list[Decision]:
    """Replay a stretch of history."""
    settings = PrometheusSettings(url=url, selector=SELECTOR)
    window = FleetSource(settings, decision_window=15.0, margin=0.05).span.window
    terms = Rehearsal(
        policy=Policy(),
        target=TargetSettings(name="spec", url="http://127.0.0.1:1"),
        comparison=ComparisonTerms(interval=stretch.step, decision_window=window),
    )
    return list(replay(history(settings, stretch, decision_window=15.0, margin=0.05), terms))


async def backfill(promtool: str, folder: Path, text: str) -> None:
    """Make blocks of an OpenMetrics text."""
    (folder / "past.om").write_text(text)
    process = await asyncio.create_subprocess_exec(
        *(promtool, "tsdb", "create-blocks-from", "openmetrics", "-q"),
        *("--max-block-duration=24h", str(folder / "past.om"), str(folder / "data")),
    )
    assert await process.wait() == 0
