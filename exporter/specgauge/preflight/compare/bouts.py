"""What a pool left behind of a workload: cells, bouts and the answers in them.

Values only; the bounds are those within which no quotient leaves the range of a float.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

Seconds = Annotated[float, Field(ge=0.0, le=1e9)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Amount = Annotated[float, Field(ge=0.0, le=1e15)]


class Role(StrEnum):
    """What a load stands for; each role has a threshold of its own."""

    IDLE = "idle"
    STEADY = "steady"
    BURST = "burst"


class Side(StrEnum):
    """The two pools."""

    BASELINE = "baseline"
    SPECULATIVE = "speculative"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLevel:
    """A load by its name: so many requests kept in flight."""

    name: str
    role: Role
    concurrency: Annotated[float, Field(gt=0.0, le=1e6)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellKey:
    """Which cell of the plan: load, temperature and traffic class; None where nobody told."""

    load: LoadLevel
    temperature: Annotated[float, Field(ge=0.0, le=100.0)] | None = None
    traffic_class: str | None = None

    def __str__(self) -> str:
        """Name it for people."""
        load = self.load
        named = load.name != f"c{load.concurrency:g}"
        parts = [f"{load.name} ({load.concurrency:g})" if named else load.name]
        if self.traffic_class is not None:
            parts.append(self.traffic_class)
        if self.temperature is not None:
            parts.append(f"T={self.temperature:g}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request: `place` is which of the workload's; the same place is the same prompt.

    `asked` is how many tokens were asked for; `failure` says why it has none of the rest;
    `decode_tokens` came in `decode_seconds`.
    """

    place: Count
    asked: Count = 0
    failure: str | None = None
    ttft: Seconds | None = None
    e2e: Seconds | None = None
    decode_seconds: Seconds | None = None
    decode_tokens: Count | None = None
    tokens: Count | None = None

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first chunk."""
        if not self.decode_seconds or not self.decode_tokens:
            return None
        return self.decode_seconds / self.decode_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Bout:
    """One run of a cell on one pool; `figures` are the server's own, by canonical name.

    `seconds` runs from the first request that counts to the end of the last; `died` says why the
    server could not go on.
    """

    key: CellKey
    repeat: Count
    seconds: Seconds
    answers: tuple[Answer, ...] = ()
    figures: Mapping[str, Amount] = field(default_factory=dict)
    finished: Mapping[str, Amount] = field(default_factory=dict)
    died: str | None = None
    notes: tuple[str, ...] = ()
