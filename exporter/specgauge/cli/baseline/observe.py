"""`specgauge baseline observe`: learns a baseline from a live server's own traffic."""

import asyncio
import contextlib
import math
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from specgauge.baseline.bins import levels
from specgauge.baseline.facts import contradictions, facts_of
from specgauge.baseline.learning import Learning, begin, is_done, learn
from specgauge.cli.baseline.delivery import check_output, deliver, make_file, output_option, say
from specgauge.cli.baseline.provenance import fact_options, facts_given
from specgauge.cli.baseline.reading import Server, ask, open_scraper
from specgauge.cli.values import read_span
from specgauge.engines.reader import Reader
from specgauge.errors import BaselineError, SourceError
from specgauge.model.outcome import ExitCode
from specgauge.serve.loop import Pace
from specgauge.serve.scrape import Scraper

INTERVAL = 1.0
_TIMEOUT = 3.0
_LONGEST_SILENCE = 60.0
_QUIET_SHARE, _LONGEST_QUIET = 0.25, 300.0
_INTERRUPTED = 130

Show = Callable[[Learning, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """How a watch ended: what was learnt, whose server it is, and why it ended early, if so."""

    learning: Learning
    server: Server
    interrupted: bool = False
    failure: SourceError | None = None

    @property
    def exit_code(self) -> int:
        """What the command ends with."""
        if self.failure is not None:
            return self.failure.exit_code
        return _INTERRUPTED if self.interrupted else ExitCode.OK


def _read_duration(context: click.Context, parameter: click.Parameter, text: str) -> float | None:
    seconds = read_span(context, parameter, text)
    if seconds is not None and seconds < INTERVAL:
        raise click.BadParameter("at least 1s is needed", param=parameter)
    return seconds


@click.command(
    epilog="\b\nExample:\n  specgauge baseline observe --url "
    "http://127.0.0.1:8000 --for 30m -o baseline.json"
)
@click.option("--url", required=True, help="Server without speculation, e.g. http://HOST:8000.")
@click.option(
    "--for",
    "seconds",
    metavar="DURATION",
    default="30m",
    show_default=True,
    callback=_read_duration,
    help="How long at most.",
)
@output_option
@fact_options
def observe(*, url: str, seconds: float, output: Path, **options: object) -> int:
    """Learn a baseline from a live server without speculation, from the traffic it has.

    Scrapes every second and gathers intervals by load. Ends when every load seen is known well
    and no new one came for a quarter of the time (at most 5 minutes), or when the time is over.
    Ctrl-C ends it early: what was learnt is written, marked partial.
    """
    check_output(output)
    facts_given(options)  # refused before the watch, not after it
    model = options.get("model")
    watched = asyncio.run(
        watch(url, seconds, model=model if isinstance(model, str) else None, pace=Pace())
    )
    write(watched, output, options)
    return watched.exit_code


async def watch(url: str, seconds: float, *, model: str | None, pace: Pace) -> Watched:
    """Scrape until the bins are full, the time is over, a signal comes or the server is gone."""
    scraper, reader, stop = open_scraper(url, _TIMEOUT), Reader(), asyncio.Event()
    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(scraper.close)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
            opened.callback(loop.remove_signal_handler, number)
        began = pace.now()
        server = await ask(scraper, reader)
        state = begin(server.page, (began + pace.now()) / 2, place=url, model=model)
        show = await opened.enter_async_context(_bar(seconds))
        last = pace.now()
        failure = None
        while not stop.is_set() and pace.now() - began < seconds:
            await _wait(stop, began, pace)
            if stop.is_set():
                break
            try:
                state = await _scrape(state, scraper, reader, pace)
                last = pace.now()
            except SourceError as problem:
                if pace.now() - last > _LONGEST_SILENCE:
                    failure = problem
                    break
            show(state, pace.now() - began)
            if is_done(state, pace.now(), quiet=min(_QUIET_SHARE * seconds, _LONGEST_QUIET)):
                break
        return Watched(learning=state, server=server, interrupted=stop.is_set(), failure=failure)


async def _scrape(state: Learning, scraper: Scraper, reader: Reader, pace: Pace) -> Learning:
    began = pace.now()
    body = await scraper.fetch()
    at = (began + pace.now()) / 2
    page = reader.read(body.data, complete=body.complete)
    return learn(state, page, at, usual=INTERVAL)


async def _wait(stop: asyncio.Event, began: float, pace: Pace) -> None:
    """Wait for the next whole second since the beginning; slots that have passed are skipped."""
    slot = math.floor((pace.now() - began) / INTERVAL) + 1
    wait = (began + slot * INTERVAL - pace.now()) / pace.speed
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), max(wait, 0.0))


@contextlib.asynccontextmanager
async def _bar(seconds: float) -> AsyncIterator[Show]:
    """Show on a terminal how long it still takes at most and how many bins are full."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("waiting for traffic", total=seconds)

        def show(state: Learning, passed: float) -> None:
            known = state.fillings.values()
            full = sum(one.full for one in known)
            text = f"{full} of {len(known)} loads known" if known else "waiting for traffic"
            progress.update(bar, completed=passed, description=text)

        yield show


def write(watched: Watched, output: Path, options: Mapping[str, object]) -> None:
    """Write what was learnt; raises BaselineError where that is nothing."""
    state, server = watched.learning, watched.server
    made, left_out = levels(state.bins)
    if watched.failure is not None:
        say([f"the server is gone: {watched.failure.detail}"])
    if state.model is None or not made:
        counts = ", ".join(f"{number} {reason}" for reason, number in state.left_out.items())
        why = left_out or (f"no traffic to learn from ({counts or 'no intervals'})",)
        raise BaselineError([f"{state.place}: {line}; nothing was written" for line in why])
    told = facts_of(state.page, state.model, version=server.version, models=server.models)
    given = facts_given(options)
    say(contradictions(told, given))
    notes = list(left_out)
    if state.configured:
        notes.append("speculation is configured but drafted nothing; a server without it is faster")
    file = make_file(
        {**given, **told},
        made,
        method="observed",
        notes=notes,
        partial=watched.interrupted or watched.failure is not None,
    )
    deliver(file, output)
