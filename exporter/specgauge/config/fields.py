"""The types of single keys: each reads one value and says in one line what is wrong with it.

A rule between two keys does not belong here but in `rules`.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, SecretStr, WithJsonSchema

from specgauge.config.address import NAME_PATTERN, parse_address, parse_listen
from specgauge.units import (
    DURATION_PATTERN,
    SIZE_PATTERN,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
    quote,
)

_LARGEST_MARGIN = 0.5
_SMALLEST_PAGE = 1024
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
OPTIONAL_TEXT = ["string", "null"]


def text(value: object) -> str:
    """Take a string and refuse what YAML made something else of."""
    match value:
        case str():
            return value
        case bool():
            raise ValueError("YAML reads this as true or false; put it in quotes")
        case int():
            raise ValueError("YAML reads this as a number; put it in quotes")
        case _:
            raise ValueError(f"text is expected, not {kind_of(value)}")


def kind_of(value: object) -> str:
    """Name what a value is, in YAML's words."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case None:
            return "nothing"
        case _:
            return "text"


def header_safe(value: str) -> str:
    """Take what can be sent in an Authorization header; the error does not show the value."""
    if not re.fullmatch(r"[!-~]+", value):
        raise ValueError("holds characters that a token cannot have; expected is one line of ASCII")
    return value


def user_password(value: str) -> str:
    """Take `user:password`; the error does not show the value."""
    if ":" not in value or re.search(r"[\x00-\x1f\x7f]", value):
        raise ValueError("expected is one line: user:password")
    return value


def duration(value: object) -> float:
    """Take a duration as people write it, or a number of seconds that is a caller's own."""
    match value:
        case float():  # a default or a caller's own number; YAML never gives one
            return value
        case bool():
            raise ValueError("a duration is expected, as 3s or 500ms, not true or false")
        case str() | int():
            return parse_duration(str(value))
        case _:
            raise ValueError(f"a duration is expected, as 3s or 500ms, not {kind_of(value)}")


def at_least(seconds: float) -> Callable[[float], float]:
    """Refuse shorter durations."""

    def check(value: float) -> float:
        if not value >= seconds:
            raise ValueError(f"must be at least {format_duration(seconds)}")
        return value

    return check


def _size(value: object) -> int:
    match value:
        case bool():
            raise ValueError("a size is expected, as 64MiB, not true or false")
        case str() | int():
            size = parse_size(str(value))
        case _:
            raise ValueError(f"a size is expected, as 64MiB, not {kind_of(value)}")
    if size < _SMALLEST_PAGE:
        raise ValueError(f"must be at least {format_size(_SMALLEST_PAGE)}")
    return size


def _switch(value: object) -> bool:
    match value:
        case bool():
            return value
        case _:
            raise ValueError(f"write true or false, not {shown(value)}")


def shown(value: object) -> str:
    """Show a value that is no secret in an error, or say what it is."""
    return quote(value) if isinstance(value, str | int) else kind_of(value)


def _count(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError(f"write a whole number from 1, not {shown(value)}")


def _margin(value: object) -> float:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if isinstance(value, str):  # YAML 1.2 texts of numbers reach here as they were written
        try:
            number = float(value)
        except ValueError:
            number = None
    if number is None or not 0.0 <= number <= _LARGEST_MARGIN:
        raise ValueError(f"write a share from 0 to {_LARGEST_MARGIN}, as 0.05, not {shown(value)}")
    return float(number)


def _role(value: object) -> str:
    if isinstance(value, str) and value in ("speculative", "standard"):
        return value
    raise ValueError(f"write speculative or standard, not {shown(value)}")


def _url(value: object) -> str:
    url = text(value)
    parse_address(url)
    return url


def _listen(value: object) -> str:
    address = str(value) if type(value) is int else text(value)
    parse_listen(address)
    return address


def matching(form: str, what: str) -> Callable[[str | None], str | None]:
    """Take text of one form, or nothing."""

    def check(value: object) -> str | None:
        if value is None or re.fullmatch(form, text(value)):
            return None if value is None else text(value)
        raise ValueError(f"{quote(value)} is not {what}")

    return check


def _path(value: object) -> Path | None:
    if value is None or isinstance(value, Path):
        return value
    path = text(value)
    if not path or "\0" in path:
        raise ValueError("expected is the path of a file")
    return Path(path)


_FRAMING = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)


