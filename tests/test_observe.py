"""Learning a baseline from a live server, over real sockets.

Time is the server's: it passes with each page, by the second that lies between two scrapes. So
what is learnt does not depend on how busy the machine is. Only the command has the wall's time.
"""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from tests.baselines import run, vllm_page

from specgauge.baseline.doubts import tpot_of
from specgauge.baseline.files import load_file
from specgauge.cli.baseline.observe import Watched, watch, write
from specgauge.errors import BaselineError, SourceError
from specgauge.model.outcome import ExitCode
from specgauge.serve.demo.recording import RecordingName, load
from specgauge.serve.demo.replay_page import Reel
from specgauge.serve.demo.stand_in import StandIn
from specgauge.serve.loop import Pace

ROOT = Path(__file__).parents[1]
SPEED = 400.0
"""How many seconds of the server's time an observer waits for in one of the wall's."""
PROGRAM = """
import sys
from tests.baselines import run
sys.exit(run(*sys.argv[1:]))
"""

Out = pytest.CaptureFixture[str]


def working(seconds: float) -> bytes:
    """Write the page of a server that has done four requests at a time for so long."""
    return vllm_page(tokens=810 * seconds, firsts=10 * seconds, spent=4.0 * seconds)


@dataclass(slots=True, kw_only=True)
class Clock:
    """Wall seconds that pass only when they are told to."""

    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds

    def tick(self) -> None:
        """Let the server's time go on by one second."""
        self.seconds += 1.0 / SPEED

    @property
    def pace(self) -> Pace:
        """The same time for whoever observes the server."""
        return Pace(speed=SPEED, steady=self.now)


@dataclass(slots=True, kw_only=True)
class Ramp:
    """A recording whose time passes with each page of it."""

    reel: Reel
    clock: Clock

    def page_at(self, elapsed: float) -> str:
        self.clock.tick()
        return self.reel.page_at(elapsed)


@dataclass(slots=True, kw_only=True)
class Stub:
    """A server whose page is made from its age in scrapes; `gone` makes it answer 503."""

    page: Callable[[float], bytes] = working
    clock: Clock = field(default_factory=Clock)
    url: str = ""
    gone: bool = False
    scrapes: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    wanted: int = 5

    async def answer(self, _: web.Request) -> web.Response:
        """Answer with the page of this moment."""
        self.scrapes += 1
        self.clock.tick()
        if self.scrapes >= self.wanted:
            self.enough.set()
        if self.gone:
            return web.Response(status=503)
        return web.Response(
            body=self.page(float(self.scrapes)),
            headers={"Content-Type": "text/plain; version=0.0.4"},
        )


