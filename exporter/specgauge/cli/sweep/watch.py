"""Progress of a sweep on stderr: a line for whatever is finished, a bar with figures on a terminal.

Shows what it is told; measures nothing.
"""

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from specgauge.baseline.level import Live
from specgauge.cli.baseline.live import describe
from specgauge.cli.values import plain
from specgauge.preflight.sweep.conduct import Telling
from specgauge.preflight.sweep.order import Visit
from specgauge.preflight.sweep.task import Task


@contextlib.contextmanager
def telling(task: Task, done: int) -> Iterator[Telling]:
    """Give what a sweep tells its progress to; `done` visits were made before."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    places = {visit: place for place, visit in enumerate(task.visits)}
    with bar:
        shown = bar.add_task("beginning", total=len(places), completed=done)

        def say(text: str) -> None:
            console.print(plain(f"specgauge: {text}"), markup=False)

        def wait(name: str, seconds: float) -> None:
            bar.update(shown, description=f"{name} loads, {seconds:.0f} s")

        def live(visit: Visit, figures: Live) -> None:
            text = f"{visit.candidate} | {describe(figures)}"
            bar.update(shown, description=text, completed=places[visit])

        yield Telling(say=say, wait=wait, live=live)
