"""One target's loop: what it tells of changes, and its silence while there are none."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.servers import Answer, RawServer, answer, chunks, serving, silent, then_close, then_reset
from tests.sidecars import INTERVAL, Running, quick, sidecar, until
from tests.small_pages import v1_page

from specgauge.model.derived import Hints
from specgauge.model.settings import TargetSettings
from specgauge.serve.loop import Pace

PAGE = v1_page(1000)
HTML = b"<!DOCTYPE html><title>Sign in</title>\n"
CHANGES = ("target_up", "target_down", "target_silent", "speculation", "engine_restarted")


@pytest.fixture
async def engine() -> AsyncIterator[RawServer]:
    """Run a server that answers every request with one small page."""
    async with serving(answer(PAGE)) as server:
        yield server


@pytest.fixture
async def running(engine: RawServer) -> AsyncIterator[Running]:
    """Run a sidecar before it."""
    async with sidecar(TargetSettings(name="spec", url=engine.page)) as made:
        await made.result("ok")
        await made.scrapes()
        yield made


def script(server: RawServer, page: bytes, version: bytes) -> None:
    """Let a server answer /version apart from its page."""

    async def run(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = server.requests[-1].startswith(b"GET /version ")
        told = answer(version, content_type="application/json") if asked else answer(page)
        writer.write(told)
        await writer.drain()

    server.script(run)


async def test_silent_while_nothing_changes(running: Running) -> None:
    """After the first lines nothing more is said, however many pages come."""
    before = running.events()
    assert [line.split()[1] for line in before] == ["listening", "target_up", "speculation"]
    await running.scrapes(30)
    assert running.events() == before


FAILURES: list[tuple[str, Answer, str]] = [
    ("500", answer(status=500), "target_down target=spec result=http_status"),
    ("html", answer(HTML, content_type="text/html"), "target_down target=spec result=not_metrics"),
    (
        "truncated",
        then_close(answer(PAGE, length=len(PAGE) + 1)),
        "target_down target=spec result=truncated",
    ),
    ("chunks cut", then_close(chunks(PAGE, final=False)), "target_down target=spec result="),
    ("reset", then_reset(b""), "target_down target=spec result=unreachable"),
    (
        "redirect",
        answer(b"", "Location: http://b/login", status=302),
        "target_down target=spec result=redirect",
    ),
    (
        "json",
        answer(b"{}", content_type="application/json"),
        "target_down target=spec result=unsupported_content_type",
    ),
    (
        "encoding",
        answer(PAGE, "Content-Encoding: br"),
        "target_down target=spec result=bad_encoding",
    ),
    ("empty", answer(b""), "target_silent target=spec result=no_engine_metrics"),
    (
        "foreign",
        answer(b"sglang:num_running_reqs 1\n"),
        "target_silent target=spec result=unrecognised_exposition",
    ),
]


@pytest.mark.parametrize(
    ("failing", "expected"), [pytest.param(*rest, id=name) for name, *rest in FAILURES]
)
async def test_one_line_down_and_one_line_up(
    running: Running, engine: RawServer, failing: Answer, expected: str
) -> None:
    """However a target fails and for how long, it is told of once, and once when it is back."""
    before = len(running.events())
    engine.script(failing)
    await until(lambda: running.sidecar.view.targets[0].result != "ok", "a failed scrape")
    await running.scrapes(2)
    (line,) = running.events()[before:]
    assert line.startswith(f"warning {expected}")
    assert " detail=" in line
    engine.script(answer(PAGE))
    await running.result("ok")
    await running.scrapes(3)
    assert running.events()[before + 1 :] == ["info target_up target=spec dialect=vllm-v1"]


async def test_one_line_for_a_target_that_hangs(engine: RawServer) -> None:
    """A target that stopped answering is told of once, when its time is over."""
    target = TargetSettings(name="spec", url=engine.page)
    async with sidecar(settings=quick(target, timeout=1)) as made:
        await made.result("ok")
        await made.scrapes()
        before = len(made.events())
        engine.script(silent)
        await made.result("timeout")
        await made.scrapes(1)
        (line,) = made.events()[before:]
        assert line.startswith("warning target_down target=spec result=timeout detail=")
        assert "no complete answer within 1 s" in line


async def test_another_kind_of_failure_is_a_change(running: Running, engine: RawServer) -> None:
    """A target that fails in another way than before is told of again."""
    for code in (500, 404, 503):
        engine.script(answer(status=code))
        await running.scrapes()
    engine.script(answer(HTML))
    await running.result("not_metrics")
    results = [line.split()[3] for line in running.events("target_down")]
    assert results == ["result=http_status", "result=not_metrics"]


async def test_unreachable_from_the_start_and_then_there(tmp_path: Path) -> None:
    """The sidecar may start before its engine."""
    path = tmp_path / "engine.sock"
    async with sidecar(TargetSettings(name="spec", url=f"http+unix://{path}:/metrics")) as made:
        await made.result("unreachable")
        await made.scrapes()
        assert len(made.events("target_down")) == 1
        async with serving(answer(PAGE), path=path):
            await made.result("ok")
            assert len(made.events("target_up")) == 1


async def test_restart_of_the_engine(running: Running, engine: RawServer) -> None:
    """A restart is one line; the counters go on from where they were."""
    drafts = 'specgauge_drafts_total{engine="0",model_name="small",target="spec"}'
    restarts = 'specgauge_engine_restarts_total{engine="0",model_name="small",target="spec"}'
    engine.script(answer(v1_page(2000)))
    await running.scrapes()
    assert (await running.samples())[drafts] == 1000
    engine.script(answer(v1_page(500)))
    await running.scrapes()
    found = await running.samples()
    assert (found[drafts], found[restarts]) == (1500, 1)
    engine.script(answer(v1_page(700)))
    await running.scrapes()
    found = await running.samples()
    assert (found[drafts], found[restarts]) == (1700, 1)
    assert running.events("engine_restarted") == [
        "warning engine_restarted target=spec model_name=small engine=0"
    ]


async def test_restart_of_the_web_server_is_no_engine(running: Running, engine: RawServer) -> None:
    """Requests counted anew, as by another worker of the web server, are no engine's restart."""
    for count in (5, 1):
        engine.script(answer(PAGE + b'http_requests_total{status="2xx"} %d\n' % count))
        await running.scrapes()
    assert running.events("engine_restarted") == []
    code = 'specgauge_http_requests_total{code="2xx",target="spec"}'
    assert (await running.samples())[code] == 5 + 1


