"""The environment's part of the configuration: which variable sets which key, to what.

A mapping of variables goes in, assignments come out; `os.environ` is never touched here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from specgauge.config.document import parse_yaml, resolve
from specgauge.config.keys import ANY, INDEX, KEYS, Key, KeyPath, Kind
from specgauge.config.problems import unknown
from specgauge.errors import ConfigError

_PREFIX = "SPECGAUGE_"
_NUMBER = re.compile(r"_(0|[1-9][0-9]{0,2})(?=_|$)")
_VARIABLES = {key.variable: key for key in KEYS.values()}

# Kubernetes puts these into every pod beside a Service called specgauge or specgauge-something.
_SERVICE = re.compile(
    r"SPECGAUGE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?"
    r"|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_PORT = re.compile(r"SPECGAUGE(_[A-Z0-9_]+)?_PORT")
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One key set from outside the file; `label` names the variable or flag that sets it."""

    path: KeyPath
    value: object = field(repr=False)
    label: str


def from_environment(env: Mapping[str, str]) -> tuple[list[Assignment], list[str]]:
    """Read every `SPECGAUGE_…` variable; the second list holds what is wrong with them."""
    assignments: list[Assignment] = []
    problems: list[str] = []
    for name, raw in sorted(env.items()):
        if not name.startswith(_PREFIX) or _is_service(name, raw):
            continue
        found = _find(name)
        if found is None:
            problems.append(f"{_shown(name)}: {_unknown(name)}")
        elif raw.strip():
            key, path = found
            try:
                value = _value(key, raw.strip(), name)
                assignments.append(Assignment(path=path, value=value, label=name))
            except ConfigError as error:
                problems += error.problems
    return assignments, problems


def target_list(items: Any) -> Any:
    """Turn each plain string in a list of targets into a target with that URL."""
    if not isinstance(items, list | tuple):
        return items
    return [{"url": item} if isinstance(item, str) else item for item in items]


def _is_service(name: str, raw: str) -> bool:
    if _SERVICE.fullmatch(name):
        return True
    return bool(_SERVICE_PORT.fullmatch(name) and _SERVICE_URL.fullmatch(raw))


def _find(name: str) -> tuple[Key, KeyPath] | None:
    if not re.fullmatch(r"[A-Z0-9_]+", name):
        return None
    number = _NUMBER.search(name)
    general = _NUMBER.sub(f"_{INDEX}", name, count=1)
    start, separator, header = general.partition("_HEADERS_")
    key = _VARIABLES.get(f"{start}_HEADERS_{ANY}" if separator and header else general)
    if key is None:
        return None
    filled: dict[str, str | int] = {
        INDEX: int(number[1]) if number else 0,
        ANY: header.replace("_", "-").title(),
    }
    return key, tuple(filled.get(part, part) for part in key.path)


def _value(key: Key, raw: str, name: str) -> object:
    if re.search(r"[\ud800-\udfff]", raw):
        raise ConfigError([f"{name}: not UTF-8"])
    if key.path == ("targets",) and raw[0] not in "[{-":
        return [{"url": url.strip()} for url in raw.split(",") if url.strip()]
    if key.kind is Kind.STRUCTURE:
        value = parse_yaml(raw, source=name)
        return target_list(value) if key.path == ("targets",) else value
    return raw if key.kind is Kind.TEXT else resolve(raw)


def _unknown(name: str) -> str:
    rest = name.removeprefix(_PREFIX)
    number = _NUMBER.search(name)
    return f"unknown variable; {unknown(rest, _names(number[1] if number else '0'), _PREFIX)}"


def _names(index: str) -> Iterator[str]:
    for variable in _VARIABLES:
        if not variable.endswith(ANY):
            yield variable.removeprefix(_PREFIX).replace(INDEX, index)


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)
