"""Finds what rotation left beside a log: its copy, and files that came and went meanwhile."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from specgauge.serve.classes.tail import Tail, open_tail

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    """A log that was empty: when it was last written to, and what lay beside it then."""

    modified: int
    beside: tuple[tuple[tuple[int, int], bytes], ...]


def see(path: Path, current: Tail) -> Blank:
    """Remember a log that is empty, and which rotated files are older."""
    modified, beside = current.modified, []
    for tail in _siblings(path):
        beside.append((tail.identity, tail.head))
        tail.close()
    return Blank(modified=modified, beside=tuple(beside))


def files_since(path: Path, blank: Blank, current: Tail) -> list[Tail]:
    """Open the copies of what a log held since it was empty, oldest first.

    What lay beside it then is no copy of it, nor is one of what it holds now.
    """
    since = []
    for tail in _siblings(path):
        known = any(tail.identity == one and tail.begins(head) for one, head in blank.beside)
        stale = known or tail.identity == current.identity or tail.begins(current.head)
        if stale or not tail.head or tail.modified < blank.modified:
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
    try:
        found = sorted(path.parent.iterdir())
    except OSError:
        return
    for one in found:
        rotated = one.name.startswith((f"{path.name}.", f"{path.name}-"))
        if not rotated or one.suffix in _COMPRESSED:
            continue
        try:
            yield open_tail(one)
        except OSError:
            continue
