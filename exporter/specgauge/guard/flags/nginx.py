"""Writes an include file of nginx and has nginx load it; puts the old one back where that fails.

nginx cannot be asked what it has loaded. Beside the file lies a note from before the first byte is
written until nginx has taken the reload: while it lies there nobody knows which text is in force,
so the flag reads as unverified, and the note keeps the text to put back. Its name begins with a
dot, which `include folder/*` passes over.
"""

import asyncio
import json
import os
import re
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from specgauge.errors import ConfigError
from specgauge.guard.flags.atomic import fault, write_atomically
from specgauge.guard.flags.http_failures import clean
from specgauge.guard.flags.protocol import FlagError, WriteResult

T = TypeVar("T")
_MAX_TEXT = 1024 * 1024
_SAID = 8192
_LOGGED = re.compile(r".*?(\[(?:emerg|alert|crit|error)\]) (?:\d+#\d+: )?")
_KEPT = ("HOME", "LANG", "TZ")
_PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class NginxTerms:
    """The keys of `flag.nginx`: the file, its whole text for each value, and two commands."""

    file: str
    on: str
    off: str
    test: Sequence[str] = ("nginx", "-t")
    reload: Sequence[str] = ("nginx", "-s", "reload")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What to put back, None for no file; `sure` where nothing was in doubt before this write."""

    text: str | None
    sure: bool


def faults(terms: NginxTerms) -> tuple[str, ...]:
    """Find what is wrong with the terms, each fault with its path in the configuration."""
    commands = (("test", terms.test), ("reload", terms.reload))
    found = [f"flag.nginx.{key}: it names no program" for key, command in commands if not command]
    if terms.on.strip() == terms.off.strip():
        found.append("flag.nginx.on: it is the same text as off; write two that differ")
    return tuple(found)


class Nginx:
    """One flag in one include file; no shell is asked."""

    name = "nginx"
    can_read = True

    def __init__(self, terms: NginxTerms, *, timeout: float = 5.0) -> None:
        found = faults(terms)
        if found:
            raise ConfigError(found)
        self._terms = terms
        self._file = Path(terms.file)
        self._note = self._file.with_name(f".{self._file.name}.reload-pending")
        self._texts = {True: _ended(terms.on), False: _ended(terms.off)}
        self._timeout = timeout
        self._turn = 0

    @property
    def place(self) -> str:
        """The include file."""
        return str(self._file)

    async def read(self) -> bool | None:
        """Tell which text nginx has loaded; None where the file is missing or empty."""
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.to_thread(self._read)
        except TimeoutError as error:
            raise self._late("the disk gave no answer") from error

    async def write(self, on: bool) -> None:
        """Write, test and reload, whatever the file held; FlagError where one of them fails."""
        self._turn += 1
        turn = self._turn
        before: _Before | None = None
        stage = "the disk gave no answer"
        try:
            async with asyncio.timeout(self._timeout):
                before = await asyncio.to_thread(self._begin)
                await asyncio.to_thread(self._put, self._texts[on], lambda: turn == self._turn)
                stage = f"{self._terms.test[0]} did not end its test"
                await self._run(self._terms.test, "its test")
                stage = f"{self._terms.reload[0]} did not end its reload"
                before = _Before(text=before.text, sure=False)
                await self._run(self._terms.reload, "the reload")
                await asyncio.to_thread(self._settle)
        except TimeoutError as error:
            await self._put_back(before)
            raise self._late(stage) from error
        except FlagError:
            await self._put_back(before)
            raise

    async def close(self) -> None:
        """Nothing runs between calls."""

    def _read(self) -> bool | None:
        if self._note.exists():
            detail = f"{self._file}: nginx may not have loaded it, a reload failed or was cut off"
            raise FlagError(WriteResult.UNVERIFIED, f"{detail}; the next write reloads it")
        text = self._text()
        if text is None or not text.strip():
            return None
        for value, ours in self._texts.items():
            if text.strip() == ours.strip():
                return value
        detail = f"{self._file} holds neither the text for on nor the one for off"
        raise FlagError(WriteResult.UNREADABLE, f"{detail}; correct flag.nginx or the file")

    def _begin(self) -> _Before:
        """Leave the note, or take up the one that an earlier write left."""
        try:
            kept = json.loads(self._note.read_text())["before"]
            return _Before(text=kept if isinstance(kept, str) else None, sure=False)
        except FileNotFoundError:
            sure = True
        except OSError as error:
            raise fault("cannot be read", self._note, error) from error
        except (ValueError, KeyError, TypeError):
            sure = False  # what was put back last time is the best that is left
        before = _Before(text=self._text(), sure=sure)
        write_atomically(self._note, json.dumps({"before": before.text}).encode())
        return before

    def _text(self) -> str | None:
        try:
            with self._file.open(encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(_MAX_TEXT + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise fault("cannot be read", self._file, error) from error
        if len(text) > _MAX_TEXT:
            detail = f"{self._file} is larger than any text of ours; is it the right file?"
            raise FlagError(WriteResult.UNREADABLE, detail)
        return text

    def _settle(self) -> None:
        """Take the note away: nginx was told."""
        try:
            self._note.unlink(missing_ok=True)
        except OSError as error:
            raise fault("cannot be removed", self._note, error) from error

    def _put(self, text: str, wanted: Callable[[], bool] | None = None) -> None:
        data = text.encode(errors="surrogateescape")
        write_atomically(self._file, data, wanted=wanted)

    async def _put_back(self, before: _Before | None) -> None:
        """Put the old text back; the note goes where nginx was never told of the new one."""
        self._turn += 1  # a write that hangs may not come through after this
        if before is None:
            return

        def work() -> None:
            if before.text is None:
                self._file.unlink(missing_ok=True)
            else:
                self._put(before.text)
            if before.sure:
                self._note.unlink(missing_ok=True)

        with suppress(FlagError, OSError):  # what failed first has the better words
            await asyncio.to_thread(work)

    async def _run(self, command: Sequence[str], what: str) -> None:
        """Run one command to its end; FlagError with nginx's first complaint where it fails."""
        path = f"{os.environ.get('PATH', '')}:{_PATHS}".strip(":")
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        with _memory() as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={"PATH": path, **kept},
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "it cannot be run"
                fix = "give the whole path of the program"
                raise FlagError(WriteResult.IO, f"{command[0]}: {reason}; {fix}") from error
            code = await _wait(process)
            if code != 0:
                said = _complaint(output) or f"exit code {code}"
                raise FlagError(WriteResult.REFUSED, clean(f"{self._file}: {what}: {said}", ()))

    def _late(self, stage: str) -> FlagError:
        detail = f"{self._file}: {stage} within {self._timeout:g} s"
        return FlagError(WriteResult.TIMEOUT, detail)


async def _wait(process: asyncio.subprocess.Process) -> int:
    """Wait for the end; where the wait is cut short the whole group ends."""
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _memory() -> IO[bytes]:
    """Open a file that needs no disk: the root of a container may be read-only."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("output"), "w+b")
    return tempfile.TemporaryFile()


def _complaint(output: IO[bytes]) -> str:
    """Give the first line that says why; warnings may stand before it."""
    output.seek(0)
    lines = output.read(_SAID).decode(errors="replace").splitlines()
    said = [line.strip() for line in lines if line.strip()]
    grave = [_LOGGED.sub(r"nginx: \1 ", line) for line in said if _LOGGED.match(line)]
    return next(iter([*grave, *said]), "")


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
