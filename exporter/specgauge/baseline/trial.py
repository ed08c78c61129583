"""A first request to a server, to find out what it understands; it measures nothing."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specgauge.baseline.brake import Brake
from specgauge.baseline.load import Ask, Generator, Terms
from specgauge.baseline.prompts import Prompt
from specgauge.baseline.stream import Request
from specgauge.errors import BaselineError

TRIAL_TOKENS = 32

_WISHES: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
    ({"ignore_eos": True}, {"continuous_usage_stats": True}),
    ({"ignore_eos": True}, {}),
    ({}, {}),
)
"""What is asked for beyond the standard; a server that refuses it is asked for less."""

_REFUSALS = ("http 400", "http 422")


async def try_server(
    generator: Generator, terms: Terms, prompt: Prompt, brake: Brake
) -> tuple[Request, Terms]:
    """Give the first answer and the terms it was had on; BaselineError where there is none."""
    ask = Ask(prompt=prompt, tokens=TRIAL_TOKENS)
    for extras, stream_options in _WISHES:
        terms = replace(terms, extras=extras, stream_options=stream_options)
        request = await _send(generator, terms, ask, brake)
        if not request.detail.startswith(_REFUSALS):
            break
    if brake.pulled:
        raise BaselineError([f"nothing was recorded: {brake.reason}"])
    if request.first is None:
        told = f"the server does not answer /v1/{terms.endpoint}: {request.detail}"
        raise BaselineError([told])
    return request, terms


async def _send(generator: Generator, terms: Terms, ask: Ask, brake: Brake) -> Request:
    """Send a request that the brake can end."""
    sending = asyncio.create_task(generator.send(terms, ask))
    braked = asyncio.create_task(brake.event.wait())
    await asyncio.wait({sending, braked}, return_when=asyncio.FIRST_COMPLETED)
    braked.cancel()
    if not sending.done():
        generator.give_up()
    return await sending
