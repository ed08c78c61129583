"""The load generator: requests kept in flight at a server, and how late its own loop runs.

Sends what it is given for as long as it is told; which load, for how long, and what the figures
mean is decided elsewhere.
"""

import asyncio
import contextlib
import json
import ssl
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from specgauge.baseline.exchange import Address, Exchange, connect
from specgauge.baseline.plan import Start
from specgauge.baseline.prompts import Prompt
from specgauge.baseline.stream import Outcome, Request, Take

_BEAT = 0.01
_TIMER_GRAIN = 0.001
"""An event loop's timers come up to a millisecond late by themselves."""
_AFTER_FAILURE = 0.1
_CONNECT_TIMEOUT = 10.0

Endpoint = Literal["completions", "chat"]
Done = Callable[[Request], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How requests are put: what goes into every one of them besides prompt and length.

    `stream_options` go into one request of every `optioned` only: what they ask for may be work
    that slows the server which is measured. The others' first chunks are taken to hold as many
    tokens as that of the last request which told.
    """

    endpoint: Endpoint = "completions"
    model: str
    temperature: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    stream_options: Mapping[str, Any] = field(default_factory=dict)
    optioned: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to send."""

    prompt: Prompt
    tokens: int


@dataclass(slots=True, eq=False)
class _Flight:
    """A request under way, and whether we have given it up."""

    take: Take
    exchange: Exchange | None = None
    given_up: bool = False


def write_request(address: Address, terms: Terms, ask: Ask) -> bytes:
    """Spell a whole HTTP request out."""
    chat = terms.endpoint == "chat"
    body: dict[str, Any] = {
        "model": terms.model,
        **({"messages": ask.prompt.as_messages()} if chat else {"prompt": ask.prompt.as_text()}),
        "max_tokens": ask.tokens,
        "temperature": terms.temperature,
        "stream": True,
        "stream_options": {"include_usage": True, **terms.stream_options},
        **terms.extras,
    }
    data = json.dumps(body).encode()
    path = f"{address.prefix}/v1/{'chat/completions' if chat else 'completions'}"
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {address.authority}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        "Accept-Encoding: identity",
        f"Content-Length: {len(data)}",
        *(f"{name}: {value}" for name, value in terms.headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + data


class Generator:
    """Sends requests over kept connections, and ends the ones that a server lets hang."""

    def __init__(self, address: Address, *, stall_seconds: float = 30.0) -> None:
        self._address = address
        self._stall = stall_seconds
        self._tls = ssl.create_default_context() if address.tls else None
        self._idle: list[Exchange] = []
        self._flying: set[_Flight] = set()
        self._landed_chunks = 0
        self._sent = 0
        self._told: int | None = None
        self.late = array("d")
        """Seconds by which the loop was behind, a hundred times a second."""

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return len(self._flying)

    @property
    def chunks(self) -> int:
        """How many chunks with something generated have come since the start."""
        return self._landed_chunks + sum(one.take.chunks for one in self._flying)

    @property
    def oldest(self) -> float | None:
        """When the longest-running request was sent; None where there is none."""
        return min((one.take.sent for one in self._flying), default=None)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Generator"]:
        """Watch over stalled streams and the loop's own lateness while the body runs."""
        tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._beat())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.give_up()
            for exchange in self._idle:
                exchange.drop()

    async def send(self, terms: Terms, ask: Ask) -> Request:
        """Send one request and wait for the end of its answer; failures are in the record."""
        clock = asyncio.get_running_loop().time
        if self._sent % terms.optioned:
            terms = replace(terms, stream_options={})
        self._sent += 1
        data = write_request(self._address, terms, ask)
        flight = _Flight(Take(clock(), asked=ask.tokens))
        self._flying.add(flight)
        try:
            await self._exchange(data, flight)
        finally:
            self._flying.remove(flight)
            self._landed_chunks += flight.take.chunks
        request = flight.take.close(clock(), cut=flight.given_up)
        if not terms.stream_options and request.outcome is Outcome.COMPLETE:
            return replace(request, first_tokens=request.first_tokens or self._told)
        self._told = request.first_tokens or self._told
        return request

    def give_up(self) -> None:
        """End every request under way; their records say that it was us."""
        for flight in self._flying:
            flight.given_up = True
            if flight.exchange is not None:
                flight.exchange.end()

    async def _exchange(self, data: bytes, flight: _Flight) -> None:
        """Ask over a kept connection, or a new one where none is left or the kept one was dead."""
        answered = False
        while not answered:
            exchange = self._kept() or await self._connect(flight.take)
            if exchange is None:
                return
            if flight.given_up:  # while it connected
                exchange.drop()
                return
            flight.exchange = exchange
            answered = await exchange.ask(data, flight.take)
            if exchange.usable:
                self._idle.append(exchange)

    async def _connect(self, take: Take) -> Exchange | None:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                return await connect(self._address, self._tls)
        except OSError as problem:  # of which a timeout is one
            reason = str(problem) or f"no answer within {_CONNECT_TIMEOUT:g} s"
            take.fail(f"cannot connect: {reason}")
            return None

    def _kept(self) -> Exchange | None:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.usable:
                return exchange
        return None

    async def _watch(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(min(1.0, self._stall / 4.0))
            for flight in self._flying:
                if clock() - flight.take.touched > self._stall and flight.exchange is not None:
                    flight.take.fail(f"stalled: nothing came for {self._stall:g} s")
                    flight.exchange.end()

    async def _beat(self) -> None:
        """Measure how long what comes off a socket just now waits for the loop."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + _BEAT
            await asyncio.sleep(_BEAT)
            woke = clock()
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # one whole turn of the loop, sockets and all
            self.late.append(max(clock() - woke, woke - due - _TIMER_GRAIN))


async def closed_loop(
    generator: Generator,
    terms: Terms,
    asks: Iterator[Ask],
    starts: Sequence[Start],
    stop: asyncio.Event,
    done: Done,
) -> None:
    """Keep one request in flight for each start until told to stop; then let them end."""

    async def stream(start: Start) -> None:
        share = start.share
        if await came(stop, start.delay):
            return
        while not stop.is_set():
            ask = next(asks)
            ask = replace(ask, tokens=max(2, round(share * ask.tokens)))
            share = 1.0
            request = await generator.send(terms, ask)
            done(request)
            if request.outcome is Outcome.FAILED:
                await came(stop, _AFTER_FAILURE)

    async with asyncio.TaskGroup() as streams:
        for start in starts:
            streams.create_task(stream(start))


async def open_loop(
    generator: Generator,
    terms: Terms,
    asks: Iterator[Ask],
    gaps: Iterator[float],
    stop: asyncio.Event,
    done: Done,
) -> None:
    """Send requests at these gaps, whatever the server does, until told to stop."""
    clock = asyncio.get_running_loop().time

    async def once(ask: Ask) -> None:
        done(await generator.send(terms, ask))

    due = clock()
    async with asyncio.TaskGroup() as requests:
        while True:
            due += next(gaps)
            if await came(stop, due - clock()):
                return
            requests.create_task(once(next(asks)))


async def came(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for so long at most; tells whether it came."""
    if seconds > 0.0 and not event.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
