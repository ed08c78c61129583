"""Noticing that a configuration, secret or certificate file changed, by asking now and then.

It looks at names and dates only and never opens a file. A file that Kubernetes mounts from a
ConfigMap or Secret is a link through `..data`, which is swapped as a whole: then the real path
changes although the file itself is never written.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What one file looked like; a missing file has only its path."""

    path: Path
    real_path: Path | None = None
    inode: int | None = None
    modified_ns: int | None = None
    size: int | None = None


def fingerprint(paths: Iterable[Path]) -> tuple[Mark, ...]:
    """Mark every file, to be compared with an earlier fingerprint."""
    return tuple(_mark(path) for path in paths)


async def watch(
    paths: Callable[[], Sequence[Path]],
    *,
    interval: float,
    since: tuple[Mark, ...] = (),
) -> AsyncIterator[tuple[Mark, ...]]:
    """Yield once for each change, after the files have stayed the same for one more look.

    `paths` is asked before every look, as a reload may name other files; a path that is new counts
    as known. `since` is a fingerprint from before the files were read, so that nothing is missed.
    """
    previous = fingerprint(paths())
    known = _carried(since, previous)
    while True:
        await asyncio.sleep(interval)
        current = fingerprint(paths())
        known = _carried(known, current)
        if current == previous and current != known:
            known = current
            yield current
        previous = current


def _carried(known: tuple[Mark, ...], current: tuple[Mark, ...]) -> tuple[Mark, ...]:
    marks = {mark.path: mark for mark in known}
    return tuple(marks.get(mark.path, mark) for mark in current)


def _mark(path: Path) -> Mark:
    try:
        real_path = path.resolve(strict=True)
        status = real_path.stat()
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError before Python 3.13
        return Mark(path=path)
    return Mark(
        path=path,
        real_path=real_path,
        inode=status.st_ino,
        modified_ns=status.st_mtime_ns,
        size=status.st_size,
    )
