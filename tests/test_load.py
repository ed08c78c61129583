"""The load generator against real servers: what it sends, keeps in flight, and survives."""

import asyncio
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.calm import Measured, calmly, near
from tests.servers import (
    Answer,
    answer,
    chunks,
    dripping,
    endless,
    serving,
    silent,
    then_close,
    then_reset,
)
from tests.stub_engine import MODEL, Engine, Faults, serving_engine, until

from specgauge.baseline.exchange import Address, parse_address
from specgauge.baseline.load import Ask, Generator, Terms, closed_loop, open_loop
from specgauge.baseline.plan import Start
from specgauge.baseline.prompts import Prompt
from specgauge.baseline.stream import Outcome, Request

ASK = Ask(prompt=Prompt(text="Say something"), tokens=8)
EXTRAS = Terms(model=MODEL, stream_options={"continuous_usage_stats": True})
EVENTS = (
    b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
    b'data: {"choices":[{"index":0,"text":"b","finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)


@asynccontextmanager
async def generating(url: str, *, stall: float = 30.0) -> AsyncIterator[Generator]:
    async with Generator(parse_address(url), stall_seconds=stall).running() as generator:
        yield generator


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("http://h:8000", Address(host="h", port=8000), id="plain"),
        pytest.param("http://h:8000/v1/", Address(host="h", port=8000), id="with /v1"),
        pytest.param("https://h/x", Address(host="h", port=443, tls=True, prefix="/x"), id="TLS"),
        pytest.param("http://[::1]:80", Address(host="::1", port=80), id="IPv6"),
        pytest.param(
            "http+unix:///run/e.sock",
            Address(host="localhost", port=80, socket="/run/e.sock"),
            id="socket",
        ),
    ],
)
def test_addresses_are_read(url: str, expected: Address) -> None:
    """A server is a URL, with or without the /v1 that clients are given."""
    assert parse_address(url) == expected


@pytest.mark.parametrize("url", ["h:8000", "ftp://h", "http://", "http://h:x", "http+unix://a"])
def test_no_address(url: str) -> None:
    """Whatever is no server's URL is refused by name."""
    with pytest.raises(ValueError, match="is no server"):
        parse_address(url)


async def test_a_request_asks_for_a_stream_with_usage() -> None:
    """The request carries model, length, sampling, the stream's options, the key and the extras."""
    terms = Terms(model=MODEL, headers={"Authorization": "Bearer k"}, extras={"ignore_eos": True})
    async with serving_engine(Engine()) as engine, generating(engine.url) as generator:
        request = await generator.send(terms, ASK)
    assert request.outcome is Outcome.COMPLETE
    assert (request.tokens, request.asked, len(request.arrivals)) == (8, 8, 8)
    assert engine.headers[0]["Authorization"] == "Bearer k"
    assert engine.bodies[0] == {
        "model": MODEL,
        "prompt": "Say something",
        "max_tokens": 8,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }


async def test_only_some_requests_ask_for_more() -> None:
    """What may slow the server is asked of one request in three; the others believe that one."""
    terms = replace(EXTRAS, optioned=3)
    engine = Engine(faults=Faults(held_back=4))
    async with serving_engine(engine), generating(engine.url) as generator:
        requests = [await generator.send(terms, ASK) for _ in range(4)]
    asked = [body["stream_options"].get("continuous_usage_stats", False) for body in engine.bodies]
    assert asked == [True, False, False, True]
    assert [one.first_tokens for one in requests] == [5, 5, 5, 5]


async def test_chat_sends_messages() -> None:
    """On the chat endpoint the prompt is a message, and the role-only chunk is no first token."""
    async with serving_engine(Engine()) as engine, generating(engine.url) as generator:
        request = await generator.send(Terms(model=MODEL, endpoint="chat"), ASK)
    assert engine.bodies[0]["messages"] == [{"role": "user", "content": "Say something"}]
    assert (request.outcome, len(request.arrivals)) == (Outcome.COMPLETE, 8)


