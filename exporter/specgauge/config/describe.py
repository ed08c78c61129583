"""The configuration described: its JSON Schema for editors, and the values in effect as YAML.

Secrets are in neither.
"""

from typing import Any

import yaml

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


def effective(config: Config) -> str:
    """Write the values in effect as a configuration file; those of headers are hidden."""
    values = config.model_dump(mode="json", by_alias=True)
    for target, given in zip(values["targets"], config.targets, strict=True):
        target["name"] = given.name
        target["auth"]["headers"] = dict.fromkeys(target["auth"]["headers"], _HIDDEN)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
