"""Holds what classes of traffic add up to, whichever access log is followed at the time."""

import asyncio
from pathlib import Path

from specgauge.model.traffic import ClassesView, LogState
from specgauge.serve.classes.reading import ClassLog
from specgauge.serve.classes.totals import Totals
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace


class ClassDesk:
    """Reads at most one log at a time, until it is closed; totals go on when it changes."""

    def __init__(self, *, pace: Pace, log: Log) -> None:
        self._pace, self._log = pace, log
        self._totals: Totals | None = None
        self._reading: ClassLog | None = None
        self._files: tuple[str | None, str | None] = (None, None)
        self._ending: set[asyncio.Task[None]] = set()
        self._view: ClassesView | None = None
        self._seen: tuple[int, LogState, int | None] | None = None

    @property
    def view(self) -> ClassesView | None:
        """What is known now; None where no log was ever followed."""
        totals = self._totals
        if totals is None:
            return None
        reading = self._reading
        state = LogState.OFF if reading is None else reading.state
        unread = None if reading is None else reading.unread
        if self._seen != (totals.lines, state, unread):
            self._seen = (totals.lines, state, unread)
            self._view = totals.view(state, unread)
        return self._view

    def follow(self, file: str | None, state_file: str | None) -> None:
        """Follow this file from now on, or none; the same one goes on undisturbed."""
        if (file, state_file) == self._files:
            return
        self._files = (file, state_file)
        before, self._reading = self._reading, None
        if before is not None:
            self._end(before)
        if file is None:
            return
        self._totals = self._totals or Totals(since=self._pace.unix())
        self._reading = ClassLog(
            Path(file),
            state_file=None if state_file is None else Path(state_file),
            totals=self._totals,
            pace=self._pace,
            log=self._log,
        )
        self._reading.start()

    async def close(self) -> None:
        """End the reading; what was read last is kept."""
        if self._reading is not None:
            self._end(self._reading)
        if self._ending:
            await asyncio.wait(self._ending)

    def _end(self, reading: ClassLog) -> None:
        task = asyncio.create_task(reading.stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
