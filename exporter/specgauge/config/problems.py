"""Faults of a configuration as lines for people, each with its place.

Values are shown only by the type that refuses them, never from here: they may be secrets.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from specgauge.config.fields import kind_of
from specgauge.config.keys import KEYS, KeyPath, dotted, siblings, template
from specgauge.units import quote

Origins = Mapping[KeyPath, str]

_EXPECTED = {"model_type": "a mapping", "dict_type": "a mapping", "tuple_type": "a list"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One fault: the place in the merged configuration, and what to do about it."""

    path: KeyPath
    message: str


def issues_of(error: ValidationError) -> list[Issue]:
    """List every fault that the models found."""
    return [
        Issue(path=fault["loc"], message=_message(fault))
        for fault in error.errors(include_url=False)
    ]


def lines(issues: Iterable[Issue], origins: Origins) -> list[str]:
    """Write one line for each fault, named after the variable or flag where it came from one."""
    return list(dict.fromkeys(_line(issue, origins) for issue in issues))


def origin_of(path: KeyPath, origins: Origins) -> str | None:
    """Find the variable or flag that set a key, or a part around it; None if none did."""
    prefixes = (path[:end] for end in range(len(path), 0, -1))
    return next((origins[prefix] for prefix in prefixes if prefix in origins), None)


def unknown(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Say of a name that means nothing which one was probably meant."""
    if near := get_close_matches(name, list(known), n=1):
        return f"did you mean {prefix}{near[0]}?"
    return "see specgauge config schema"


def _line(issue: Issue, origins: Origins) -> str:
    path = issue.path
    place = dotted(tuple(part if isinstance(part, int) else _printable(part) for part in path))
    if label := origins.get(path):
        place = label
    elif label := origin_of(path, origins):
        place = f"{label}: {place}"
    return "".join(map(_visible, f"{place}: {issue.message}"))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def _printable(part: str) -> str:
    return part if re.fullmatch(r"[\w-]+", part) else quote(part)


def _message(fault: ErrorDetails) -> str:
    path: KeyPath = fault["loc"]
    match fault["type"]:
        case "value_error":
            return str(fault["ctx"]["error"])
        case "missing":
            return f"missing; every {_owner(path)} needs one"
        case "extra_forbidden":
            return _extra(path)
        case kind:
            wanted = _EXPECTED.get(kind, "another value")
            return f"{wanted} is expected, not {kind_of(fault['input'])}"


def _owner(path: KeyPath) -> str:
    """Name what a key belongs to: its section, one of a list as `rule` of `rules`, or the file."""
    names = [part for part in path[:-1] if isinstance(part, str)]
    if not names:
        return "file"
    return names[-1].removesuffix("s") if isinstance(path[-2], int) else names[-1]


def _extra(path: KeyPath) -> str:
    name = str(path[-1])
    parent = template(path[:-1])
    known = siblings(parent)
    elsewhere = [key.path for key in KEYS.values() if key.path[-1] == name and not key.secret]
    elsewhere = [one for one in elsewhere if one[:1] == parent[:1]] or elsewhere
    least = min(map(len, elsewhere), default=0)
    if len(nearest := [path for path in elsewhere if len(path) == least]) == 1:
        return f"unknown key; did you mean {'.'.join(nearest[0]).replace('.#', '[]')}?"
    return f"unknown key; {unknown(name, known)}"
