"""The table of every key, read off the models: where it is and what may stand there.

Nothing here reads a configuration; the environment, the error texts and the schema ask this table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import get_args

from pydantic import BaseModel, SecretStr

from specgauge.config.models import Config

KeyPath = tuple[str | int, ...]

INDEX = "#"  # stands for any position in a list
ANY = "*"  # stands for any key of a free mapping
LATER = frozenset(
    {"guard", "flag", "rules", "routing", "report"},
)


class Kind(StrEnum):
    """What a key holds: structure as YAML, text as it is written, or a plain YAML scalar."""

    STRUCTURE = "structure"
    TEXT = "text"
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: its path with `#` for list positions, and what it holds."""

    path: tuple[str, ...]
    kind: Kind
    secret: bool

    @property
    def variable(self) -> str:
        """The key's name in the environment."""
        return "_".join(("SPECGAUGE", *(part.upper() for part in self.path)))


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
        hint, arguments = field.annotation, get_args(field.annotation)
        secret = SecretStr in arguments
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            yield Key(path=path, kind=Kind.STRUCTURE, secret=False)
            yield from _walk(hint, path)
        elif arguments and isinstance(arguments[0], type) and issubclass(arguments[0], BaseModel):
            yield Key(path=path, kind=Kind.STRUCTURE, secret=False)
            yield Key(path=(*path, INDEX), kind=Kind.STRUCTURE, secret=False)
            yield from _walk(arguments[0], (*path, INDEX))
        elif hint == dict[str, str]:
            yield Key(path=path, kind=Kind.STRUCTURE, secret=False)
            yield Key(path=(*path, ANY), kind=Kind.TEXT, secret=False)
        else:
            scalar = hint in (int, float, bool) or int in arguments
            yield Key(path=path, kind=Kind.SCALAR if scalar else Kind.TEXT, secret=secret)


KEYS = MappingProxyType({key.path: key for key in _walk(Config)})
