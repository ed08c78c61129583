"""The exposition formats' grammar for one line: name, labels, value. Knows no metric.

Classic text 0.0.4 and OpenMetrics 1.0, with Prometheus 3's quoted names. Where the two differ
(the unit of a timestamp, exemplars) the difference does not reach a value, so one grammar serves.
"""

import re
from dataclasses import dataclass

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED = re.compile(r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"')
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_BLANK = re.compile(r"[ \t]*")
_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
    r"|[iI]nf(?:inity)?|INF|[nN]a[nN]|NAN)\Z",
    re.ASCII,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}


class MalformedLineError(ValueError):
    """A line that is no sample; the reader adds the line's number and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One sample as written: `end` is where its key (name and labels) stops."""

    name: str
    labels: dict[str, str]
    value: float
    end: int


def unescape(text: str) -> str:
    r"""Undo the backslashes of a label value: \n, \" and \\; any other pair stays as it is."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[0]), text)


def number(text: str) -> float:
    """Read a sample value; Inf and NaN are values here, underscores and other digits are not.

    Raises MalformedLineError for anything else.
    """
    if not _NUMBER.match(text):
        raise MalformedLineError
    return float(text)


def parse_line(line: str) -> Line:
    """Take one sample line apart; raises MalformedLineError where it is none."""
    at = _skip(line, 0)
    name = ""
    found = _NAME.match(line, at)
    if found:
        name, at = found[0], _skip(line, found.end())
    labels: dict[str, str] = {}
    if line[at : at + 1] == "{":
        quoted, at = _labels(line, at + 1, labels)
        if quoted and name:
            raise MalformedLineError
        name = name or quoted
    if not name:
        raise MalformedLineError
    value = _value(line[at:], separated=line[at - 1] in " \t}")
    return Line(name=name, labels=labels, value=value, end=len(line[:at].rstrip(" \t")))


def _labels(line: str, at: int, labels: dict[str, str]) -> tuple[str, int]:
    """Fill `labels` from just behind the brace; answers the quoted metric name and the end."""
    metric = ""
    while True:
        at = _skip(line, at)
        if line[at : at + 1] == "}":
            return metric, at + 1
        quoted = _QUOTED.match(line, at)
        plain = _LABEL_NAME.match(line, at)
        found = quoted or plain
        if not found:
            raise MalformedLineError
        name = unescape(quoted[1]) if quoted else found[0]
        at = _skip(line, found.end())
        if line[at : at + 1] == "=":
            value = _QUOTED.match(line, _skip(line, at + 1))
            if not value or name in labels:
                raise MalformedLineError
            labels[name] = unescape(value[1])
            at = _skip(line, value.end())
        elif quoted and not metric and not labels:
            metric = name
        else:
            raise MalformedLineError
        if line[at : at + 1] == ",":
            at += 1
        elif line[at : at + 1] != "}":
            raise MalformedLineError


def _value(rest: str, *, separated: bool) -> float:
    """Read value, timestamp and exemplar; only the value is kept."""
    sample, _, exemplar = rest.partition("#")
    fields = sample.replace("\t", " ").strip(" ").split(" ")
    fields = [field for field in fields if field]
    if not separated or not 1 <= len(fields) <= 2:  # noqa: PLR2004 - value and timestamp
        raise MalformedLineError
    if exemplar and not exemplar.lstrip(" \t").startswith("{"):
        raise MalformedLineError
    for stamp in fields[1:]:
        number(stamp)
    return number(fields[0])


def _skip(line: str, at: int) -> int:
    found = _BLANK.match(line, at)
    return found.end() if found else at
