"""Progress of a recording on stderr: a bar with live figures on a terminal, a line a level always.

Shows what it is told; measures nothing.
"""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from specgauge.baseline.level import Live
from specgauge.baseline.plan import Load, Plan
from specgauge.baseline.schema import LevelRecord
from specgauge.cli.values import plain

Report = Callable[[Live | LevelRecord], None]


@contextlib.contextmanager
def watching(plan: Plan) -> Iterator[Report]:
    """Give what a recording tells its progress to."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    total = len(plan.levels) * (plan.warmup + plan.window)
    with bar:
        task = bar.add_task("trying the server", total=total)

        def report(told: Live | LevelRecord) -> None:
            if isinstance(told, LevelRecord):
                console.print(finished(told), markup=False)
            else:
                _move(bar, task, told, plan)

        yield report


def _move(bar: Progress, task: TaskID, live: Live, plan: Plan) -> None:
    done = list(plan.levels).index(live.load) * (plan.warmup + plan.window)
    within = plan.warmup + live.seconds if live.steady else min(live.seconds, plan.warmup)
    place = min(done + within, done + plan.warmup + plan.window)
    bar.update(task, completed=place, description=describe(live))


def describe(live: Live) -> str:
    """Put a level's state on one line."""
    parts = [str(live.load), f"{live.in_flight} in flight"]
    if not live.steady:
        parts.append("warming up")
    if live.tpot is not None:
        width = f" +-{live.half_width:.1%}" if live.half_width is not None else ""
        parts.append(f"TPOT {live.tpot * 1e3:.3g} ms{width}")
    parts.append(f"{live.chunks_per_second:.0f} chunks/s")
    if live.waiting:
        parts.append(f"{live.waiting:g} waiting")
    if live.kv_usage is not None:
        parts.append(f"KV {live.kv_usage:.0%}")
    return " | ".join(parts)


def finished(level: LevelRecord) -> str:
    """Put a finished level on one line, with its notes below it."""
    concurrency = int(level.concurrency) if level.concurrency is not None else None
    load = Load(concurrency=concurrency, request_rate=level.request_rate)
    client = level.client.tpot_seconds.mean if level.client is not None else None
    server = level.server.tpot_seconds if level.server is not None else None
    told = [
        f"{load}: {level.decode_concurrency:.3g} in decode",
        *([f"TPOT {server * 1e3:.4g} ms (server)"] if server is not None else []),
        *([f"{client * 1e3:.4g} ms (client)"] if client is not None else []),
        f"{level.requests} requests in {level.window_seconds or 0.0:.3g} s",
    ]
    return "\n".join([", ".join(told), *(f"  {plain(note)}" for note in level.notes)])
