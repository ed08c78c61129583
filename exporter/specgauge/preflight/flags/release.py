"""Releases and spans of releases; knows no table and reads nothing."""

import re
from dataclasses import dataclass
from typing import Self

from specgauge.units import quote

_PATTERN = (
    r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4})(?:\.\d{1,4})?)?"
    r"(?:\.?(?:post|rc|dev|a|b)\d{1,4})?(?:\+[\w.]{1,40})?"
)


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """One release of the engine; what follows the third number changes no flag."""

    numbers: tuple[int, int, int]

    def __str__(self) -> str:
        """Write it as the engine does."""
        return ".".join(map(str, self.numbers))


def read_release(text: str) -> Release:
    """Read `0.8.5`, `v0.8.5.post1`, `0.10.1.1` or `0.33`; raises ValueError for anything else."""
    match = re.fullmatch(_PATTERN, text.strip(), re.ASCII)
    if not match:
        raise ValueError(f"{quote(text)} is not a release; write it like 0.33.0")
    return Release((int(match[1]), int(match[2]), int(match[3] or 0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The releases that have a thing; None on a side: to the end of what is known.

    `absent` is the newest release known to lack it, where `first` is only the oldest known to
    have it.
    """

    first: Release | None = None
    last: Release | None = None
    absent: Release | None = None

    def __contains__(self, release: Release) -> bool:
        """Tell whether a release has the thing for sure."""
        return not (self.is_newer_than(release) or self.is_gone_by(release))

    def is_newer_than(self, release: Release) -> bool:
        """Tell whether the thing came after a release."""
        return self.first is not None and release < self.first

    def is_gone_by(self, release: Release) -> bool:
        """Tell whether the thing had gone when a release came."""
        return self.last is not None and release > self.last

    def is_unsure_of(self, release: Release) -> bool:
        """Tell whether the thing may have come with a release or a little later."""
        return self.absent is not None and self.is_newer_than(release) and release > self.absent

    def narrowed(self, other: Self) -> "Span":
        """Give the releases that both cover; `first` may then lie after `last`."""
        firsts = [one for one in (self.first, other.first) if one is not None]
        lasts = [one for one in (self.last, other.last) if one is not None]
        return Span(first=max(firsts, default=None), last=min(lasts, default=None))

    @property
    def is_empty(self) -> bool:
        """Tell whether no release is covered."""
        return self.first is not None and self.last is not None and self.first > self.last

    def __str__(self) -> str:
        """Write it for a person."""
        if self.last is None:
            return f"{self.first} on"
        return f"to {self.last}" if self.first is None else f"{self.first} to {self.last}"
