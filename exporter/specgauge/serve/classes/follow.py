"""Reads a log as it grows, slice by slice, and goes on through rotation; it parses nothing.

Blocking: it belongs in a thread. Whatever the disk does, `read` answers and raises nothing.

Renamed and made anew: the old file is read on until it has been still for a minute, for a router
writes to it until it is told. Copied and cut to nothing: what was not read yet is read from the
copy, which is known by its first bytes. Compressed files are not read.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from specgauge.serve.classes.siblings import (
    Blank,
    files_between,
    files_since,
    find_rotated,
    packed_since,
    see,
    see_none,
    was_cut,
)
from specgauge.serve.classes.tail import Piece, Place, Tail, nothing_since, open_tail

SLICE_BYTES = 128 << 10
LINGER_SECONDS = 60.0
_MOST_OPEN = 8
_MOST_DONE = 64
_CUT_UNSEEN = "the file was cut to nothing before it was read, and no copy of it is there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What one reading brought; `more` while there is no end in sight.

    `trouble` is what keeps the file from being read; `lost` says why lines may have been missed.
    """

    lines: tuple[bytes, ...] = ()
    too_long: int = 0
    cut: int = 0
    more: bool = False
    unread: int | None = None
    trouble: OSError | None = None
    lost: str = ""


class Follower:
    """Follows the file of one path; begins at `place`, else at its start or its end as it is.

    A file that is not there yet is read from its start. A place that is not `own` was kept for
    another path: if this one does not hold it, nothing is lost.
    """

    def __init__(
        self,
        path: Path,
        *,
        place: Place | None = None,
        own: bool = True,
        from_start: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._clock = path, clock
        self._place, self._own, self._from_start = place, own, from_start
        self._leaving: deque[tuple[Tail, float]] = deque()
        self._done: deque[tuple[tuple[int, int], bytes]] = deque(maxlen=_MOST_DONE)
        self._current: Tail | None = None
        self._blank: Blank | None = None
        self._lost = ""

    def read(self) -> Slice:
        """Read the next piece, oldest file first."""
        self._lost, trouble = "", None
        piece, cut, unread = Piece(), 0, None
        try:
            self._look()
        except OSError as error:
            trouble = error
            self._from_start |= isinstance(error, FileNotFoundError)
        try:
            piece = self._next()
            cut = self._let_go()
            unread = sum(tail.unread() for tail in self._tails())
        except OSError as error:  # the disk fails: what is open is of no use any more
            trouble = error
            self._place, self._own = self.place(), True
            self.close()
        return Slice(
            lines=piece.lines,
            too_long=piece.too_long,
            cut=cut,
            more=piece.size > 0,
            unread=unread if trouble is None else None,
            trouble=trouble,
            lost=self._lost,
        )

    def place(self) -> Place | None:
        """Say where to go on after a restart; asks no disk."""
        leaving = [tail for tail, _ in self._leaving]
        if self._current is None or self._current.is_empty:
            behind = next((tail for tail in leaving if not tail.is_done), None)
            last = behind or (leaving[-1] if leaving else None)
            return last.place() if last is not None else self._place_of_nothing()
        return self._current.place()

    def _place_of_nothing(self) -> Place | None:
        """Say since when there was nothing to read, or what was known before there was a file."""
        current = self._current
        if current is None and self._own and self._place is not None:
            return self._place
        if self._blank is not None:
            return nothing_since(self._blank.modified)
        return None if current is None else current.place()

    def close(self) -> None:
        """Close every file."""
        for tail in self._tails():
            tail.close()
        self._leaving.clear()
        self._current = self._blank = None

    def _tails(self) -> Iterator[Tail]:
        yield from (tail for tail, _ in self._leaving)
        if self._current is not None:
            yield self._current

    def _look(self) -> None:
        """See which file the path is now, and whether it is what it was."""
        current = self._current
        try:
            found = self._path.stat()
        except FileNotFoundError:
            if current is None and self._blank is None:
                self._blank = see_none(self._path)
            raise
        if current is None:
            self._begin(open_tail(self._path))
        elif (found.st_dev, found.st_ino) != current.identity:
            made = open_tail(self._path)
            self._leave(current)
            if not self._pick_up(current, made) and was_cut(found):
                self._lost = _CUT_UNSEEN
            self._current, self._blank = made, None
        elif current.is_other():
            self._cut_short(current)
        self._watch_blank(found)

    def _watch_blank(self, found: os.stat_result) -> None:
        """Find what a log held between two looks, if it was empty or missing at both or began."""
        current, blank = self._current, self._blank
        if current is None or (blank is None and current.head):
            return
        if blank is not None and not current.head and found.st_mtime_ns <= blank.modified:
            return
        self._blank = None if current.head else see(self._path, found.st_mtime_ns)
        if blank is None:
            return
        since = files_since(self._path, blank, current)
        for tail in since:
            if not tail.head or any(tail.identity == one.identity for one in self._tails()):
                tail.close()
            else:
                self._leave(tail)
        if packed := packed_since(self._path, blank):
            self._lost = f"what the file held is in {packed}, and was not read before that was made"
        elif not since and was_cut(found):
            self._lost = _CUT_UNSEEN

    def _begin(self, made: Tail) -> None:
        """Go on at the place, or where a first reading begins."""
        self._current = made
        place, own, self._own = self._place, self._own, True
        if place is None and not self._from_start:
            made.skip_to_end()
        elif place is None:
            return
        elif not place.head_bytes:
            if own and place.modified is not None:
                self._blank = Blank(modified=place.modified)
        elif made.matches(place):
            made.go_to(place.offset)
        elif older := find_rotated(self._path, lambda tail: tail.matches(place)):
            older.go_to(place.offset)
            self._leave(older)
            self._pick_up(older, made)
        elif own:
            self._lost = "the file that was read last is not there any more"

    def _cut_short(self, current: Tail) -> None:
        """Read what is left from the copy, and the file from its new start."""
        if current.head and current.still_begins_so():
            current.skip_to_end()  # only its end was cut off: nothing is read twice
            return
        if current.head:
            copy = find_rotated(self._path, current.is_copied_in)
            if copy is None:
                self._lost = "the file was cut to nothing, and no copy of it is there"
            else:
                copy.go_on_like(current)
                self._leave(copy)
                self._pick_up(copy, current)
        current.start_anew()

    def _pick_up(self, older: Tail, newest: Tail) -> bool:
        """Read the files, too, that came and went between two looks; tells whether any did."""
        between = files_between(self._path, older, newest)
        for tail in between:
            known = any(tail.identity == one.identity for one in self._tails())
            if known or any(tail.identity == one and tail.begins(h) for one, h in self._done):
                tail.close()
            else:
                self._leave(tail)
        return bool(between)

    def _leave(self, tail: Tail) -> None:
        self._leaving.append((tail, self._clock()))

    def _next(self) -> Piece:
        """Read from the oldest file that has something."""
        for number, (tail, _) in enumerate(self._leaving):
            piece = tail.read(SLICE_BYTES)
            if piece.size:
                self._leaving[number] = (tail, self._clock())
                return piece
        return self._current.read(SLICE_BYTES) if self._current is not None else Piece()

    def _let_go(self) -> int:
        """Close old files that nobody writes to any more; gives how many ended within a line.

        While nothing is in the new one the writer has not been told of it.
        """
        cut, now = 0, self._clock()
        told = self._current is not None and not self._current.is_empty
        for tail, since in list(self._leaving):
            still = told and now - since >= LINGER_SECONDS
            if (still or len(self._leaving) > _MOST_OPEN) and tail.unread() == 0:
                cut += tail.is_within_line
                self._done.append((tail.identity, tail.head))
                self._leaving.remove((tail, since))
                tail.close()
        return cut
