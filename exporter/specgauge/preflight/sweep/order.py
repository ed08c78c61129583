"""In which order everything is measured, so that drift does not favour a candidate.

Round after round forwards and backwards: A B C, C B A. A server that runs is changed for the
next at every load; one that has to be started is kept for all loads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One measurement to make; rounds count from 1."""

    candidate: str
    concurrency: int
    round: int


def started(candidates: Sequence[str], loads: Sequence[int], rounds: int) -> tuple[Visit, ...]:
    """Order visits where each candidate's server is started for its turn."""
    return tuple(
        Visit(candidate=name, concurrency=load, round=number)
        for number in range(1, rounds + 1)
        for name in _turn(candidates, number)
        for load in _turn(loads, number)
    )


def running(candidates: Sequence[str], loads: Sequence[int], rounds: int) -> tuple[Visit, ...]:
    """Order visits where every candidate's server runs already."""
    return tuple(
        Visit(candidate=name, concurrency=load, round=number)
        for load in loads
        for number in range(1, rounds + 1)
        for name in _turn(candidates, number)
    )


def turns(visits: Sequence[Visit]) -> list[list[Visit]]:
    """Put together the visits that one start of a server serves."""
    found: list[list[Visit]] = []
    for visit in visits:
        last = found[-1][0] if found else None
        if last and (last.candidate, last.round) == (visit.candidate, visit.round):
            found[-1].append(visit)
        else:
            found.append([visit])
    return found


def _turn(items: Sequence[Item], number: int) -> Sequence[Item]:
    return items if number % 2 else items[::-1]