async def test_refused_page_changes_no_total(running: Running, engine: RawServer) -> None:
    """A page that breaks off adds nothing, and what it would have added comes with the next."""
    engine.script(answer(v1_page(2000)))
    await running.scrapes()
    before = await running.samples()
    engine.script(then_close(answer(v1_page(9000)[:-20], length=-1)))
    await running.result("truncated")
    during = await running.samples()
    gauge = 'specgauge_acceptance_ratio{model_name="small",target="spec"}'
    assert (gauge in before, gauge in during) == (True, False)
    totals = [key for key in before if "_total{" in key and "scrapes_total" not in key]
    assert {key: during[key] for key in totals} == {key: before[key] for key in totals}
    engine.script(answer(v1_page(3000)))
    await running.result("ok")
    drafts = 'specgauge_drafts_total{engine="0",model_name="small",target="spec"}'
    assert (await running.samples())[drafts] == 2000


async def test_states_and_warnings_are_told_once(running: Running, engine: RawServer) -> None:
    """A state is told when it changes; a warning that lasts when it is new."""
    assert running.events("speculation") == [
        "info speculation target=spec model_name=small state=idle"
    ]
    for steps in (1100, 1200):
        wrong = v1_page(steps).replace(b'position="0"} ', b'position="0"} 9')
        engine.script(answer(wrong))
        await running.scrapes()
    assert running.events("speculation")[1:] == [
        "info speculation target=spec model_name=small state=active"
    ]
    told = running.events("derivation_warning")
    assert len(told) == len(set(told)) > 0
    assert not [line for line in told if "low_sample" in line or "below_first" in line]


