"""Intervals as pieces: decode tokens, the time on them, how full steps were, what is evidence."""

from typing import Any

import pytest
from tests.recorded import Watched
from tests.small_pages import v0_page, v1_page
from tests.written import Engine, write_page

from specgauge.derive.pieces import is_evidence, pieces, usual_spacing
from specgauge.derive.speedup import Piece
from specgauge.model.ledger import Interval
from specgauge.model.quantity import Dialect

V1 = Dialect.VLLM_V1


def between(before: bytes, after: bytes, seconds: float = 1.0) -> tuple[Interval, Dialect]:
    watched = Watched(before)
    return watched.see(after, seconds), watched.page.layout.dialect


def engine(name: str = "0", **counted: Any) -> Engine:
    return Engine(engine=name, **{"tokens": 0, "firsts": 0, "steps": 0, **counted})


def test_tokens_and_time_of_a_window() -> None:
    """Tokens after each request's first, and the seconds that requests spent on them."""
    found = pieces(*between(v1_page(1000), v1_page(2000), 4.0))
    (one,) = found.values()
    assert (one.tokens, one.seconds, one.fullness) == (3000.0, 4.0, 0.0)
    assert one.spent == pytest.approx(10.0)
    assert one.concurrency == pytest.approx(2.5)


def test_engines_add_up_and_models_do_not() -> None:
    """A model's engines are one server; another model on the page is another piece."""
    before = write_page(engine(), engine("1"), engine(model="other"))
    after = write_page(
        engine(tokens=110, firsts=10, steps=100, step_seconds=1.0, iterations=10),
        engine("1", tokens=220, firsts=20, steps=200, step_seconds=3.0, iterations=20),
        engine(model="other", tokens=5, firsts=1, steps=4, step_seconds=0.5),
    )
    found = pieces(*between(before, after, 2.0))
    assert found == {
        "target": Piece(tokens=300.0, spent=4.0, seconds=2.0, fullness=11.0),
        "other": Piece(tokens=4.0, spent=0.5, seconds=2.0),
    }


def test_fullness_counts_first_tokens_too() -> None:
    """A step of the engine serves those in decode and those whose first token it yields."""
    before = write_page(engine(iterations=0))
    after = write_page(engine(tokens=80, firsts=8, steps=72, step_seconds=1.0, iterations=10))
    (found,) = pieces(*between(before, after)).values()
    assert found.fullness == 8.0


def test_more_first_tokens_than_tokens() -> None:
    """Tokens are never below nothing."""
    before = write_page(engine())
    after = write_page(engine(tokens=3, firsts=5, steps=1, step_seconds=0.1))
    assert pieces(*between(before, after))["target"].tokens == 0.0


def test_v0_counts_finished_requests() -> None:
    """The former engine's tokens and decode time are those of requests that ended."""
    interval, dialect = between(v0_page([], 1000), v0_page([], 2000))
    assert dialect is Dialect.VLLM_V0
    (one,) = pieces(interval, dialect).values()
    assert (one.tokens, one.seconds, one.fullness) == (3000.0, 1.0, 0.0)
    assert one.spent == pytest.approx(10.0)


def test_nothing_counted() -> None:
    """A page without any of these has no pieces."""
    assert pieces(Interval(start=0.0, end=1.0, deltas={}), V1) == {}


@pytest.mark.parametrize(
    ("seconds", "usual"),
    [([], 0.0), ([2.0], 2.0), ([1.0, 1.0, 9.0], 1.0), ([1.0, 3.0], 2.0)],
)
def test_usual_spacing(seconds: list[float], usual: float) -> None:
    """The median: a few gaps do not move it."""
    assert usual_spacing(seconds) == usual


@pytest.mark.parametrize(
    ("seconds", "reset", "expected"),
    [
        pytest.param(1.0, False, True, id="usual"),
        pytest.param(2.0, False, True, id="exactly two"),
        pytest.param(2.1, False, False, id="a gap"),
        pytest.param(0.0, False, False, id="no time"),
        pytest.param(-1.0, False, False, id="clock set back"),
        pytest.param(1.0, True, False, id="an engine began anew"),
    ],
)
def test_evidence(seconds: float, reset: bool, expected: bool) -> None:
    """An interval with a reset in it, or longer than two usual ones, enters no verdict."""
    resets = frozenset({("target", "0")}) if reset else frozenset()
    interval = Interval(start=10.0, end=10.0 + seconds, deltas={}, reset=resets)
    assert is_evidence(interval, 1.0) is expected
