"""The one Jinja environment: `<< >>`, `<% %>`, `<# #>`, as Prometheus and Grafana own `{{ }}`.

A name that is not there is an error, never an empty text. Reads nothing but its own templates.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateError

from specgauge.errors import RenderError
from specgauge.render.options import Options
from specgauge.render.quoting import go_regex, go_string, json_string
from specgauge.units import format_duration

YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Reads as `yaml.safe_load` does, a tenth of the time where libyaml is there."""


@cache
def environment() -> Environment:
    """Make the environment that every template is read in, once, for it keeps them compiled."""
    made = Environment(
        loader=PackageLoader("specgauge.render", "templates"),
        undefined=StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - no HTML is made
    )
    made.filters |= {
        "duration": format_duration,
        "edge": edge,
        "go": go_string,
        "json": json_string,
        "number": number,
        "percent": percent,
        "promql": go_string,
    }
    return made


def fill(name: str, options: Options, **more: object) -> str:
    """Fill one template of `templates/`; raises RenderError where it asks for what is not there."""
    try:
        return environment().get_template(name).render({**names_of(options), **more})
    except (TemplateError, TypeError) as error:  # the latter where nothing is to be formatted
        raise RenderError([f"{name}: {error}"]) from None


def fill_yaml(name: str, options: Options, **more: object) -> Any:
    """Fill one template and read the YAML that it makes."""
    try:
        return yaml.load(fill(name, options, **more), Loader=YAML_LOADER)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        raise RenderError([f"{name}: {' '.join(str(error).split())}"]) from None


def names_of(options: Options) -> dict[str, object]:
    """Give the names that every template knows.

    `o` options, `t` thresholds, `short`, `medium`, `long` the windows as PromQL writes them.
    `m('x="y"')` and `s('x="y"')` write the matchers of a series with a model and of one without.
    `sidecar`, `server`, `instance` and `model` are labels to keep, ready for `by (...)`.
    `after_from` to `after_to` is how long ago a fallback is that is looked at, and `before` how far
    back the time before it lies; `bridge` is a window in which one scrape may be missed.
    """
    sidecar = ("instance", *options.keep_labels)
    keep = (*sidecar, "target")
    span = bridge(options)
    return {
        "o": options,
        "t": options.thresholds,
        "short": format_duration(options.short_window),
        "medium": format_duration(options.medium_window),
        "long": format_duration(options.long_window),
        "bridge": format_duration(span),
        "after_from": span + 60.0,
        "after_to": span + 210.0,
        "before": span + 240.0,
        "m": lambda *matchers: selector(options, *matchers),
        "s": lambda *matchers: selector(replace(options, models=()), *matchers),
        "instance": ", ".join((*keep, "model_name")),
        "server": ", ".join(keep),
        "sidecar": ", ".join(sidecar),
        "model": "model_name",
    }


def bridge(options: Options) -> float:
    """Give a window in which one scrape may be missed: four intervals, at least a minute."""
    return max(60.0, 4.0 * options.scrape_interval)


def selector(options: Options, *matchers: str) -> str:
    """Write the braces of a selector, or nothing where nothing is selected by."""
    given = options.selector.rstrip(", ")  # a comma at the end is well in PromQL
    parts = [given, _models(options.models), *matchers]
    joined = ",".join(part for part in parts if part)
    return f"{{{joined}}}" if joined else ""


def _models(models: tuple[str, ...]) -> str:
    match models:
        case ():
            return ""
        case (one,):
            return f"model_name={go_string(one)}"
        case _:
            return f"model_name=~{go_string('|'.join(map(go_regex, models)))}"


def number(value: float) -> str:
    """Write a number the way PromQL reads it."""
    return f"{value:.12g}"


def percent(value: float) -> str:
    """Write a share for people."""
    return f"{value * 100:.6g} %"


def edge(value: float) -> str:
    """Write the upper edge of a bucket the way it stands in the label `le`."""
    return repr(float(value))
