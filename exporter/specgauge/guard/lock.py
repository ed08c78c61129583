"""One writer at a time among processes that share a flag: a lock on a file; it decides nothing.

The lock is the kernel's and goes with the process, however that ends. The file stays: what it
holds is for people. On a network file system it is as good as that system's locks.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class WriterLock:
    """A lock that is tried for until it is had, and then kept; nothing here waits.

    `problem` says why it cannot be had where that is not because another process has it.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.problem = ""
        self._held: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process is the one writer, as of the last try."""
        return self._held is not None

    def take(self) -> bool:
        """Try for the lock and tell whether it is held; call it before every decision.

        A file that was removed or replaced holds nobody else off: its lock is given up.
        """
        self.problem = ""
        try:
            if self._held is not None and not _is_at(self._held, self.file):
                self.release()
            if self._held is None:
                self._held = _lock(self.file)
        except OSError as error:
            self.release()
            self.problem = f"{self.file}: {error.strerror or error}; guard.lock_file must be usable"
        return self.held

    def holder(self) -> str:
        """Give the process that wrote itself down last, for people; empty where none did."""
        try:
            return self.file.read_bytes()[:64].decode(errors="replace").strip()
        except OSError:
            return ""

    def release(self) -> None:
        """Let go of the lock, so that another process may have it."""
        if self._held is not None:
            with suppress(OSError):
                os.close(self._held)
        self._held = None


def _lock(file: Path) -> int | None:
    """Open and lock a file; None where another process holds it. Children do not inherit it."""
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(opened, file):
            os.close(opened)
            return None
    except BlockingIOError:
        os.close(opened)
        return None
    except OSError:
        os.close(opened)
        raise
    with suppress(OSError):  # what it says is for people only
        os.ftruncate(opened, 0)
        os.pwrite(opened, f"pid {os.getpid()}\n".encode(), 0)
    return opened


def _is_at(opened: int, file: Path) -> bool:
    """Tell whether an open file is the one that stands at the path."""
    try:
        return os.path.samestat(os.fstat(opened), file.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
