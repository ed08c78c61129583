"""Makes a flag what is wanted of it, however long that takes; it decides nothing.

It is level-triggered: what counts is the last value wanted. A value that was confirmed is not
written again; what others make of the flag later is told and not fought. A write of ours whose
end is not known may still come true, minutes later: what it then undoes is written once more. A
read-back that fails leaves the last confirmed value standing, with its time: not to see a flag
says nothing of it.

Longer than others: what is known of a flag changes in one place, between one await and the next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import random
from time import time
from typing import TypeVar

from specgauge.guard.flags.protocol import FlagBackend, FlagError, WriteResult
from specgauge.guard.flags.retry import wait_after

T = TypeVar("T")
LATE = 300.0
"""For so many seconds a write that had no clear end may still come true."""

_NO_END = frozenset(
    {
        WriteResult.TIMEOUT,
        WriteResult.UNREACHABLE,
        WriteResult.SERVER_ERROR,
        WriteResult.UNREADABLE,
        WriteResult.UNVERIFIED,
    }
)
_GRACE = 1.0  # a backend's own timeout has the better words


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt that ended, for log and counters; `wrote` is false where it already was so.

    `detail` is what went wrong; beside `ok` it says why there is only the answer's word.
    """

    time: float
    wanted: bool
    result: WriteResult
    detail: str = ""
    wrote: bool = True
    on_the_word: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagView:
    """Where the flag stands; times on the writer's clock.

    `confirmed` is the flag as last seen, at `confirmed_at`; `on_the_word` says that this was an
    answer's word and no read-back. `attempts` counts writes by how they ended. `pending_since` is
    set while what is wanted is unconfirmed. `read_error` is why the last look failed. `given_up` is
    what was wanted and unconfirmed when nothing was to be written any more.
    """

    desired: bool | None = None
    confirmed: bool | None = None
    confirmed_at: float | None = None
    on_the_word: bool = False
    attempts: Mapping[WriteResult, int] = field(default_factory=dict)
    last_error: str = ""
    read_error: str = ""
    pending_since: float | None = None
    changed_elsewhere: bool = False
    given_up: bool | None = None


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not longer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class FlagWriter:
    """Owns a backend and the task that writes to it, from `start` to `close`."""

    def __init__(
        self,
        backend: FlagBackend,
        *,
        timeout: float = 5.0,
        check_interval: float = 30.0,
        clock: Callable[[], float] = time,
        pause: Callable[[asyncio.Event, float], Awaitable[None]] = wait_at_most,
        jitter: Callable[[], float] = random,
        on_attempt: Callable[[Attempt], None] = lambda _: None,
        on_changed_elsewhere: Callable[[bool | None], None] = lambda _: None,
    ) -> None:
        self._backend = backend
        self._limit = timeout + _GRACE
        self._check_interval = check_interval
        self._clock = clock
        self._pause = pause
        self._jitter = jitter
        self._on_attempt = on_attempt
        self._on_changed_elsewhere = on_changed_elsewhere
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._desired: bool | None = None
        self._done = False  # the desired value was confirmed
        self._confirmed: bool | None = None
        self._confirmed_at: float | None = None
        self._on_the_word = False
        self._wrote: bool | None = None  # the last value that was asked for
        self._in_doubt = True  # something was written since the last confirmation
        self._late: list[tuple[float, bool]] = []  # writes without a clear end: when, and of what
        self._failures = 0
        self._counts = dict.fromkeys(WriteResult, 0)
        self._last_error = ""
        self._read_error = ""
        self._pending_since: float | None = None
        self._changed_elsewhere = False
        self._given_up: bool | None = None
        self._held = False

    @property
    def backend(self) -> FlagBackend:
        """The backend, for its name and place."""
        return self._backend

    def view(self) -> FlagView:
        """Show where the flag stands."""
        return FlagView(
            desired=self._desired,
            confirmed=self._confirmed,
            confirmed_at=self._confirmed_at,
            on_the_word=self._on_the_word,
            attempts=dict(self._counts),
            last_error=self._last_error,
            read_error=self._read_error,
            pending_since=self._pending_since,
            changed_elsewhere=self._changed_elsewhere,
            given_up=self._given_up,
        )

    def want(self, *, on: bool) -> None:
        """Say what the flag is to be; a new value, or one that others undid, is tried at once."""
        if on is self._desired and not self._changed_elsewhere:
            return
        self._desired, self._given_up = on, None
        self._done = False
        self._failures = 0
        self._changed_elsewhere = False
        self._pending_since = self._clock()
        self._wake.set()

    def adopt(self, *, on: bool) -> None:
        """Take what the flag reads for what is wanted: nothing is written."""
        self._desired, self._done = on, True
        self._wrote, self._late = None, []
        self._last_error, self._pending_since = "", None
        self._changed_elsewhere, self._given_up = False, None

    def give_up(self) -> bool | None:
        """Want nothing any more; gives the value that was wanted and not confirmed, if any.

        An attempt under way is broken off. Where it has already gone out it may still come true.
        """
        pending = None if self._done else self._desired
        self._desired, self._done, self._given_up = None, False, pending
        self._last_error, self._pending_since = "", None
        self._changed_elsewhere, self._late = False, []
        if pending is not None and self._task is not None:
            self._break_off(self._task)
        return pending

    def _break_off(self, task: asyncio.Task[None]) -> None:
        """End the task and go on in another one."""
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        task.cancel()
        self._task = asyncio.create_task(self.run(), name="flag-writer")

    def hold(self, *, held: bool) -> None:
        """Begin no write while this holds; what is wanted stays so, and is written afterwards."""
        if self._held and not held:
            self._wake.set()
        self._held = held

    async def look(self) -> bool | None:
        """Read the flag once, before anything is wanted; None where it is unset or unreadable."""
        if not self._backend.can_read:
            return None
        try:
            self._see(await self._bounded(self._backend.read()))
        except FlagError as error:
            self._read_error = error.detail
            return None
        return self._confirmed

    def start(self) -> None:
        """Begin to write what is wanted, in a task of its own."""
        if self._task is None:
            self._task = asyncio.create_task(self.run(), name="flag-writer")

    async def close(self) -> None:
        """End the task and give up the backend; what is still wanted stays unwritten."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, *self._ending, return_exceptions=True)
        with suppress(FlagError):
            await self._bounded(self._backend.close())

    async def run(self) -> None:
        """Bring the flag where it is wanted and keep looking at it, until cancelled."""
        if self._ending:
            await asyncio.wait(set(self._ending))
        while True:
            self._wake.clear()
            delay = await self._round()
            await self._pause(self._wake, delay)

    async def _round(self) -> float:
        """Do what is to be done now and say after how many seconds to come again."""
        wanted = self._desired
        if wanted is None or self._done or self._held:
            await self._check()
            if wanted is None or self._done or self._held:
                return self._check_interval
        try:
            await self._bring(wanted)
        except FlagError as error:
            self._failures += 1
            self._last_error = error.detail
            self._count(wanted, error.result, error.detail)
            return wait_after(self._failures, error.retry_after, self._jitter())
        return self._check_interval

    async def _bring(self, wanted: bool) -> None:
        """Make one attempt: look, write, look again; raise FlagError unless it is confirmed."""
        if await self._is_so(wanted):
            self._confirm(wanted, on_the_word=self._on_the_word)
            attempt = Attempt(time=self._clock(), wanted=wanted, result=WriteResult.OK, wrote=False)
            self._on_attempt(attempt)
            return
        self._wrote, self._in_doubt = wanted, True
        try:
            await self._write(wanted)
        except FlagError as error:
            if error.result in _NO_END:
                self._late.append((self._clock(), wanted))
            raise

    async def _write(self, wanted: bool) -> None:
        """Write once and see whether it is so."""
        stated = await self._bounded(self._backend.write(wanted))
        on_the_word = not self._backend.can_read
        if self._backend.can_read:
            try:
                found = await self._bounded(self._backend.read())
            except FlagError as error:
                self._read_error = error.detail
                if stated is not wanted:
                    detail = f"written, but the read-back failed: {error.detail}"
                    raise FlagError(WriteResult.UNVERIFIED, detail, error.retry_after) from error
                on_the_word = True
            else:
                self._see(found)
                if found is not wanted:
                    shown = {True: "on", False: "off", None: "unset"}[found]
                    detail = f"{self._backend.place}: written, but the read-back says {shown}"
                    raise FlagError(WriteResult.UNVERIFIED, detail)
        self._confirm(wanted, on_the_word=on_the_word)
        self._count(wanted, WriteResult.OK, self._read_error if on_the_word else "")

    async def _is_so(self, wanted: bool) -> bool:
        """Tell whether nothing needs to be written.

        After a write of ours to the contrary only a store that lags behind can say so.
        """
        if self._wrote is not None and self._wrote is not wanted:
            return False
        if not self._backend.can_read:
            return not self._in_doubt and self._confirmed is wanted
        try:
            found = await self._bounded(self._backend.read())
        except FlagError as error:
            self._read_error = error.detail
            if error.result is WriteResult.TOO_MANY:
                raise
            return False  # what cannot be read can perhaps be written
        self._see(found)
        return found is wanted

    async def _check(self) -> None:
        """Look whether the flag is still what it was."""
        if not self._backend.can_read:
            return
        try:
            found = await self._bounded(self._backend.read())
        except FlagError as error:
            self._read_error = error.detail
            return
        self._see(found)
        elsewhere = self._done and found is not self._desired
        if elsewhere and self._is_our_own(found):
            self._done = False
            self._failures = 0
            self._pending_since = self._clock()
            self._changed_elsewhere = False
            return
        if elsewhere and not self._changed_elsewhere:
            self._on_changed_elsewhere(found)
        self._changed_elsewhere = elsewhere

    def _is_our_own(self, found: bool | None) -> bool:
        """Tell whether a late write of ours may have made the flag so; each counts once."""
        self._late = [one for one in self._late if self._clock() - one[0] <= LATE]
        ours = next((one for one in self._late if one[1] is found), None)
        if ours is not None:
            self._late.remove(ours)
        return ours is not None

    def _see(self, found: bool | None) -> None:
        self._confirmed = found
        self._confirmed_at = self._clock()
        self._on_the_word = False
        self._read_error = ""

    def _confirm(self, wanted: bool, *, on_the_word: bool) -> None:
        self._confirmed = wanted
        self._confirmed_at = self._clock()
        self._on_the_word = on_the_word
        self._in_doubt = False
        if wanted is self._desired:
            self._done = True
            self._failures = 0
            self._last_error = ""
            self._pending_since = None

    def _count(self, wanted: bool, result: WriteResult, detail: str) -> None:
        self._counts[result] += 1
        self._on_attempt(
            Attempt(
                time=self._clock(),
                wanted=wanted,
                result=result,
                detail=detail,
                on_the_word=result is WriteResult.OK and self._on_the_word,
            )
        )

    async def _bounded(self, call: Awaitable[T]) -> T:
        """Wait for a backend; whatever it does, this ends in time and raises FlagError alone."""
        try:
            async with asyncio.timeout(self._limit):
                return await call
        except FlagError:
            raise
        except TimeoutError as error:
            detail = f"{self._backend.place}: no end within {self._limit:g} s"
            raise FlagError(WriteResult.TIMEOUT, detail) from error
        except Exception as error:
            detail = f"{self._backend.place}: {self._backend.name} failed: {type(error).__name__}"
            raise FlagError(WriteResult.IO, detail) from error
