"""Finds what rotation left beside a log: its copy, and files that came and went meanwhile."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from specgauge.serve.classes.tail import Tail, open_tail

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    """A log that was empty or missing: when that was, and what lay beside it then."""

    modified: int
    beside: tuple[tuple[tuple[int, int], bytes], ...] = ()
    packed: frozenset[tuple[int, int]] = frozenset()


def see(path: Path, modified: int) -> Blank:
    """Remember a log that is empty since, and which rotated files are older.

    One of those may have been written to later than the log; a copy yet to come is newer.
    """
    beside = []
    for tail in _siblings(path):
        beside.append((tail.identity, tail.head))
        modified = max(modified, tail.modified + 1)
        tail.close()
    packed = frozenset((found.st_dev, found.st_ino) for _, found in _packed(path))
    return Blank(modified=modified, beside=tuple(beside), packed=packed)


def see_none(path: Path) -> Blank:
    """Remember that there is no log: whatever comes is newer than the last change beside it."""
    try:
        return see(path, path.parent.stat().st_mtime_ns)
    except OSError:
        return Blank(modified=0)


def was_cut(found: os.stat_result) -> bool:
    """Tell of an empty file whether it ever held something.

    Whoever makes it or touches it sets both times alike; a write or a cut sets one of them.
    """
    return found.st_size == 0 and found.st_mtime_ns > found.st_atime_ns


def packed_since(path: Path, blank: Blank) -> str:
    """Name a file that was compressed before anybody could read what the log held, if any."""
    for one, found in _packed(path):
        newer = found.st_mtime_ns > blank.modified and not one.with_suffix("").exists()
        if newer and (found.st_dev, found.st_ino) not in blank.packed:
            return one.name
    return ""


def files_since(path: Path, blank: Blank, current: Tail) -> list[Tail]:
    """Open the copies of what a log held since it was empty, oldest first; some may be empty too.

    What lay beside it then is no copy of it, nor is one of what it holds now.
    """
    since = []
    for tail in _siblings(path):
        known = any(tail.identity == one and tail.begins(head) for one, head in blank.beside)
        stale = known or tail.identity == current.identity or tail.begins(current.head)
        if stale or tail.modified < blank.modified:
            tail.close()
        else:
            since.append(tail)
    return sorted(since, key=lambda tail: tail.modified)


def find_rotated(path: Path, wanted: Callable[[Tail], bool]) -> Tail | None:
    """Open the first rotated file that is the one that is wanted."""
    found = None
    for tail in _siblings(path):
        if found is None and wanted(tail):
            found = tail
        else:
            tail.close()
    return found


def files_between(path: Path, older: Tail, newest: Tail) -> list[Tail]:
    """Open the rotated files that were written after one and before another, oldest first."""
    between = []
    for tail in _siblings(path):
        one_of_them = tail.identity in {older.identity, newest.identity}
        if one_of_them or tail.modified < older.modified or tail.begins(older.head):
            tail.close()
        else:
            between.append(tail)
    return sorted(between, key=lambda tail: tail.modified)


def _siblings(path: Path) -> Iterator[Tail]:
    """Open what rotation may have left, uncompressed; what cannot be opened is left out."""
    for one in _rotated(path):
        if one.suffix not in _COMPRESSED:
            with suppress(OSError):
                yield open_tail(one)


def _packed(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Give what rotation left compressed."""
    for one in _rotated(path):
        if one.suffix in _COMPRESSED:
            with suppress(OSError):
                yield one, one.stat()


def _rotated(path: Path) -> list[Path]:
    """Name what lies beside a log and is called after it."""
    try:
        found = sorted(path.parent.iterdir())
    except OSError:
        return []
    return [one for one in found if one.name.startswith((f"{path.name}.", f"{path.name}-"))]
