"""Texts made safe for the languages that rendered files speak; each function knows one."""

import json
import re

_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def go_string(text: str) -> str:
    """Write a text as a Go string, which PromQL and Prometheus' templates both read."""
    return '"' + "".join(_escaped(one) for one in text) + '"'


def go_regex(text: str) -> str:
    """Write a regular expression, as RE2 reads it, that matches this text alone."""
    return _SPECIAL.sub(r"\\\1", text)


def json_string(value: object) -> str:
    """Write a value as JSON, which is YAML too."""
    return json.dumps(value, ensure_ascii=False)


def go_literal(text: str) -> str:
    """Write a text so that Prometheus' template engine gives it back as it is."""
    return "{{ " + go_string(text) + " }}" if "{{" in text else text


def _escaped(one: str) -> str:
    if one in _ESCAPES:
        return _ESCAPES[one]
    if one.isprintable():
        return one
    return f"\\U{ord(one):08x}"
