"""Changes a flag by running a command without a shell; none that can be ended outlives its time."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from specgauge.errors import ConfigError
from specgauge.guard.flags.family import end_family
from specgauge.guard.flags.http_failures import clean
from specgauge.guard.flags.protocol import FlagError, WriteResult
from specgauge.guard.flags.spelling import read_value

_LAST = 0.5  # seconds, which a process that was killed does not need
_MAX_OUTPUT = 64 * 1024
_KEPT = ("PATH", "HOME", "LANG", "TZ")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecTerms:
    """The keys of `flag.exec`: a program and its arguments for each value, and one that reads."""

    on: Sequence[str]
    off: Sequence[str]
    read: Sequence[str] = ()


def faults(terms: ExecTerms) -> tuple[str, ...]:
    """Find what is wrong with the terms, each fault with its path in the configuration."""
    missing = [name for name, command in (("on", terms.on), ("off", terms.off)) if not command]
    found = [f"flag.exec.{name}: not set; write a program and its arguments" for name in missing]
    return tuple(found)


class Exec:
    """One flag behind three commands, each of which gets SPECGAUGE_FLAG=on|off but the last."""

    name = "exec"

    def __init__(self, terms: ExecTerms, *, timeout: float = 5.0) -> None:
        if found := faults(terms):
            raise ConfigError(found)
        self._terms = terms
        self._timeout = timeout

    @property
    def place(self) -> str:
        """The program that is run; its arguments may hold secrets."""
        return self._terms.off[0]

    @property
    def can_read(self) -> bool:
        """Whether a command reads the flag."""
        return bool(self._terms.read)

    async def read(self) -> bool | None:
        """Run the command that prints the flag; raises FlagError."""
        program = self._terms.read[0]
        value = read_value(await self._run(self._terms.read, {}))
        if value is None:
            detail = f"{program} printed none of on, off, true, false, 1, 0"
            raise FlagError(WriteResult.UNREADABLE, detail)
        return value

    async def write(self, on: bool) -> None:
        """Run the command for on or off; raises FlagError unless it ends with 0."""
        command = self._terms.on if on else self._terms.off
        await self._run(command, {"SPECGAUGE_FLAG": "on" if on else "off"})

    async def close(self) -> None:
        """Nothing runs between calls."""

    async def _run(self, command: Sequence[str], more: dict[str, str]) -> str:
        """Run one command and give what it printed on stdout."""
        program = command[0]
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        with _collecting() as output, _collecting() as complaints:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output.sink,
                    stderr=complaints.sink,
                    env={"PATH": _PATH, **kept, **more},
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "it cannot be run"
                fix = "give the whole path of an executable file"
                raise FlagError(WriteResult.IO, f"{program}: {reason}; {fix}") from error
            code = await self._wait(process, program)
            if code != 0:
                said = f", saying {words}" if (words := complaints.text().strip()) else ""
                detail = clean(f"{program} ended with exit code {code}{said}", ())
                raise FlagError(WriteResult.IO, detail)
            return output.text()

    async def _wait(self, process: asyncio.subprocess.Process, program: str) -> int:
        """Wait for the end within the timeout, or end it with all that came of it."""
        try:
            async with asyncio.timeout(self._timeout):
                return await process.wait()
        except TimeoutError as error:
            detail = f"{program} did not end within {self._timeout:g} s and was killed"
            raise FlagError(WriteResult.TIMEOUT, detail) from error
        finally:
            if process.returncode is None:
                end_family(process.pid)
                with suppress(TimeoutError):  # what has other rights than ours goes on
                    async with asyncio.timeout(_LAST):
                        await process.wait()


class _Output:
    """The first bytes that a process prints; what follows is taken and dropped."""

    def __init__(self, source: int, sink: int) -> None:
        self.sink = sink
        self._source = source
        self._taken = bytearray()

    def take(self) -> None:
        """Take what is there; a pipe need not end with its process, which may leave children."""
        with suppress(BlockingIOError):
            piece = os.read(self._source, _MAX_OUTPUT)
            self._taken += piece[: _MAX_OUTPUT - len(self._taken)]

    def text(self) -> str:
        """Give what was printed."""
        self.take()
        return self._taken.decode(errors="replace")


@contextmanager
def _collecting() -> Iterator[_Output]:
    source, sink = os.pipe()
    os.set_blocking(source, False)
    loop = asyncio.get_running_loop()
    output = _Output(source, sink)
    loop.add_reader(source, output.take)
    try:
        yield output
    finally:
        loop.remove_reader(source)
        os.close(source)
        os.close(sink)
