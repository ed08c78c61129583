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
    """What a bout of requests cost and brought, as the client saw it.

    `seated_seconds` is how long requests were under way, `decode_seconds` of it the time from
    first chunk to last, both added up over all of them.
    """

    requests: int
    prompt_tokens: int
    generation_tokens: int
    concurrency: int
    seconds: float
    seated_seconds: float = 0.0
    decode_seconds: float = 0.0

    @property
    def tpot_seconds(self) -> float:
        """Time per token after a request's first."""
        return self.decode_seconds / (self.generation_tokens - self.requests)

    @property
    def seconds_per_token(self) -> float:
        """Time of a seat per token, the wait for the first included; it needs no chunk's time."""
        return self.seated_seconds / self.generation_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one request brought; `decode_seconds` is the time from its first chunk to its last."""

    usage: dict[str, int]
    seconds: float
    decode_seconds: float


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
    lengths: Sequence[int] = (192,),
    chat: bool = False,
    temperature: Callable[[], float] = lambda: 0.0,
    route: Callable[[], str] | None = None,
) -> Sent:
    """Keep `concurrency` requests in flight for as long as `more(begun)` holds.

    `temperature` and `route`, the server to send to, are asked at each request.
    """
    answers: list[Answer] = []
    begun = 0
    timeout = aiohttp.ClientTimeout(total=120)

    async def seat(session: aiohttp.ClientSession) -> None:
        nonlocal begun
        while more(begun):
            length = lengths[begun % len(lengths)]
            begun += 1
            asked = _body(model, next(source), length, chat) | {"temperature": temperature()}
            answers.append(await _stream(session, route() if route else url, asked))

    started = time.monotonic()
    async with aiohttp.ClientSession(timeout=timeout) as session:
        await asyncio.gather(*(seat(session) for _ in range(concurrency)))
    return Sent(
        requests=len(answers),
        prompt_tokens=sum(answer.usage["prompt_tokens"] for answer in answers),
        generation_tokens=sum(answer.usage["completion_tokens"] for answer in answers),
        concurrency=concurrency,
        seconds=time.monotonic() - started,
        seated_seconds=sum(answer.seconds for answer in answers),
        decode_seconds=sum(answer.decode_seconds for answer in answers),
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


async def _stream(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> Answer:
    route = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    usage: dict[str, int] | None = None
    sent = time.monotonic()
    arrivals: list[float] = []
    async with session.post(url + route, json=body) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            payload = line.removeprefix(b"data:").strip()
            if line.startswith(b"data:") and payload != b"[DONE]":
                chunk = json.loads(payload)
                usage = chunk.get("usage") or usage
                if chunk["choices"]:
                    arrivals.append(time.monotonic())
    assert usage is not None, f"{url}{route} ended its stream without usage"
    return Answer(
        usage=usage,
        seconds=time.monotonic() - sent,
        decode_seconds=arrivals[-1] - arrivals[0],
    )
