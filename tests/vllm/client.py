"""A streaming client that knows what it got: tokens from `usage`, seconds from its own clock.

It may not look at /metrics: it is the outside view the counters are held against.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import aiohttp

NAMES = ["width", "height", "name", "size", "path", "state", "index", "total", "node", "token"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a bout of requests cost and brought, as the client saw it."""

    requests: int
    prompt_tokens: int
    generation_tokens: int
    concurrency: int
    seconds: float


def prompts() -> Iterator[str]:
    """Yield code-like prompts without end, no two the same, so that no prefix is all cached."""
    for number in count():
        first, second = NAMES[number % 10], NAMES[(number // 10 + 3 * number + 1) % 10]
        yield (
            f"# case {number}\nclass Item{number}:\n"
            f"    def __init__(self, {first}, {second}):\n"
            f"        self.{first} = {first}\n        self.{second} = {second}\n\n"
            f"    def get_{first}(self):\n        return self.{first}\n\n"
            f"    def get_{second}(self):\n"
        )


async def send(
    url: str,
    model: str,
    source: Iterator[str],
    *,
    concurrency: int,
    more: Callable[[int], bool],
    max_tokens: int = 192,
    chat: bool = False,
) -> Sent:
    """Keep `concurrency` requests in flight for as long as `more(begun)` holds."""
    usages: list[dict[str, int]] = []
    begun = 0
    timeout = aiohttp.ClientTimeout(total=120)

    async def seat(session: aiohttp.ClientSession) -> None:
        nonlocal begun
        while more(begun):
            begun += 1
            usages.append(await _stream(session, url, _body(model, next(source), max_tokens, chat)))

    started = time.monotonic()
    async with aiohttp.ClientSession(timeout=timeout) as session:
        await asyncio.gather(*(seat(session) for _ in range(concurrency)))
    return Sent(
        requests=len(usages),
        prompt_tokens=sum(usage["prompt_tokens"] for usage in usages),
        generation_tokens=sum(usage["completion_tokens"] for usage in usages),
        concurrency=concurrency,
        seconds=time.monotonic() - started,
    )


def up_to(requests: int) -> Callable[[int], bool]:
    """Say that there is more to send until `requests` have been begun."""
    return lambda begun: begun < requests


def total(bouts: Sequence[Sent], field: str) -> int:
    """Add up one count over several bouts."""
    return sum(int(getattr(bout, field)) for bout in bouts)


def _body(model: str, prompt: str, max_tokens: int, chat: bool) -> dict[str, Any]:
    asked = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
    return {
        "model": model,
        "temperature": 0,
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        **asked,
    }


async def _stream(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> dict[str, int]:
    route = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    usage: dict[str, int] | None = None
    async with session.post(url + route, json=body) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            payload = line.removeprefix(b"data:").strip()
            if line.startswith(b"data:") and payload != b"[DONE]":
                usage = json.loads(payload).get("usage") or usage
    assert usage is not None, f"{url}{route} ended its stream without usage"
    return usage
