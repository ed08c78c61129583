"""YAML text into plain values, stricter than YAML: what would surprise an operator is refused.

Refused with line and column: a key given twice, anchors and aliases, tags, several documents, deep
nesting. `1:30`, dates and fractions stay text, so that the key itself can say what it wants. The
text comes in whole; nothing here opens a file.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import yaml

from specgauge.errors import ConfigError
from specgauge.units import quote

_DEEPEST = 16
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEAN = re.compile(r"(?i:(?P<true>true|yes|on)|false|no|off)")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")


def parse_yaml(text: str, *, source: str) -> object:
    """Read one YAML document; an empty one is None. `source` names it in errors."""
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        return _document(events, source)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _error(source, mark, error.problem or "not YAML") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(
            [f"{source}:{line}: the character U+{int(error.character):04X} is not allowed"]
        ) from None
    except (ValueError, OverflowError):  # PyYAML lets these out for "\UFFFFFFFF" and the like
        raise ConfigError([f"{source}: not YAML: an escape or a version out of range"]) from None


def resolve(text: str) -> object:
    """Read an unquoted YAML scalar: nothing, true or false, a whole number, or text."""
    if _NULL.fullmatch(text):
        return None
    if switch := _BOOLEAN.fullmatch(text):
        return switch["true"] is not None
    return int(text) if _INTEGER.fullmatch(text) else text


def _document(events: Iterator[yaml.Event], source: str) -> object:
    result: object = None
    seen = False
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent) and seen:
            raise _error(source, event.start_mark, "a second document; keep one per file")
        if isinstance(event, yaml.NodeEvent):
            result, seen = _node(event, events, source, depth=0), True
    return result


def _node(event: yaml.Event, events: Iterator[yaml.Event], source: str, depth: int) -> object:
    mark = event.start_mark
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise _error(source, mark, "anchors and aliases are not supported; write the value out")
    if getattr(event, "tag", None):
        raise _error(source, mark, "tags are not supported; remove the ! and what belongs to it")
    if depth > _DEEPEST:
        raise _error(source, mark, f"nested more than {_DEEPEST} deep")
    if isinstance(event, yaml.ScalarEvent):
        if not _encodable(event.value):
            raise _error(source, mark, "half of a surrogate pair is not a character")
        return event.value if event.style else resolve(event.value)
    if isinstance(event, yaml.SequenceStartEvent):
        items = takewhile(lambda item: not isinstance(item, yaml.SequenceEndEvent), events)
        return [_node(item, events, source, depth + 1) for item in items]
    return _mapping(events, source, depth)


def _mapping(events: Iterator[yaml.Event], source: str, depth: int) -> dict[str, object]:
    result: dict[str, object] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        if not isinstance(key, yaml.ScalarEvent):
            raise _error(source, key.start_mark, "a key must be plain text")
        _node(key, events, source, depth)
        if key.value in result:
            raise _error(source, key.start_mark, f"key {quote(key.value)} is there twice")
        result[key.value] = _node(next(events), events, source, depth + 1)
    return result


def _encodable(text: str) -> bool:
    return not re.search(r"[\ud800-\udfff]", text)


def _error(source: str, mark: Any, problem: str) -> ConfigError:
    place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    return ConfigError([f"{place}: {problem}"])
