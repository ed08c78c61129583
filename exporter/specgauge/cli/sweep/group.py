"""`specgauge sweep`: tries every k, method and draft under load and says which is worth it."""

import asyncio
import contextlib
import gc
import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from specgauge.baseline.plan import MIN_REPEATS, Lengths
from specgauge.baseline.prompts import CLASSES
from specgauge.baseline.record import Order
from specgauge.cli.sweep.options import LOADS, read_task, root_of
from specgauge.cli.sweep.predict import predict
from specgauge.cli.sweep.show import draw
from specgauge.cli.sweep.watch import telling
from specgauge.cli.values import READ_BY_US, FiniteRange, plain
from specgauge.config.address import parse_address
from specgauge.errors import UsageError
from specgauge.model.outcome import ExitCode
from specgauge.preflight.sweep.conduct import Sweep
from specgauge.preflight.sweep.document import digest
from specgauge.preflight.sweep.folder import RESULT, Folder
from specgauge.preflight.sweep.schema import differences
from specgauge.preflight.sweep.server import stop
from specgauge.preflight.sweep.state import Book
from specgauge.preflight.sweep.task import Task
from specgauge.serve.scrape import Endpoint, Scraper

_MAX_BYTES = 64 << 20
_INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.group(
    "sweep",
    invoke_without_command=True,
    epilog="\b\nExample:\n  specgauge sweep --server 'vllm serve MODEL --port <<port>> "
    "<<speculative>>' --method ngram --k 1,2,4 -o sweep/",
)
@click.option("--server", metavar="TEMPLATE", help="Command that starts a server.")
@click.option("--method", multiple=True, help="Methods to try: ngram, draft_model, eagle3.")
@click.option("--k", multiple=True, help="Numbers of drafted tokens to try, 1,2,4.")
@click.option("--draft", multiple=True, metavar="FOLDER", help="Draft model or head; repeat it.")
@click.option("--speculative-config", metavar="JSON", help="More keys for every candidate.")
@click.option("--candidates", type=READ_BY_US, metavar="FILE", help="YAML file of candidates.")
@click.option("--candidate", multiple=True, metavar="NAME=URL", help="A server that runs.")
@click.option("--without-baseline", is_flag=True, help="Do not try without speculation.")
@click.option("-o", "--output", type=READ_BY_US, metavar="FOLDER", help="Folder to keep it in.")
@click.option("--concurrency", multiple=True, help=f"Loads.  [{LOADS}]")
@click.option("--expect", multiple=True, type=FiniteRange(min=1.0), help="Load that counts.")
@click.option("--rounds", type=click.IntRange(1, 100), help="Times over.  [1, of URLs 2]")
@click.option("--repeats", type=click.IntRange(min=MIN_REPEATS), default=MIN_REPEATS, help="[3]")
@click.option("--window", type=FiniteRange(min=0.5), default=30.0, help="Seconds a load.  [30]")
@click.option("--warmup", type=FiniteRange(min=0.0), default=3.0, help="Seconds before.  [3]")
@click.option("--output-tokens", default=str(Lengths()), show_default=True, help="Lengths to mix.")
@click.option("--prompts", type=READ_BY_US, help="Own: JSON, JSONL, ShareGPT, vLLM.")
@click.option("--class", "traffic_class", help=f"Traffic class: {', '.join(CLASSES)}.")
@click.option("--endpoint", type=click.Choice(["completions", "chat"]), default="completions")
@click.option("--temperature", type=FiniteRange(min=0.0, max=100.0), default=0.0, help="[0]")
@click.option("--model", metavar="NAME", help="Model, where a server has several.")
@click.option("--api-key-file", type=READ_BY_US, help="Key for the servers.  [OPENAI_API_KEY]")
@click.option("--seed", type=int, default=0, show_default=True, help="Of lengths and order.")
@click.option("--start-timeout", default="10m", show_default=True, help="For a server to load.")
@click.option("--measure-all", is_flag=True, help="Leave no candidate out by prediction.")
@click.option("--retry-failed", is_flag=True, help="Try candidates again that had failed.")
@click.option("--json", "as_json", is_flag=True, help="Print specgauge.sweep/v1.")
@click.pass_context
def sweep_group(context: click.Context, /, **options: Any) -> int | None:
    """Find the k, method and draft that are worth it, by experiment.

    Starts a server for each candidate from a template with <<port>> and <<speculative>>, puts the
    same load on all, and stops each again; or uses servers that run. It may be ended at any time:
    the same command goes on where it was.
    """
    if context.invoked_subcommand is not None:
        return None
    task = read_task(options)
    if options["output"] is None:
        raise UsageError("give -o FOLDER, where the sweep keeps what it has")
    folder = Folder(options["output"])
    with folder.held():
        book = open_book(task, folder, retry=options["retry_failed"])
        finished = asyncio.run(drive(task, book, folder))
    return conclude(book, as_json=options["as_json"], finished=finished)


