"""Where the process begins: a signal that comes early ends it well, or is let pass."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sidecars import DEADLINE, specgauge

from specgauge.cli import entry

NUMBERS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
SERVE = ("serve", "--target", "http://127.0.0.1:1", "--listen", "127.0.0.1:0")


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put the handlers of this process back afterwards."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_handlers_of_the_start() -> None:
    """There is nothing to reload yet, and an end is an orderly one."""
    entry._wait_for_the_sidecar()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    for number in (signal.SIGTERM, signal.SIGINT):
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(number)
        assert ended.value.code == 0


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(
    ("arguments", "touched"),
    [
        pytest.param(["serve", "--no-such-flag"], True, id="serve"),
        pytest.param(["inspect", "--no-such-flag"], False, id="inspect"),
        pytest.param(["--no-such-flag"], False, id="no command"),
    ],
)
def test_only_the_sidecar_takes_signals(
    arguments: list[str], *, touched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other commands leave signals alone; the exit code is the command line's."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "argv", ["specgauge", *arguments])
    with pytest.raises(SystemExit) as ended:
        entry.entry()
    assert ended.value.code == 2
    assert (signal.getsignal(signal.SIGTERM) is not before) is touched


async def start(module: str) -> asyncio.subprocess.Process:
    """Start the sidecar, and come back as soon as it has imported a module."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "specgauge", *SERVE),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async for line in process.stderr:
        if line.split()[-1] == module.encode():
            return process
    raise AssertionError(f"{module} was never imported")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("module", ["click", "yaml", "pydantic", "aiohttp", "specgauge.cli.main"])
async def test_end_while_starting(module: str, number: signal.Signals) -> None:
    """An end asked for at any point of the start is an end, not a failure."""
    process = await start(module)
    process.send_signal(number)
    _, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == 0
    assert b"Traceback" not in err


async def test_reload_while_starting() -> None:
    """A reload asked for too early is let pass: what is read then is the newest anyway."""
    process = await start("click")
    process.send_signal(signal.SIGHUP)
    assert process.stderr is not None
    async with asyncio.timeout(DEADLINE):
        async for line in process.stderr:
            if b" listening " in line:
                break
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert process.returncode == 0


async def test_end_at_several_moments() -> None:
    """From the first line of the log on, as ever, the end is an orderly one."""
    for number in (signal.SIGTERM, signal.SIGINT):
        async with specgauge(*SERVE) as made:
            await made.listening()
            made.process.send_signal(number)
            assert await made.end() == 0


@pytest.mark.parametrize("arguments", [["config", "schema"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_one_line(arguments: list[str]) -> None:
    """Output that has no room is told in one line with an exit code, never by a traceback."""
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "specgauge", *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    line = "specgauge: the output could not be written: no space is left; free some\n"
    assert (run.returncode, run.stderr) == (3, line)
