"""The types of single keys of the guard and its flag: numbers, choices, commands, matchers.

A rule between two keys does not belong here but in `guard_rules`.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from specgauge.config.address import parse_root, parse_service
from specgauge.config.fields import (
    OPTIONAL_TEXT,
    DurationSchema,
    DurationText,
    at_least,
    duration,
    matching,
    pattern,
    shown,
    text,
)
from specgauge.units import quote

_LATENCY = r"(\d{1,9}(?:\.\d{1,6})?)(ms|s)"
_MATCHER = (
    r"""[A-Za-z_][A-Za-z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
)
_SELECTOR = rf"\s*{_MATCHER}\s*(?:,\s*{_MATCHER}\s*)*,?\s*"
_FLAG_KEY = r"[A-Za-z0-9_.:/\-]{1,128}"
_LABEL = r"[A-Za-z0-9_.:@\-]{1,253}"
_KUBERNETES_NAME = r"[a-z0-9](?:[a-z0-9.\-]{0,251}[a-z0-9])?"
_STATUSES = range(200, 600)


def _choice(*words: str) -> BeforeValidator:
    def check(value: object) -> object:
        if value is None or (isinstance(value, str) and value in words):
            return value
        listed = ", ".join(words[:-1]) + " or " * (len(words) > 1) + words[-1]
        raise ValueError(f"write {listed}, not {shown(value)}")

    return BeforeValidator(check)


def _signal(value: object) -> str:
    if isinstance(value, bool):  # what YAML makes of on and off
        return "on" if value else "off"
    if isinstance(value, str) and value in ("on", "dry_run", "off"):
        return value
    raise ValueError(f"write on, dry_run or off, not {shown(value)}")


def _number(low: float, high: float, what: str) -> Callable[[object], float | None]:
    def check(value: object) -> float | None:
        if value is None:
            return None
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        if isinstance(value, str):  # fractions reach here as they were written
            try:
                number = float(value)
            except ValueError:
                number = None
        if number is None or not low <= number <= high:
            raise ValueError(f"write {what}, not {shown(value)}")
        return float(number)

    return check


def _number_schema(low: float, high: float, *, optional: bool = False) -> WithJsonSchema:
    kind: Any = ["number", "null"] if optional else "number"
    return WithJsonSchema({"type": kind, "minimum": low, "maximum": high})


def _whole(low: int, high: int = 10**9) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise ValueError(f"write a whole number from {low}, not {shown(value)}")

    return check


def _latency(value: object) -> float | None:
    if value is None or isinstance(value, float):
        return value
    found = re.fullmatch(_LATENCY, value, re.ASCII) if isinstance(value, str) else None
    seconds = float(found[1]) / (1000 if found[2] == "ms" else 1) if found else duration(value)
    if not seconds > 0:
        raise ValueError("must be above 0s")
    return seconds


def _latency_text(seconds: float | None) -> str | None:
    return None if seconds is None else f"{round(seconds * 1000, 6):.10g}ms"


def _service(value: object) -> str | None:
    return None if value is None else parse_service(text(value))


def _root(value: object) -> str | None:
    return None if value is None else parse_root(text(value))


def _template(value: object) -> str | None:
    """Take the URL of a service in which `<< … >>` stands for what is filled in later."""
    if value is None:
        return None
    parse_service(re.sub(r"<<[^<>]*>>", "x", text(value)))
    return text(value)


def _place(value: object) -> str | None:
    """Take such a URL, or a path that lies below another one."""
    if (
        isinstance(value, str)
        and value.startswith("/")
        and not re.search(r"[\x00-\x1f\x7f]", value)
    ):
        return value
    return _template(value)


def _selector(value: object) -> str | None:
    if value is None or re.fullmatch(_SELECTOR, text(value)):
        return None if value is None else text(value).strip()
    raise ValueError(f'write label matchers without braces, as job="specgauge", not {quote(value)}')


def _words(value: object) -> str | None:
    if value is None:
        return None
    words = text(value)
    if not words.strip() or "\0" in words:
        raise ValueError("some text is expected")
    return words


def _content(value: object) -> str | None:
    return None if value is None else text(value)


def _argument(value: object) -> str:
    argument = text(value)
    if "\0" in argument:
        raise ValueError("an argument cannot hold the character U+0000")
    return argument


