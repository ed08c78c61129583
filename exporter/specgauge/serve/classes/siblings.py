"""Finds what rotation left beside a log: its copy, and files that came and went meanwhile."""

from collections.abc import Callable, Iterator
from pathlib import Path

from specgauge.serve.classes.tail import Tail, open_tail

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z")


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
