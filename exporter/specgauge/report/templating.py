"""How the templates of the report are read: strictly, and escaped where they are HTML."""

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment(filters: Mapping[str, Any], *, markup: bool = False) -> Environment:
    """Make the environment that a template is read in; text is escaped in HTML alone."""
    made = Environment(
        loader=PackageLoader("specgauge.report", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=markup,  # noqa: S701 - the rest is no HTML
    )
    made.filters |= filters
    return made
