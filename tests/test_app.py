"""The whole sidecar in this process: its life, its targets, and a reload while it runs."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from tests.judging import base, line
from tests.servers import RawServer, answer, serving, silent
from tests.sidecars import Running, quick, sidecar, until
from tests.small_pages import v1_page
from tests.written import Engine, write_page

from specgauge.cli.settings import settings_of
from specgauge.config import load
from specgauge.model.derived import Hints
from specgauge.model.settings import Settings, TargetSettings
from specgauge.model.verdict import Judgement, VerdictReason
from specgauge.serve.app import Sidecar

PAGE = answer(v1_page(1000))


@pytest.fixture
async def engine() -> AsyncIterator[RawServer]:
    """Run a server that answers every request with one small page."""
    async with serving(PAGE) as server:
        yield server


class Desk:
    """Settings that can be exchanged while a sidecar runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def read(self) -> Settings:
        return self.settings


def drafts(found: dict[str, float], target: str) -> float:
    key = 'specgauge_drafts_total{engine="0",model_name="small",target="%s"}'
    return found[key % target]


def targets(made: Running) -> list[str]:
    return [view.name for view in made.sidecar.view.targets]


async def test_life(engine: RawServer) -> None:
    """It has a URL from its start on, tells of start and stop, and is gone afterwards."""
    with pytest.raises(RuntimeError, match="not started"):
        _ = Sidecar(quick()).url
    async with sidecar(TargetSettings(name="spec", url=engine.page)) as made:
        url = made.sidecar.url
        await made.result("ok")
    events = [line.split()[1] for line in made.events()]
    assert (events[0], events[-1]) == ("listening", "stopped")
    assert made.events("listening") == [f"info listening url={url} targets=1"]
    with pytest.raises(OSError, match=r"refused|Connect"):
        await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    asked = len(engine.requests)
    await asyncio.sleep(0.1)
    assert len(engine.requests) == asked


async def test_stop_before_start_and_twice() -> None:
    """Stopping what does not run does nothing."""
    made = Sidecar(quick())
    await made.stop()
    await made.start()
    await made.stop()
    await made.stop()


async def test_stops_while_a_target_hangs() -> None:
    """A target that never answers does not hold the end up."""
    loop = asyncio.get_running_loop()
    async with serving(silent) as hanging:
        target = TargetSettings(name="spec", url=hanging.page)
        async with sidecar(settings=quick(target, timeout=60)) as made:
            await until(lambda: hanging.requests, "the request")
            began = loop.time()
            await made.sidecar.stop()
            assert loop.time() - began < 2


