"""Reads the access log for as long as it runs, in pieces small enough to hold up nobody.

The disk is waited for in a thread of its own; lines are taken in between other work of the loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from specgauge.guard.flags.atomic import write_atomically
from specgauge.guard.flags.protocol import FlagError
from specgauge.model.traffic import LineResult, LogState
from specgauge.serve.classes.follow import Follower, Slice
from specgauge.serve.classes.line import read_line
from specgauge.serve.classes.position import load_place, place_bytes
from specgauge.serve.classes.tail import Place
from specgauge.serve.classes.totals import MOST_CLASSES, MOST_POOLS, Totals
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace

POLL_SECONDS = 0.5
_KEEP_SECONDS = 2.0
PATIENCE_SECONDS = 3.0
"""For so long a file may be missing without a word: it is being rotated."""
_BATCH_LINES = 50
"""Lines that are taken in without a break: about a millisecond."""
_REST = 0.5
"""Rest after each piece of a long log, as a share of the time that the piece took."""

_Got = TypeVar("_Got")


class ClassLog:
    """Follows one access log from `start` to `stop`; with a state file it goes on after a restart.

    `totals` grow with every line; `state` and `unread` say how it stands.
    """

    def __init__(
        self,
        path: Path,
        *,
        state_file: Path | None,
        totals: Totals,
        pace: Pace,
        log: Log,
        poll: float = POLL_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.state = LogState.STARTING
        self.unread: int | None = None
        self._path, self._state_file = path, state_file
        self.totals = totals
        self._pace, self._log = pace, log
        self._poll, self._patience = poll, patience
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="access-log")
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._well = self._saved = pace.steady()
        self._kept: Place | None = None
        self._told: set[str] = set()

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._run(), name="access-log")

    async def stop(self, seconds: float = 1.0) -> None:
        """End after the piece at hand; a disk that does not answer is not waited for."""
        self._end.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
            self._task.cancel()
        self._disk.shutdown(wait=False)

    async def _run(self) -> None:
        follower = await self._call(self._open)
        while not self._end.is_set():
            more = await self._piece(follower)
            if not more:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._end.wait(), self._poll)
        await self._keep(follower.place())
        await self._call(follower.close)

    async def _piece(self, follower: Follower) -> bool:
        """Read and take in one piece; whatever happens the loop goes on."""
        try:
            got = await self._call(follower.read)
            busy = await self._take(got.lines)
            self._count(got)
            self._tell(got)
            if self._pace.steady() - self._saved >= _KEEP_SECONDS:
                await self._keep(follower.place())
            if got.more and not self._end.is_set():
                await asyncio.sleep(_REST * busy)
        except Exception:  # noqa: BLE001 - the one loop boundary; the totals are kept
            if "fault" not in self._told:
                self._told.add("fault")
                self._log.fault("class_log_fault")
            return False
        return got.more

    def _call(self, work: Callable[[], _Got]) -> asyncio.Future[_Got]:
        return asyncio.get_running_loop().run_in_executor(self._disk, work)

    def _open(self) -> Follower:
        """Find out where to begin: with a state file nothing is left out."""
        kept = None
        if self._state_file is not None:
            try:
                kept = load_place(self._state_file)
            except (OSError, ValueError) as error:
                self._log.warning(
                    "class_log_state_unreadable", file=self._state_file, problem=str(error)
                )
        own = kept is not None and kept.is_of(self._path)
        self._kept = kept.place if kept is not None and own else None
        return Follower(
            self._path,
            place=None if kept is None else kept.place,
            own=own,
            from_start=self._state_file is not None,
        )

    async def _take(self, lines: Sequence[bytes]) -> float:
        """Take lines in, a few at a time; gives how long the loop had no time for others."""
        busy = 0.0
        for first in range(0, len(lines), _BATCH_LINES):
            began = self._pace.steady()
            for line in lines[first : first + _BATCH_LINES]:
                record = read_line(line)
                if isinstance(record, LineResult):
                    self.totals.count(record)
                else:
                    self.totals.add(record)
            busy += self._pace.steady() - began
            await asyncio.sleep(0)
        return busy

    def _count(self, got: Slice) -> None:
        self.totals.count(LineResult.TOO_LONG, got.too_long)
        self.totals.count(LineResult.CUT, got.cut)
        self.unread = got.unread
        before, now = self.state, self._pace.steady()
        if got.trouble is None:
            self._well, self.state = now, LogState.FOLLOWED
        elif now - self._well >= self._patience:
            missing = isinstance(got.trouble, FileNotFoundError)
            self.state = LogState.MISSING if missing else LogState.UNREADABLE
        if self.state is not before and got.trouble is None:
            self._log.info("class_log_followed", file=self._path)
        elif self.state is not before and got.trouble is not None:
            problem = got.trouble.strerror
            self._log.warning("class_log_unreadable", file=self._path, problem=problem)

    def _tell(self, got: Slice) -> None:
        """Tell of what may have gone missing, and once of what is too much."""
        if got.lost:
            self._log.warning("class_log_lost", file=self._path, problem=got.lost)
        if self.totals.crowded and "crowded" not in self._told:
            self._told.add("crowded")
            self._log.warning(
                "class_log_crowded",
                classes=MOST_CLASSES,
                pools=MOST_POOLS,
                fix="those beyond are counted together as other",
            )

    async def _keep(self, place: Place | None) -> None:
        """Write down where it stands; what cannot be written is told once for as long as it is."""
        self._saved = self._pace.steady()
        file = self._state_file
        if file is None or place is None or place == self._kept:
            return
        try:
            await self._call(lambda: write_atomically(file, place_bytes(place, self._path)))
        except FlagError as error:
            if "state" not in self._told:
                self._told.add("state")
                self._log.warning("class_log_state_failed", problem=str(error))
        else:
            self._kept = place
            self._told.discard("state")