async def test_times_are_the_engines() -> None:
    """TTFT and TPOT of a request are those that the engine made."""

    async def ask_once() -> list[Measured]:
        async with serving_engine(Engine()) as engine, generating(engine.url) as generator:
            request = await generator.send(EXTRAS, Ask(prompt=Prompt(text="x"), tokens=40))
        assert request.first_tokens == 1
        assert request.ttft is not None
        assert request.ttft >= engine.ttft.total
        return [near("TPOT", request.tpot, engine.pace, rel=0.2)]

    await calmly(ask_once)


@pytest.mark.parametrize(
    ("given", "outcome", "told"),
    [
        pytest.param(chunks(EVENTS), "complete", "", id="whole"),
        pytest.param(chunks(EVENTS[:70], EVENTS[70:]), "complete", "", id="in two chunks"),
        pytest.param(answer(EVENTS), "complete", "", id="with a length"),
        pytest.param(then_close(answer(EVENTS, length=-1)), "complete", "", id="ends by closing"),
        pytest.param(dripping(chunks(EVENTS), every=0.0), "complete", "", id="byte by byte"),
        pytest.param(chunks(EVENTS[:60]), "truncated", "without", id="cut in a chunk"),
        pytest.param(
            then_close(chunks(EVENTS[:60], final=False)), "truncated", "without", id="closed"
        ),
        pytest.param(then_reset(chunks(EVENTS[:60], final=False)), "failed", "lost", id="reset"),
        pytest.param(then_close(b""), "failed", "closed", id="closed at once"),
        pytest.param(answer(b"busy\nnow", status=503), "failed", "http 503: busy now", id="503"),
        pytest.param(answer(status=429), "failed", "http 429", id="429 without a word"),
        pytest.param(answer(b"x" * 99_999, status=500), "failed", "xxx...", id="long refusal"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "failed", "not HTTP/1.1", id="not HTTP"),
        pytest.param(answer(b"<html>\n</html>\n"), "failed", "no event stream", id="HTML"),
        pytest.param(
            endless(answer(length=-1), b"nothing to see\n"), "failed", "no event", id="endless"
        ),
    ],
)
async def test_every_answer_becomes_a_record(given: Answer, outcome: str, told: str) -> None:
    """However a server answers, the request's record says what happened."""
    async with serving(given) as server, generating(server.url) as generator:
        request = await generator.send(EXTRAS, ASK)
        assert generator.in_flight == 0
    assert request.outcome == outcome
    assert told in request.detail


async def test_a_server_that_is_not_there() -> None:
    """A refused connection is a failed request, with the reason."""
    async with serving(answer()) as server:
        url = server.url
    async with generating(url) as generator:
        request = await generator.send(EXTRAS, ASK)
    assert request.outcome is Outcome.FAILED
    assert "cannot connect" in request.detail


async def test_a_unix_socket_serves_as_well(tmp_path: Path) -> None:
    """A server may listen on a socket file."""
    async with (
        serving(chunks(EVENTS), path=tmp_path / "s") as server,
        generating(f"{server.url}:/") as generator,
    ):
        assert (await generator.send(EXTRAS, ASK)).outcome is Outcome.COMPLETE


async def test_connections_are_kept_and_replaced() -> None:
    """Requests share a connection; one that the server has closed meanwhile is replaced."""
    async with serving(chunks(EVENTS)) as server, generating(server.url) as generator:
        for _ in range(3):
            assert (await generator.send(EXTRAS, ASK)).outcome is Outcome.COMPLETE
        assert server.connections == 1
        server.script(then_close(b""), chunks(EVENTS))
        assert (await generator.send(EXTRAS, ASK)).outcome is Outcome.COMPLETE
        assert server.connections == 1  # a second one: counted anew since the script


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(silent, id="no answer"),
        pytest.param(chunks(EVENTS[:70], final=False), id="no end of one"),
    ],
)
async def test_a_stalled_stream_is_ended(given: Answer) -> None:
    """A server that says nothing for too long is not waited for."""
    async with serving(given) as server, generating(server.url, stall=0.2) as generator:
        request = await generator.send(EXTRAS, ASK)
    assert request.outcome is Outcome.FAILED
    assert "stalled: nothing came for 0.2 s" in request.detail


