"""How much the load generator adds to a chunk's arrival: it against a stub of known pace.

    python benchmarks/record_stub.py [--streams 64] [--rate 20000] [--seconds 8] [--bursts]

The stub runs in a process of its own and sends a chunk to one stream after the other at an even
pace; with --bursts to all of them together, as an engine's step does. It remembers when it sent
each chunk (the machine's monotonic clock), so what lies between that and the generator's
timestamp is the machine and the generator. In turns with it a bare receiver, which only takes
the time, shows what the machine costs by itself; what the generator adds is the difference of
the two. A stub that is late says nothing about the generator: its own lateness stands beside.
Exits 1 if the generator adds more than a millisecond at p99 and does not say so.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from specgauge.baseline.disagreement import MOST_LATE
from specgauge.baseline.exchange import Address
from specgauge.baseline.figures import lateness, quantile
from specgauge.baseline.load import Ask, Generator, Terms, closed_loop
from specgauge.baseline.plan import Start
from specgauge.baseline.prompts import Prompt
from specgauge.baseline.stream import Outcome, Request

TOKENS = 400
MARK = b'"text":'
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
EVENT = (
    'data: {"id":"cmpl-0123456789abcdef","object":"text_completion","created":1700000000,'
    '"model":"stub","choices":[{"index":0,"text":" word","logprobs":null,'
    '"finish_reason":null,"stop_reason":null}],"usage":null}\n\n'
)

Times = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How the stub sends: chunks a second over so many streams, evenly or all together."""

    streams: int
    rate: float
    bursts: bool

    @property
    def batch(self) -> int:
        """Chunks that are sent at one time; a timer has a grain of a millisecond."""
        return self.streams if self.bursts else max(1, round(self.rate / 1000))


def framed(text: str) -> bytes:
    """Wrap an event in a chunk of HTTP's chunked framing."""
    body = text.encode()
    return b"%x\r\n%b\r\n" % (len(body), body)


class Stream(asyncio.Protocol):
    """One connection of the stub; its requests are told apart by a number in the prompt."""

    def __init__(self, running: dict["Stream", None], sent: dict[int, "array[float]"]) -> None:
        self._running = running
        self._sent = sent
        self._asked = bytearray()
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        """Forget the stream."""
        self._running.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Take the request in; once it is whole, begin to answer."""
        self._asked += data
        head, found, body = bytes(self._asked).partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0]) if found else 1
        if not found or len(body) < length:
            return
        self._asked.clear()
        self._number = int(json.loads(body)["prompt"])
        self._sent[self._number] = array("d")
        self._transport.write(HEAD)
        self._running[self] = None

    def step(self) -> None:
        """Send one chunk, and the end after the last."""
        sent = self._sent[self._number]
        sent.append(time.monotonic())
        self._transport.write(framed(EVENT))
        if len(sent) < TOKENS:
            self._running[self] = None  # at the end of the row
            return
        usage = {"prompt_tokens": self._number, "completion_tokens": TOKENS}
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
        ends = [json.dumps(last), json.dumps({"choices": [], "usage": usage}), "[DONE]"]
        self._transport.write(b"".join(framed(f"data: {end}\n\n") for end in ends) + framed(""))


async def stub(pace: Pace, pipe: "Connection") -> None:
    """Serve until told to stop; then tell when each chunk was sent, and how late the stub was."""
    running: dict[Stream, None] = {}
    sent: dict[int, array[float]] = {}
    late = array("d")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Stream(running, sent), "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    due = loop.time()
    while not pipe.poll():
        due += pace.batch / pace.rate
        await asyncio.sleep(max(0.0, due - loop.time()))
        for stream in list(running)[: pace.batch]:
            late.append(loop.time() - due)
            del running[stream]
            stream.step()
    pipe.send((sent, lateness(late)))
    server.close()


def run_stub(pace: Pace, pipe: "Connection") -> None:
    """Be the stub's process."""
    asyncio.run(stub(pace, pipe))


class Bare(asyncio.Protocol):
    """Takes the time of each chunk of each answer and does nothing else."""

    def __init__(self, numbers: "Numbers", end: float, seen: dict[int, "array[float]"]) -> None:
        self._numbers = numbers
        self._end = end
        self._seen = seen
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first answer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        number = self._numbers.draw()
        self._times = self._seen[number] = array("d")
        body = json.dumps({"prompt": str(number)}).encode()
        head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)

    def data_received(self, data: bytes) -> None:
        """Take the time."""
        at = time.monotonic()
        self._times.extend([at] * data.count(MARK))
        if data.endswith(b"\r\n0\r\n\r\n"):
            if at < self._end:
                self._ask()
            else:
                self._transport.close()
                self.done.set_result(None)


