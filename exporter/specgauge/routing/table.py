"""The rules as the one JSON table that a router's script reads; says nothing of servers."""

import json
from typing import Any

from specgauge.routing.rules import LOOKED_AT, OTHER, LoadLimit, Routes, Rule, When
from specgauge.routing.shape import GUIDED, LENGTHS, PROMPTS, ROUTES

SCHEMA = "specgauge.routes/v1"


def table_of(routes: Routes) -> dict[str, Any]:
    """Write the rules down, with all that reading a request takes."""
    return {
        "schema": SCHEMA,
        "rules": [_rule(routes, rule) for rule in routes.rules],
        "fallback": {
            "name": OTHER,
            "pool": str(routes.fallback_pool),
            "load": _key(routes.limit_of(None)),
        },
        "flag": {
            "fresh": routes.flag.fresh,
            "hold": routes.flag.hold,
            "then": str(routes.flag.then),
        },
        "asks_prompt": any(rule.when.texts or rule.when.prompt_characters for rule in routes.rules),
        "max_body": routes.max_body,
        "looked_at": LOOKED_AT,
        "routes": [[end, name] for end, name in ROUTES.items()],
        "guided": list(GUIDED),
        "lengths": list(LENGTHS),
        "prompts": list(PROMPTS),
    }


def table_text(routes: Routes) -> str:
    """Write the table as the text of a file, in ASCII."""
    return json.dumps(table_of(routes), indent=1) + "\n"


def _rule(routes: Routes, rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "pool": str(rule.pool),
        "load": _key(routes.limit_of(rule)),
        "when": _when(rule.when),
    }


def _key(limit: LoadLimit | None) -> str | None:
    return None if limit is None else limit.key


def _when(when: When) -> dict[str, Any]:
    """Write only what is asked."""
    asked: dict[str, Any] = {}
    for name in ("temperature", "max_tokens", "prompt_characters"):
        limits = getattr(when, name)
        if limits is not None:
            asked[name] = limits.bounds
    for name in ("stream", "structured_output", "tools"):
        if getattr(when, name) is not None:
            asked[name] = getattr(when, name)
    for name in ("routes", "paths", "models", "texts"):
        if getattr(when, name):
            asked[name] = list(getattr(when, name))
    if when.header is not None:
        asked["header"] = {"name": when.header.name, "values": list(when.header.values)}
    return asked
