"""The small file by which reading goes on after a restart: its form, and what is wrong with one."""

import json
from pathlib import Path
from typing import Any

from specgauge.guard.store import load_text
from specgauge.serve.classes.tail import Place

SCHEMA = "specgauge.class_log/v1"


def load_place(file: Path) -> Place | None:
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
    return Place(
        offset=_count(found, "offset"),
        head_bytes=_count(found, "head_bytes"),
        head_sha256=str(found.get("head_sha256")),
    )


def place_bytes(place: Place) -> bytes:
    """Write a place."""
    found = {
        "schema": SCHEMA,
        "offset": place.offset,
        "head_bytes": place.head_bytes,
        "head_sha256": place.head_sha256,
    }
    return f"{json.dumps(found)}\n".encode()


def _count(found: dict[str, Any], key: str) -> int:
    value = found.get(key)
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{key} must be a number from 0")
    return value
