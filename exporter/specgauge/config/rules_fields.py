"""The types of single keys of rendered files: amounts, lines of text, URLs, mappings by name.

A rule between two keys does not belong here but with the keys.
"""

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from specgauge.config.address import parse_listen
from specgauge.config.fields import shown, text
from specgauge.units import parse_duration, quote

_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*"
_SUBJECT = ("instance", "target", "model_name")
_OWN_LABELS = ("severity", "team", "alertname", "window", *_SUBJECT)
_NOT_KEPT = (*_OWN_LABELS, "le", "position")
_LEVELS = ("warning", "critical", "none")
_MOST = 10**9
_EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)


def _amount(value: object) -> float:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value, re.ASCII):
        number = float(value)
    if number is None or not 0 <= number <= _MOST:
        raise ValueError(f"write a number from 0, as 1.5, not {shown(value)}")
    return float(number)


def _line(value: object) -> str:
    line = text(value)
    if not line.strip() or re.search(r"[\x00-\x1f\x7f]", line):
        raise ValueError("some text on one line is expected")
    return line


def _web(value: object) -> str:
    url = text(value)
    if not re.fullmatch(r"https?://[!-~]+", url):
        raise ValueError(f"{quote(url)} is not a URL; write https://host/path")
    return url.rstrip("/")


def _label_names(value: object) -> object:
    names = value if isinstance(value, list | tuple) else ()
    for name in names:
        if not (isinstance(name, str) and re.fullmatch(_LABEL, name)):
            raise ValueError(f"{shown(name)} is not the name of a label")
        if name in _NOT_KEPT or name.startswith("__"):
            raise ValueError(f"{shown(name)} is no label to keep; it has a meaning of its own")
        if names.count(name) > 1:
            raise ValueError(f"{shown(name)} is there twice")
    return value


def _labels(value: object) -> object:
    for name, content in value.items() if isinstance(value, dict) else ():
        if not re.fullmatch(_LABEL, name) or name in _OWN_LABELS or name.startswith("__"):
            raise ValueError(f"{quote(name)} cannot be the name of a further label")
        text(content)
    return value


def _texts(value: object) -> object:
    return _texts_of(value) if isinstance(value, dict) else value


def _texts_of(value: dict[str, object]) -> dict[str, object]:
    for name, content in value.items():
        if not isinstance(content, str) or not content:
            raise ValueError(f"{quote(name)} needs some text, in quotes")
    return value


def _levels(value: object) -> object:
    """Take texts for the two levels; the one that is not named keeps its own."""
    if not isinstance(value, dict):
        return value
    for name in value:
        if name not in _LEVELS[:2]:
            raise ValueError(f"{quote(name)} is no level; there are warning and critical")
    levels = {"warning": "warning", "critical": "critical", **_texts_of(value)}
    if levels["warning"] == levels["critical"]:
        raise ValueError("warning and critical must differ, or nobody can tell them apart")
    return levels


def _severities(value: object) -> object:
    for name, content in value.items() if isinstance(value, dict) else ():
        if content not in _LEVELS:
            raise ValueError(f"{quote(name)}: write warning, critical or none")
    return value


def _waits(value: object) -> object:
    for name, content in value.items() if isinstance(value, dict) else ():
        try:
            parse_duration(text(content))
        except ValueError as error:
            raise ValueError(f"{quote(name)}: {error}") from None
    return value


def _host(value: object) -> str:
    address = parse_listen(text(value))
    if not address.host or not address.port:
        raise ValueError(f"{shown(value)} names no host and port; write host:port")
    return text(value)


def _edge(value: object) -> float:
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(ms|s)", str(value), re.ASCII)
    if isinstance(value, float):
        seconds = value
    elif found:
        seconds = float(found[1]) / (1000 if found[2] == "ms" else 1)
    else:
        raise ValueError(f"a time is expected, as 50ms, not {shown(value)}")
    if seconds not in _EDGES:
        near = min(_EDGES, key=lambda one: abs(one - seconds))
        raise ValueError(
            f"must be an edge of vLLM's buckets, as {near * 1000:g}ms: requests between two edges "
            "cannot be told apart"
        )
    return seconds


Amount = Annotated[
    float, BeforeValidator(_amount), WithJsonSchema({"type": "number", "minimum": 0})
]
Line = Annotated[str, BeforeValidator(_line), WithJsonSchema({"type": "string", "minLength": 1})]
Web = Annotated[
    str, BeforeValidator(_web), WithJsonSchema({"type": "string", "pattern": r"^https?://[!-~]+$"})
]
Text = Annotated[str, BeforeValidator(text), WithJsonSchema({"type": "string"})]
LabelNames = Annotated[tuple[str, ...], BeforeValidator(_label_names)]
Names = tuple[Text, ...]
Hosts = tuple[
    Annotated[str, BeforeValidator(_host), WithJsonSchema({"type": "string"})],
    ...,
]
Labels = Annotated[dict[str, str], BeforeValidator(_labels)]
Texts = Annotated[dict[str, str], BeforeValidator(_texts)]
Levels = Annotated[dict[str, str], BeforeValidator(_levels)]
Severities = Annotated[dict[str, str], BeforeValidator(_severities)]
Waits = Annotated[dict[str, str], BeforeValidator(_waits)]
Edge = Annotated[
    float,
    BeforeValidator(_edge),
    PlainSerializer(lambda seconds: f"{seconds * 1000:g}ms", return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s)$"}),
]
