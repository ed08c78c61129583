"""The document as Markdown for a chat or a mail, and as one HTML file that asks for nothing else.

Reads nothing but its own templates.
"""

import json
from collections.abc import Mapping
from typing import Any

from specgauge.report import plots, words
from specgauge.report.templating import environment

Json = Mapping[str, Any]


def as_json(document: Json) -> str:
    """Write the document itself."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def as_markdown(document: Json) -> str:
    """Write it as Markdown, with GitHub's tables."""
    return environment(words.FILTERS).get_template("report.md").render(_names(document))


def as_html(document: Json) -> str:
    """Write it as HTML, with plots."""
    drawn = [_plots(group, document) for group in document["groups"]]
    made = environment(words.FILTERS, markup=True).get_template("report.html")
    return made.render(
        _names(document),
        drawn=drawn,
        width=plots.WIDTH,
        height=plots.HEIGHT,
        right=plots.RIGHT,
    )


def _plots(group: Json, document: Json) -> tuple[plots.Plot, ...]:
    period, speedup = document["period"], group["speedup"]
    found = [
        plots.over_time(
            "Acceptance by hour",
            group["acceptance"]["hours"],
            group,
            period,
            limit=document["limits"]["min_acceptance"],
            top=1.0,
        )
    ]
    if speedup["ratio"] is not None:
        found.append(
            plots.over_time("Speedup by hour", speedup["hours"], group, period, limit=1.0, top=None)
        )
    if speedup["by_load"]:
        found.append(plots.by_load("Speedup by requests in decode", speedup["by_load"]))
    return tuple(found)


def _names(document: Json) -> dict[str, Any]:
    """Give the names that both templates know."""
    return {
        "r": document,
        "figures": words.FIGURES,
        "headline": words.headline,
        "change": words.change,
        "sentence": sentence,
        "title": title,
    }


def title(group: Json) -> str:
    """Name a group."""
    model = group["model_name"] or "a model without a name"
    return f"{model} in {group['cluster']}" if group["cluster"] else str(model)


def sentence(group: Json) -> str:
    """Say in one sentence how it went."""
    found = group["speedup"]
    if not group["acceptance"]["draft_tokens"]:
        return "Nothing was drafted: there is no speculation to tell of."
    if found["ratio"] is None:
        return "Whether speculation paid is not known: no baseline covered any of it."
    if found["low"] is not None and found["low"] > 1.0:
        said = "Speculation paid"
    elif found["high"] is not None and found["high"] < 1.0:
        said = "Speculation cost"
    else:
        said = "Speculation made no clear difference"
    return f"{said}: tokens came {words.interval(found)} times as fast as without."
