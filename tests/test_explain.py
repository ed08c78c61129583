"""The guard in plain words: what, since when, why, on which numbers, what next, what is missing."""

from dataclasses import replace

import pytest

from specgauge.guard.explain import explain, explain_state
from specgauge.guard.flags.protocol import WriteResult
from specgauge.guard.words import PHASES, POOL_REASONS, REASONS, reason_in_words, span_in_words
from specgauge.model.guard import Decision, GuardReason, GuardState, Outcome, Phase
from specgauge.model.verdict import VerdictReason
from specgauge.serve.fleet_answer import FleetReason

NUMBERS = {
    "speedup_ratio": 0.71,
    "speedup_ratio_low": 0.66,
    "speedup_ratio_high": 0.76,
    "decode_concurrency": 31.2,
    "tokens": 8123.0,
    "requests": 41.0,
    "drafts": 2601.0,
    "acceptance_ratio": 0.11,
    "tpot_seconds": 0.0213,
}
FELL = Decision(
    time=125.0,
    before=Phase.ACTIVE,
    state=Phase.FALLBACK,
    flag=False,
    outcome=Outcome.DEGRADED,
    reason="speedup_below_one",
    changed=True,
    evidence=NUMBERS,
    next_probe=425.0,
)
IDLE = Decision(
    time=140.0,
    before=Phase.ACTIVE,
    state=Phase.ACTIVE,
    flag=True,
    outcome=Outcome.NO_DATA,
    reason="too_few_tokens",
    changed=False,
    evidence={"tokens": 12.0, "speedup_ratio": 1.2},
)
ACTIVE = GuardState(phase=Phase.ACTIVE, flag=True, time=140.0, since=20.0)
OFF = GuardState(phase=Phase.FALLBACK, flag=False, time=140.0, since=125.0, next_probe=425.0)


def test_a_change_in_words() -> None:
    """A flip is told with its cause, its numbers and what comes next."""
    assert explain(FELL) == (
        "From active to fallback, flag off: tokens come slower than they would without "
        "speculation at this load. The evidence was degraded (speedup 0.71 (between 0.66 and "
        "0.76), 31.2 requests in decode, 8123 tokens, 41 finished requests, 2601 drafts, "
        "acceptance ratio 0.11, 21.3 ms per token). The next trial is due in 5 min."
    )


def test_nothing_moved_in_words() -> None:
    """A look that moves nothing says what was missing."""
    assert explain(IDLE) == (
        "Still active, flag on: too few tokens were generated to judge. The evidence was too "
        "little to judge (speedup 1.20, 12 tokens)."
    )


def test_everything_beside_a_decision_is_told() -> None:
    """Dry-run signals, co-signals and warnings are told, and that they decide nothing."""
    told = explain(
        replace(
            IDLE,
            flag=None,
            evidence={},
            wanted=Phase.FALLBACK,
            rehearsed=("excess_errors",),
            companions=("kv_cache_full", "waiting"),
            warnings=("fallback_ineffective",),
        )
    )
    assert "flag unknown" in told
    assert "But for the dry run it would now be fallback." in told
    assert "would have acted: the speculative pool fails more often" in told
    assert "which decides nothing: kv cache full, waiting." in told
    assert "Mind: the service is no faster" in told
    frozen = replace(IDLE, reason=GuardReason.FROZEN, wanted=Phase.FALLBACK)
    assert "But for the freeze file it would now be fallback." in explain(frozen)


def test_a_state_in_words() -> None:
    """Where it stands is told with since when, why, what was seen last and what comes next."""
    now = replace(IDLE, before=Phase.FALLBACK, state=Phase.FALLBACK, reason="cooling_down")
    state = replace(OFF, failures=2, fallbacks=(125.0,), told=("fallback_ineffective",))
    lines = explain_state(state, [FELL, now], 185.0).splitlines()
    assert lines[0] == "Speculation is wanted off, for it cost, for 1 min (fallback)."
    assert lines[1].startswith("It last moved 1 min ago, because tokens come slower")
    assert "(speedup 0.71 (between 0.66 and 0.76)" in lines[1]
    assert lines[2] == "The last look: too little to judge (speedup 1.20, 12 tokens)."
    assert lines[3] == "Nothing moved, because the cool-down after the last fallback lasts."
    assert lines[4] == "Next: a trial in 4 min, after 2 failed."
    assert lines[5] == "Fallbacks in the last day: 1."
    assert lines[6].startswith("Mind: the service is no faster")


@pytest.mark.parametrize(
    ("state", "decisions", "expected"),
    [
        pytest.param(GuardState(), [], "It has not looked at any evidence yet.", id="no look"),
        pytest.param(GuardState(), [], "Next: it takes the flag over as soon", id="starting"),
        pytest.param(ACTIVE, [IDLE], "Evidence that can be judged is missing", id="missing"),
        pytest.param(
            replace(ACTIVE, streak=1),
            [replace(IDLE, outcome=Outcome.DEGRADED)],
            "would turn it off. 1 degraded so far in a row.",
            id="one in a row",
        ),
        pytest.param(
            ACTIVE, [replace(IDLE, wanted=Phase.FALLBACK)], "But for the dry run", id="dry run"
        ),
        pytest.param(OFF, [FELL], "Next: a trial in 4 min 45 s.", id="first trial"),
        pytest.param(
            replace(OFF, next_probe=None), [], "Next: nothing, until an operator acts.", id="manual"
        ),
        pytest.param(
            GuardState(phase=Phase.PROBING, flag=True, probe_load=31.2),
            [],
            "Next: healthy windows at about 31.2 requests end the trial well.",
            id="trial",
        ),
        pytest.param(
            GuardState(phase=Phase.PROBING, flag=True),
            [IDLE],
            "Next: healthy windows end the trial well. Evidence",
            id="trial at any load",
        ),
        pytest.param(
            GuardState(phase=Phase.LATCHED, flag=False), [], "until an operator acts.", id="latched"
        ),
        pytest.param(
            GuardState(phase=Phase.OVERRIDE, flag=False),
            [],
            "when the override ends",
            id="override",
        ),
    ],
)
def test_what_comes_next(state: GuardState, decisions: list[Decision], expected: str) -> None:
    """Every phase says what it waits for."""
    assert expected in explain_state(state, decisions, 140.0)


def test_a_last_look_that_moved_something_is_not_told_twice() -> None:
    """After a flip there is nothing that did not move."""
    assert "Nothing moved" not in explain_state(OFF, [FELL], 130.0)


def test_every_reason_and_phase_has_words() -> None:
    """No code reaches a person without words, and what is foreign is still readable."""
    assert set(REASONS) == {*GuardReason, *VerdictReason}
    assert set(PHASES) == set(Phase)
    assert reason_in_words("tls_failed_somehow") == "tls failed somehow"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5.0, "0 s"), (0.4, "0 s"), (45.0, "45 s"), (60.0, "1 min"), (270.0, "4 min 30 s"),
        (3600.0, "1 h"), (7500.0, "2 h 5 min"), (3605.0, "1 h"), (273_600.0, "3 d 4 h"),
    ],
)  # fmt: skip
def test_spans_in_words(seconds: float, words: str) -> None:
    """A length of time is told to two places."""
    assert span_in_words(seconds) == words


def test_every_reason_of_a_pool_has_words() -> None:
    """Why a Prometheus gave nothing is said, and specgauge is not blamed for it."""
    assert set(POOL_REASONS) == {*FleetReason, *WriteResult} - {WriteResult.OK}
    for reason in POOL_REASONS:
        told = reason_in_words(reason)
        assert told == POOL_REASONS[reason]
        assert "fault of its own" not in told
