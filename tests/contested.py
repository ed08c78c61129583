"""Pools for a comparison: stub engines that also give whole answers, in a thread of their own.

The thread leaves the main one to the command, which takes signals there.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from tests.stub_engine import Engine, Faults, application

Says = Callable[[str, int], str]
"""What a pool answers to a prompt, by how many answers it gave before."""


def plain_answer(prompt: str, _: int) -> str:
    """Answer with JSON that follows from the prompt alone."""
    return json.dumps({"about": prompt[:20]})


def garbled(prompt: str, number: int) -> str:
    """Answer every second prompt with JSON that is cut off."""
    whole = plain_answer(prompt, number)
    return whole[:-4] if number % 2 else whole


@dataclass(slots=True, kw_only=True)
class Contestant:
    """An engine, what it says, after how many requests it dies, and more lines of its page."""

    engine: Engine
    says: Says = plain_answer
    dies_after: int | None = None
    page_end: str = ""
    answers: int = 0
    sampled: list[dict[str, Any]] = field(default_factory=list)


def pace(seconds: float) -> Callable[[int], float]:
    """Give a step that takes so long at any load."""
    return lambda _running: seconds


def plain(seconds: float = 0.003, **changes: Any) -> Contestant:
    """Make a pool without speculation."""
    return Contestant(engine=Engine(step_seconds=pace(seconds)), **changes)


def drafting(seconds: float = 0.0015, **changes: Any) -> Contestant:
    """Make a pool with it, whose steps are as short as that makes them."""
    return Contestant(
        engine=Engine(step_seconds=pace(seconds), faults=Faults(drafts=True)), **changes
    )


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def _serving(one: Contestant) -> Any:
    @web.middleware
    async def whole(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method != "POST":
            response = await handler(request)
            if request.path == "/metrics" and isinstance(response, web.Response):
                response.text = f"{one.engine.page()}{one.page_end}"
            return response
        body = await request.json()
        if one.dies_after is not None and one.engine.began >= one.dies_after:
            await one.engine.die()
            raise ConnectionResetError
        if body.get("stream"):
            return await handler(request)
        one.sampled.append(body)
        chat = "messages" in body
        prompt = body["messages"][0]["content"] if chat else body["prompt"]
        text = one.says(prompt, one.answers)
        one.answers += 1
        said = {"message": {"content": text}} if chat else {"text": text}
        return web.json_response({"choices": [{**said, "finish_reason": "stop"}]})

    app = application(one.engine)
    app.middlewares.append(whole)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.engine.runner = runner
    one.engine.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    working = asyncio.create_task(one.engine.work())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await runner.cleanup()


@contextmanager
def contesting(*pools: Contestant) -> Iterator[Sequence[str]]:
    """Serve these pools from another thread; gives their URLs."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            for one in pools:
                await stack.enter_async_context(_serving(one))
            ready.set()
            await over.wait()
        await asyncio.sleep(0.01)  # in which connections that were cut close their sockets

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10.0)
        yield [one.engine.url for one in pools]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
