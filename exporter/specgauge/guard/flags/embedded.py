"""Is the flag itself: kept in memory, durable in a file where one is given; it serves nothing.

The flag that is served moves at once, also where the disk refuses it, because a fallback must not
wait for a disk. `read` gives what is durable, so that such a flag is unconfirmed until it is kept.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from time import time

from specgauge.guard.flags.atomic import write_atomically

SCHEMA = "specgauge.flag/v1"
_MAX_FILE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTerms:
    """The keys of `flag.embedded`: where the flag survives a restart, None for memory only."""

    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedFlag:
    """The flag as it is served; `value` None was never set. `since` is a time on the wall clock."""

    key: str
    value: bool | None = None
    since: float | None = None


class Embedded:
    """The flag that the sidecar itself serves; `warning` says what was wrong with its file."""

    name = "embedded"
    can_read = True

    def __init__(
        self, terms: EmbeddedTerms, *, key: str, clock: Callable[[], float] = time
    ) -> None:
        self._path = None if terms.file is None else Path(terms.file)
        self._clock = clock
        self._turn = 0
        self.warning = ""
        self._flag = EmbeddedFlag(key=key)
        if self._path is not None:
            self._flag, self.warning = load(self._path, key)
        self._kept = self._flag.value

    @property
    def flag(self) -> EmbeddedFlag:
        """The flag as it is served."""
        return self._flag

    @property
    def place(self) -> str:
        """Where the flag survives a restart."""
        return "memory" if self._path is None else str(self._path)

    async def read(self) -> bool | None:
        """Give the value that would survive a restart; in memory, the value."""
        return self._kept

    async def write(self, on: bool) -> None:
        """Serve the value from now on, then keep it; raises FlagError where it cannot be kept."""
        if on is not self._flag.value:
            self._flag = EmbeddedFlag(key=self._flag.key, value=on, since=self._clock())
        self._turn += 1
        turn = self._turn
        if self._path is not None:
            await asyncio.to_thread(
                write_atomically,
                self._path,
                dump(self._flag).encode(),
                wanted=lambda: turn == self._turn,
            )
        if turn == self._turn:
            self._kept = on

    async def close(self) -> None:
        """Nothing is held open."""


def dump(flag: EmbeddedFlag) -> str:
    """Write the flag as the text of its file."""
    document = {"schema": SCHEMA, "key": flag.key, "value": flag.value, "since": flag.since}
    return json.dumps(document) + "\n"


def load(path: Path, key: str) -> tuple[EmbeddedFlag, str]:
    """Read the file; what is missing, damaged or foreign was never set, with a warning why."""
    unset = EmbeddedFlag(key=key)
    try:
        if not path.exists():
            return unset, ""
        with path.open("rb") as file:
            text = file.read(_MAX_FILE)
    except OSError as error:
        return unset, f"{path} cannot be read: {error.strerror}; the flag counts as never set"
    flag, fault = parse(text, key)
    return flag, fault and f"{path} {fault}; the flag counts as never set"


def parse(text: bytes, key: str) -> tuple[EmbeddedFlag, str]:
    """Read the text of the file, and say what is wrong with it."""
    unset = EmbeddedFlag(key=key)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return unset, "is damaged"
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return unset, f"is no {SCHEMA}"
    if document.get("key") != key:
        return unset, f"holds another flag than {key}"
    value, since = document.get("value"), document.get("since")
    if not isinstance(value, bool) or not isinstance(since, int | float) or not isfinite(since):
        return unset, "is damaged"
    return EmbeddedFlag(key=key, value=value, since=float(since)), ""
