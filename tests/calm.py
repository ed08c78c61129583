"""Repeats a scenario that measures real time until one run of it was left alone.

Other work on the machine disturbs a run now and then; a systematic fault fails every one. Only
measured times are forgiven: an exception, a failed assertion or a wrong count in the scenario
ends the test at once.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

ATTEMPTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A figure that hangs on the clock, and the range that holds the truth."""

    name: str
    value: float | None
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether it is known and in the range, ends included."""
        return self.value is not None and self.low <= self.value <= self.high

    def __str__(self) -> str:
        """Show the figure and its range, and say if it is off."""
        value = "none" if self.value is None else f"{self.value:.4g}"
        mark = "" if self.holds else " (off)"
        return f"{self.name} {value} in {self.low:.4g} to {self.high:.4g}{mark}"


def near(name: str, value: float | None, truth: float, *, rel: float) -> Measured:
    """Hold a figure against a truth above zero; `rel` is a share of the truth."""
    return Measured(name=name, value=value, low=truth * (1.0 - rel), high=truth * (1.0 + rel))


async def calmly(scenario: Callable[[], Awaitable[Sequence[Measured]]]) -> None:
    """Run a scenario until all that it measured holds, a few times at most."""
    told = []
    for attempt in range(1, ATTEMPTS + 1):
        found = await scenario()
        if all(one.holds for one in found):
            return
        told.append(f"run {attempt}: {'; '.join(str(one) for one in found)}")
    raise AssertionError("\n".join(["no run was within its bounds", *told]))
