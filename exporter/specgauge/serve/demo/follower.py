"""Obeys the flag as an application does: asks for it over HTTP and passes on what it was told."""

import asyncio
from collections.abc import Callable

import aiohttp

_TIMEOUT = aiohttp.ClientTimeout(total=2.0)


async def follow(url: str, tell: Callable[[bool], None], *, interval: float) -> None:
    """Ask OFREP at `url` every `interval` wall seconds; without an answer the last one stands."""
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        while True:
            try:
                async with session.post(url, json={"context": {}}) as answer:
                    told = await answer.json() if answer.ok else {}
            except (aiohttp.ClientError, TimeoutError, ValueError):
                told = {}
            if isinstance(told.get("value"), bool):
                tell(told["value"])
            await asyncio.sleep(interval)