async def test_a_connection_that_comes_after_giving_up_is_dropped() -> None:
    """A request that is given up while it connects sends nothing and leaves no socket open."""
    engine = Engine()
    async with serving_engine(engine), generating(engine.url) as generator:
        sending = asyncio.create_task(generator.send(EXTRAS, ASK))
        await asyncio.sleep(0)
        generator.give_up()
        await sending
        assert engine.began == 0
        assert engine.runner is not None
        server = engine.runner.server
        assert server is not None
        await until(lambda: not server.connections)
    gc.collect()  # which tells of a transport that nobody closed


async def test_giving_up_says_that_it_was_us() -> None:
    """Requests that are ended by the recording are cut, not failed."""
    async with serving(silent) as server, generating(server.url) as generator:
        waiting = asyncio.create_task(generator.send(EXTRAS, ASK))
        await until(lambda: bool(server.requests))
        assert generator.oldest is not None
        generator.give_up()
        assert (await waiting).outcome is Outcome.CUT
        assert generator.oldest is None


Running = Callable[[Generator, asyncio.Event, Callable[[Request], None]], Coroutine[Any, Any, None]]


@dataclass(slots=True, kw_only=True)
class Drive:
    """A load under way: the requests that ended and the most that were in flight at once."""

    generator: Generator
    requests: list[Request] = field(default_factory=list)
    most: int = 0

    def reached(self, most: int, ended: int) -> bool:
        """Look at the load; whether it has got so far, and its own lateness was measured."""
        self.most = max(self.most, self.generator.in_flight)
        enough = self.most >= most and len(self.requests) >= ended
        return enough and len(self.generator.late) > 10


async def drive(load: Running, engine: Engine, *, most: int, ended: int) -> Drive:
    """Run a load until so many were in flight at once and so many have ended."""
    stop = asyncio.Event()
    async with serving_engine(engine), generating(engine.url) as generator:
        found = Drive(generator=generator)
        driving = asyncio.create_task(load(generator, stop, found.requests.append))
        await until(lambda: found.reached(most, ended))
        stop.set()
        await driving
        assert generator.chunks == sum(len(one.arrivals) for one in found.requests)
    return found


async def test_a_closed_loop_keeps_its_streams_busy() -> None:
    """As many requests as there are starts are in flight, the first answers shortened."""
    starts = [Start(delay=0.05 * n, share=0.5) for n in range(4)]
    asks = itertools.repeat(Ask(prompt=Prompt(text="x"), tokens=20))
    found = await drive(
        lambda g, stop, done: closed_loop(g, EXTRAS, asks, starts, stop, done),
        Engine(),
        most=4,
        ended=12,
    )
    assert found.most == 4
    assert {one.outcome for one in found.requests} == {Outcome.COMPLETE}
    assert {one.tokens for one in found.requests} == {10, 20}
    assert [one.tokens for one in found.requests].count(10) == 4


async def test_a_closed_loop_pauses_after_failures() -> None:
    """A server that refuses everything is not hammered."""
    engine = Engine(faults=Faults(status=503))
    asks, starts = itertools.repeat(ASK), [Start(delay=0.0, share=1.0)]
    found = await drive(
        lambda g, stop, done: closed_loop(g, EXTRAS, asks, starts, stop, done),
        engine,
        most=0,
        ended=4,
    )
    pauses = [after.sent - before.ended for before, after in itertools.pairwise(found.requests)]
    assert min(pauses) > 0.099


async def test_a_stream_that_has_not_begun_never_does() -> None:
    """Stopping before a start's delay is over sends nothing."""
    asks, starts = itertools.repeat(ASK), [Start(delay=60.0, share=1.0)]
    found = await drive(
        lambda g, stop, done: closed_loop(g, EXTRAS, asks, starts, stop, done),
        Engine(),
        most=0,
        ended=0,
    )
    assert found.requests == []


async def test_an_open_loop_sends_at_its_gaps() -> None:
    """Requests go out whatever the server does: all are sent, answered or not."""
    gaps = itertools.chain([0.0] * 10, itertools.repeat(60.0))
    found = await drive(
        lambda g, stop, done: open_loop(g, EXTRAS, itertools.repeat(ASK), gaps, stop, done),
        Engine(max_running=1),
        most=8,
        ended=0,
    )
    assert (len(found.requests), {one.outcome for one in found.requests}) == (
        10,
        {Outcome.COMPLETE},
    )
