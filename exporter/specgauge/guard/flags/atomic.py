"""Puts a file in place whole or not at all, and on disk before it counts; it reads nothing."""

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from specgauge.guard.flags.protocol import FlagError, WriteResult

_READABLE = 0o644
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def write_atomically(path: Path, data: bytes, *, wanted: Callable[[], bool] | None = None) -> None:
    """Replace `path` by `data` with the rights it had; raise FlagError and change nothing.

    What is there and no file, as a device, is not replaced.
    `wanted` is asked last, so that a write that hung does not undo one that came after it.
    """
    try:
        path = path.resolve()  # what a link points to is replaced, not the link
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OSError(errno.EINVAL, "not a regular file")  # noqa: TRY301 - one way to tell
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(number, _rights(path))
                os.fsync(number)
            if wanted is None or wanted():
                Path(name).replace(path)
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()
        _sync_folder(path.parent)
    except OSError as error:
        raise fault("cannot be written", path, error) from error


def fault(what: str, path: Path, error: OSError) -> FlagError:
    """Make the error that names the file, what the system said and what to mend."""
    if error.errno in _FULL:
        fix = f"make room on the disk of {path.parent}"
    elif error.errno in _FORBIDDEN:
        fix = f"let this user write in {path.parent}"
    elif error.errno == errno.ENOENT:
        fix = f"create the folder {path.parent}"
    else:
        fix = "check the path"
    return FlagError(WriteResult.IO, f"{path} {what}: {error.strerror or error}; {fix}")


def _rights(path: Path) -> int:
    """Give the rights the file has now; a new one may be read by whoever obeys it."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return _READABLE


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
