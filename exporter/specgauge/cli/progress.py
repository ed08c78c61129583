"""Progress on a terminal: a bar on stderr for work that takes over two seconds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_WORTH_SHOWING = 2.0
_TICK = 0.1


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
