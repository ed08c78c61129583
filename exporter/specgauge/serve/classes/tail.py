"""One open log file: reads whole lines from it, and knows it again by its first bytes.

It knows nothing of other files; `follow` does.
"""

import hashlib
import os
import stat
from dataclasses import dataclass
from errno import EINVAL, EISDIR
from pathlib import Path

LONGEST_LINE = 64 << 10
_HEAD_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where reading goes on: how far into the file that begins so.

    A file that held nothing has no beginning; `modified` says when it was last written to then.
    """

    offset: int
    head_bytes: int
    head_sha256: str
    modified: int | None = None


def nothing_since(modified: int) -> Place:
    """Make the place in a log that holds nothing since then."""
    nothing = hashlib.sha256(b"").hexdigest()
    return Place(offset=0, head_bytes=0, head_sha256=nothing, modified=modified)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole lines without their ends, and how many bytes they were read from."""

    lines: tuple[bytes, ...] = ()
    too_long: int = 0
    size: int = 0


def open_tail(path: Path) -> "Tail":
    """Open a regular file at its start; raises OSError for any other and never waits for one."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        os.close(number)
        wrong = EISDIR if stat.S_ISDIR(found.st_mode) else EINVAL
        raise OSError(wrong, "not a regular file")
    return Tail(number, identity=(found.st_dev, found.st_ino))


class Tail:
    """An open file and how far it was read; `is_done` once the last reading found nothing more."""

    def __init__(self, number: int, *, identity: tuple[int, int]) -> None:
        self._number = number
        self.identity = identity
        self.head = b""
        self.is_done = False
        self._at = 0
        self._pending = b""
        self._skipping = False
        self._learn()

    @property
    def offset(self) -> int:
        """Where the first line begins that was not given yet."""
        return self._at - len(self._pending)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever read from it."""
        return self._at == 0

    @property
    def modified(self) -> int:
        """When it was last written to, in nanoseconds."""
        return os.fstat(self._number).st_mtime_ns

    @property
    def is_within_line(self) -> bool:
        """Whether it was read into a line whose end is not there."""
        return bool(self._pending) or self._skipping

    def close(self) -> None:
        """Close it."""
        os.close(self._number)

    def unread(self) -> int:
        """Say how many bytes were not read yet."""
        return max(os.fstat(self._number).st_size - self._at, 0)

    def read(self, size: int) -> Piece:
        """Read on; a line that is too long is left out and counted once, at its beginning."""
        data = os.pread(self._number, size, self._at)
        self.is_done = not data
        if not data:
            return Piece()
        self._learn()
        self._at += len(data)
        *ended, rest = data.split(b"\n")
        lines, too_long = [], 0
        if ended:
            if not self._skipping:
                lines.append(self._pending + ended[0])
            lines += ended[1:]
            self._pending, self._skipping = rest, False
        elif not self._skipping:
            self._pending += rest
        if len(self._pending) > LONGEST_LINE:
            self._pending, self._skipping, too_long = b"", True, 1
        kept = tuple(line for line in lines if len(line) <= LONGEST_LINE)
        return Piece(lines=kept, too_long=too_long + len(lines) - len(kept), size=len(data))

    def is_other(self) -> bool:
        """Tell whether it was cut, even where it has grown beyond where it was read since."""
        return not (self.reaches(self._at) and self.still_begins_so())

    def still_begins_so(self) -> bool:
        """Tell whether its first bytes are what they were; an empty file had none."""
        if not self.head:
            self._learn()
        return os.pread(self._number, len(self.head), 0) == self.head

    def begins(self, head: bytes) -> bool:
        """Tell whether it begins so; nothing begins with nothing."""
        return head != b"" and self.head.startswith(head)

    def is_copied_in(self, other: "Tail") -> bool:
        """Tell whether another file is a copy of what this one was, with all that was read."""
        return other.begins(self.head) and other.reaches(self._at)

    def place(self) -> Place:
        """Say where it stands."""
        head = self.head[: self.offset]
        return Place(
            offset=self.offset, head_bytes=len(head), head_sha256=hashlib.sha256(head).hexdigest()
        )

    def matches(self, place: Place) -> bool:
        """Tell whether it is the file of a place, and reaches as far."""
        head = os.pread(self._number, place.head_bytes, 0)
        same = hashlib.sha256(head).hexdigest() == place.head_sha256
        return same and self.reaches(place.offset)

    def reaches(self, offset: int) -> bool:
        """Tell whether it is that long."""
        return os.fstat(self._number).st_size >= offset

    def go_to(self, offset: int) -> None:
        """Read on from an offset; the rest of a line that began before it is left out."""
        self._at, self._pending = offset, b""
        self._skipping = offset > 0 and os.pread(self._number, 1, offset - 1) != b"\n"

    def skip_to_end(self) -> None:
        """Leave out what is there, with a line that is being written."""
        self.go_to(os.fstat(self._number).st_size)

    def go_on_like(self, other: "Tail") -> None:
        """Read on from where another file with the same beginning was left."""
        self._at, self._pending = other._at, other._pending  # noqa: SLF001 - its own class
        self._skipping = other._skipping  # noqa: SLF001 - its own class

    def start_anew(self) -> None:
        """Read it from its start, as another file."""
        self.head = b""
        self.go_to(0)
        self._learn()

    def _learn(self) -> None:
        """Keep its first bytes, as many as there are."""
        if len(self.head) < _HEAD_BYTES:
            found = os.pread(self._number, _HEAD_BYTES, 0)
            if found.startswith(self.head):  # else it is another file by now
                self.head = found