@asynccontextmanager
async def running(stub: Stub) -> AsyncIterator[Stub]:
    """Run a stub on a free port."""
    application = web.Application()
    application.router.add_get("/metrics", stub.answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    stub.url = f"http://{host}:{port}"
    try:
        yield stub
    finally:
        await runner.cleanup()


async def watched(stub: Stub, seconds: float, model: str | None = None) -> Watched:
    """Watch a stub on the stub's own time."""
    return await watch(stub.url, seconds, model=model, pace=stub.clock.pace)


async def test_a_recorded_server_is_learnt_as_it_was(tmp_path: Path, capsys: Out) -> None:
    """The ramp: loads and their times come out as recorded."""
    recording, clock = load(RecordingName.STANDARD), Clock()
    ramp = Ramp(reel=Reel(recording), clock=clock)
    async with StandIn(recording, speed=SPEED, clock=clock.now, shown=ramp) as engine:
        found = await watch(engine.url, 125.0, model=None, pace=clock.pace)
    assert found.exit_code == ExitCode.OK
    file = tmp_path / "b.json"
    write(found, file, {"gpu": "NVIDIA H200"})
    learnt = load_file(file)
    assert (learnt.method, learnt.partial) == ("observed", False)
    assert (learnt.engine.version, learnt.hardware.gpu) == ("0.25.1", "NVIDIA H200")
    assert len(learnt.levels) >= 4
    for one in learnt.levels:
        expected = 4.6 + 0.055 * one.decode_concurrency
        assert 1000 * tpot_of(one) == pytest.approx(expected, rel=0.15)
    assert "requests in decode" in capsys.readouterr().err


async def test_it_ends_when_every_load_seen_is_known_well() -> None:
    """Long before the time is over, once nothing new comes."""
    async with running(Stub()) as stub:
        found = await watched(stub, 120.0)
    assert not found.interrupted
    assert stub.scrapes < 80
    assert all(one.full for one in found.learning.fillings.values())


async def test_a_server_that_speculates_is_refused_at_once() -> None:
    """Nothing is watched where nothing can be learnt."""

    def page(seconds: float) -> bytes:
        return vllm_page(tokens=810 * seconds, firsts=1, spent=seconds, drafts=100 * seconds)

    async with running(Stub(page=page)) as stub:
        with pytest.raises(BaselineError, match="speculation is active"):
            await watched(stub, 60.0)
    assert stub.scrapes == 1


async def test_a_server_that_is_not_there_is_said_at_once() -> None:
    """The first scrape must succeed."""
    async with running(Stub(gone=True)) as stub:
        with pytest.raises(SourceError, match="503"):
            await watched(stub, 60.0)


async def test_a_server_that_dies_leaves_a_partial_file(tmp_path: Path, capsys: Out) -> None:
    """After a minute of silence what was learnt is written, and the exit code says so."""
    async with running(Stub(wanted=15)) as stub:
        watching = asyncio.create_task(watched(stub, 600.0))
        await stub.enough.wait()
        stub.gone = True
        found = await watching
    assert found.exit_code == ExitCode.UNREADABLE
    file = tmp_path / "b.json"
    write(found, file, {})
    assert load_file(file).partial
    told = capsys.readouterr().err
    assert "the server is gone: " in told
    assert "mind: partial: the recording was cut short" in told


async def test_an_idle_server_teaches_nothing_and_nothing_is_written(tmp_path: Path) -> None:
    """When the time is over without traffic the reason is told."""
    async with running(Stub(page=lambda _: working(5.0))) as stub:
        found = await watched(stub, 5.0)
    with pytest.raises(BaselineError, match=r"no traffic to learn from \(\d+ no_tokens\)"):
        write(found, tmp_path / "b.json", {})
    with pytest.raises(BaselineError, match="No such file"):
        load_file(tmp_path / "b.json")
    fresh = Stub(page=lambda _: b'vllm:cache_config_info{num_gpu_blocks="9"} 1\n')
    async with running(fresh) as stub:
        found = await watched(stub, 3.0)
    with pytest.raises(BaselineError, match="no intervals"):
        write(found, tmp_path / "b.json", {})


async def test_configured_speculation_is_noted_in_the_file(tmp_path: Path) -> None:
    """A server that only happens not to draft is no server without speculation."""

    def page(seconds: float) -> bytes:
        return vllm_page(tokens=810 * seconds, firsts=10 * seconds, spent=4 * seconds, drafts=0)

    async with running(Stub(page=page)) as stub:
        found = await watched(stub, 20.0, model="target")
    write(found, tmp_path / "b.json", {})
    assert load_file(tmp_path / "b.json").notes[-1].startswith("speculation is configured")


async def test_control_c_writes_what_it_has(tmp_path: Path) -> None:
    """The file is marked partial; the exit code is that of an interrupted command."""
    file = tmp_path / "b.json"
    async with running(Stub(page=lambda _: working(time.monotonic()))) as stub:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, "observe", "--url", stub.url, "-o", str(file)),
            *("--revision", "abc"),
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        await stub.enough.wait()
        process.send_signal(signal.SIGINT)
        _, told = await process.communicate()
    assert process.returncode == 130, told
    found = load_file(file)
    assert found.partial
    assert found.model.revision == "abc"
    assert tpot_of(found.levels[0]) == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--for", "10"], "has no unit", id="no-unit"),
        pytest.param(["--for", "500ms"], "at least 1s is needed", id="too-short"),
        pytest.param(["--for", "367d"], "longer than 366d", id="too-long"),
        pytest.param(["--url", "here"], "--url: ", id="no-url"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(
    tmp_path: Path, capsys: Out, arguments: list[str], message: str
) -> None:
    """Exit code 2, before anything is fetched."""
    url = ["--url", "http://127.0.0.1:9"] if "--url" not in arguments else []
    assert run("observe", "-o", tmp_path / "b.json", *url, *arguments) == 2
    assert message in capsys.readouterr().err
