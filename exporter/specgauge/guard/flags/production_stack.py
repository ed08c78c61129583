"""Puts one of two dynamic configurations before vLLM production-stack's router; it asks no router.

The router looks at the file every few seconds. The read-back proves the file, not the router.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from specgauge.errors import ConfigError
from specgauge.guard.flags.atomic import fault, write_atomically
from specgauge.guard.flags.http_failures import clean
from specgauge.guard.flags.protocol import FlagError, WriteResult

T = TypeVar("T")
_MAX_FILE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductionStackTerms:
    """The keys of `flag.production-stack`: the watched file, and a whole file for each value."""

    file: str
    on: str
    off: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """A configuration as it stands in its file and as it is understood."""

    data: bytes
    content: Mapping[str, Any]


def faults(terms: ProductionStackTerms) -> tuple[str, ...]:
    """Find what is wrong with the terms, each fault with its path in the configuration."""
    if len({terms.file, terms.on, terms.off}) == len(("file", "on", "off")):
        return ()
    return ("flag.production-stack: file, on and off name the same file; name three",)


class ProductionStack:
    """One flag as the choice between two files; what counts is what they say, not how."""

    name = "production-stack"
    can_read = True

    def __init__(self, terms: ProductionStackTerms, *, timeout: float = 5.0) -> None:
        found = faults(terms)
        if found:
            raise ConfigError(found)
        self._file = Path(terms.file)
        self._sources = {True: Path(terms.on), False: Path(terms.off)}
        self._timeout = timeout
        self._turn = 0

    @property
    def place(self) -> str:
        """The watched file."""
        return str(self._file)

    async def read(self) -> bool | None:
        """Hold the file against the two; None where there is none, FlagError where it is neither.

        Raises FlagError as well where the two say the same.
        """
        return await self._bounded(self._read)

    async def write(self, on: bool) -> None:
        """Put one of the two in place; raises FlagError and leaves the old one where that fails."""
        self._turn += 1
        turn = self._turn

        def put() -> None:
            data = self._pair()[on].data
            write_atomically(self._file, data, wanted=lambda: turn == self._turn)

        try:
            await self._bounded(put)
        except FlagError:
            self._turn += 1  # a write that hangs may not come through after its failure
            raise

    async def close(self) -> None:
        """Nothing is held open."""

    async def _bounded(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.to_thread(work)
        except TimeoutError as error:
            detail = f"{self._file}: the disk gave no answer within {self._timeout:g} s"
            raise FlagError(WriteResult.TIMEOUT, detail) from error

    def _read(self) -> bool | None:
        if not self._file.exists():
            return None
        now = self._load(self._file)
        for value, ours in self._pair().items():
            if now.data == ours.data or now.content == ours.content:
                return value
        on, off = self._sources[True], self._sources[False]
        detail = f"{self._file} says neither what {on} says nor what {off} says"
        raise FlagError(WriteResult.UNREADABLE, f"{detail}; correct one of the three")

    def _pair(self) -> dict[bool, _Document]:
        pair = {value: self._load(path) for value, path in self._sources.items()}
        if pair[True].content == pair[False].content:
            detail = f"{self._sources[True]} and {self._sources[False]} say the same"
            raise FlagError(WriteResult.REFUSED, f"{detail}; write different backends into them")
        return pair

    def _load(self, path: Path) -> _Document:
        """Read a file as the router would read it where the watched one lies."""
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_FILE + 1)
        except OSError as error:
            raise fault("cannot be read", path, error) from error
        if len(data) > _MAX_FILE:
            detail = f"{path} is larger than {_MAX_FILE} bytes; is it the right file?"
            raise FlagError(WriteResult.UNREADABLE, detail)
        kind = "JSON" if self._file.suffix == ".json" else "YAML"
        try:
            content = json.loads(data) if kind == "JSON" else yaml.safe_load(data)
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            reason = " ".join(str(error).split())
            detail = clean(f"{path} is no {kind}: {reason}; mend that file", ())
            raise FlagError(WriteResult.UNREADABLE, detail) from error
        if not isinstance(content, dict) or not content:
            detail = f"{path} holds no settings; write the router's dynamic configuration into it"
            raise FlagError(WriteResult.UNREADABLE, detail)
        return _Document(data=data, content=content)
