"""Fills the texts of a webhook; a template reaches nothing but the five values it is given.

What a template may hold is a list of what is allowed: values, texts, conditions, joining and a few
filters. Loops, calls, arithmetic and attributes are refused when it is read, so that no template
can hang, grow without bound or look around.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from jinja2 import StrictUndefined, Template, TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

NAMES = ("flag", "enabled", "reason", "project", "environment")
_MAX_TEMPLATE = 16 * 1024
_MAX_TEXT = 64 * 1024
_MAX_REASON = 500
_MAX_NESTED_FILTERS = 3
_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.Const,
    nodes.If,
    nodes.CondExpr,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Concat,
    nodes.Filter,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What a template may name."""

    flag: str
    enabled: bool
    reason: str = ""
    project: str = "default"
    environment: str = "production"


def compile_template(text: str) -> Template:
    """Compile a template that holds only what is allowed; raise ValueError for any other."""
    if len(text) > _MAX_TEMPLATE:
        raise ValueError(f"the template is longer than {_MAX_TEMPLATE} characters")
    environment = _environment()
    try:
        _check(environment.parse(text), environment, 0)
        return environment.from_string(text)
    except TemplateError as error:
        raise ValueError(f"the template cannot be read: {error.message}") from error
    except RecursionError as error:
        raise ValueError("the template is nested too deeply") from error


def fill(template: Template, values: Values) -> str:
    """Fill a template with the values as they are; raise ValueError where that fails."""
    return _render(template, _named(values))


def fill_url(template: Template, values: Values) -> str:
    """Fill a template with each text quoted, so that no value changes the shape of a URL."""
    named = {
        name: quote(value, safe="") if isinstance(value, str) else value
        for name, value in _named(values).items()
    }
    return _render(template, named)


def _named(values: Values) -> dict[str, str | bool]:
    return {
        "flag": values.flag,
        "enabled": values.enabled,
        "reason": values.reason[:_MAX_REASON],
        "project": values.project,
        "environment": values.environment,
    }


def _render(template: Template, named: Mapping[str, object]) -> str:
    try:
        text = template.render(named)
    except (TemplateError, TypeError, ValueError) as error:
        raise ValueError(f"the template cannot be filled: {error}") from error
    if len(text) > _MAX_TEXT:
        raise ValueError(f"the filled template is longer than {_MAX_TEXT} characters")
    return text


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
    environment.globals.clear()
    environment.tests.clear()
    environment.filters = {
        "tojson": json.dumps,
        "upper": str.upper,
        "lower": str.lower,
        "string": str,
        "base64": lambda text: base64.b64encode(str(text).encode()).decode(),
        "urlencode": lambda text: quote(str(text), safe=""),
    }
    return environment


def _check(node: nodes.Node, environment: ImmutableSandboxedEnvironment, filters: int) -> None:
    allowed = isinstance(node, _ALLOWED)
    if not allowed:
        kind = type(node).__name__.lower()
        raise ValueError(
            f"line {node.lineno}: the template uses {kind!r}, which is not allowed; "
            "values, texts, if, ~ and filters are"
        )
    if isinstance(node, nodes.Name) and node.name not in NAMES:
        raise ValueError(f"line {node.lineno}: {node.name!r} is none of {', '.join(NAMES)}")
    if isinstance(node, nodes.Filter):
        filters += 1
        if node.name not in environment.filters or node.args or node.kwargs:
            known = ", ".join(sorted(environment.filters))
            raise ValueError(f"line {node.lineno}: filter {node.name!r} is none of {known}")
        if filters > _MAX_NESTED_FILTERS:  # each may double what it is given
            raise ValueError(
                f"line {node.lineno}: more than {_MAX_NESTED_FILTERS} filters in a row"
            )
    for child in node.iter_child_nodes():
        _check(child, environment, filters)
