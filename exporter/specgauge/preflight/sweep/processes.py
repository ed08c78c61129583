"""Processes of a server that we started: which they are, and how they end for sure.

A server's processes are those of its session, their children, and whatever carries its mark in
the environment; a process id alone proves nothing, as it may be another's by now.
"""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "SPECGAUGE_SWEEP_SERVER"
"""Environment variable that every process of a server has from us."""

_PROC = Path("/proc")
_POLL = 0.1
_AFTER_ROOT = 5.0
_AFTER_KILL = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process; `started` is in ticks since the machine started."""

    pid: int
    parent: int
    session: int
    started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """The process that was started, and the mark that it and its children carry."""

    pid: int
    started: int
    mark: str


def listed() -> dict[int, Process]:
    """List the processes that have not ended, where the system tells."""
    found = {}
    for entry in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            text = entry.read_text(errors="replace")
            fields = text[text.rindex(")") + 2 :].split()
            if fields[0] not in {"Z", "X"}:
                pid = int(entry.parent.name)
                found[pid] = Process(
                    pid=pid,
                    parent=int(fields[1]),
                    session=int(fields[3]),
                    started=int(fields[19]),
                )
    return found


def started_at(pid: int) -> int:
    """Tell when a process started; 0 where it is gone or the system does not tell."""
    found = listed().get(pid)
    return 0 if found is None else found.started


def members(root: Root) -> set[int]:
    """List what is left of a server, whoever is its parent by now."""
    alive = listed()
    first = alive.get(root.pid)
    ours = {pid for pid in alive if _carries(pid, root.mark)}
    if first is not None and root.started and first.started == root.started:
        ours.add(first.pid)
    if first is None or first.pid in ours:  # else the number is another's, and so is its session
        ours |= {pid for pid, one in alive.items() if root.pid and one.session == root.pid}
    return (ours | _children(ours, alive)) - {os.getpid()}


async def end(root: Root, *, grace: float) -> bool:
    """End a server and everything it started: asked first, then made to. False if some is left."""
    loop = asyncio.get_running_loop()
    deadline, headless = loop.time() + grace, False
    seen = members(root)
    _send({root.pid} & seen or seen, signal.SIGTERM)
    while left := _left(root, seen):
        if root.pid not in left and not headless:
            headless, deadline = True, min(deadline, loop.time() + _AFTER_ROOT)
            _send(left, signal.SIGTERM)  # it was for their parent to tell them
        if loop.time() > deadline:
            break
        seen |= left
        await asyncio.sleep(_POLL)
    deadline = loop.time() + _AFTER_KILL
    while left := _left(root, seen):
        _send(left, signal.SIGKILL)
        if loop.time() > deadline:
            return False
        seen |= left
        await asyncio.sleep(_POLL)
    return True


def _left(root: Root, seen: set[int]) -> set[int]:
    """List what is left, and children that it had and that left its session."""
    alive = listed()
    return members(root) | _children(seen & set(alive), alive)


def _children(parents: set[int], alive: Mapping[int, Process]) -> set[int]:
    found: set[int] = set()
    while more := {p for p, one in alive.items() if one.parent in parents | found} - found:
        found |= more
    return found


def _carries(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
