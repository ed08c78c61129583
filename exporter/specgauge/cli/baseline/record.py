"""`specgauge baseline record`: drives a server without speculation and writes what it measured."""

import asyncio
import gc
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from specgauge.baseline import exchange
from specgauge.baseline.brake import Brake, Why
from specgauge.baseline.files import write_atomically
from specgauge.baseline.load import Generator
from specgauge.baseline.plan import (
    MIN_REPEATS,
    Lengths,
    Plan,
    closed_levels,
    doubts,
    open_levels,
    parse_lengths,
)
from specgauge.baseline.prompts import CLASSES, PromptSet, read_prompts, shipped
from specgauge.baseline.record import Order, Recorder, Recording
from specgauge.baseline.schema import BaselineFile, dump
from specgauge.cli.baseline.delivery import STDOUT, check_output, output_option
from specgauge.cli.baseline.live import watching
from specgauge.cli.baseline.provenance import fact_options, facts_given
from specgauge.cli.values import READ_BY_US, FiniteRange, plain
from specgauge.config.address import parse_address
from specgauge.errors import BaselineError, UsageError
from specgauge.model.outcome import ExitCode
from specgauge.serve.scrape import Endpoint, Scraper

_MAX_BYTES = 64 << 20
_INTERRUPTED = 130


@click.command(
    epilog="\b\nExample:\n  specgauge baseline record --url http://127.0.0.1:8000 -o baseline.json"
)
@click.option("--url", required=True, help="Server to drive, http://HOST:PORT.")
@output_option
@click.option("--concurrency", multiple=True, help="Levels, 1,2,4.  [1,2,4 to 64]")
@click.option("--request-rate", multiple=True, help="Open loop: requests per second, 0.5,1.")
@click.option("--output-tokens", default=str(Lengths()), show_default=True, help="Lengths to mix.")
@click.option("--prompts", type=READ_BY_US, help="Own: JSON, JSONL, ShareGPT, vLLM.")
@click.option("--class", "traffic_class", help=f"Traffic class: {', '.join(CLASSES)}.")
@click.option("--endpoint", type=click.Choice(["completions", "chat"]), default="completions")
@click.option(
    "--window", type=FiniteRange(min=0.5), default=30.0, help="Seconds a level, at most.  [30]"
)
@click.option(
    "--repeats", type=click.IntRange(min=MIN_REPEATS), default=MIN_REPEATS, help="At least.  [3]"
)
@click.option("--warmup", type=FiniteRange(min=0.0), default=3.0, help="Seconds before.  [3]")
@click.option("--shared", is_flag=True, help="Record although others use the server.")
@click.option("--api-key-file", type=READ_BY_US, help="Key for the server.  [OPENAI_API_KEY]")
@click.option("--seed", type=int, default=0, show_default=True, help="Of lengths and order.")
@fact_options
def record(**options: Any) -> int:
    """Record a baseline: time per output token without speculation, by load.

    Drives the server over a grid of loads for a few minutes and writes what it measured, beside
    what the server's own page says of it. Ctrl-C ends it with a partial file. A file that is
    there already is replaced once the first level is recorded.
    """
    output = options["output"]
    check_output(output)
    order = read_order(options, os.environ.get("OPENAI_API_KEY"))
    kept = [f"{output} is there: replaced once a level is recorded"] if output.exists() else []
    for line in (*doubts(order.plan), *kept):
        click.echo(f"specgauge: {line}", err=True)
    made = asyncio.run(drive(options["url"], order, output))
    return conclude(made, output, of=len(order.plan.levels))


def conclude(made: Recording, output: Path, *, of: int) -> int:
    """Say what there is; a partial file is no success, whoever is to blame."""
    if output == STDOUT:
        click.echo(dump(made.file), nl=False)
    partial = "partial, " if made.file.partial else ""
    why = f": {made.ended}" if made.ended else ""
    levels = f"{len(made.file.levels)} of {of} levels"
    click.echo(plain(f"specgauge: {output}: {partial}{levels}{why}"), err=True)
    if made.stopped:
        return _INTERRUPTED
    return ExitCode.FAILED if made.file.partial else ExitCode.OK


def read_order(options: dict[str, Any], key: str | None) -> Order:
    """Make an order of the command line; UsageError names the option that is wrong."""
    if options["api_key_file"] is not None:
        key = _key_of(options["api_key_file"])
    return Order(
        plan=_plan(options),
        prompts=_prompts(options["prompts"], options["traffic_class"]),
        endpoint=options["endpoint"],
        model=options["model"],
        temperature=options["temperature"] or 0.0,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        facts=facts_given(options),
        shared=options["shared"],
    )


async def drive(url: str, order: Order, output: Path) -> Recording:
    """Run the recording; SIGINT and SIGTERM end it with what there is."""
    try:
        address, page = exchange.parse_address(url), parse_address(_root(url)).page
    except ValueError as problem:
        raise UsageError(f"--url: {problem}") from None
    gc.freeze()  # a full collection would hold chunks up for milliseconds
    scraper = Scraper(Endpoint(url=page, headers=order.headers, max_bytes=_MAX_BYTES))
    brake = Brake()

    def save(file: BaselineFile) -> None:
        if output != STDOUT:
            write_atomically(output, dump(file))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, brake.event.set)
    try:
        with watching(order.plan) as report:
            recorder = Recorder(
                order,
                scraper,
                Generator(address),
                brake=brake,
                now=lambda: datetime.now(UTC).replace(microsecond=0),
                save=save,
                report=report,
            )
            return await recorder.record()
    except BaselineError as problem:
        if not (brake.pulled and brake.why is Why.STOPPED):
            raise
        click.echo(plain(f"specgauge: {problem}"), err=True)
        raise click.Abort from None  # ends as any other command that the user stopped
    finally:
        await scraper.close()


def _plan(options: dict[str, Any]) -> Plan:
    closed, rates = options["concurrency"], options["request_rate"]
    if closed and rates:
        raise UsageError("--concurrency and --request-rate: give one of them")
    wrong = "--request-rate" if rates else "--concurrency"
    try:
        levels = open_levels(rates) if rates else closed_levels(closed)
        wrong = "--output-tokens"
        lengths = parse_lengths(options["output_tokens"])
    except ValueError as problem:
        raise UsageError(f"{wrong}: {problem}") from None
    return Plan(
        levels=levels,
        lengths=lengths,
        window=options["window"],
        repeats=options["repeats"],
        warmup=options["warmup"],
        seed=options["seed"],
    )


def _prompts(file: Path | None, traffic_class: str | None) -> PromptSet:
    if file is not None:
        return read_prompts(file, traffic_class)
    if traffic_class is not None and traffic_class not in CLASSES:
        raise UsageError(f"--class {traffic_class}: choose one of {', '.join(CLASSES)}")
    return shipped(traffic_class)


def _key_of(path: Path) -> str:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not text"
        raise UsageError(f"--api-key-file {path}: {reason}") from None
    if not key or not key.isascii() or not key.isprintable():
        raise UsageError(f"--api-key-file {path}: one line with the key is expected")
    return key


def _root(url: str) -> str:
    """Take /v1 off, so that the metrics page is looked for at the server's root."""
    return url.rstrip("/").removesuffix("/v1")
