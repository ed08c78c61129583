"""Whole answers to a sample of prompts, for their text; measures no time.

The load generator keeps no text, and load fixes lengths; here the model ends when it likes.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp

from specgauge.baseline.brake import Brake
from specgauge.baseline.prompts import Prompt
from specgauge.preflight.compare.pool import Pool

_AT_ONCE = 4
_TIMEOUT = 120.0
_MOST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the sample is drawn: the same seed goes to both pools."""

    temperature: float
    seed: int
    tokens: int


async def collect(
    pool: Pool, prompts: Sequence[Prompt], sampling: Sampling, brake: Brake
) -> tuple[str | None, ...]:
    """Give the text that each prompt is answered with; None where it is not, or we were stopped."""
    address = pool.door.address
    connector = aiohttp.UnixConnector(address.socket) if address.socket else aiohttp.TCPConnector()
    chat = pool.terms.endpoint == "chat"
    scheme = "https" if address.tls else "http"
    path = "chat/completions" if chat else "completions"
    url = f"{scheme}://{address.authority}{address.prefix}/v1/{path}"
    turns = asyncio.Semaphore(_AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=dict(pool.door.headers), trust_env=False
    ) as session:

        async def one(prompt: Prompt) -> str | None:
            async with turns:
                if brake.pulled:
                    return None
                body = _body(pool, prompt, sampling)
                sending = asyncio.create_task(_ask(session, url, body, chat=chat))
                braked = asyncio.create_task(brake.event.wait())
                await asyncio.wait({sending, braked}, return_when=asyncio.FIRST_COMPLETED)
                braked.cancel()
                if not sending.done():
                    sending.cancel()
                    await asyncio.wait({sending})
                    return None
                return sending.result()

        return tuple(await asyncio.gather(*(one(prompt) for prompt in prompts)))


def _body(pool: Pool, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
    chat = pool.terms.endpoint == "chat"
    return {
        "model": pool.model,
        **({"messages": prompt.as_messages()} if chat else {"prompt": prompt.as_text()}),
        "max_tokens": prompt.tokens or sampling.tokens,
        "temperature": sampling.temperature,
        "seed": sampling.seed,
    }


async def _ask(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], *, chat: bool
) -> str | None:
    """Send one request and read its text; None whatever goes wrong."""
    try:
        async with session.post(url, json=body, allow_redirects=False) as response:
            if response.status != HTTPStatus.OK:
                return None
            data = bytearray()
            async for piece in response.content.iter_any():
                data += piece
                if len(data) > _MOST_BYTES:
                    return None
        return _text(json.loads(data), chat=chat)
    except (aiohttp.ClientError, OSError, ValueError, RecursionError):  # a timeout is an OSError
        return None


def _text(document: object, *, chat: bool) -> str | None:
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    holder = first.get("message") if chat and isinstance(first, dict) else first
    text = holder.get("content" if chat else "text") if isinstance(holder, dict) else None
    return (
        text if isinstance(text, str) and not any("\ud800" <= c <= "\udfff" for c in text) else None
    )
