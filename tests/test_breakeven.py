"""What steps cost, the acceptance at which they pay, and the K that would yield most."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgauge.derive.breakeven import breakeven_acceptance_length, step_cost_ratio, suggested_k
from specgauge.model.derived import Absent, Reason

MISSING = Absent(reason=Reason.NOT_EXPOSED)


def test_step_cost() -> None:
    """Three tokens a step at a speedup of two: a step costs as much as one and a half."""
    assert step_cost_ratio(3.0, 2.0) == 1.5
    assert step_cost_ratio(MISSING, 2.0) == MISSING


@pytest.mark.parametrize(
    ("rho", "coverage", "k", "expected"),
    [
        pytest.param(1.5, 1.0, 4, 1.5, id="every step drafts"),
        pytest.param(1.5, 0.5, 4, 2.0, id="every second one does"),
        pytest.param(1.0, 0.2, 4, 1.0, id="steps cost nothing more"),
        pytest.param(5.0, 1.0, 4, 5.0, id="exactly K + 1"),
        pytest.param(5.01, 1.0, 4, Absent(reason=Reason.CANNOT_PAY), id="above K + 1"),
        pytest.param(5.01, 1.0, None, 5.01, id="K not known"),
        pytest.param(0.99, 1.0, 4, Absent(reason=Reason.BELOW_ONE), id="less than a plain step"),
        pytest.param(0.5, 0.1, None, Absent(reason=Reason.BELOW_ONE), id="far below one"),
        pytest.param(1.5, 0.0, 4, Absent(reason=Reason.NO_DRAFTS), id="no drafts"),
        pytest.param(MISSING, 1.0, 4, MISSING, id="cost not known"),
        pytest.param(1.5, MISSING, 4, MISSING, id="coverage not known"),
    ],
)
def test_breakeven(
    rho: float | Absent, coverage: float | Absent, k: int | None, expected: float | Absent
) -> None:
    """It lies where the tokens of a step equal its cost, and nowhere below 1 or above K + 1."""
    assert breakeven_acceptance_length(rho, coverage, k) == expected


@given(st.floats(1.0, 5.0), st.floats(0.01, 1.0), st.floats(0.1, 4.0))
def test_breakeven_is_where_the_speedup_is_one(
    length: float, coverage: float, speedup: float
) -> None:
    """The acceptance length lies above break-even exactly where the speedup is above 1."""
    tokens = 1.0 + coverage * (length - 1.0)
    found = breakeven_acceptance_length(step_cost_ratio(tokens, speedup), coverage, None)
    if isinstance(found, Absent):  # a step costs less than one without a draft
        assert tokens < speedup * (1.0 + 1e-9)
        return
    assert (length - found) * (speedup - 1.0) >= -1e-9


@pytest.mark.parametrize(
    ("survival", "rho", "k"),
    [
        pytest.param((0.8, 0.62, 0.46, 0.34), 1.2, 4, id="cheap steps"),
        pytest.param((0.8, 0.62, 0.46, 0.34), 2.0, 3, id="a fourth no longer helps"),
        pytest.param((0.8, 0.05, 0.01, 0.0), 1.4, 1, id="one is enough"),
        pytest.param((0.1, 0.01, 0.0), 2.0, 0, id="none pays"),
        pytest.param((0.5, 0.005), 1.0, 1, id="within 1 % the smaller one"),
        pytest.param((), 2.0, 0, id="no positions"),
    ],
)
def test_suggested_k(survival: tuple[float, ...], rho: float, k: int) -> None:
    """Of all K the one with most tokens for its cost, where cost grows evenly with K."""
    assert suggested_k(survival, rho) == k
