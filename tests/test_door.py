"""The door: room for everybody who asks something, and none for who only stands in it."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web
from tests.sidecars import quick, sidecar, until

from specgauge.model.settings import TargetSettings
from specgauge.serve import door as doors
from specgauge.serve.door import MOST_CONNECTIONS, Door

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def standing(door: Door) -> AsyncIterator[tuple[web.Server, int]]:
    """Serve one route behind a door."""

    async def slow(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    app = web.Application(middlewares=[door.pass_through])
    app.router.add_route("*", "/", slow)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    server = runner.server
    assert server is not None
    opened = await door.open(server, "127.0.0.1", 0)
    yield server, opened.sockets[0].getsockname()[1]
    opened.close()
    await runner.cleanup()


async def connect(port: int, stack: AsyncExitStack) -> Line:
    """Open a connection that the test closes."""
    line = await asyncio.open_connection("127.0.0.1", port)
    stack.callback(line[1].close)
    return line


@pytest.mark.parametrize(
    ("sent", "stays", "goes"),
    [
        pytest.param(b"", 9.0, 11.0, id="says nothing"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nX: ", 9.0, 11.0, id="half a head"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", 29.0, 31.0, id="body"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 74.0, 76.0, id="rests"),
    ],
)
async def test_who_holds_a_connection_for_nothing_is_shown_out(
    sent: bytes, stays: float, goes: float
) -> None:
    """A connection lasts as long as what it is busy with needs, and then it is closed."""
    door = Door()
    async with standing(door) as (server, port), AsyncExitStack() as stack:
        reader, writer = await connect(port, stack)
        await until(lambda: server.connections, "the connection")
        now = asyncio.get_running_loop().time()
        door.look(server, now)
        writer.write(sent)
        if sent.startswith(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
            await reader.readuntil(b"\r\n\r\n")
        elif sent.startswith(b"POST"):
            await until(lambda: max(door._until.values(), default=0.0) > now + 20, "the request")
        door.look(server, now + stays)
        await asyncio.sleep(0)
        assert server.connections
        door.look(server, now + goes)
        await until(lambda: not server.connections, "the end")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1 << 20)


async def test_more_than_there_is_room_for_are_told_so() -> None:
    """One too many is answered 503 at once; when one has left there is room again."""
    door = Door()
    door.most = 2
    async with standing(door) as (server, port), AsyncExitStack() as stack:
        first, second = await connect(port, stack), await connect(port, stack)
        for reader, writer in (first, second):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
        reader, _ = await connect(port, stack)
        assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
        first[1].close()
        await until(lambda: len(server.connections) == 1, "one to leave")
        reader, writer = await connect(port, stack)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


async def test_the_silent_make_room() -> None:
    """However many stand in the door and say nothing, who asks something is answered."""
    door = Door()
    door.most = 4
    async with standing(door) as (server, port), AsyncExitStack() as stack:
        for _ in range(20):
            await connect(port, stack)
        reader, writer = await connect(port, stack)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        assert len(server.connections) <= door.most


@pytest.mark.parametrize(
    ("limit", "most"),
    [(1024, MOST_CONNECTIONS), (128, 64), (resource.RLIM_INFINITY, MOST_CONNECTIONS)],
    ids=["usual", "few", "no limit"],
)
def test_half_of_the_descriptors_are_left(
    limit: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few there are, connections leave some to scrape with."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert Door().most == most


async def test_the_sidecar_watches_its_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent connection ends by itself while the sidecar goes on."""
    monkeypatch.setattr(doors, "_ASKING_SECONDS", 0.0)
    monkeypatch.setattr(doors, "_LOOK_SECONDS", 0.05)
    nobody = TargetSettings(name="spec", url="http://127.0.0.1:9/metrics")
    async with sidecar(settings=quick(nobody)) as running:
        port = int(running.sidecar.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.timeout(10):
                assert await reader.read() == b""
        except ConnectionError:
            pass
        writer.close()
