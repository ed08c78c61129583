"""Kinds of values on command lines that click has not; opens nothing and looks nothing up."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from specgauge.config.address import parse_root
from specgauge.errors import UsageError
from specgauge.units import parse_span

Value = TypeVar("Value")

READ_BY_US = click.Path(path_type=Path, readable=False)
"""A path whose failings we tell ourselves, with the exit code of a source."""

LONGEST_WINDOW = 1e9
"""Seconds that may lie between two pages."""


class FiniteRange(click.FloatRange):
    """A number within a range; click's own takes NaN into every range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a number, or tell what is wrong with it."""
        number = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return float(super().convert(value, param, ctx))


def service_root(option: str, url: str) -> str:
    """Hold the URL of a service to what the configuration takes for one; raises UsageError."""
    return _read(option, url, parse_root)


def span_seconds(option: str, text: str) -> float:
    """Read how long an option has something wait or look back; raises UsageError."""
    return _read(option, text, parse_span)


def _read(option: str, text: str, parse: Callable[[str], Value]) -> Value:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def read_span(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Read the same where click asks, which then says it with its usage."""
    if text is None:
        return None
    try:
        return parse_span(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None


def plain(text: str) -> str:
    """Make text of a page or a file fit for a terminal, which obeys control characters."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