async def test_several_targets_of_every_kind(tmp_path: Path) -> None:
    """HTTP, TLS and a unix socket, with a token, a password and headers, side by side."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    (tmp_path / "bearer").write_text("ada-token\n")
    (tmp_path / "basic").write_text("ada:secret\n")
    async with (
        serving(PAGE) as plain,
        serving(PAGE, tls=tls) as secured,
        serving(PAGE, path=tmp_path / "engine.sock") as local,
    ):
        (tmp_path / "specgauge.yaml").write_text(f"""
            targets:
              - {{name: plain, url: "{plain.url}", auth: {{basic_file: basic}}}}
              - {{name: secured, url: "{secured.url}", auth: {{bearer_file: bearer}},
                  tls: {{ca_file: ca.pem}}}}
              - {{name: local, url: "{local.url}", auth: {{headers: {{X-Tenant: blue}}}}}}
              - {{name: distrusted, url: "{secured.url}"}}
            listen: "127.0.0.1:0"
            scrape: {{interval: 100ms, timeout: 10s}}
            """)
        config = load(tmp_path / "specgauge.yaml", env={}, overrides={})
        async with sidecar(settings=settings_of(config)) as made:
            for place, result in enumerate(["ok", "ok", "ok", "tls"]):
                await made.result(result, place)
            found = await made.samples()
        assert [found[f'specgauge_target_up{{target="{name}"}}'] for name in targets(made)] == [
            1,
            1,
            1,
            0,
        ]
        basic = base64.b64encode(b"ada:secret").decode()
        assert plain.header("Authorization") == f"Basic {basic}"
        assert secured.header("Authorization") == "Bearer ada-token"
        assert local.header("X-Tenant") == "blue"
        assert "secret" not in made.stream.getvalue()


async def test_reload_leaves_an_unchanged_target_alone(engine: RawServer) -> None:
    """Reading the same settings again changes nothing and says nothing."""
    settings = quick(TargetSettings(name="spec", url=engine.page))
    async with sidecar(settings=settings, read_settings=Desk(settings).read) as made:
        await made.result("ok")
        await made.scrapes()
        (_, task), events = made.sidecar._loops["spec"], made.events()
        assert made.sidecar.reload() == []
        assert made.sidecar._loops["spec"][1] is task
        assert made.events() == events


async def test_reload_adds_and_removes_targets(engine: RawServer) -> None:
    """A new target is scraped at once; the series of a removed one are gone."""
    one, two = (TargetSettings(name=name, url=engine.page) for name in ("one", "two"))
    desk = Desk(quick(one))
    async with sidecar(settings=desk.settings, read_settings=desk.read) as made:
        await made.result("ok")
        for chosen in ((one, two), (two,)):
            desk.settings = quick(*chosen)
            assert made.sidecar.reload() == []
            await made.result("ok", len(chosen) - 1)
            assert targets(made) == [target.name for target in chosen]
        assert not [key for key in await made.samples() if 'target="one"' in key]
        assert [line.split()[2] for line in made.events("config_reloaded")] == [
            "targets=2",
            "targets=1",
        ]
        asked = len(engine.requests)
        await made.scrapes(5)
        assert len(engine.requests) > asked


async def test_reload_keeps_the_totals_of_the_same_server(engine: RawServer) -> None:
    """Other terms for the same server go on with its totals, and it does not come up anew."""
    first = TargetSettings(name="spec", url=engine.page)
    desk = Desk(quick(first))
    async with sidecar(settings=desk.settings, read_settings=desk.read) as made:
        await made.result("ok")
        engine.script(answer(v1_page(2000)))
        await made.scrapes()
        changed = replace(first, hints=Hints(method="ngram"), headers={"X-Tenant": "blue"})
        desk.settings = quick(changed)
        made.sidecar.reload()
        await until(lambda: engine.header("X-Tenant") == "blue", "the new header")
        await made.scrapes()
        assert drafts(await made.samples(), "spec") == 1000
        assert made.sidecar.view.targets[0].hints == Hints(method="ngram")
        assert len(made.events("target_up")) == 1


async def test_reload_to_another_server_starts_anew(engine: RawServer) -> None:
    """Another URL is another server: its counters have nothing to do with the old one's."""
    async with serving(answer(v1_page(9000))) as other:
        desk = Desk(quick(TargetSettings(name="spec", url=engine.page)))
        async with sidecar(settings=desk.settings, read_settings=desk.read) as made:
            await made.result("ok")
            engine.script(answer(v1_page(2000)))
            await made.scrapes()
            assert drafts(await made.samples(), "spec") == 1000
            desk.settings = quick(TargetSettings(name="spec", url=other.page))
            made.sidecar.reload()
            await made.result("ok")
            assert drafts(await made.samples(), "spec") == 0


async def test_reload_applies_what_metrics_carries(engine: RawServer) -> None:
    """Histograms and positions can be switched off while it runs."""
    desk = Desk(quick(TargetSettings(name="spec", url=engine.page)))
    async with sidecar(settings=desk.settings, read_settings=desk.read) as made:
        await made.result("ok")
        assert any("_bucket{" in key for key in await made.samples())
        desk.settings = replace(desk.settings, histograms=False)
        made.sidecar.reload()
        assert not any("_bucket{" in key for key in await made.samples())


async def test_reload_cannot_move_the_port(engine: RawServer) -> None:
    """A changed address takes a restart, and that is said."""
    desk = Desk(quick(TargetSettings(name="spec", url=engine.page)))
    async with sidecar(settings=desk.settings, read_settings=desk.read) as made:
        desk.settings = replace(desk.settings, port=1)
        url = made.sidecar.url
        assert made.sidecar.reload() == []
        assert made.sidecar.url == url
        assert made.events("listen_unchanged") == [
            'warning listen_unchanged fix="restart to listen on another address"'
        ]
        await made.samples()


async def test_reload_revives_a_dead_loop(engine: RawServer) -> None:
    """A loop that died is started again by a reload, even if nothing else changed."""
    settings = quick(TargetSettings(name="spec", url=engine.page))
    async with sidecar(settings=settings) as made:
        await made.result("ok")
        _, task = made.sidecar._loops["spec"]
        task.cancel()
        await asyncio.wait([task])
        made.sidecar.reload()
        await made.scrapes()


# Comparison: the small pages show 10/3 ms a token, those without speculation 10 ms

