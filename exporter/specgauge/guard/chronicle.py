"""Takes down what the guard did, in a task of its own: the guard waits for no disk and no Grafana.

What cannot be written is told once for as long as it lasts. Lines of the record wait in memory,
the oldest go first when there are too many; of states only the last one counts.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from specgauge.guard.annotate import Annotator
from specgauge.guard.audit import append
from specgauge.guard.flags.atomic import write_atomically
from specgauge.guard.flags.protocol import FlagError
from specgauge.guard.flags.writer import wait_at_most

_MOST_WAITING = 1000
_RETRY_SECONDS = 5.0
_END_SECONDS = 1.0

Tell = Callable[[str, str], None]
"""Told of a trouble: what failed, and how; an empty text when it is over."""


class Chronicle:
    """Writes the audit file, the state file and annotations, from `start` to `close`."""

    def __init__(
        self,
        *,
        audit_file: Path | None,
        state_file: Path | None,
        annotator: Annotator | None,
        tell: Tell,
        retry: float = _RETRY_SECONDS,
    ) -> None:
        self._audit_file, self._state_file = audit_file, state_file
        self._annotator = annotator
        self._tell = tell
        self._retry = retry
        self._lines: deque[Mapping[str, object]] = deque(maxlen=_MOST_WAITING)
        self._notes: deque[Mapping[str, object]] = deque(maxlen=_MOST_WAITING)
        self._state: str | None = None
        self._troubles: dict[str, str] = {}
        self._wake, self._marked = asyncio.Event(), asyncio.Event()
        self._ending = False
        self._tasks: list[asyncio.Task[None]] = []

    def note(self, line: Mapping[str, object], annotation: Mapping[str, object] | None) -> None:
        """Have a line of the record written, and where it is a change of the flag marked."""
        if self._audit_file is not None:
            self._lines.append(line)
        if self._annotator is not None and annotation is not None:
            self._notes.append(annotation)
            self._marked.set()
        self._wake.set()

    def keep(self, state: str) -> None:
        """Have the state saved; one that still waits is forgotten."""
        if self._state_file is not None:
            self._state = state
            self._wake.set()

    def start(self) -> None:
        """Begin to write."""
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._mark())]

    async def close(self) -> None:
        """End, after at most a second for what still waits; no line is begun a second time."""
        tasks, self._tasks = self._tasks, []
        self._ending = True
        self._wake.set()
        self._marked.set()
        if tasks:
            await asyncio.wait(tasks, timeout=_END_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self) -> None:
        while not self._ending:
            self._wake.clear()
            if await self._flush():
                await self._wake.wait()
            else:
                await wait_at_most(self._wake, self._retry)
        await self._flush()

    async def _flush(self) -> bool:
        """Write what waits; false where something could not be written."""
        return await self._flush_state() & await self._flush_lines()

    async def _flush_state(self) -> bool:
        state, file = self._state, self._state_file
        if state is None or file is None:
            return True
        try:
            await asyncio.to_thread(write_atomically, file, state.encode())
        except FlagError as error:
            return self._trouble("state_file", error.detail)
        if self._state is state:
            self._state = None
        return self._trouble("state_file", "")

    async def _flush_lines(self) -> bool:
        file = self._audit_file
        while file is not None and self._lines:
            line = self._lines[0]
            try:
                await asyncio.to_thread(append, file, line)
            except OSError as error:
                return self._trouble("audit_file", f"{file}: {error.strerror or error}")
            if self._lines and self._lines[0] is line:
                self._lines.popleft()
            self._trouble("audit_file", "")
        return True

    async def _mark(self) -> None:
        """Post annotations one after the other; each is tried once."""
        while not self._ending or self._notes:
            self._marked.clear()
            while self._annotator is not None and self._notes:
                try:
                    await self._annotator.post(self._notes.popleft())
                except FlagError as error:
                    self._trouble("grafana", error.detail)
                else:
                    self._trouble("grafana", "")
            if not self._ending:
                await self._marked.wait()

    def _trouble(self, what: str, detail: str) -> bool:
        """Tell of a trouble that is new or over; whether there is none."""
        if self._troubles.get(what, "") != detail:
            self._troubles[what] = detail
            self._tell(what, detail)
        return not detail
