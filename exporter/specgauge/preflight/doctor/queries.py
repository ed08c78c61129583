"""The names that rule files and dashboards ask Prometheus for, each held against a server.

Text in, values out. An expression is not parsed: names are found in it by their prefix.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from specgauge.preflight.doctor.names import Server, Status, status_of

_MOST_NODES = 300_000
_ASKED_IN = frozenset({"expr", "query", "definition", "expression"})
_TITLES = ("alert", "record", "title", "name")
_NAME_LABEL = re.compile(r"""__name__\s*=\s*["']([\w:]+)["']""")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_NAME = re.compile(r"(?<![\w:$.])((?:ray_)?vllm[:_])([a-zA-Z_]\w*)(?![\w:.*])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One name that is asked for: where, and what to ask for instead if it cannot be had."""

    file: str
    place: str
    name: str
    status: Status
    instead: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One expression as it stands in a file, under the nearest title."""

    place: str
    text: str


def read_expressions(text: str) -> list[Expression]:
    """Find every expression in JSON or YAML; ValueError where the text is neither."""
    try:
        documents = [json.loads(text)]
    except (ValueError, RecursionError):
        try:
            documents = list(yaml.safe_load_all(text))
        except (yaml.YAMLError, ValueError, RecursionError) as problem:
            raise ValueError(f"neither JSON nor YAML: {' '.join(str(problem).split())}") from None
    if not any(isinstance(one, dict | list) for one in documents):
        raise ValueError("neither JSON nor YAML: there is no object in it")
    return list(_expressions(documents))


def judge_names(expressions: Sequence[Expression], file: str, server: Server) -> list[Query]:
    """Hold every name of a file against a server, once for each place that asks for it."""
    found: dict[tuple[str, str], Query] = {}
    for one in expressions:
        for prefix, name in _names_in(one.text):
            status, instead = status_of(name, server)
            query = Query(
                file=file,
                place=one.place,
                name=f"{prefix}{name}",
                status=status,
                instead=instead,
                expression=" ".join(one.text.split()),
            )
            found.setdefault((one.place, name), query)
    return list(found.values())


def _names_in(text: str) -> Iterator[tuple[str, str]]:
    asked = [*_NAME_LABEL.findall(text), _STRING.sub('""', text)]
    for part in asked:
        yield from _NAME.findall(part)


def _expressions(root: Any) -> Iterator[Expression]:
    """Walk a document in its order, without recursion and not for ever."""
    stack: list[tuple[str, Any]] = [("", root)]
    for _ in range(_MOST_NODES):
        if not stack:
            return
        place, node = stack.pop()
        if isinstance(node, dict):
            place = next((str(node[t]) for t in _TITLES if isinstance(node.get(t), str)), place)
            for key, value in node.items():
                if key in _ASKED_IN and isinstance(value, str):
                    yield Expression(place=place, text=value)
            stack += [(place, value) for value in reversed(list(node.values()))]
        elif isinstance(node, list):
            stack += [(place, value) for value in reversed(node)]
        elif isinstance(node, str) and node.lstrip()[:1] == "{" and '"expr"' in node:
            stack += _embedded(place, node)
    raise ValueError("too large, or it refers to itself")


def _embedded(place: str, text: str) -> list[tuple[str, Any]]:
    """Open a dashboard that stands as text in a ConfigMap."""
    try:
        return [(place, json.loads(text))]
    except (ValueError, RecursionError):
        return []
