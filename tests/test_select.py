"""Choosing the baseline that belongs to a server."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.baselines import baseline

from specgauge.baseline.schema import BaselineFile
from specgauge.baseline.select import Choice, Selection, select

H200 = {"gpu": "NVIDIA H200"}
SERVER: dict[str, object] = {
    "model.name": "target",
    "engine.version": "0.25.1",
    "hardware.gpu": "NVIDIA H200",
}
NOW = 1_795_000_000.0


def file(day: int = 1, **more: Any) -> BaselineFile:
    """Make a baseline of that day of November 2026."""
    return baseline(created=f"2026-11-{day:02}T00:00:00Z", **more)


def chosen(server: Mapping[str, object] = SERVER, **files: BaselineFile) -> Selection:
    """Choose for a server, by default one that tells model, release and GPU."""
    return select(files, server, now=NOW)


V25 = {"name": "vllm", "version": "0.25.0"}
V24 = {"name": "vllm", "version": "0.24.0"}


@pytest.mark.parametrize(
    ("files", "source"),
    [
        pytest.param({"a": file(), "b": file(2)}, "b", id="newest"),
        pytest.param({"a": file(engine=V25), "b": file(2, engine=V24)}, "a", id="same-release"),
        pytest.param({"a": file(hardware=H200), "b": file(2, engine=V25)}, "a", id="most-specific"),
        pytest.param({"a": file(), "b": file(2, model={"name": "other"})}, "a", id="that-fits"),
        pytest.param({"a": file(), "b": file(2, partial=True)}, "a", id="whole"),
    ],
)
def test_the_best_of_those_that_fit_is_taken(files: dict[str, BaselineFile], source: str) -> None:
    """Must-match facts first, then how much agrees, then release, then age."""
    found = select(files, SERVER, now=NOW)
    assert (found.choice, found.source) == (Choice.FOUND, source)
    assert found.match is not None
    assert found.reasons[0].startswith(f"{source}: ")


def test_none_that_fits_is_explained_file_by_file() -> None:
    """Each file says in which facts it is another server's."""
    found = chosen(
        a=file(model={"name": "other"}),
        b=file(hardware={"gpu": "A100"}, model={"name": "x"}),
    )
    assert found.choice is Choice.NONE
    assert found.reasons == (
        'a: model.name: the baseline is of "other", the server has "target"',
        'b: model.name: the baseline is of "x", the server has "target"',
        'b: hardware.gpu: the baseline is of "A100", the server has "NVIDIA H200"',
    )
    assert chosen().reasons == ("there are no baselines",)


def test_what_the_server_does_not_tell_may_leave_two() -> None:
    """Two machines' baselines fit a server that does not name its machine: neither is taken."""
    found = chosen(
        {"model.name": "target"}, a=file(hardware=H200), b=file(2, hardware={"gpu": "A100"})
    )
    assert (found.choice, found.source) == (Choice.AMBIGUOUS, None)
    assert found.reasons == ("b and a differ in hardware.gpu, which the server does not tell",)


def test_two_of_the_same_moment_are_ambiguous() -> None:
    """Copies of one file are told apart by nothing."""
    found = chosen(a=file(), b=file())
    assert found.choice is Choice.AMBIGUOUS
    assert found.reasons == ("a and b were made at the same time; remove one of them",)


def test_one_that_shares_less_raises_no_doubt() -> None:
    """A file that says less about itself does not stand in the way of one that says more."""
    found = chosen(
        a=file(hardware=H200, parallelism={"tensor": 2}), b=file(2, parallelism={"tensor": 4})
    )
    assert found.source == "a"
