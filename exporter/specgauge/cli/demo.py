"""`specgauge demo`: the sidecar before a recorded engine; it measures nothing of its own."""

import asyncio
import errno
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

import click

from specgauge.baseline.schema import usable
from specgauge.cli.values import FiniteRange, read_span
from specgauge.config.address import parse_listen
from specgauge.errors import UsageError
from specgauge.guard.settings import FlagSettings, GuardSettings
from specgauge.model.derived import Hints
from specgauge.model.settings import Settings, TargetSettings
from specgauge.serve.app import Sidecar
from specgauge.serve.demo.follower import follow
from specgauge.serve.demo.recording import Recording, RecordingName, load, recorded_baseline
from specgauge.serve.demo.stand_in import StandIn
from specgauge.serve.demo.story import Plot, Story
from specgauge.serve.loop import Pace

_AWAY = 400.0
"""A cool-down and a probe at a comparable load, in recorded seconds."""


class Service(Protocol):
    """Something with a port: the stand-in, and the sidecar."""

    @property
    def url(self) -> str:
        """Where it answers."""

    async def start(self) -> None:
        """Open the port; OSError if it cannot be had."""

    async def stop(self) -> None:
        """Close the port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What the command line asked for; `stop_after` is in wall seconds."""

    speed: float
    listen: str
    engine_port: int
    stop_after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarSetup:
    """What the demo's sidecar is made from; its seconds are recorded ones, `speed` in one."""

    engine_url: str
    method: str | None
    listen: str
    speed: float


def make_sidecar(setup: SidecarSetup) -> Service:
    """Make the real sidecar, with its time running as fast as the recording is played."""
    address = parse_listen(setup.listen)
    page = f"{setup.engine_url}/metrics"
    target = TargetSettings(name="demo", url=page, hints=Hints(method=setup.method))
    settings = Settings(
        targets=(target,),
        host=address.host,
        port=address.port,
        baselines=(usable(recorded_baseline(), source="the recording's own baseline"),),
    )
    guard = GuardSettings(flag=FlagSettings(obeyed_by="the recorded engine"))
    return Sidecar(settings, pace=Pace(speed=setup.speed), guard=guard)


async def play(
    recording: Recording,
    options: DemoOptions,
    make_service: Callable[[SidecarSetup], Service] = make_sidecar,
) -> None:
    """Run the recorded engine and the sidecar until a signal or `stop_after`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as opened:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
            opened.callback(loop.remove_signal_handler, number)
        story = Story({name: load(name) for name in RecordingName}, Plot())
        engine = StandIn(recording, speed=options.speed, port=options.engine_port, shown=story)
        await _start(engine, f"--engine-port {options.engine_port}", opened)
        setup = SidecarSetup(
            engine_url=engine.url,
            method=recording.method,
            listen=options.listen,
            speed=options.speed,
        )
        sidecar = make_service(setup)
        await _start(sidecar, f"--listen {options.listen}", opened)
        flag = f"{sidecar.url}/ofrep/v1/evaluate/flags/{FlagSettings().key}"
        following = asyncio.create_task(
            follow(
                flag,
                lambda on: story.obey(on, engine.recorded_now()),
                interval=1.0 / options.speed,
            )
        )
        opened.callback(following.cancel)
        click.echo(f"engine     {engine.url}/metrics\nspecgauge  {sidecar.url}")
        click.echo(describe(recording, options.speed), err=True)
        try:
            await asyncio.wait_for(stop.wait(), options.stop_after)
        except TimeoutError:
            click.echo("The demo has ended.", err=True)


async def _start(service: Service, option: str, opened: AsyncExitStack) -> None:
    try:
        await service.start()
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        reason = "the port is in use" if taken else error.strerror
        raise UsageError(f"{option}: {reason}; choose another") from error
    opened.push_async_callback(service.stop)


def describe(recording: Recording, speed: float) -> str:
    """Say what is shown, so that nobody takes a recording for a measurement of their own."""
    speculation = "no speculation"
    if recording.method:
        acceptance = "synthetic acceptance, " if recording.synthetic_acceptance else ""
        speculation = f"{acceptance}{recording.method}, K = {recording.num_speculative_tokens}"
    arrivals = recording.arrivals_per_second
    return (
        "This is a recording, not a running engine: "
        f"vLLM {recording.engine_version} on {recording.hardware}, {speculation}.\n"
        f"Load rises from {arrivals[0]:g} to {max(arrivals):g} requests/s and falls again, "
        f"{speed:g} times as fast as recorded: a round takes {recording.duration / speed:.1f} s, "
        "then the next begins.\n"
        f"After {Plot().spoils_after / speed:.0f} s the draft stops fitting: watch the guard turn "
        f"speculation off, and on again about {_AWAY / speed:.0f} s later, when it is mended.\n"
        "Ctrl-C stops it."
    )


def _read_listen(_: click.Context, parameter: click.Parameter, text: str) -> str:
    try:
        parse_listen(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None
    return text


@click.command(epilog="\b\nExample:\n  specgauge demo --speed 20")
@click.option(
    "--speed",
    type=FiniteRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="How many recorded seconds pass in one second.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    callback=_read_listen,
    default="127.0.0.1:9843",
    show_default=True,
    help="Where the sidecar listens.",
)
@click.option(
    "--engine-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port of the recorded engine on 127.0.0.1; 0 takes a free one.",
)
@click.option("--once", is_flag=True, help="Stop when the recorded ramp is over.")
@click.option(
    "--for",
    "for_seconds",
    metavar="DURATION",
    callback=read_span,
    help="Stop after this time, e.g. 30s, 5m.",
)
def demo(
    *, speed: float, listen: str, engine_port: int, once: bool, for_seconds: float | None
) -> None:
    """Show specgauge at work on a recorded vLLM server: no GPU, no engine, no network."""
    recording = load(RecordingName.SPECULATIVE)
    limits = [for_seconds] if for_seconds is not None else []
    if once:
        limits.append(recording.duration / speed)
    options = DemoOptions(
        speed=speed, listen=listen, engine_port=engine_port, stop_after=min(limits, default=None)
    )
    asyncio.run(play(recording, options))
