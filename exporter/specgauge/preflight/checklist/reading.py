"""Looks values up in JSON that others wrote, which may hold anything; judges nothing.

What is not there, is of another kind or cannot be used is None.
"""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

_LONGEST = 300
_MOST = 1e15
_LATEST = 32_503_680_000.0  # the year 3000; what lies beyond is no date


def at(node: object, path: str) -> object:
    """Follow a dotted path through mappings."""
    for name in path.split("."):
        if not isinstance(node, Mapping):
            return None
        node = node.get(name)
    return node


def word(value: object) -> str | None:
    """Take text, fit for a terminal and cut where it grows long."""
    if not isinstance(value, str) or not value.strip():
        return None
    return clean(value.strip())


def clean(text: str, longest: int = _LONGEST) -> str:
    """Make text fit for a terminal or a page, and not too long."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut
    )


def number(value: object) -> float | None:
    """Take a number that can be reckoned with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if abs(value) > _MOST or not math.isfinite(value):  # NaN passes the first
        return None
    return float(value)


def whole(value: object) -> int | None:
    """Take a whole number that is not negative."""
    found = number(value)
    return int(found) if found is not None and found >= 0 and found == int(found) else None


def moment(value: object) -> float | None:
    """Take a time with a zone, or Unix seconds; gives Unix seconds."""
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value)
            value = None if time.tzinfo is None else time.timestamp()
        except (ValueError, OverflowError):
            return None
    found = number(value)
    return found if found is not None and 0 < found < _LATEST else None


def mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """Go through the objects of a list."""
    for one in value if isinstance(value, list | tuple) else ():
        if isinstance(one, Mapping):
            yield one


def words(value: object) -> tuple[str, ...]:
    """Take the texts of a list."""
    found = (word(one) for one in (value if isinstance(value, list | tuple) else ()))
    return tuple(one for one in found if one is not None)


def first(node: object, *paths: str) -> object:
    """Give what stands at the first of some paths at which something stands."""
    for path in paths:
        found = at(node, path)
        if found is not None:
            return found
    return None


def parse_object(data: bytes) -> Mapping[str, Any]:
    """Read a JSON object; raises ValueError saying what is wrong with it."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text; is it JSON at all?") from None
    if not text.strip():
        raise ValueError("empty")
    try:
        found = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deep to be read") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON, or cut off: line {error.lineno}, {error.msg}") from None
    if isinstance(found, dict):
        return found
    raise ValueError("not a JSON object")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
