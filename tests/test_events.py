"""The event stream: the newest picture to every open page, and nobody waits for one of them."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from tests.servers import answer, serving
from tests.sidecars import INTERVAL, Running, sidecar, until
from tests.small_pages import v1_page

from specgauge.model.settings import TargetSettings
from specgauge.serve import events


async def picture(response: aiohttp.ClientResponse) -> dict[str, object]:
    """Read the next event."""
    data: dict[str, object] = {}
    async for line in response.content:
        if line.startswith(b"data: "):
            data = json.loads(line.removeprefix(b"data: "), parse_constant=pytest.fail)
        if line == b"\n" and data:
            return data
    raise AssertionError("the stream ended")


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    """Run a sidecar before an engine that works."""
    pages = [answer(v1_page(1000 * number)) for number in range(1, 200)]
    async with (
        serving(*pages) as engine,
        sidecar(TargetSettings(name="spec", url=engine.page)) as made,
    ):
        await made.result("ok")
        yield made


async def test_pictures_are_what_the_routes_say(running: Running) -> None:
    """An event holds the status, the guard and the newest points, each as its own route has it."""
    async with running.client.get("/api/v1/events") as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        first, second = await picture(response), await picture(response)
    schemas = {name: part["schema"] for name, part in first.items() if isinstance(part, dict)}
    assert schemas == {
        "status": "specgauge.status/v1",
        "guard": "specgauge.guard_status/v1",
        "trend": "specgauge.trend/v1",
    }
    assert first != second


async def test_a_page_that_does_not_read_holds_up_nobody(running: Running) -> None:
    """One open page that never reads costs the others nothing, and is gone when it closes."""
    async with running.client.get("/api/v1/events"), running.client.get("/api/v1/events") as other:
        await picture(other)
        await running.scrapes(20)
        assert await picture(other)
    await running.scrapes(2)


async def test_too_many_pages_are_refused(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit a page is told to come back, and may once another has closed."""
    monkeypatch.setattr(events, "MOST_PAGES", 1)
    async with running.client.get("/api/v1/events") as first:
        await picture(first)
        async with running.client.get("/api/v1/events") as second:
            assert (second.status, second.headers["Retry-After"]) == (503, "10")
    await until(lambda: not running.sidecar._events._pages, "the end of the first")
    async with running.client.get("/api/v1/events") as third:
        assert await picture(third)


async def test_a_quiet_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing changes a beat comes now and then, for the page and for proxies between."""
    monkeypatch.setattr(events, "_HEARTBEAT_SECONDS", INTERVAL)
    async with sidecar() as quiet, quiet.client.get("/api/v1/events") as response:
        await picture(response)
        async with asyncio.timeout(10):
            assert await response.content.readline() == b"event: beat\n"
            assert await response.content.readline() == b"data: {}\n"


async def test_a_page_that_never_reads_loses_its_place(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes nothing in is shown out, so that his place is another's."""
    monkeypatch.setattr(events, "_STUCK_SECONDS", 10 * INTERVAL)
    monkeypatch.setattr(events, "_PACE_SECONDS", 0.0)
    stream = running.sidecar._events
    monkeypatch.setattr(stream, "_picture", lambda: {"much": "x" * 4_000_000})
    address = running.sidecar.url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(address[0], int(address[2]), limit=1024)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
    await until(lambda: stream._pages, "the page")
    await until(lambda: not stream._pages, "its end")
    writer.close()


async def test_one_series_can_be_asked_for(running: Running) -> None:
    """A target and a model leave the others out of the trend; what is not known is empty."""

    async def names(**asked: str) -> list[str]:
        async with running.client.get("/api/v1/trend", params=asked) as response:
            assert response.headers["Content-Type"].startswith("application/json")
            document = await response.json()
        assert document["schema"] == "specgauge.trend/v1"
        assert document["columns"][0] == "unix"
        return [one["model_name"] for one in document["series"]]

    await running.scrapes()
    (model,) = await names()
    assert await names(target="spec", model_name=model) == [model]
    assert await names(target="other") == await names(model_name="other") == []


@pytest.mark.parametrize("since", ["soon", "nan", "inf"])
async def test_a_bad_time_is_refused(running: Running, since: str) -> None:
    """The trend from a time that is none is one line with 400."""
    async with running.client.get("/api/v1/trend", params={"since": since}) as response:
        assert response.status == 400
        assert await response.text() == "since must be a Unix time in seconds\n"
