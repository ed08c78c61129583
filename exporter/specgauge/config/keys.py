"""The table of every key, read off the models: where it is and what may stand there.

Nothing here reads a configuration; the environment, the error texts and the schema ask this table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from specgauge.config.models import Config

KeyPath = tuple[str | int, ...]

INDEX = "#"  # stands for any position in a list
ANY = "*"  # stands for any key of a free mapping


class Kind(StrEnum):
    """What a key holds: structure as YAML, text as it is written, or a plain YAML scalar."""

    STRUCTURE = "structure"
    TEXT = "text"
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: its path with `#` for list positions, what it holds, and what the models say."""

    path: tuple[str, ...]
    kind: Kind
    secret: bool = False
    default: object = None
    meaning: str = ""

    @property
    def variable(self) -> str:
        """The key's name in the environment."""
        return "_".join(("SPECGAUGE", *self.path)).upper().replace("-", "_")


def template(path: KeyPath) -> tuple[str, ...]:
    """Name the key that a place in a configuration belongs to."""
    return tuple(INDEX if isinstance(part, int) else part for part in path)


def dotted(path: KeyPath) -> str:
    """Write a path the way people do: `targets[1].url`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def siblings(parent: tuple[str, ...]) -> tuple[str, ...]:
    """List the keys that a file may hold in one mapping."""
    return tuple(
        key.path[-1] for key in KEYS.values() if key.path[:-1] == parent and not key.secret
    )


def _walk(model: type[BaseModel], parent: tuple[str, ...] = ()) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        path = (*parent, field.alias or name)
        meaning = field.description or ""
        hint, arguments = field.annotation, get_args(field.annotation)
        inner = next((one for one in (hint, *arguments) if _is_section(one)), None)
        if inner is not None:
            yield Key(path=path, kind=Kind.STRUCTURE, meaning=meaning)
            if get_origin(hint) is tuple:
                path = (*path, INDEX)
                yield Key(path=path, kind=Kind.STRUCTURE)
            yield from _walk(inner, path)
        elif hint == dict[str, str]:
            yield Key(path=path, kind=Kind.STRUCTURE, default={}, meaning=meaning)
            yield Key(path=(*path, ANY), kind=Kind.TEXT)
        else:
            yield Key(
                path=path,
                kind=_kind(hint),
                secret=SecretStr in arguments,
                default=_default(field),
                meaning=meaning,
            )


def _default(field: FieldInfo) -> object:
    """Give the default as it is written in a file."""
    extra = field.json_schema_extra
    written = extra.get("default") if isinstance(extra, dict) else None
    return field.default if written is None and not field.is_required() else written


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _kind(hint: Any) -> Kind:
    if any(get_origin(one) is tuple for one in (hint, *get_args(hint))):
        return Kind.STRUCTURE
    scalar = {int, float, bool}.intersection((hint, *get_args(hint)))
    return Kind.SCALAR if scalar else Kind.TEXT


KEYS = MappingProxyType({key.path: key for key in _walk(Config)})
