"""What a comparison will run, before it does: loads by name, cells, and the order of the pools.

Everything follows from its arguments; no clock, no socket.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specgauge.baseline.plan import Lengths, closed_levels
from specgauge.preflight.compare.bouts import CellKey, LoadLevel, Role, Side

DEFAULT_LOADS = "idle=1,steady=8,burst=32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """The whole workload; `window` and `warmup` are seconds of a bout, `salt` marks prompts."""

    loads: tuple[LoadLevel, ...]
    temperatures: tuple[float, ...]
    classes: tuple[str, ...]
    lengths: Lengths
    repeats: int
    window: float
    warmup: float
    seed: int
    salt: str

    @property
    def cells(self) -> tuple[CellKey, ...]:
        """Every cell, the lightest load first, so that little is lost where a burst breaks it."""
        return tuple(
            CellKey(load=load, temperature=temperature, traffic_class=name)
            for load in self.loads
            for name in self.classes
            for temperature in self.temperatures
        )

    @property
    def bout_seconds(self) -> float:
        """How long one bout takes on the clock, without what the last requests need."""
        return self.warmup + self.window


def named_loads(text: str) -> tuple[LoadLevel, ...]:
    """Read `idle=1,steady=8,burst=32`, or bare concurrencies; ValueError says what is wrong.

    A name that is none of the three roles is a steady load.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if all("=" not in part for part in parts):
        return ranked(sorted({_concurrency(part) for part in parts}))
    found: dict[str, LoadLevel] = {}
    for part in parts:
        name, sign, number = (piece.strip() for piece in part.partition("="))
        if not sign or not name.isidentifier():
            raise ValueError(f"{part!r} is no load; write NAME=CONCURRENCY, as idle=1")
        if name in found:
            raise ValueError(f"{name!r} is there twice")
        role = Role(name) if name in set(Role) else Role.STEADY
        found[name] = LoadLevel(name=name, role=role, concurrency=_concurrency(number))
    levels = tuple(sorted(found.values(), key=lambda one: one.concurrency))
    if len({one.concurrency for one in levels}) < len(levels):
        raise ValueError("two loads have the same concurrency")
    return levels


def ranked(concurrencies: Sequence[float]) -> tuple[LoadLevel, ...]:
    """Name loads that have no name, in rising order: the lowest idle, the highest a burst.

    A single load is a steady one, and so is the lower of two.
    """
    last = len(concurrencies) - 1
    roles = [
        Role.BURST if place == last > 0 else Role.IDLE if place == 0 and last > 1 else Role.STEADY
        for place in range(len(concurrencies))
    ]
    return tuple(
        LoadLevel(name=f"c{load:g}", role=role, concurrency=load)
        for load, role in zip(concurrencies, roles, strict=True)
    )


def turn(repeat: int) -> tuple[Side, Side]:
    """Give the order of the pools in a repeat: the first, the second, the second, the first."""
    first, second = Side.BASELINE, Side.SPECULATIVE
    return (first, second) if repeat % 2 == 0 else (second, first)


def _concurrency(text: str) -> float:
    (level,) = closed_levels([text or "?"])
    assert level.concurrency is not None
    return level.concurrency
