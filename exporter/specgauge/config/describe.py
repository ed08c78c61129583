"""The configuration described: for editors, for the documentation, and the values in effect.

Secrets are in neither.
"""

from typing import Any

import yaml

from specgauge.config.keys import ANY, INDEX, KEYS
from specgauge.config.models import Config

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HIDDEN = "(hidden)"


def schema() -> dict[str, Any]:
    """Describe, as JSON Schema (draft 2020-12), the configuration file."""
    described = Config.model_json_schema()
    for part in (described, *described["$defs"].values()):
        keys = part["properties"]
        part["properties"] = {
            name: {word: text for word, text in key.items() if word != "title"}
            for name, key in keys.items()
            if "writeOnly" not in key
        }
    return {"$schema": _DIALECT, **described, "title": "specgauge.yaml"}


def key_table(*sections: str) -> str:
    """Write a Markdown table of every key in some sections of the file, as its models have it."""
    lines = ["| key | default | variable | meaning |\n", "|---|---|---|---|\n"]
    for key in KEYS.values():
        if key.path[0] not in sections or key.secret or key.path[-1] in {ANY, INDEX}:
            continue
        name, meaning = ".".join(key.path).replace(f".{INDEX}", "[]"), key.meaning.removesuffix(".")
        variable = key.variable.replace(INDEX, "0")
        lines.append(f"| `{name}` | {_written(key.default)} | `{variable}` | {meaning} |\n")
    return "".join(lines)


def _written(default: object) -> str:
    match default:
        case None:
            return "-"
        case bool():
            return f"`{str(default).lower()}`"
        case float():
            return f"`{default:g}`"
        case tuple():
            return f"`[{', '.join(map(str, default))}]`"
        case _:
            return f"`{default}`"


def effective(config: Config) -> str:
    """Write the values in effect as a configuration file; those of headers are hidden."""
    values = config.model_dump(mode="json", by_alias=True)
    for target, given in zip(values["targets"], config.targets, strict=True):
        target["name"] = given.name
        target["auth"]["headers"] = dict.fromkeys(target["auth"]["headers"], _HIDDEN)
    if values["flag"] is not None:
        webhook = values["flag"]["webhook"]
        webhook["headers"] = dict.fromkeys(webhook["headers"], _HIDDEN)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
