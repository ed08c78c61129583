"""The folder of a sweep: its file, its servers' logs, who runs it, and which server is up.

Reads and writes files; what is in them is decided elsewhere.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from specgauge.baseline.files import load_text, write_atomically
from specgauge.errors import BaselineError, UsageError
from specgauge.preflight.sweep.processes import Root
from specgauge.preflight.sweep.schema import Kept, parse

RESULT = "sweep.json"
_SERVER = "server.json"
_LOCK = ".lock"
_TAIL_BYTES = 16384
_TAIL_LINES = 12


class Folder:
    """Where one sweep keeps everything."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder and keep other sweeps out of it while the body runs."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            opened = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"-o {self.path}: {error.strerror}; choose another folder") from None
        try:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                told = f"-o {self.path}: another sweep runs in this folder"
                raise UsageError(f"{told}; wait for it, or choose another") from None
            yield
        finally:
            os.close(opened)

    def read(self) -> Kept | None:
        """Read what an earlier run left; None where there is nothing."""
        file = self.path / RESULT
        if not file.exists() and not file.is_symlink():
            return None
        return parse(load_text(file), source=str(file))

    def write(self, document: dict[str, object]) -> None:
        """Put the sweep file in place, whole or not at all."""
        text = json.dumps(document, indent=1, allow_nan=False)
        write_atomically(self.path / RESULT, text + "\n")

    def log(self, candidate: str) -> Path:
        """Name the file that a candidate's server writes to."""
        return self.path / f"{candidate}.log"

    def note_server(self, root: Root, candidate: str) -> None:
        """Write down which server is up, for whoever has to stop it."""
        told = {
            "candidate": candidate,
            "pid": root.pid,
            "started": root.started,
            "mark": root.mark,
        }
        write_atomically(self.path / _SERVER, json.dumps(told) + "\n")

    def forget_server(self) -> None:
        """Note that no server is up."""
        with suppress(FileNotFoundError):
            (self.path / _SERVER).unlink()

    def left_server(self) -> tuple[Root, str] | None:
        """Give the server that an earlier run left up, with its candidate; None where none is."""
        try:
            told = json.loads(load_text(self.path / _SERVER))
            root = Root(pid=int(told["pid"]), started=int(told["started"]), mark=str(told["mark"]))
            return root, str(told["candidate"])
        except (BaselineError, ValueError, KeyError, TypeError, RecursionError):
            return None


def tail(path: Path, *, lines: int = _TAIL_LINES) -> tuple[str, ...]:
    """Give the last lines of a log that say something; none where there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            data = file.read()
    except OSError:
        return ()
    found = [line.rstrip()[:400] for line in data.decode(errors="replace").splitlines()]
    return tuple([line for line in found if line.strip()][-lines:])
