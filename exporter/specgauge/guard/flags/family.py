"""Ends a process with all that came of it, as far as the system tells what that is.

On Linux that is its group and all who descend from it, whatever group or session they are in; where
`/proc` does not name children it is the group. What lost its parent, as a daemon does, is no
descendant any more, and what runs under other rights cannot be ended.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def end_family(root: int) -> None:
    """Kill a process that leads a group, its group and its descendants."""
    _tell_group(root, signal.SIGSTOP)  # what stands still starts nothing, and leaves no orphan
    found: list[int] = []
    while new := [one for one in _descendants(root) if one not in found]:
        found += new
        for one in new:
            _tell(one, signal.SIGSTOP)
    _tell_group(root, signal.SIGKILL)
    for one in found:
        _tell(one, signal.SIGKILL)


def _descendants(root: int) -> list[int]:
    found = [root]
    for parent in found:  # which grows as it is gone through
        found += [child for child in _children(parent) if child not in found]
    return found[1:]


def _children(parent: int) -> Iterator[int]:
    """Give the children of each of a process's threads."""
    with suppress(OSError):
        for told in (_PROC / str(parent) / "task").glob("*/children"):
            with suppress(OSError):
                yield from map(int, told.read_text().split())


def _tell_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _tell(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