def _status(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value in _STATUSES:
        return value
    raise ValueError(f"write a status from 200 to 599, not {shown(value)}")


def _some(values: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if values == ():
        raise ValueError("name at least one status, as [200]")
    return values


_NAMED = "a name: letters, digits and . _ - : @ only"
_SERVED = "a name of Kubernetes: small letters, digits, - and . only"
_KEYED = "a key: letters, digits and . _ - : / only"

SignalMode = Annotated[
    Literal["on", "dry_run", "off"],
    BeforeValidator(_signal),
    WithJsonSchema({"enum": ["on", "dry_run", "off", True, False]}),
]
Preset = Annotated[Literal["playbook"] | None, _choice("playbook")]
Recovery = Annotated[Literal["probe", "manual"], _choice("probe", "manual")]
Source = Annotated[Literal["sidecar", "prometheus"], _choice("sidecar", "prometheus")]
Span = Annotated[
    float, BeforeValidator(duration), AfterValidator(at_least(0.0)), DurationText, DurationSchema
]
Latency = Annotated[
    float | None,
    BeforeValidator(_latency),
    PlainSerializer(_latency_text, when_used="json"),
    WithJsonSchema({"type": OPTIONAL_TEXT, "pattern": rf"^(?:{_LATENCY}|[0-9]+[dhm][0-9dhms]*)$"}),
]
Minimum = Annotated[
    int, BeforeValidator(_whole(0)), WithJsonSchema({"type": "integer", "minimum": 0})
]
Times = Annotated[
    int, BeforeValidator(_whole(1)), WithJsonSchema({"type": "integer", "minimum": 1})
]
Ratio = Annotated[
    float,
    BeforeValidator(_number(0, 1, "a ratio from 0 to 1, as 0.8")),
    _number_schema(0, 1),
]
Factor = Annotated[
    float, BeforeValidator(_number(1, 100, "a number from 1 to 100, as 2")), _number_schema(1, 100)
]
Floor = Annotated[
    float | None,
    BeforeValidator(_number(1, 1000, "tokens a step from 1 to 1000, as 1.8")),
    _number_schema(1, 1000, optional=True),
]
Share = Annotated[
    float | None,
    BeforeValidator(_number(0, 1, "a share from 0 to 1, as 0.5")),
    _number_schema(0, 1, optional=True),
]
Service = Annotated[
    str | None,
    BeforeValidator(_service),
    WithJsonSchema({"type": OPTIONAL_TEXT, "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[!-~]+$"}),
]
Root = Annotated[
    str | None,
    BeforeValidator(_root),
    WithJsonSchema({"type": OPTIONAL_TEXT, "pattern": r'^[Hh][Tt][Tt][Pp][Ss]?://[!"$->@-~]+$'}),
]
ServiceTemplate = Annotated[
    str | None,
    BeforeValidator(_template),
    WithJsonSchema({"type": OPTIONAL_TEXT, "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://.+$"}),
]
PlaceTemplate = Annotated[
    str | None,
    BeforeValidator(_place),
    WithJsonSchema({"type": OPTIONAL_TEXT, "pattern": r"^([Hh][Tt][Tt][Pp][Ss]?:/)?/.*$"}),
]
Selector = Annotated[
    str | None, BeforeValidator(_selector), WithJsonSchema({"type": OPTIONAL_TEXT})
]
Words = Annotated[str | None, BeforeValidator(_words), WithJsonSchema({"type": OPTIONAL_TEXT})]
Content = Annotated[str | None, BeforeValidator(_content), WithJsonSchema({"type": OPTIONAL_TEXT})]
Value = Annotated[str, BeforeValidator(text)]
Argument = Annotated[str, BeforeValidator(_argument)]
Command = tuple[Argument, ...]
Statuses = Annotated[
    tuple[
        Annotated[
            int,
            BeforeValidator(_status),
            WithJsonSchema({"type": "integer", "minimum": 200, "maximum": 599}),
        ],
        ...,
    ]
    | None,
    AfterValidator(_some),
]
FlagName = Annotated[str, BeforeValidator(matching(_FLAG_KEY, _KEYED)), pattern(_FLAG_KEY)]
FlagPath = Annotated[
    str | None, BeforeValidator(matching(_FLAG_KEY, _KEYED)), pattern(_FLAG_KEY, optional=True)
]
Label = Annotated[str, BeforeValidator(matching(_LABEL, _NAMED)), pattern(_LABEL)]
OptionalLabel = Annotated[
    str | None, BeforeValidator(matching(_LABEL, _NAMED)), pattern(_LABEL, optional=True)
]
ObjectName = Annotated[
    str, BeforeValidator(matching(_KUBERNETES_NAME, _SERVED)), pattern(_KUBERNETES_NAME)
]
OptionalObjectName = Annotated[
    str | None,
    BeforeValidator(matching(_KUBERNETES_NAME, _SERVED)),
    pattern(_KUBERNETES_NAME, optional=True),
]
Backend = Annotated[
    Literal[
        "embedded", "webhook", "file", "exec", "etcd", "kubernetes", "haproxy", "nginx",
        "production-stack",
    ],
    _choice(
        "embedded", "webhook", "file", "exec", "etcd", "kubernetes", "haproxy", "nginx",
        "production-stack",
    ),
]  # fmt: skip
WebhookPreset = Annotated[
    Literal["playbook", "unleash", "launchdarkly", "growthbook", "consul"] | None,
    _choice("playbook", "unleash", "launchdarkly", "growthbook", "consul"),
]
Verb = Annotated[
    Literal["POST", "PUT", "PATCH", "DELETE", "GET"] | None,
    _choice("POST", "PUT", "PATCH", "DELETE", "GET"),
]
ReadVerb = Annotated[Literal["GET", "POST"] | None, _choice("GET", "POST")]
DrainMode = Annotated[Literal["drain", "weight"], _choice("drain", "weight")]
