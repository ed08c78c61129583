"""Keeps a flag in a file that something else obeys; the file is replaced whole, never edited."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from specgauge.errors import ConfigError
from specgauge.guard.flags.atomic import fault, write_atomically
from specgauge.guard.flags.protocol import FlagError, WriteResult

_MAX_TEXT = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTerms:
    """The keys of `flag.file`: which file, and its text for each value."""

    path: str
    on: str = "true"
    off: str = "false"


def faults(terms: FileTerms) -> tuple[str, ...]:
    """Find what is wrong with the terms, each fault with its path in the configuration."""
    found = []
    if not terms.path:
        found.append("flag.file.path: not set; write which file holds the flag")
    if terms.on.strip() == terms.off.strip():
        found.append("flag.file.off: is the same text as flag.file.on")
    return tuple(found)


class File:
    """One flag in one file; blanks around the text do not matter when it is read."""

    name = "file"
    can_read = True

    def __init__(self, terms: FileTerms) -> None:
        if found := faults(terms):
            raise ConfigError(found)
        self._path = Path(terms.path)
        self._texts = {True: terms.on, False: terms.off}
        self._turn = 0

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self._path)

    async def read(self) -> bool | None:
        """Read the file; None where there is none, FlagError where it says something else."""
        text = await asyncio.to_thread(self._read_text)
        if text is None:
            return None
        for value, ours in self._texts.items():
            if text.strip() == ours.strip():
                return value
        raise FlagError(
            WriteResult.UNREADABLE,
            f"{self._path} holds neither the text for on nor the one for off; "
            "correct flag.file or remove the file",
        )

    async def write(self, on: bool) -> None:
        """Replace the file; raises FlagError and leaves the old one where that fails."""
        self._turn += 1
        turn = self._turn
        text = self._texts[on]
        await asyncio.to_thread(
            write_atomically,
            self._path,
            (text if text.endswith("\n") else f"{text}\n").encode(),
            wanted=lambda: turn == self._turn,
        )

    async def close(self) -> None:
        """Nothing is held open."""

    def _read_text(self) -> str | None:
        try:
            with self._path.open(encoding="utf-8", errors="replace") as file:
                return file.read(_MAX_TEXT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise fault("cannot be read", self._path, error) from error
