"""From the bytes of a request to its shape: what the rules ask about, as far as it can be known.

The router's script reads the same shape from the same bytes; a change here is a change there.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from specgauge.routing.rules import LOOKED_AT

ROUTES = MappingProxyType(
    {
        "/chat/completions": "chat",
        "/completions": "completions",
        "/responses": "responses",
        "/embeddings": "embeddings",
    }
)
"""Routes by the end of their path; the first that fits counts."""

ROUTE_NAMES = (*ROUTES.values(), "other")
GUIDED = ("guided_json", "guided_regex", "guided_choice", "guided_grammar")
LENGTHS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
PROMPTS = ("messages", "prompt", "input")
DEEPEST = 31
"""Levels of lists and mappings that nginx's script engine reads; deeper is `malformed`."""


class Body(StrEnum):
    """Whether the body could be looked into, and why not."""

    READ = "read"
    TOO_LARGE = "body_too_large"
    MALFORMED = "malformed"
    NONE = "no_body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is known of a request; None is what nobody can tell. Header names are in lower case."""

    body: Body
    path: str = "/v1/chat/completions"
    route: str = "chat"
    headers: Mapping[str, str] = field(default_factory=dict)
    temperature: float | None = None
    max_tokens: float | None = None
    prompt_characters: float | None = None
    stream: bool | None = None
    structured_output: bool | None = None
    tools: bool | None = None
    model: str | None = None
    text: str | None = None


def shape_of(body: bytes | None, *, path: str, headers: Mapping[str, str], max_body: int) -> Shape:
    """Read a request; `body` is None where it is known to be larger than `max_body`."""
    state, found = _read(body, max_body)
    shape = Shape(
        body=state,
        path=path,
        route=route_of(path),
        headers={name.lower(): value.strip() for name, value in headers.items()},
    )
    return shape if found is None else _looked_into(shape, found)


def _looked_into(shape: Shape, found: dict[str, Any]) -> Shape:
    text = _prompt(found)
    lengths = (_number(found.get(name)) for name in LENGTHS)
    return replace(
        shape,
        temperature=_number(found.get("temperature")),
        max_tokens=next((length for length in lengths if length is not None), None),
        prompt_characters=None if text is None else float(len(text)),
        stream=found.get("stream") is True,
        structured_output=_structured(found),
        tools=_tools(found),
        model=_text(found.get("model")),
        text=None if text is None else text[:LOOKED_AT],
    )


def route_of(path: str) -> str:
    """Name the route of a path by its end."""
    ends = (name for end, name in ROUTES.items() if path.endswith(end))
    return next(ends, "other")


def _read(body: bytes | None, max_body: int) -> tuple[Body, dict[str, Any] | None]:
    if body is None or len(body) > max_body:
        return Body.TOO_LARGE, None
    if not body:
        return Body.NONE, None
    try:
        found = json.loads(body.decode(), parse_int=float, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return Body.MALFORMED, None
    if not isinstance(found, dict) or not _shallow(found):
        return Body.MALFORMED, None
    return Body.READ, found


def _refuse(word: str) -> None:
    raise ValueError(word)


def _shallow(found: Any) -> bool:
    """Tell whether a document has no more levels than nginx's script engine reads."""
    level = [found]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return True
    return False


def _inside(value: Any) -> Iterator[Any]:
    items = value.values() if isinstance(value, dict) else value
    return (one for one in items if isinstance(one, dict | list))


def _number(value: Any) -> float | None:
    return value if isinstance(value, float) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _structured(found: dict[str, Any]) -> bool:
    asked = [found.get("response_format")]
    if isinstance(text := found.get("text"), dict):
        asked.append(text.get("format"))
    kinds = [one.get("type") for one in asked if isinstance(one, dict)]
    if any(isinstance(kind, str) and kind != "text" for kind in kinds):
        return True
    outputs = found.get("structured_outputs")
    given = [found.get(name) for name in GUIDED]
    given += list(outputs.values()) if isinstance(outputs, dict) else []
    return any(one is not None and one is not False for one in given)


def _tools(found: dict[str, Any]) -> bool:
    if isinstance(functions := found.get("functions"), list) and functions:
        return True
    tools = found.get("tools")
    return isinstance(tools, list) and bool(tools) and found.get("tool_choice") != "none"


def _prompt(found: dict[str, Any]) -> str | None:
    """Join every text of the prompt; None where there is none, as in a list of token ids."""
    pieces = [piece for name in PROMPTS for piece in _pieces(found.get(name))]
    return "\n".join(pieces) if pieces else None


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value if isinstance(value, list) else ():
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from _parts(item.get("content"))


def _parts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
