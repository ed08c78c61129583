"""The record of every change, one JSON line each; appends to its file and reads no line back."""

import errno
import fcntl
import json
import math
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import sleep

from specgauge.model.guard import Decision

SCHEMA = "specgauge.audit/v1"
MOST_BYTES = 10 << 20
"""A file that would grow beyond is put aside under the name with `.1`, which it replaces."""

_OPENING = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
_LOCK_TRIES = 40
_LOCK_SECONDS = 0.05


def audit_line(
    decision: Decision, *, unix: float, target: str, flag_key: str, config_hash: str
) -> dict[str, object]:
    """Write a decision down with all that it rests on; `unix` is its time for people."""
    return {
        "schema": SCHEMA,
        "unix": round(unix, 3),
        "target": target,
        "flag_key": flag_key,
        "config_hash": config_hash,
        "from": str(decision.before),
        **decision_document(decision),
    }


def decision_document(decision: Decision) -> dict[str, object]:
    """Write a decision as one object of the contract's replay, with what else is known."""
    document: dict[str, object] = {
        "t": round(decision.time, 6),
        "state": str(decision.state),
        "flag": decision.flag,
        "outcome": str(decision.outcome),
        "reason": decision.reason,
        "changed": decision.changed,
        "evidence": {
            name: _short(value) for name, value in decision.evidence.items() if math.isfinite(value)
        },
    }
    extras = {
        "signal": decision.signal and str(decision.signal),
        "model_name": decision.model_name or None,
        "would_be": decision.wanted and str(decision.wanted),
        "dry_run_signals": list(decision.rehearsed),
        "companions": list(decision.companions),
        "next_probe": decision.next_probe,
        "warnings": list(decision.warnings),
    }
    return document | {name: value for name, value in extras.items() if value not in (None, [])}


def append(file: Path, document: Mapping[str, object]) -> None:
    """Append a line and see it onto the disk, or raise OSError and leave the file as it was.

    Other processes may append to the same file: every line stays whole, and what one of them put
    aside no other replaces.
    """
    line = json.dumps(document, allow_nan=False).encode() + b"\n"
    opened = os.open(file, _OPENING, 0o640)
    while not _add(file, opened, line):
        opened = os.open(file, _OPENING, 0o640)


def _add(file: Path, opened: int, line: bytes) -> bool:
    """Append and close; false where another file has to be opened, since this one is put aside."""
    try:
        there = os.fstat(opened)
        if not stat.S_ISREG(there.st_mode):  # a terminal or a pipe has no disk and no size
            os.write(opened, line)
            return True
        _lock(opened)
        there = os.fstat(opened)
        if not _is_still(file, there):
            return False
        if there.st_size and there.st_size + len(line) > MOST_BYTES:
            file.replace(file.with_name(f"{file.name}.1"))
            return False
        _write(opened, there.st_size, line)
        return True
    finally:
        os.close(opened)


def _write(opened: int, size: int, line: bytes) -> None:
    """Write the line whole or not at all; half a line that a dead process left is ended first."""
    torn = size > 0 and os.pread(opened, 1, size - 1) != b"\n"
    data = b"\n" + line if torn else line
    if os.write(opened, data) < len(data):
        os.ftruncate(opened, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(opened)


def _lock(opened: int) -> None:
    """Have the file alone for a moment; a file system that knows no locks does without."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_LOCK_SECONDS)
        except OSError:
            return
        else:
            return
    raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock")


def _is_still(file: Path, there: os.stat_result) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(there, file.stat())
    return False


def _short(value: float) -> float:
    return round(value, 6) if abs(value) < 1e6 else round(value, 1)  # noqa: PLR2004 - six digits
