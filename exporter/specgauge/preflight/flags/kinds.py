"""Kinds of values: whether a value is what a key takes; knows no combination of keys."""

import math
import re
from collections.abc import Callable, Mapping

from specgauge.preflight.flags.finding import Code, Finding, error, warning
from specgauge.preflight.flags.schedule import faults
from specgauge.preflight.flags.surface import Key
from specgauge.units import quote

_MOST = 2**31 - 1
_NUMBERS = frozenset({"count", "whole", "threshold", "number", "ratio"})
_VARIABLE = re.compile(r"\$(?:\w+|\{\w[^{}\"'\\\s]*\})", re.ASCII)


def check_value(key: Key, value: object) -> list[Finding]:
    """Check one value against its kind; null is what an absent key is."""
    if value is None or key.kind == "choice":
        return []
    if key.kind in _NUMBERS and is_variable(value):
        told = f"{quote(value)} is for the shell to fill in, and was not checked"
        return [warning(Code.VALUE_TYPE, key.name, told)]
    return _KINDS[key.kind](key.name, value)


def is_variable(value: object) -> bool:
    """Tell a value that is a shell's variable and nothing else."""
    return isinstance(value, str) and _VARIABLE.fullmatch(value) is not None


def number_of(value: object) -> float | None:
    """Take a number as the engine does: also from text, never from true or false."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def whole_of(value: object) -> int | None:
    """Take a whole number as the engine does, 5.0 and "5" included."""
    number = number_of(value)
    return int(number) if number is not None and number.is_integer() else None


def _at_least(least: int) -> Callable[[str, object], list[Finding]]:
    def check(name: str, value: object) -> list[Finding]:
        number = whole_of(value)
        if number is None:
            return [error(Code.VALUE_TYPE, name, f"{quote(value)} is no whole number")]
        if number > _MOST:
            return [error(Code.VALUE_RANGE, name, f"{quote(value)} is above {_MOST}")]
        if number < least:
            return [error(Code.VALUE_RANGE, name, f"{quote(value)} is not at least {least}")]
        if isinstance(value, str):
            return [_text_for_number(name, value)]
        return []

    return check


def _threshold(name: str, value: object) -> list[Finding]:
    found = _at_least(2)(name, value)
    return [
        error(Code.BATCH_THRESHOLD, name, one.message) if one.code is Code.VALUE_RANGE else one
        for one in found
    ]


def _number(name: str, value: object, most: float = math.inf) -> list[Finding]:
    number = number_of(value)
    if number is None:
        return [error(Code.VALUE_TYPE, name, f"{quote(value)} is no number")]
    if not 0 <= number <= most:
        limits = "at least 0" if most == math.inf else f"from 0 to {most:g}"
        return [error(Code.VALUE_RANGE, name, f"{quote(value)} is not {limits}")]
    return [_text_for_number(name, value)] if isinstance(value, str) else []


def _ratio(name: str, value: object) -> list[Finding]:
    return _number(name, value, most=1.0)


def _text_for_number(name: str, value: str) -> Finding:
    return warning(
        Code.VALUE_TYPE, name, f"{quote(value)} is text where a number is meant", "drop the quotes"
    )


def _text(name: str, value: object) -> list[Finding]:
    if isinstance(value, str) and value and value.isprintable():
        return []
    return [error(Code.VALUE_TYPE, name, f"{quote(value)} is no text to be read")]


def _flag(name: str, value: object) -> list[Finding]:
    if isinstance(value, bool):
        return []
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        fix = f"write {value.lower()} without quotes"
        return [warning(Code.VALUE_TYPE, name, f"{quote(value)} is text", fix)]
    if value in (0, 1):
        fix = f"write {'true' if value else 'false'}"
        return [warning(Code.VALUE_TYPE, name, f"{quote(value)} is a number", fix)]
    return [error(Code.VALUE_TYPE, name, f"{quote(value)} is neither true nor false")]


def _ratios(name: str, value: object) -> list[Finding]:
    if not isinstance(value, list) or not value:
        return [error(Code.VALUE_TYPE, name, f"{quote(value)} is no list of numbers")]
    return [one for item in value for one in _ratio(name, item)][:1]


def _object(name: str, value: object) -> list[Finding]:
    if isinstance(value, dict):
        return []
    return [error(Code.VALUE_TYPE, name, f"{quote(value)} is no object")]


def _schedule(name: str, value: object) -> list[Finding]:
    return [error(Code.SCHEDULE_MALFORMED, name, fault) for fault in faults(value)]


_KINDS: Mapping[str, Callable[[str, object], list[Finding]]] = {
    "count": _at_least(1),
    "whole": _at_least(0),
    "threshold": _threshold,
    "number": _number,
    "ratio": _ratio,
    "text": _text,
    "flag": _flag,
    "ratios": _ratios,
    "object": _object,
    "schedule": _schedule,
}
