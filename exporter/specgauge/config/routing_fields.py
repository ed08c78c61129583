"""The types of single keys of routing: names, servers, texts to look for, bounds.

A rule between two keys does not belong here but with the keys.
"""

import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BeforeValidator, WithJsonSchema

from specgauge.config.address import parse_listen
from specgauge.config.fields import OPTIONAL_TEXT, shown, text
from specgauge.routing.presets import PRESETS
from specgauge.routing.rules import CLASS_PATTERN, PATTERNS
from specgauge.routing.shape import ROUTE_NAMES
from specgauge.units import quote

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]"
_SERVER = rf"(?:{_HOST}):[0-9]{{1,5}}"
_HEADER = r"[A-Za-z][A-Za-z0-9-]{0,63}"
_PATH = r"/[A-Za-z0-9/._~@:+-]{0,199}"
_LONGEST_TEXT = 200
_MOST = 10**9


def _one_of(form: str, what: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not re.fullmatch(form, text(value), re.ASCII):
            raise ValueError(f"{shown(value)} is not {what}")
        return text(value)

    return check


def _server(value: object) -> str:
    server = _one_of(_SERVER, "a server; write host:port, without http://")(value)
    parse_listen(server)
    return server


def _listed(names: tuple[str, ...]) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not (isinstance(value, str) and value in names):
            raise ValueError(f"{shown(value)} is not known here; there are {', '.join(names)}")
        return value

    return check


def _plain(value: object) -> str:
    words = text(value)
    if not 1 <= len(words) <= _LONGEST_TEXT or not words.replace("\n", "").isprintable():
        raise ValueError(f"some text of at most {_LONGEST_TEXT} characters is expected")
    return words


def _bound(value: object) -> float | None:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value, re.ASCII):
        number = float(value)
    if value is None:
        return None
    if number is None or not 0 <= number <= _MOST:
        raise ValueError(f"write a number from 0, as 1.5, not {shown(value)}")
    return float(number)


def _answer(value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise ValueError(f"write true or false, not {shown(value)}")


def _workers(value: object) -> str:
    return str(value) if type(value) is int and value >= 1 else _one_of("auto", "auto or 1")(value)


def _file_path(value: object) -> str:
    path = text(value)
    if not re.fullmatch(r"/[A-Za-z0-9/._+-]{1,1000}", path, re.ASCII):
        raise ValueError(f"{quote(path)} is not a full path of plain characters")
    return path


def _sidecar(value: object) -> str | None:
    if value is None:
        return None
    found = re.fullmatch(rf"http://({_SERVER})/?", text(value), re.ASCII)
    if found is None:
        raise ValueError(f"{shown(value)} is not a sidecar's address; write http://host:port")
    return f"http://{_server(found[1])}"


def _named(names: tuple[str, ...]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(names)})


def _form(form: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^(?:{form})$"})


_POOLS = ("speculative", "standard")

ClassName = Annotated[
    str,
    BeforeValidator(
        _one_of(CLASS_PATTERN, "the name of a class; write a-z, 0-9, _ and -, from a letter on")
    ),
    _form(CLASS_PATTERN),
]
PoolName = Annotated[
    Literal["speculative", "standard"], BeforeValidator(_listed(_POOLS)), _named(_POOLS)
]
Server = Annotated[str, BeforeValidator(_server), _form(_SERVER)]
HeaderName = Annotated[
    str, BeforeValidator(_one_of(_HEADER, "the name of a header")), _form(_HEADER)
]
PathStart = Annotated[
    str, BeforeValidator(_one_of(_PATH, "the beginning of a path, as /v1/chat")), _form(_PATH)
]
RouteName = Annotated[str, BeforeValidator(_listed(ROUTE_NAMES)), _named(ROUTE_NAMES)]
Pattern = Annotated[str, BeforeValidator(_listed(tuple(PATTERNS))), _named(tuple(PATTERNS))]
Preset = Annotated[str, BeforeValidator(_listed(tuple(PRESETS))), _named(tuple(PRESETS))]
Plain = Annotated[
    str,
    BeforeValidator(_plain),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": _LONGEST_TEXT}),
]
Bound = Annotated[
    float | None,
    BeforeValidator(_bound),
    WithJsonSchema({"type": ["number", "null"], "minimum": 0}),
]
Answer = Annotated[
    bool | None, BeforeValidator(_answer), WithJsonSchema({"type": ["boolean", "null"]})
]
Workers = Annotated[
    str,
    BeforeValidator(_workers),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}]}),
]
FullPath = Annotated[str, BeforeValidator(_file_path), _form(r"/[A-Za-z0-9/._+-]{1,1000}")]
SidecarUrl = Annotated[
    str | None,
    BeforeValidator(_sidecar),
    WithJsonSchema({"type": OPTIONAL_TEXT, "pattern": rf"^http://({_SERVER})/?$"}),
]
