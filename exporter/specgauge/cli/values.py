"""Kinds of values on command lines that click has not; opens nothing and looks nothing up."""

import math
from pathlib import Path
from typing import Any

import click

from specgauge.config.address import parse_root
from specgauge.errors import UsageError

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
    try:
        return parse_root(url)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def plain(text: str) -> str:
    """Make text of a page or a file fit for a terminal, which obeys control characters."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
