"""Faults of a baseline file in words: dotted path, what is wrong with it, what is expected.

Text in, text out; the rules themselves stand in the schema.
"""

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

_LONGEST = 40
_HALF = re.compile("[\ud800-\udfff]")
_TIME = "write a time with its zone, as 2026-11-29T16:04:00Z"

_EXPECTED = {
    "bool_type": "true or false is expected",
    "bool_parsing": "true or false is expected",
    "string_type": "text is expected",
    "int_type": "a whole number is expected",
    "int_from_float": "a whole number is expected",
    "int_parsing": "a whole number is expected",
    "int_parsing_size": "a whole number of at most 15 digits is expected",
    "float_type": "a number is expected",
    "float_parsing": "a number is expected",
    "finite_number": "a finite number is expected",
    "tuple_type": "a list is expected",
    "model_type": "an object is expected",
    "model_attributes_type": "an object is expected",
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "timezone_aware": _TIME,
}


def word(fault: Mapping[str, Any], known: Callable[[tuple[str | int, ...]], list[str]]) -> str:
    """Word one fault; `known` gives the keys that an object at a path may have."""
    path = tuple(fault["loc"])
    place = dotted(path)
    message = _message(fault, path, known)
    return f"{place}: {message}" if place else message


def dotted(path: tuple[str | int, ...]) -> str:
    """Write a path as people do: `levels[0].server.tpot_seconds`."""
    parts = (
        f"[{part}]" if isinstance(part, int) else f".{shown(part, bare=True)}" for part in path
    )
    return "".join(parts).removeprefix(".")


def shown(value: object, *, bare: bool = False) -> str:
    """Show a value on one line, cut where it grows long."""
    if bare and isinstance(value, str) and value.replace("_", "").isalnum():
        return value[:_LONGEST]
    text = json.dumps(value, default=str).replace("\x7f", "\\u007f")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def half_character(document: object) -> str | None:
    """Find text with half of a surrogate pair, which cannot be written; gives its path."""
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), document)]
    while waiting:
        place, one = waiting.pop()
        if not is_text(one):
            return dotted(place) or "the text"
        if isinstance(one, dict):
            for key, inner in reversed(one.items()):
                waiting += [((*place, key), inner), ((*place, key), key)]
        elif isinstance(one, list):
            waiting += [((*place, n), inner) for n, inner in reversed(list(enumerate(one)))]
    return None


def is_text(value: object) -> bool:
    """Tell whether a value can be written, which half of a surrogate pair cannot."""
    return not isinstance(value, str) or value.isascii() or not _HALF.search(value)


def _message(
    fault: Mapping[str, Any],
    path: tuple[str | int, ...],
    known: Callable[[tuple[str | int, ...]], list[str]],
) -> str:
    kind, value, limits = fault["type"], fault["input"], fault.get("ctx", {})
    match kind:
        case "value_error":
            return str(limits["error"])
        case "missing":
            return _missing(path)
        case "extra_forbidden":
            return _extra(str(path[-1]), known(path[:-1]))
        case "too_short" | "too_long":
            return _count(limits, kind)
    return f"{_expected(kind, limits, value)}, is {shown(value)}"


def _expected(kind: str, limits: Mapping[str, Any], value: object) -> str:
    match kind:
        case "none_required":
            return "a baseline is recorded without speculation: null is expected"
        case "literal_error":
            return f"{limits['expected']} is expected"
        case "greater_than_equal" | "less_than_equal":
            return _limit(kind, limits, value)
    return _EXPECTED.get(kind, "another value is expected")


def _missing(path: tuple[str | int, ...]) -> str:
    if isinstance(path[-1], int):
        return "missing; a low and a high number are expected"
    return "missing; it has no default"


def _extra(name: str, keys: list[str]) -> str:
    near = get_close_matches(name, keys, n=1)
    return (
        f"not a key of a baseline; did you mean {near[0]}?"
        if near
        else (f"not a key of a baseline; here belong {', '.join(keys)}")
    )


def _count(limits: Mapping[str, Any], kind: str) -> str:
    least = kind == "too_short"
    number = limits["min_length"] if least else limits["max_length"]
    return f"at {'least' if least else 'most'} {number} expected, are {limits['actual_length']}"


def _limit(kind: str, limits: Mapping[str, Any], value: object) -> str:
    if kind == "less_than_equal":
        return f"must be at most {limits['le']:g}"
    low = limits["ge"]
    if low > 0 and isinstance(value, int | float) and value <= 0:
        return "must be above 0"
    return f"must be at least {low:g}"
