"""The types of single keys of routing: names, servers, texts to look for, bounds.

A rule between two keys does not belong here but with the keys.
"""

import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from specgauge.config.address import parse_listen
from specgauge.config.fields import OPTIONAL_TEXT, Duration, Listen, Size, shown, text
from specgauge.routing.presets import PRESETS
from specgauge.routing.rules import CLASS_PATTERN, PATTERNS
from specgauge.routing.shape import ROUTE_NAMES
from specgauge.units import format_duration, format_size, quote

SECURE = "https://"
HOST_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?"
_SERVER = rf"(?:{HOST_NAME}|\[[0-9A-Fa-f:.]{{2,45}}\]):[0-9]{{1,5}}"
_POOLED = rf"{_SERVER}|{SECURE}{_SERVER}/?"
_SIDECAR = rf"(https?://)({_SERVER})/?"
_HEADER = r"[A-Za-z][A-Za-z0-9-]{0,63}"
_PATH = r"/[A-Za-z0-9/._~@:+-]{0,199}"
_LONGEST_TEXT = 200
_MOST = 10**9
_LONGEST_WAIT = 7 * 86400.0
_LARGEST_BODY = 64 << 20
_MOST_WORKERS = 1024
_MOST_IDLE = 10_000


def _one_of(form: str, what: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not re.fullmatch(form, text(value), re.ASCII):
            raise ValueError(f"{shown(value)} is not {what}")
        return text(value)

    return check


def _server(value: object) -> str:
    server = _one_of(_POOLED, "a server; write host:port, or https://host:port")(value)
    server = server.removesuffix("/")
    _with_port(server.removeprefix(SECURE))
    return server


def _with_port(value: str) -> str:
    """Refuse port 0, for there is no telling which one that would be."""
    if parse_listen(value).port == 0:
        raise ValueError(f"{quote(value)} has no port that can be told; write one from 1")
    return value


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
    if value == "auto" or (type(value) is int and 1 <= value <= _MOST_WORKERS):
        return str(value)
    raise ValueError(f"{shown(value)} is not auto or a number from 1 to {_MOST_WORKERS}")


def _idle(value: object) -> int:
    if type(value) is int and 1 <= value <= _MOST_IDLE:
        return value
    raise ValueError(f"write a whole number from 1 to {_MOST_IDLE}, not {shown(value)}")


def _unpadded(value: object) -> str:
    words = _plain(value)
    if words != words.strip():
        raise ValueError(f"{shown(words)} never comes: blanks around a header's value do not count")
    return words


def _wait(value: float) -> float:
    if value > _LONGEST_WAIT:
        raise ValueError(f"must be at most {format_duration(_LONGEST_WAIT)}")
    return value


def _body(value: int) -> int:
    if value > _LARGEST_BODY:
        raise ValueError(f"must be at most {format_size(_LARGEST_BODY)}: it is held in memory")
    return value


def _file_path(value: object) -> str:
    path = text(value)
    if not re.fullmatch(r"/[A-Za-z0-9/._+-]{1,1000}", path, re.ASCII):
        raise ValueError(f"{quote(path)} is not a full path of plain characters")
    return path


def _sidecar(value: object) -> str | None:
    if value is None:
        return None
    found = re.fullmatch(_SIDECAR, text(value), re.ASCII)
    if found is None:
        raise ValueError(
            f"{shown(value)} is not a sidecar's address; write http://host:port or https://host:port"
        )
    return f"{found[1]}{_with_port(found[2])}"


def _named(names: tuple[str, ...]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(names)})


def _form(form: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^(?:{form})$"})


_POOLS = ("speculative", "standard")

ClassName = Annotated[
    str,
    BeforeValidator(
        _one_of(
            CLASS_PATTERN,
            "the name of a class; write a-z, 0-9, _ and -, from a letter on, at most 40",
        )
    ),
    _form(CLASS_PATTERN),
]
PoolName = Annotated[
    Literal["speculative", "standard"], BeforeValidator(_listed(_POOLS)), _named(_POOLS)
]
Server = Annotated[str, BeforeValidator(_server), _form(_POOLED)]
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
HeaderValue = Annotated[
    str,
    BeforeValidator(_unpadded),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": _LONGEST_TEXT}),
]
Front = Annotated[Listen, AfterValidator(_with_port)]
Wait = Annotated[Duration, AfterValidator(_wait)]
Body = Annotated[Size, AfterValidator(_body)]
Idle = Annotated[
    int,
    BeforeValidator(_idle),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": _MOST_IDLE}),
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
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": _MOST_WORKERS},
                {"const": "auto"},
            ]
        }
    ),
]
FullPath = Annotated[str, BeforeValidator(_file_path), _form(r"/[A-Za-z0-9/._+-]{1,1000}")]
SidecarUrl = Annotated[
    str | None,
    BeforeValidator(_sidecar),
    WithJsonSchema({"type": OPTIONAL_TEXT, "pattern": f"^{_SIDECAR}$"}),
]
