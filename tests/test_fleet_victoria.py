"""A real VictoriaMetrics in the place of Prometheus: the same data, and the same decisions."""

import asyncio
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fleets import SCRAPE, Member, past, running, scraped
from tests.test_fleet_prometheus import SELECTOR, WINDOW, backfill, failure, look, rehearse
from tests.victoria import fill, flush, tenants_only, victoria, victoria_pool

from specgauge.guard.settings import PrometheusSettings
from specgauge.model.guard import Decision, Look, Phase
from specgauge.serve.fleet import FleetSource
from specgauge.serve.fleet_answer import FleetError
from specgauge.serve.fleet_history import Past
from specgauge.serve.fleet_share import FallbackShare
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace

BEGAN, LASTED, EVERY = 1_700_000_000.0, 2700.0, 15.0
PREFIX = "/select/0/prometheus"


def changes(decisions: list[Decision]) -> list[tuple[float, Phase, str]]:
    """Give what changed, when and why."""
    return [(one.time - BEGAN, one.state, str(one.reason)) for one in decisions if one.changed]


async def test_history(
    prometheus: str, promtool: str, victoria_metrics: str, tmp_path: Path
) -> None:
    """The past replayed decides the same; between scrapes it may take one step longer.

    It counts from the sample before a window, and Prometheus draws the line beyond those within.
    """
    text = "".join(past(BEGAN, LASTED, EVERY))
    await backfill(promtool, tmp_path, text)
    at_scrapes, between = (
        Past(start=BEGAN - early, end=BEGAN + LASTED, step=EVERY) for early in (60.0, 67.0)
    )
    async with (
        running(prometheus, tmp_path) as url,
        victoria(victoria_metrics, tmp_path, prefix=PREFIX) as other,
    ):
        await fill(other, [text])
        wanted, found = [
            [await asyncio.to_thread(rehearse, at, stretch) for stretch in (at_scrapes, between)]
            for at in (url, other)
        ]
    assert changes(found[0]) == changes(wanted[0])
    assert [state for _, state, _ in changes(found[0])] == [
        *(Phase.FALLBACK, Phase.PROBING, Phase.FALLBACK, Phase.PROBING, Phase.ACTIVE)
    ]
    differ = {
        ours.time - BEGAN: str(theirs.reason)
        for ours, theirs in zip(found[0], wanted[0], strict=True)
        if ours.reason != theirs.reason
    }
    told = "one sample is enough for it, so the start is over a step earlier"
    assert differ == {0.0: "too_few_samples", 60.0: "startup_grace"}, told
    pairs = list(zip(changes(found[1]), changes(wanted[1]), strict=True))
    assert [ours[1:] for ours, _ in pairs] == [theirs[1:] for _, theirs in pairs]
    assert {ours[0] - theirs[0] for ours, theirs in pairs} <= {0.0, EVERY}


async def test_same_look(
    prometheus: str, promtool: str, victoria_metrics: str, tmp_path: Path
) -> None:
    """A guard that looks at the same pool now sees the same numbers and judges the same.

    Also through a proxy that has it below a path and asks for the tenant.
    """
    text = "".join(past(time.time() - 1200.0 - EVERY / 2.0, LASTED, EVERY))
    await backfill(promtool, tmp_path, text)
    async with (
        running(prometheus, tmp_path) as url,
        victoria(victoria_metrics, tmp_path, prefix=PREFIX) as other,
    ):
        await fill(other, [text])
        with tenants_only(tmp_path / "proxy", other, "team-a") as proxied:
            wanted, found, third = [
                await seen(PrometheusSettings(url=one, selector=SELECTOR, tenant="team-a"))
                for one in (url, other, proxied)
            ]
            with pytest.raises(FleetError, match="no org id"):
                await seen(PrometheusSettings(url=proxied, selector=SELECTOR, tenant="team-b"))
    assert (str(wanted.verdict), wanted.numbers["members"]) == ("costs", 2)
    for one in (found, third):
        assert one.numbers == pytest.approx(wanted.numbers, rel=1e-9)
        assert one.step == pytest.approx(wanted.step, rel=1e-9)
        assert replace(one, numbers={}, step={}) == replace(wanted, numbers={}, step={})


async def seen(settings: PrometheusSettings) -> Look:
    """Look at the one model of the pool."""
    source = FleetSource(settings, decision_window=15.0, margin=0.05)
    (found,) = (await source.look(100.0)).values()
    return found


async def test_pool(victoria_metrics: str, tmp_path: Path) -> None:
    """A pool that it scrapes itself is seen as it is now, not as it was half a minute ago.

    Its now is the last whole second, so a member that is gone is seen for so much longer.
    """
    members = Member(speedup=0.5, state="fallback"), Member(speedup=0.7)
    async with victoria_pool(victoria_metrics, tmp_path, *members) as url:
        await scraped(*members, times=7)
        await flush(url)
        found = await look(url)
        settings = PrometheusSettings(url=url, selector=SELECTOR)
        share = FallbackShare(settings, pace=Pace(), log=Log())
        await share._once()
        members[1].down = True
        await scraped(members[0], times=math.ceil((WINDOW + 1.0) / SCRAPE) + 1)
        await flush(url)
        error = await failure(url)
        wrong = await failure(f"{url}/prometheus/nowhere")
    assert found.numbers["members"] == 2
    assert found.numbers["speedup_ratio"] == pytest.approx(0.6, rel=0.1)
    assert found.numbers["tpot_seconds"] == pytest.approx(0.08)
    assert found.numbers["errors"] / found.numbers["served"] == pytest.approx(0.1)
    assert found.numbers["acceptance_ratio"] == pytest.approx(0.2)
    assert (share.used_up(0.9), share.used_up(1.0)) == (True, False)
    assert error.reason == "members_missing"
    assert wrong.reason in {"404", "400"}
