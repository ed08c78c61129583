"""Reads rendered text again, as its reader will, and says what is wrong with it; mends nothing."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import yaml

from specgauge.errors import RenderError
from specgauge.render.catalogue import names_in, names_known
from specgauge.render.files import RenderedFile
from specgauge.render.templating import YAML_LOADER

ANNOTATIONS = ("summary", "description", "runbook_url", "dashboard_url")
PromqlParser = Callable[[str], object]
"""Takes an expression; raises ValueError where it is none."""

_VARIABLES = {"$__rate_interval": "5m", "$__interval": "1m", "$__range": "1h"}
_VARIABLE = re.compile(r"(?<!\\)\$\{?\w+(?::\w+)?\}?")


def verify(files: Iterable[RenderedFile], *, parse: PromqlParser | None = None) -> None:
    """Check every file, and names across them; raises RenderError with every fault."""
    files = tuple(files)
    documents = {file.path: _documents(file) for file in files}
    problems = [problem for _, problem in documents.values() if problem]
    known = names_known(
        record for parsed, _ in documents.values() for record in values_of(parsed, "record")
    )
    for path, (parsed, _) in documents.items():
        problems += [f"{path}: {one}" for one in _faults(parsed, known, parse)]
    seen = Counter(file.path for file in files)
    problems += [f"{path}: made twice" for path, times in seen.items() if times > 1]
    if problems:
        raise RenderError(problems)


def values_of(node: Any, key: str) -> Iterator[str]:
    """Find every text that stands under a key, however deep."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key and isinstance(value, str):
                yield value
            else:
                yield from values_of(value, key)
    elif isinstance(node, list):
        for item in node:
            yield from values_of(item, key)


def groups_of(node: Any) -> Iterator[dict[str, Any]]:
    """Find every rule group of a Prometheus rule file or object, however deep."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "groups" and isinstance(value, list):
                yield from (group for group in value if isinstance(group, dict))
            else:
                yield from groups_of(value)
    elif isinstance(node, list):
        for item in node:
            yield from groups_of(item)


def rules_of(node: Any) -> Iterator[dict[str, Any]]:
    """Find every recording and alerting rule."""
    for group in groups_of(node):
        yield from group.get("rules", ())


def _documents(file: RenderedFile) -> tuple[Any, str]:
    """Read a file by its ending; gives the documents and what is wrong."""
    if not file.text.strip():
        return None, f"{file.path}: empty"
    try:
        if file.path.endswith(".json"):
            return json.loads(file.text, parse_constant=_refuse), ""
        if file.path.endswith((".yaml", ".yml")):
            parsed = list(yaml.load_all(file.text, Loader=YAML_LOADER))
            return parsed, "" if all(parsed) else f"{file.path}: an empty document"
    except (ValueError, yaml.YAMLError) as error:
        return None, f"{file.path}: {' '.join(str(error).split())}"
    return None, ""


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _faults(parsed: Any, known: Collection[str], parse: PromqlParser | None) -> Iterator[str]:
    yield from _twice("group", (str(group.get("name")) for group in groups_of(parsed)))
    yield from _twice("record", values_of(parsed, "record"))
    yield from _twice("alert", (_named(rule) for rule in rules_of(parsed) if "alert" in rule))
    for rule in rules_of(parsed):
        if "alert" in rule:
            yield from _unannotated(rule)
    for expression in values_of(parsed, "expr"):
        yield from _misread(expression, known, parse)


def _twice(kind: str, names: Iterable[str]) -> Iterator[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{kind} {name} is there {times} times"


def _named(rule: dict[str, Any]) -> str:
    window = rule.get("labels", {}).get("window", "")
    return " ".join(filter(None, (rule["alert"], rule.get("labels", {}).get("severity"), window)))


def _unannotated(rule: dict[str, Any]) -> Iterator[str]:
    given = rule.get("annotations") or {}
    for name in ANNOTATIONS:
        if not given.get(name):
            yield f"alert {rule['alert']} has no {name}"
    if not rule.get("labels", {}).get("severity"):
        yield f"alert {rule['alert']} has no severity"


def _misread(expression: str, known: Collection[str], parse: PromqlParser | None) -> Iterator[str]:
    for name in sorted(names_in(expression) - set(known)):
        yield f"{name} is no series of ours or vLLM's: {expression}"
    if parse is None:
        return
    try:
        parse(_filled_in(expression))
    except ValueError as error:
        yield f"{' '.join(str(error).split())}: {expression}"


def _filled_in(expression: str) -> str:
    """Put something in the place of Grafana's variables, which are no PromQL.

    A dollar after a backslash is the text of a name.
    """
    return _VARIABLE.sub(lambda found: _VARIABLES.get(found[0], "x"), expression)
