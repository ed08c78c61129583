"""Laying file, environment and flags over one another, remembering who set what.

Values only: nothing here judges them, and a place that cannot be set is left for the models to
report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specgauge.config.environment import Assignment, target_list
from specgauge.config.keys import KEYS, KeyPath, template
from specgauge.config.problems import Issue, Origins, origin_of

_CREDENTIALS = frozenset({"bearer", "bearer_file", "basic", "basic_file"})
_TOKENS = frozenset({"token", "token_file"})
_ALTERNATIVES = {name: group for group in (_CREDENTIALS, _TOKENS) for name in group}


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The configuration before it is checked, where its values came from, and what did not fit."""

    document: dict[str, Any]
    origins: Origins
    issues: tuple[Issue, ...]


def from_flags(overrides: Mapping[str, object]) -> list[Assignment]:
    """Read flags: dotted keys with values; `targets` is a list of URLs. None and () say nothing."""
    assignments: list[Assignment] = []
    for name, value in overrides.items():
        if value is None or value == ():
            continue
        label = "--" + name.rpartition(".")[2].replace("_", "-")
        if name != "targets":
            assignments.append(Assignment(path=tuple(name.split(".")), value=value, label=label))
            continue
        targets = target_list(value)
        empty: list[dict[str, object]] = [{} for _ in targets]
        assignments.append(Assignment(path=("targets",), value=empty, label="--target"))
        assignments += [
            Assignment(path=("targets", index, key), value=content, label="--target")
            for index, target in enumerate(targets)
            for key, content in target.items()
        ]
    return assignments


def merge(
    file: dict[str, Any], environment: Sequence[Assignment], flags: Sequence[Assignment]
) -> Merged:
    """Lay the environment over the file and the flags over both; `file` is changed in place."""
    for flag in flags:
        if flag.path == ("targets",):
            environment = [item for item in environment if _within(item.path, flag.value)]
    ranked = [(item, 0) for item in environment] + [(item, 1) for item in flags]
    ranked.sort(key=lambda pair: (_order(pair[0].path), pair[1]))
    origins: dict[KeyPath, str] = {}
    issues: list[Issue] = []
    for item, _ in ranked:
        issue = _assign(file, item, origins)
        issues += [issue] if issue else []
    return Merged(document=_without_nulls(file, ()), origins=origins, issues=tuple(issues))


def _order(path: KeyPath) -> list[tuple[bool, str | int]]:
    return [(isinstance(part, str), part) for part in path]


def _within(path: KeyPath, targets: Any) -> bool:
    return not (len(path) > 1 and isinstance(path[1], int) and path[1] >= len(targets))


def _assign(
    document: dict[str, Any], item: Assignment, origins: dict[KeyPath, str]
) -> Issue | None:
    *parents, last = item.path
    node: Any = document
    for part, following in zip(parents, item.path[1:], strict=True):
        _put(node, part, [] if isinstance(following, int) else {}, replace=False)
        node = _get(node, part)
    for place in [place for place in origins if place[: len(item.path)] == item.path]:
        del origins[place]
    _displace(node, item.path, origins)
    origins[item.path] = item.label
    _put(node, last, item.value, replace=True)
    index = item.path[1] if len(item.path) > 1 else None
    targets = document.get("targets")
    if isinstance(index, int) and isinstance(targets, list) and index >= len(targets):
        gap = f"there is no targets[{len(targets)}]; number targets from 0 without a gap"
        return Issue(path=item.path, message=gap)
    return None


def _displace(node: Any, path: KeyPath, origins: Origins) -> None:
    """Take out what the file has in another spelling: another credential, a header's other case."""
    name = str(path[-1])
    others = _ALTERNATIVES.get(name, frozenset()) - {name}
    for other in list(node) if isinstance(node, dict) else ():
        same_header = path[-2:-1] == ("headers",) and other.lower() == name.lower()
        from_file = origin_of((*path[:-1], other), origins) is None
        if same_header or (other in others and from_file):
            del node[other]


def _put(node: Any, part: str | int, value: object, *, replace: bool) -> None:
    match node, part:
        case dict(), str() if replace or node.get(part) is None:
            node[part] = value
        case list(), int() if part == len(node):
            node.append(value)
        case list(), int() if part < len(node) and (replace or node[part] is None):
            node[part] = value
        case _:
            pass


def _get(node: Any, part: str | int) -> Any:
    match node, part:
        case dict(), str():
            return node.get(part)
        case list(), int() if part < len(node):
            return node[part]
        case _:
            return None


def _without_nulls(node: Any, path: KeyPath) -> Any:
    if isinstance(node, list):
        return [_without_nulls(item, (*path, index)) for index, item in enumerate(node)]
    if not isinstance(node, dict):
        return node
    return {
        name: _without_nulls(value, (*path, name))
        for name, value in node.items()
        if value is not None or template((*path, name)) not in KEYS
    }
