"""The small file by which reading goes on after a restart: its form, and what is wrong with one."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgauge.guard.store import load_text
from specgauge.serve.classes.tail import Place

SCHEMA = "specgauge.class_log/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A place, and the path of the log that it is in; older files do not tell that."""

    place: Place
    log: str | None

    def is_of(self, path: Path) -> bool:
        """Tell whether it may be a place in the log of this path."""
        return self.log in {None, str(path)}


def load_place(file: Path) -> Kept | None:
    """Read the place, None where no file is yet; raises OSError, ValueError for what is none."""
    text = load_text(file)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("no place in a log") from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError(f"not of the form {SCHEMA}")
    log = found.get("log")
    place = Place(
        offset=_count(found, "offset"),
        head_bytes=_count(found, "head_bytes"),
        head_sha256=str(found.get("head_sha256")),
        modified=_count(found, "modified") if "modified" in found else None,
    )
    return Kept(place=place, log=None if log is None else str(log))


def place_bytes(place: Place, log: Path) -> bytes:
    """Write a place in a log."""
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "log": str(log),
        "offset": place.offset,
        "head_bytes": place.head_bytes,
        "head_sha256": place.head_sha256,
    }
    if place.modified is not None:
        found["modified"] = place.modified
    return f"{json.dumps(found)}\n".encode()


def _count(found: dict[str, Any], key: str) -> int:
    value = found.get(key)
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{key} must be a number from 0")
    return value