def _headers(value: object) -> object:
    if not isinstance(value, dict):
        return value  # pydantic says what it wants instead
    seen: set[str] = set()
    for name, content in value.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{quote(name)} is not the name of a header")
        if name.lower() == "authorization":
            raise ValueError(
                "Authorization is a secret; use bearer_file or basic_file, for a flag token_file"
            )
        if name.lower() in _FRAMING:
            raise ValueError(f"{quote(name)} belongs to the request itself; remove it")
        if name.lower() in seen:
            raise ValueError(f"{quote(name)} is there twice; case makes no difference")
        if not (isinstance(content, str) and _HEADER_VALUE.fullmatch(content)):
            raise ValueError(f"the value of {quote(name)} must be text, in quotes, on one line")
        seen.add(name.lower())
    return value


def _secret(check: Callable[[str], str]) -> Callable[[object], object]:
    def validate(value: object) -> object:
        return value if value is None or isinstance(value, SecretStr) else check(text(value))

    return validate


def pattern(form: str, *, optional: bool = False) -> WithJsonSchema:
    """Describe text of one form for editors."""
    kind: Any = OPTIONAL_TEXT if optional else "string"
    return WithJsonSchema({"type": kind, "pattern": f"^{form}$"})


DurationText = PlainSerializer(format_duration, return_type=str, when_used="json")
DurationSchema = pattern(DURATION_PATTERN)

Interval = Annotated[
    float,
    BeforeValidator(duration),
    AfterValidator(at_least(0.1)),
    DurationText,
    DurationSchema,
]
Duration = Annotated[
    float,
    BeforeValidator(duration),
    AfterValidator(at_least(0.001)),
    DurationText,
    DurationSchema,
]
Size = Annotated[
    int,
    BeforeValidator(_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": _SMALLEST_PAGE},
                {"type": "string", "pattern": f"^{SIZE_PATTERN}$"},
            ]
        }
    ),
]
Switch = Annotated[bool, BeforeValidator(_switch)]
Count = Annotated[
    int | None,
    BeforeValidator(_count),
    WithJsonSchema({"type": ["integer", "null"], "minimum": 1}),
]
Role = Annotated[Literal["speculative", "standard"], BeforeValidator(_role)]
Url = Annotated[
    str,
    BeforeValidator(_url),
    WithJsonSchema({"type": "string", "pattern": r"^([Hh][Tt][Tt][Pp][Ss]?|http\+unix)://[!-~]+$"}),
]
Listen = Annotated[str, BeforeValidator(_listen), pattern(r".*:[0-9]{1,5}")]
Name = Annotated[
    str | None,
    BeforeValidator(matching(NAME_PATTERN, "a name: letters, digits and . _ - : / [ ] only")),
    pattern(NAME_PATTERN, optional=True),
]
Method = Annotated[
    str | None,
    BeforeValidator(matching(r"[A-Za-z0-9_.\-]{1,64}", "a method: letters, digits and . _ - only")),
    pattern(r"[A-Za-z0-9_.\-]{1,64}", optional=True),
]
File = Annotated[
    Path | None, BeforeValidator(_path), WithJsonSchema({"type": OPTIONAL_TEXT, "minLength": 1})
]
Folder = Annotated[
    Path | None, BeforeValidator(_path), WithJsonSchema({"type": OPTIONAL_TEXT, "minLength": 1})
]
Margin = Annotated[
    float,
    BeforeValidator(_margin),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": _LARGEST_MARGIN}),
]
Headers = Annotated[dict[str, str], BeforeValidator(_headers)]
BearerSecret = Annotated[
    SecretStr | None, BeforeValidator(_secret(header_safe)), WithJsonSchema({"writeOnly": True})
]
BasicSecret = Annotated[
    SecretStr | None, BeforeValidator(_secret(user_password)), WithJsonSchema({"writeOnly": True})
]
