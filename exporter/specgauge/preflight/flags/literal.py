"""A speculative_config as people write it down: JSON, or a Python literal; decides nothing."""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass

from specgauge.units import quote

_LONGEST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A configuration that was read, and the keys that stood there twice."""

    config: Mapping[str, object]
    twice: tuple[str, ...] = ()


def read_config(text: str, *, place: str = "speculative_config") -> Written:
    """Read a speculative_config; raises ValueError naming what is wrong and where."""
    if len(text) > _LONGEST:
        raise ValueError(f"{place} has {len(text)} characters; at most {_LONGEST} are read")
    twice: list[str] = []

    def keep(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        twice.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=keep)
    except json.JSONDecodeError as error:
        found = _literal(text, place, error)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{place} cannot be read: {_reason(error)}") from None
    found = _plain(found, place)
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{place} is {quote(found)}, not an object with named keys")
    return Written(config=found, twice=tuple(twice))


def _literal(text: str, place: str, why: json.JSONDecodeError) -> object:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        where = f"line {why.lineno} column {why.colno}"
        raise ValueError(
            f"{place} is no JSON: {why.msg} at {where}, in {quote(text.strip())}"
        ) from None


def _plain(found: object, place: str) -> object:
    """Make it what JSON can say; raises ValueError for what it cannot, NaN included."""
    try:
        text = json.dumps(found, allow_nan=False, ensure_ascii=False)
        text.encode()
        return json.loads(text)
    except (RecursionError, ValueError, TypeError) as error:
        raise ValueError(f"{place} cannot be said in JSON: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)[:100]
