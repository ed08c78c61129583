"""Requests of every kind, and what a client makes of their answers: the outside view.

It may not look at a log or at /metrics, and it knows nothing of specgauge but two headers.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from tests.vllm.engine import MODEL_NAME

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
DRAFTED = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
PATIENCE = aiohttp.ClientTimeout(total=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request."""

    body: Mapping[str, Any]
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def streams(self) -> bool:
        """Whether it asks for a stream."""
        return bool(self.body["stream"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of it; `whole` is whether it ended as an answer has to, without an error in it.

    `drafted` are drafts, the tokens that they proposed and those accepted, as the engine tells.
    """

    id: str
    status: int
    traffic_class: str
    pool: str
    text: str
    whole: bool
    usage: Mapping[str, int]
    drafted: tuple[int, ...] | None


def make(
    prompt: str,
    *,
    chat: bool,
    stream: bool,
    tokens: int = 64,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Asked:
    """Make a request of exactly so many tokens, whose stream tells what it used."""
    said: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]}
    body = said if chat else {"prompt": prompt}
    body |= {"model": MODEL_NAME, "temperature": 0, "max_tokens": tokens, "ignore_eos": True}
    body |= {"stream": stream, **({"stream_options": {"include_usage": True}} if stream else {})}
    path = CHAT if chat else COMPLETIONS
    return Asked(body=body | more, path=path, headers=headers or {})


def every_kind(source: Iterator[str]) -> Iterator[Asked]:
    """Make a request for each rule, and for none, as chat and not, as a stream and not."""
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"headers": {"X-Traffic": "batch"}},
        {"headers": {"X-Traffic": "Batch"}},
        {"temperature": 1.3},
        {"temperature": 0.8},
        {"tokens": 16},
        {"tokens": 48},
        {"response_format": {"type": "json_object"}},
        {"fence": "```python\n"},
    )
    for kind, chat, stream in itertools.product(kinds, (True, False), (True, False)):
        more = dict(kind)
        prompt = more.pop("fence", "") + next(source)
        yield make(prompt, chat=chat, stream=stream, **more)


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    asked: Asked,
    number: str,
    *,
    on_text: Callable[[], None] = lambda: None,
) -> Answer:
    """Send a request under an id of its own; `on_text` is called at each piece of its text."""
    headers = {"X-Request-Id": number, **asked.headers}
    texts, usage, drafted = [], dict[str, int](), None
    whole = failed = False
    async with session.post(url + asked.path, json=asked.body, headers=headers) as response:
        try:
            async for document in _documents(response, asked):
                failed |= "error" in document
                usage = document.get("usage") or usage
                drafted = _drafted(document) or drafted
                for choice in document.get("choices", ()):
                    texts.append(_text(choice))
                    on_text()
            whole = not failed
        except aiohttp.ClientPayloadError:
            pass
        return Answer(
            id=number,
            status=response.status,
            traffic_class=response.headers.get("X-Specgauge-Class", ""),
            pool=response.headers.get("X-Specgauge-Pool", ""),
            text="".join(texts),
            whole=whole,
            usage=usage,
            drafted=drafted,
        )


async def _documents(
    response: aiohttp.ClientResponse, asked: Asked
) -> AsyncIterator[dict[str, Any]]:
    if not asked.streams or response.status != 200:
        yield json.loads(await response.read())
        return
    payload = b""
    async for line in response.content:
        if line.startswith(b"data:"):
            payload = line.removeprefix(b"data:").strip()
            if payload != b"[DONE]":
                yield json.loads(payload)
    if payload != b"[DONE]":
        raise aiohttp.ClientPayloadError(f"a stream ended with {payload!r}")


def _drafted(document: Mapping[str, Any]) -> tuple[int, ...] | None:
    told = (document.get("metrics") or {}).get("speculative_decoding")
    return None if told is None else tuple(told[key] for key in DRAFTED)


def _text(choice: Mapping[str, Any]) -> str:
    if "text" in choice:
        return str(choice["text"])
    return str((choice.get("message") or choice["delta"]).get("content") or "")


async def until(condition: Callable[[], object], what: str, seconds: float = 90.0) -> None:
    """Wait for something that only looking again can tell."""
    try:
        async with asyncio.timeout(seconds):
            while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - only looking tells
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{what} did not come within {seconds:g} s") from None
