"""Words of a shell command line: what each says, and how it was spelled; runs nothing.

Expansions ($NAME, $(...)) are not carried out: their text is kept, and the word marked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from specgauge.units import quote

_OPERATOR = re.compile(r"[|&;<>]+")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w./-]*>", re.ASCII)
_GAP = re.compile(r"\s+|\\[ \t]*(?:\n|$)|#[^\n]*")
_ENDS_WORD = re.compile(r"[\s|&;<>]|\\[ \t]+(?:\n|$)|\\$")
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)
_CONTROL = re.compile(r"[^\S \t\n\r]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_IN_DOUBLE_QUOTES = frozenset('"\\$`')


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word: its value, its spelling and place, and whether the shell would put something in."""

    value: str
    raw: str
    start: int = 0
    expands: bool = False
    is_operator: bool = False
    begins_line: bool = False

    @property
    def end(self) -> int:
        """Where the word's spelling ends, if it is all on one line."""
        return self.start + len(self.raw)


def word(value: str) -> Word:
    """Make a word that says a value, spelled as a shell needs it."""
    return Word(value=value, raw=spell(value))


def split(text: str) -> list[Word]:
    """Split a command line as a POSIX shell does, comments and line continuations left out.

    Newlines part words: guides lose their backslashes. Raises ValueError where a quote is open.
    """
    if found := _CONTROL.search(text):
        raise ValueError(f"the command line holds the control character {quote(found[0])}")
    return list(_Reader(unix_lines(text)).words())


def unix_lines(text: str) -> str:
    """End lines as a shell does; places of words are places in this."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _Reader:
    """A position in a text, for as long as it is split."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.begins_line = True

    def words(self) -> Iterator[Word]:
        while self._skip():
            yield self._placeholder() or self._operator() or self._word()

    def _skip(self) -> bool:
        """Go to the start of the next word; false at the end."""
        self.begins_line = self.at == 0
        while gap := _GAP.match(self.text, self.at):
            self.at = gap.end()
            self.begins_line |= "\n" in gap[0] and not gap[0].startswith("\\")
        return self.at < len(self.text)

    def _placeholder(self) -> Word | None:
        """Take `<target-model>` of a guide as a word, which to a shell is none."""
        start = self.at
        if not (found := _PLACEHOLDER.match(self.text, start)):
            return None
        self.at = found.end()
        return Word(value=found[0], raw=spell(found[0]), start=start)

    def _operator(self) -> Word | None:
        start = self.at
        if not (found := _OPERATOR.match(self.text, start)):
            return None
        self.at = found.end()
        return Word(
            value=found[0],
            raw=found[0],
            start=start,
            is_operator=True,
            begins_line=self.begins_line,
        )

    def _word(self) -> Word:
        value: list[str] = []
        raw: list[str] = []
        expands = False
        first = self.at
        while self.at < len(self.text) and not _ENDS_WORD.match(self.text, self.at):
            start = self.at
            if self.text.startswith("\\\n", start):
                self.at += 2
                continue
            part, opened = self._part(self.text[start])
            value.append(part)
            raw.append(self.text[start : self.at])
            expands |= opened
        return Word(
            value="".join(value),
            raw="".join(raw),
            start=first,
            expands=expands,
            begins_line=self.begins_line,
        )

    def _part(self, here: str) -> tuple[str, bool]:
        """Read one quoted stretch or one character; gives it and whether it expands."""
        if here == "'":
            end = self._end("'")
            part = self.text[self.at + 1 : end]
            self.at = end + 1
            return part, False
        if here == '"':
            return self._double()
        if here == "\\":
            self.at += 2
            return self.text[self.at - 1 : self.at], False
        self.at += 1
        return here, here in "$`"

    def _double(self) -> tuple[str, bool]:
        start, out, expands = self.at, [], False
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            here, after = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if here == "\\" and after and after in _IN_DOUBLE_QUOTES | {"\n"}:
                out.append("" if after == "\n" else after)
                self.at += 2
                continue
            expands |= here in "$`"
            out.append(here)
            self.at += 1
        if self.at >= len(self.text):
            raise ValueError(_open(self.text, start))
        self.at += 1
        return "".join(out), expands

    def _end(self, mark: str) -> int:
        end = self.text.find(mark, self.at + 1)
        if end < 0:
            raise ValueError(_open(self.text, self.at))
        return end


def _open(text: str, start: int) -> str:
    line = text.count("\n", 0, start) + 1
    return f"the quote opened at {quote(text[start : start + 20])} (line {line}) is never closed"


def spell(value: str, *, expands: bool = False) -> str:
    """Quote a value for a shell; with `expands`, so that $NAME in it still is replaced."""
    if _SAFE.fullmatch(value):
        return value
    if expands:
        inner = "".join(f"\\{one}" if one in '"\\' else one for one in value)
        return f'"{inner}"'
    return "'" + value.replace("'", "'\"'\"'") + "'"