async def test_missing_engine_is_told_of(engine: RawServer) -> None:
    """Fewer engines than configured are a lasting warning."""
    target = TargetSettings(name="spec", url=engine.page, hints=Hints(engines=2))
    async with sidecar(target) as made:
        await made.result("ok")
        await made.scrapes(5)
        assert made.events("derivation_warning") == [
            "warning derivation_warning target=spec model_name=small warning=engines_missing"
        ]


async def test_odd_content_type_is_told_of_once(engine: RawServer) -> None:
    """A page under a wrong name is taken, and the name told of."""
    engine.script(answer(PAGE, content_type="text/html"))
    async with sidecar(TargetSettings(name="spec", url=engine.page)) as made:
        await made.result("ok")
        await made.scrapes(3)
        engine.script(answer(PAGE))
        await made.scrapes(3)
        assert made.events("scrape_note") == [
            "warning scrape_note target=spec note=content_type_html"
        ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'{"version": "0.32.0"}', "0.32.0", id="version"),
        pytest.param(b'{"version": 32}', None, id="number"),
        pytest.param(b'{"version": ""}', None, id="empty"),
        pytest.param(b'{"version": "a\\nb"}', None, id="line end"),
        pytest.param(b'{"version": "%s"}' % (b"9" * 65), None, id="long"),
        pytest.param(b'["0.32.0"]', None, id="list"),
        pytest.param(b"0.32.0", None, id="no JSON"),
    ],
)
async def test_version_is_taken_if_it_is_one(
    engine: RawServer, body: bytes, expected: str | None
) -> None:
    """The release that a server says it is becomes a label only if it can be one."""
    script(engine, PAGE, body)
    async with sidecar(TargetSettings(name="spec", url=engine.page)) as made:
        await made.result("ok")
        await until(lambda: sum(b"GET /version " in one for one in engine.requests))
        await made.scrapes()
        assert made.sidecar.view.targets[0].version == expected


async def test_version_is_asked_once_a_life(engine: RawServer) -> None:
    """The release is asked for at the start, after a failure and after a restart; else never."""

    def asked() -> int:
        return sum(request.startswith(b"GET /version ") for request in engine.requests)

    script(engine, PAGE, b'{"version": "0.32.0"}')
    async with sidecar(TargetSettings(name="spec", url=engine.page)) as made:
        await made.result("ok")
        await made.scrapes(10)
        assert asked() == 1
        script(engine, v1_page(500), b'{"version": "0.33.0"}')
        await made.scrapes(5)
        assert (asked(), made.sidecar.view.targets[0].version) == (1, "0.33.0")
        engine.script(answer(status=503))
        await made.result("http_status")
        script(engine, v1_page(500), b'{"version": "0.34.0"}')
        await made.result("ok")
        await made.scrapes(5)
        assert (asked(), made.sidecar.view.targets[0].version) == (1, "0.34.0")


class BrokenReader:
    """A reader with a fault of ours in it."""

    def read(self, _: bytes, *, complete: bool) -> None:
        raise ZeroDivisionError(f"complete is {complete}")


async def test_fault_of_ours_does_not_end_the_loop(running: Running, engine: RawServer) -> None:
    """A bug met on a page is told once with its traceback, and the next page is read."""
    loop, _ = running.sidecar._loops["spec"]
    good = loop.tracker._reader
    loop.tracker._reader = BrokenReader()  # type: ignore[assignment]
    await until(lambda: running.events("scrape_fault"), "a fault")
    asked = len(engine.requests)
    await until(lambda: len(engine.requests) > asked + 5, "more requests")
    (line,) = running.events("scrape_fault")
    assert "ZeroDivisionError" in line
    loop.tracker._reader = good
    await until(lambda: len(running.events("target_up")) == 2, "the way back")
    await running.scrapes()


async def test_never_more_than_one_scrape_a_slot(running: Running, engine: RawServer) -> None:
    """However slow or quick the server, it is asked no more often than configured."""
    loop = asyncio.get_running_loop()
    began, before = loop.time(), len(engine.requests)
    await running.scrapes(20)
    slots = (loop.time() - began) / INTERVAL
    assert len(engine.requests) - before <= slots + 2


def test_pace_runs_faster() -> None:
    """The demo's time runs `speed` times as fast as the wall's."""
    assert Pace(speed=20, steady=lambda: 3.0).now() == 60