WIDE = ((0.001, 0.02 / 3), (1e6, 0.02 / 3))


def plain_page(steps: int) -> bytes:
    """Write the page of the same server without speculation: a token a step."""
    return write_page(
        Engine(
            model="small",
            tokens=steps + steps // 25,
            firsts=steps // 25,
            first_seconds=0.05 * (steps // 25),
            steps=steps,
            step_seconds=0.01 * steps,
            finished=steps // 25,
        )
    )


def running(page: Callable[[int], bytes], count: int = 400) -> list[bytes]:
    """Spell out the answers of a server that makes fifty steps from one scrape to the next."""
    return [answer(page(1000 + 50 * place)) for place in range(count)]


def verdict(made: Running, target: int = 0) -> Judgement | None:
    return made.sidecar.view.targets[target].judgements.get("small")


async def settled(made: Running, value: float, target: int = 0) -> None:
    """Wait until a target's speedup is known to be so much."""

    def known() -> bool:
        one = verdict(made, target)
        return one is not None and one.ratios.get("concurrency") == pytest.approx(value)

    await until(known, f"a speedup of {value:g}")


async def test_comparison_with_a_file(engine: RawServer) -> None:
    """The baseline of the settings is compared with; a reload exchanges it under the same loop."""
    engine.script(*running(v1_page))
    settings = replace(
        quick(TargetSettings(name="spec", url=engine.page)), baselines=(base(line(*WIDE)),)
    )
    desk = Desk(settings)
    async with sidecar(settings=settings, read_settings=desk.read) as made:
        await settled(made, 2.0)
        speedup = 'specgauge_speedup_ratio{basis="concurrency",model_name="small",target="spec"}'
        assert (await made.samples())[speedup] == pytest.approx(2.0)
        slower = base(line((0.001, 0.01), (1e6, 0.01)))
        desk.settings = replace(settings, baselines=(slower,))
        assert made.sidecar.reload() == []
        await settled(made, 3.0)
        assert len(made.events("target_up")) == 1
        desk.settings = replace(settings, baselines=(), margin=0.1)
        made.sidecar.reload()
        await made.scrapes()
        assert verdict(made) is None


async def test_comparison_with_a_live_sibling(engine: RawServer) -> None:
    """A target without speculation is the baseline of the others, and of itself only by file."""
    engine.script(*running(v1_page))
    async with serving(*running(plain_page)) as other:
        targets = (
            TargetSettings(name="spec", url=engine.page),
            TargetSettings(name="plain", url=other.page, role="standard"),
        )
        settings = replace(quick(*targets), baseline_target="plain")
        desk = Desk(settings)
        async with sidecar(settings=settings, read_settings=desk.read) as made:
            await settled(made, 3.0)
            spec, plain = made.sidecar.view.targets
            assert spec.baselines["small"].source == "target plain"
            assert spec.baselines["small"].method == "live"
            assert plain.judgements == {}
            known = made.sidecar._loops["plain"][0].tracker.sibling
            desk.settings = replace(settings, baselines=(base(line(*WIDE)),))
            made.sidecar.reload()
            assert made.sidecar._loops["plain"][0].tracker.sibling is known
            await until(lambda: verdict(made, 1), "the file for the sibling itself")
            desk.settings = replace(desk.settings, baseline_target=None)
            made.sidecar.reload()
            assert made.sidecar._loops["plain"][0].tracker.sibling is None
            await settled(made, 2.0)


async def test_sibling_that_is_not_known_yet(engine: RawServer) -> None:
    """Until a sibling has been seen there is no baseline, and the verdict says so."""
    engine.script(*running(v1_page))
    async with serving(silent) as other:
        targets = (
            TargetSettings(name="spec", url=engine.page),
            TargetSettings(name="plain", url=other.page, role="standard"),
        )
        settings = replace(quick(*targets, timeout=60), baseline_target="plain")
        async with sidecar(settings=settings) as made:
            await until(lambda: verdict(made), "a verdict")
            one = verdict(made)
            assert one is not None
            assert one.reason is VerdictReason.NO_BASELINE


async def test_sibling_that_is_no_target(engine: RawServer) -> None:
    """A name of no target gives no baseline."""
    settings = replace(quick(TargetSettings(name="spec", url=engine.page)), baseline_target="gone")
    engine.script(*running(v1_page))
    async with sidecar(settings=settings) as made:
        await until(lambda: verdict(made), "a verdict")
        assert made.sidecar._live("small") is None
