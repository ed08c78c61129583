"""`specgauge serve`: the sidecar as a process: signals, reload, a clean end."""

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import click

from specgauge.cli.settings import guard_of, settings_of
from specgauge.config import Config, load, named_files
from specgauge.errors import UsageError
from specgauge.model.settings import Settings
from specgauge.serve.app import Sidecar
from specgauge.serve.watch import fingerprint, watch

_LOOK_SECONDS = 1.0


@click.command(
    epilog="\b\nExample:\n  specgauge serve --target http://127.0.0.1:8000 --listen 127.0.0.1:9843"
)
@click.option("--target", "targets", multiple=True, metavar="URL", help="Server to watch; repeat.")
@click.option(
    "--config", "file", type=click.Path(path_type=Path), help="Configuration file (YAML)."
)
@click.option("--listen", metavar="HOST:PORT", help="Address to serve on.  [0.0.0.0:9843]")
@click.option("--interval", metavar="DURATION", help="Time between two scrapes.  [1s]")
@click.option("--timeout", metavar="DURATION", help="How long a scrape may take.  [3s]")
@click.option("--window", metavar="DURATION", help="Time that gauges look back.  [60s]")
def serve(
    targets: tuple[str, ...],
    file: Path | None,
    listen: str | None,
    interval: str | None,
    timeout: str | None,
    window: str | None,
) -> None:
    """Scrape vLLM servers and serve what speculation really does.

    Flags go before the environment (SPECGAUGE_...), that before the file.
    """
    overrides = {
        "targets": targets,
        "listen": listen,
        "scrape.interval": interval,
        "scrape.timeout": timeout,
        "window": window,
    }

    def read() -> Config:
        return load(file, env=os.environ, overrides=overrides)

    asyncio.run(run(read, file))


async def run(read: Callable[[], Config], file: Path | None) -> None:
    """Run the sidecar until SIGTERM or SIGINT; SIGHUP and changed files reload it."""
    current = read()
    seen = fingerprint(_files(current, file))

    def read_settings() -> Settings:
        nonlocal current
        current = read()
        return settings_of(current)

    sidecar = Sidecar(
        settings_of(current),
        read_settings=read_settings,
        guard=guard_of(current),
        read_guard=lambda: guard_of(current),
    )
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, sidecar.reload)
    try:
        await sidecar.start()
    except OSError as error:
        raise UsageError(_cannot_listen(current.listen, error)) from error

    async def follow() -> None:
        async for _ in watch(lambda: _files(current, file), interval=_LOOK_SECONDS, since=seen):
            sidecar.reload()

    following = asyncio.create_task(follow())
    await stop.wait()
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    await sidecar.stop()


def _files(config: Config, file: Path | None) -> tuple[Path, ...]:
    return (*([file] if file else []), *named_files(config))


def _cannot_listen(listen: str, error: OSError) -> str:
    taken = error.errno == errno.EADDRINUSE
    reason = "the address is in use" if taken else (error.strerror or str(error))
    return f"listen: {listen}: {reason}; choose another with --listen"
