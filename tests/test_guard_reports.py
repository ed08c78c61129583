"""What practitioners reported of guards: inputs of those kinds, and what the assessment says."""

import pytest
from tests.looking import POLICY, accepting, ask, look

from specgauge.guard.assess import Memory, assess
from specgauge.guard.policy import Policy
from specgauge.model.guard import Look, Outcome

PLAYBOOK = Policy(playbook=True, consecutive=3)


def tick(end: float, **numbers: float) -> Look:
    """Write a minute of which nothing is known but these numbers."""
    return Look(start=end - 60.0, end=end, numbers=numbers)


@pytest.mark.parametrize(
    ("ticks", "expected"),
    [
        pytest.param(["error"] * 5, ["no_data"] * 5, id="blind is not well"),
        pytest.param(
            [0.31, "error", 0.3, "no_data", 0.32],
            ["degraded", "no_data", "degraded", "no_data", "degraded"],
            id="gaps neither count nor reset",
        ),
        pytest.param([0.31, 0.3, 0.71], ["degraded", "degraded", "healthy"], id="real pass"),
    ],
)
def test_measurements_that_failed(ticks: list[float | str], expected: list[str]) -> None:
    """An answer is made from every measurement, not from those that happened to work."""
    memory, outcomes = Memory(), []
    for at, one in enumerate(ticks):
        end = 60.0 * at
        seen = tick(end, acceptance_ratio=one) if isinstance(one, float) else None
        memory, found = assess(memory, seen, PLAYBOOK, time=end, error="timeout")
        outcomes.append(str(found.outcome))
    assert outcomes == expected


def test_three_rejected_drafts() -> None:
    """A cold start with a few rejected drafts is no data; the first real minute is healthy."""
    cold = tick(60.0, drafts=3.0, draft_tokens=9.0, accepted_tokens=0.0, acceptance_ratio=0.0)
    assert ask(cold, PLAYBOOK).reason == "too_few_drafts"
    warm = tick(120.0, drafts=500.0, draft_tokens=1500.0, acceptance_ratio=0.7)
    assert ask(warm, PLAYBOOK).outcome is Outcome.HEALTHY
    ours = look(numbers={**accepting(0.0, drafts=3.0, k=3.0), "tokens": 9.0})
    assert ask(ours).outcome is Outcome.NO_DATA


def test_good_acceptance_and_slow_service() -> None:
    """A loss at matched load is seen through good acceptance; a spike without one is no loss."""
    slow = {"acceptance_ratio": 0.85, "tpot_seconds": 0.025, "speedup_ratio": 0.8}
    assert ask(tick(60.0, **slow), PLAYBOOK).reason == "speedup_below_one"
    spike = {"acceptance_ratio": 0.85, "tpot_seconds": 0.04, "speedup_ratio": 1.0}
    late = {"e2e_seconds": 16.0, "baseline_e2e_seconds": 10.0, "requests_waiting": 40.0}
    found = ask(tick(60.0, **spike, **late), PLAYBOOK)
    assert (found.outcome, found.companions) == (Outcome.HEALTHY, ("waiting",))


def test_acceptance_after_position_0_gone() -> None:
    """A chain that only its first position carries still yields 1.83 tokens a step."""
    chain = {"drafts": 1000.0, "draft_tokens": 5000.0, "accepted_tokens": 827.0}
    found = ask(look(numbers=chain))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.numbers["acceptance_length"] == pytest.approx(1.827)
    assert found.numbers["acceptance_floor"] == pytest.approx(1.25)


@pytest.mark.parametrize("policy", [POLICY, PLAYBOOK], ids=["ours", "playbook"])
def test_standard_decoding_after_fallback(policy: Policy) -> None:
    """A server that stays slower after the fallback says nothing against speculation."""
    residual = tick(60.0, acceptance_ratio=0.0, e2e_seconds=5.8, baseline_e2e_seconds=5.4)
    found = ask(residual, policy, flag_on=False)
    assert (found.outcome, found.reason) == (Outcome.NO_DATA, "flag_off")


# Measured on an H200, four draft tokens: (acceptance, requests in decode, speedup).
CELLS = [
    pytest.param(0.549, 1.0, 2.649, id="eagle at 1"),
    pytest.param(0.553, 32.0, 1.599, id="eagle at 32"),
    pytest.param(0.554, 128.0, 0.811, id="eagle at 128"),
    pytest.param(0.553, 32.0, 0.912, id="draft model at 32"),
    pytest.param(0.108, 8.0, 0.509, id="poor draft at 8"),
]


@pytest.mark.parametrize(("acceptance", "load", "speedup"), CELLS)
def test_measured_cells(acceptance: float, load: float, speedup: float) -> None:
    """With a baseline the loss decides whatever acceptance is; without one nothing is proved."""
    numbers = {
        **accepting(acceptance),
        "requests": 500.0,
        "speedup_ratio": speedup,
        "decode_concurrency": load,
        "speedup_ratio_high": speedup * 1.03,
    }
    found = ask(look("costs" if speedup < 1.0 else "pays", numbers=numbers))
    assert found.outcome is (Outcome.DEGRADED if speedup < 1.0 else Outcome.HEALTHY)
    assert found.severe == (speedup < 0.77)
    assert ask(look(numbers=numbers)).outcome is Outcome.INCONCLUSIVE