sweep_group.add_command(predict)


def open_book(task: Task, folder: Folder, *, retry: bool) -> Book:
    """Take up what the folder holds of this sweep; UsageError where it is of another."""
    settings = task.settings
    book = Book(
        candidates=task.candidates,
        loads=task.loads,
        expected=task.expected,
        settings=settings,
        created=datetime.now(UTC).replace(microsecond=0),
        write=folder.write,
        visits=len(task.visits),
    )
    kept = folder.read()
    if kept is not None:
        if kept.settings_sha256 != digest(settings):
            differ = ", ".join(differences(kept.settings, settings)) or "its settings"
            raise UsageError(
                f"{folder.path / RESULT}: of another sweep, which differs in {differ}; "
                "give the same options, or another folder with -o"
            )
        book.take_up(kept, retry=retry)
        told = f"{len(book.runs)} of {book.visits} runs are there; going on"
        click.echo(plain(f"specgauge: {folder.path}: {told}"), err=True)
    return book


async def drive(task: Task, book: Book, folder: Folder) -> bool:
    """Run the sweep; a signal ends it with what there is, and its server with it."""
    gc.freeze()  # a full collection would hold chunks up for milliseconds
    left = folder.left_server()
    if left is not None:
        await stop(left[0], folder, grace=task.grace)
        told = f"stopped what the last run had left of {left[1]}, process {left[0].pid}"
        click.echo(plain(f"specgauge: {told}"), err=True)
    with telling(task, len(book.runs)) as told_to:
        sweep = Sweep(
            task,
            book,
            folder,
            open_pages=lambda url: open_scraper(url, task.order),
            telling=told_to,
            salt=f"{int(time.time()):x}",
        )
        with ended_by_signals(sweep):
            return await sweep.run()


def open_scraper(url: str, order: Order) -> Scraper:
    """Prepare to fetch a candidate's page."""
    page = parse_address(root_of(url)).page
    return Scraper(Endpoint(url=page, headers=order.headers, max_bytes=_MAX_BYTES))


@contextlib.contextmanager
def ended_by_signals(sweep: Sweep) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and a closed terminal end a sweep in good order."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, sweep.stop)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def conclude(book: Book, *, as_json: bool, finished: bool) -> int:
    """Show what there is; 1 where no speculation is worth it, 4 where nothing can be said."""
    if as_json:
        click.echo(json.dumps(book.document(), indent=1, allow_nan=False, ensure_ascii=False))
    else:
        draw(book.result(), list(book.states.values()), complete=finished)
    if not finished:
        return _INTERRUPTED
    chosen = book.result().recommended
    if chosen is None:
        return ExitCode.NO_VERDICT
    if chosen.k != 0:
        return ExitCode.OK
    return ExitCode.FAILED if len(chosen.compared) > 1 else ExitCode.NO_VERDICT
