"""One candidate's server: started from an argument list, waited for, and always stopped.

No shell is involved. The server has a session of its own, so that a Ctrl-C meant for the sweep
does not reach it before the sweep has ended what it measures.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from specgauge.baseline.facts import served
from specgauge.baseline.load import came
from specgauge.baseline.twin import Pages
from specgauge.errors import SourceError, SpecgaugeError
from specgauge.preflight.sweep.folder import Folder, tail
from specgauge.preflight.sweep.processes import MARK, Root, end, started_at

GRACE = 20.0
"""Seconds that a server has to end by itself once it is asked to."""

_POLL = 0.25
_ENDED = "the server ended before it was ready"
_BACKGROUND = f"{_ENDED}; one that goes to the background is none: it has to stay with us"


class CandidateError(SpecgaugeError):
    """A candidate that cannot be measured; `lines` are the last of its server's log."""

    def __init__(self, reason: str, lines: Sequence[str] = ()) -> None:
        self.reason = reason
        self.lines = tuple(lines)
        super().__init__(reason)


class StoppedError(SpecgaugeError):
    """The user wants the sweep to end."""


class OpenPages(Pages, Protocol):
    """Pages over a connection that has to be closed."""

    async def close(self) -> None:
        """Let go of the connection."""


class Server:
    """A running server process."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, root: Root) -> None:
        self.root = root
        self._process = process
        self._log = log

    @property
    def ended(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.returncode

    def failure(self, what: str) -> CandidateError:
        """Say what went wrong, with the end of the log."""
        code = self.ended
        how = "" if code is None else f" ({_ending(code)})"
        return CandidateError(f"{what}{how}; its log is {self._log}", tail(self._log))

    async def ready(
        self,
        pages: Pages,
        stop: asyncio.Event,
        *,
        timeout: float,  # noqa: ASYNC109 - how long it may load
        report: Callable[[float], None],
    ) -> float:
        """Wait until the server has a metrics page and names a model; gives how long it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        lacking = "nothing answers"
        while (waited := loop.time() - began) < timeout:
            report(waited)
            if self.ended is not None:
                raise self.failure(_BACKGROUND if self.ended == 0 else _ENDED)
            try:
                await pages.fetch()
                if served(await pages.fetch_json("/v1/models")):
                    return loop.time() - began
                lacking = "/v1/models names no model"
            except SourceError as problem:
                lacking = problem.detail
            if await came(stop, _POLL):
                raise StoppedError("stopped by the user")
        raise self.failure(f"the server was not ready within {timeout:g} s: {lacking}")

    async def reap(self) -> None:
        """Take note of the end of a process that has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLL):
                await self._process.wait()


@asynccontextmanager
async def running(
    arguments: Sequence[str], candidate: str, folder: Folder, *, grace: float = GRACE
) -> AsyncIterator[Server]:
    """Run a server while the body does; whatever happens, none of its processes outlives it."""
    log, mark = folder.log(candidate), secrets.token_hex(16)
    folder.note_server(Root(pid=0, started=0, mark=mark), candidate)
    server = None
    try:
        server = await _start(arguments, log, mark)
        folder.note_server(server.root, candidate)
        yield server
    finally:
        root = Root(pid=0, started=0, mark=mark) if server is None else server.root
        await stop(root, folder, grace=grace)
        if server is not None:
            await server.reap()


async def stop(root: Root, folder: Folder, *, grace: float) -> None:
    """End a server, even where whoever waits for that is cancelled."""
    ending = asyncio.ensure_future(end(root, grace=grace))
    try:
        gone = await asyncio.shield(ending)
    except asyncio.CancelledError:
        if await ending:
            folder.forget_server()
        raise
    if not gone:
        raise CandidateError(f"process {root.pid} does not end even when killed; look at it")
    folder.forget_server()


def free_port() -> int:
    """Ask the kernel for a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _start(arguments: Sequence[str], log: Path, mark: str) -> Server:
    try:
        with log.open("ab") as output:
            output.write(f"specgauge: {' '.join(arguments)}\n".encode(errors="replace"))
            output.flush()
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, MARK: mark},
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CandidateError(f"{arguments[0]}: cannot be started: {reason}") from None
    root = Root(pid=process.pid, started=started_at(process.pid), mark=mark)
    return Server(process, log, root)


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
