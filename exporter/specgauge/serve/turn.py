"""Whose turn it is to write a flag that several processes guard; it decides nothing itself.

One holds the lock and guards; the others look at what the flag reads until that one has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from specgauge.guard.lock import WriterLock
from specgauge.serve.log import Log

TRY_SECONDS = 2.0
"""So long after the holder's end, at most, another one has the lock."""


class WriterTurn:
    """Without a file it is always this process's turn."""

    def __init__(self, file: Path | None, *, log: Log, seconds: float = TRY_SECONDS) -> None:
        self._lock = None if file is None else WriterLock(file)
        self._log = log
        self._seconds = seconds
        self._told: str | None = None

    @property
    def ours(self) -> bool:
        """Whether this process may decide and write."""
        return self._lock is None or self._lock.held

    def lost(self) -> bool:
        """Look again whether a lock that was held still is: its file may have been replaced."""
        if self._lock is None or not self._lock.held or self._lock.take():
            return False
        self._log.warning("guard_lock_lost", file=self._lock.file)
        self._told = None
        return True

    async def come(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Wait for the turn; `meanwhile` is done after every try that was in vain."""
        lock = self._lock
        while lock is not None and not lock.take():
            self._tell(lock)
            await meanwhile()
            await asyncio.sleep(self._seconds)
        if lock is not None:
            self._told = None
            self._log.info("guard_lock_held", file=lock.file)

    def end(self) -> None:
        """Let another process have its turn."""
        if self._lock is not None:
            self._lock.release()

    def _tell(self, lock: WriterLock) -> None:
        """Log once why it is not our turn."""
        said = lock.problem or "another process"
        if said == self._told:
            return
        self._told = said
        if lock.problem:
            self._log.warning("guard_lock_unusable", problem=lock.problem)
        else:
            self._log.info("guard_follows", file=lock.file, holder=lock.holder())
