"""Progress on a terminal: a bar on stderr for work that takes over two seconds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from time import monotonic
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_WORTH_SHOWING = 2.0
_TICK = 0.1

Item = TypeVar("Item")


@contextlib.asynccontextmanager
async def waiting(seconds: float, what: str) -> AsyncIterator[None]:
    """Show a bar that fills in so many seconds while the body runs; none off a terminal."""
    console = Console(stderr=True)
    if seconds <= _WORTH_SHOWING or not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(what, total=seconds)

        async def tick() -> None:
            while True:
                await asyncio.sleep(_TICK)
                progress.advance(bar, _TICK)

        ticking = asyncio.create_task(tick())
        try:
            yield
        finally:
            ticking.cancel()


def counting(
    items: Iterable[Item], total: int, what: str, *, quiet: bool = False
) -> Iterator[Item]:
    """Pass items on with a bar that counts them, once that has taken a while on a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield from items
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, transient=True)
    bar = progress.add_task(what, total=total)
    began, drawn = monotonic(), False
    try:
        for item in items:
            yield item
            progress.advance(bar)
            if not drawn and monotonic() - began > _WORTH_SHOWING:
                progress.start()
                drawn = True
    finally:
        progress.stop()