@dataclass(slots=True)
class Numbers:
    """Numbers requests."""

    last: int = 0

    def draw(self) -> int:
        """Give the next number."""
        self.last += 1
        return self.last

    def ask(self) -> Ask:
        """Make a request of the next number."""
        return Ask(prompt=Prompt(text=str(self.draw())), tokens=TOKENS)


async def bare(port: int, streams: int, seconds: float) -> tuple[dict[int, Times], float | None]:
    """Receive with next to nothing in the way."""
    loop, seen, numbers = asyncio.get_running_loop(), dict[int, "array[float]"](), Numbers()
    end = loop.time() + seconds
    made = [
        await loop.create_connection(lambda: Bare(numbers, end, seen), "127.0.0.1", port)
        for _ in range(streams)
    ]
    await asyncio.gather(*(protocol.done for _, protocol in made))
    return {number: list(times) for number, times in seen.items()}, None


async def ours(port: int, streams: int, seconds: float) -> tuple[dict[int, Times], float | None]:
    """Receive with the load generator."""
    requests: list[Request] = []
    stop = asyncio.Event()
    starts = [Start(delay=0.0, share=1.0)] * streams
    asks = iter(Numbers().ask, None)
    generator = Generator(Address(host="127.0.0.1", port=port))
    asyncio.get_running_loop().call_later(seconds, stop.set)
    async with generator.running():
        await closed_loop(generator, Terms(model="stub"), asks, starts, stop, requests.append)
    assert {one.outcome for one in requests} == {Outcome.COMPLETE}
    assert {one.tokens for one in requests} == {TOKENS}
    return {one.prompt_tokens or 0: one.arrivals for one in requests}, lateness(generator.late)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run saw; seconds from sending a chunk to its timestamp."""

    p50: float
    p99: float
    rate: float
    stub_late: float
    own_late: float | None

    def line(self, name: str) -> str:
        """Write it down."""
        told = "" if self.own_late is None else f"; says it was {self.own_late * 1e3:.2f} ms late"
        return (
            f"{name:5} {self.rate:7.0f} chunks/s, sent to taken: p50 {self.p50 * 1e3:6.2f} ms, "
            f"p99 {self.p99 * 1e3:6.2f} ms; stub late {self.stub_late * 1e3:.2f} ms at p99{told}"
        )


def measure(pace: Pace, seconds: float, *, with_generator: bool) -> Result:
    """Run one of the two receivers against a stub of its own."""
    here, there = multiprocessing.Pipe()
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=run_stub, args=(pace, there), daemon=True)
    process.start()
    receive = ours if with_generator else bare
    seen, own_late = asyncio.run(receive(here.recv(), pace.streams, seconds))
    here.send(None)
    sent, stub_late = here.recv()
    process.join()
    delays = sorted(
        taken - given
        for number, times in seen.items()
        for given, taken in zip(sent[number], times, strict=True)
    )
    ends = [times[-1] for times in seen.values()]
    begun = min(times[0] for times in sent.values())
    return Result(
        p50=quantile(delays, 0.5),
        p99=quantile(delays, 0.99),
        rate=len(delays) / (max(ends) - begun),
        stub_late=stub_late,
        own_late=own_late,
    )


def main() -> int:
    """Run both receivers in turns and compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--rate", type=float, default=20_000.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bursts", action="store_true")
    given = parser.parse_args()
    pace = Pace(streams=given.streams, rate=given.rate, bursts=given.bursts)
    bares, own = [], []
    for _ in range(given.rounds):
        bares.append(measure(pace, given.seconds, with_generator=False))
        print(bares[-1].line("bare"), flush=True)
        own.append(measure(pace, given.seconds, with_generator=True))
        print(own[-1].line("ours"), flush=True)
    added = statistics.median(one.p99 for one in own) - statistics.median(b.p99 for b in bares)
    says = statistics.median(one.own_late or 0.0 for one in own) > MOST_LATE
    print(f"added at p99: {added * 1e3:.2f} ms (medians); says it is the bottleneck: {says}")
    return 0 if added <= MOST_LATE or says else 1


if __name__ == "__main__":
    sys.exit(main())
