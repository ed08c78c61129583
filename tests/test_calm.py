"""The helper that repeats measurements of real time."""

import itertools
from collections.abc import Iterator

import pytest
from tests.calm import ATTEMPTS, Measured, calmly, near


def figures(values: Iterator[float | None]) -> list[Measured]:
    return [near("gap", next(values), 2.0, rel=0.1), near("pace", 1.0, 1.0, rel=0.0)]


async def test_the_first_run_within_its_bounds_is_enough() -> None:
    """Disturbed runs are forgotten, and after a good one there is no other."""
    values = iter([2.3, None, 2.2, 9.0])

    async def scenario() -> list[Measured]:
        return figures(values)

    await calmly(scenario)
    assert list(values) == [9.0]


async def test_a_fault_that_stays_is_told_with_every_value() -> None:
    """Where no run holds, all of them are shown."""
    values = itertools.chain([2.3, 1.7, None], itertools.repeat(2.5))

    async def scenario() -> list[Measured]:
        return figures(values)

    with pytest.raises(AssertionError) as caught:
        await calmly(scenario)
    first, *runs = str(caught.value).splitlines()
    assert first == "no run was within its bounds"
    assert runs[0] == "run 1: gap 2.3 in 1.8 to 2.2 (off); pace 1 in 1 to 1"
    assert [line.split()[3] for line in runs] == ["2.3", "1.7", "none", "2.5"]
    assert len(runs) == ATTEMPTS


async def test_what_goes_wrong_is_never_repeated() -> None:
    """An exception or a failed assertion ends the test in the run where it happens."""
    runs = 0

    async def scenario() -> list[Measured]:
        nonlocal runs
        runs += 1
        raise AssertionError("a wrong count")

    with pytest.raises(AssertionError, match="a wrong count"):
        await calmly(scenario)
    assert runs == 1
