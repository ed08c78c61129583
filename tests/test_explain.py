"""The guard in plain words: what, since when, why, on which numbers, what next, what is missing."""

from dataclasses import replace
from pathlib import Path

import pytest

from specgauge.config.guard_keys import RecoveryKeys
from specgauge.guard.explain import explain
from specgauge.guard.flags.protocol import WriteResult
from specgauge.guard.words import POOL_REASONS, REASONS, reason_in_words, span_in_words
from specgauge.model.guard import Decision, GuardReason, Outcome, Phase
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
        "Still active, flag on: too few tokens were generated to judge. The evidence was not "
        "judged (speedup 1.20, 12 tokens)."
    )


def test_one_of_several_models_is_named() -> None:
    """Whoever reads the numbers of a server with several models knows whose they are."""
    told = explain(replace(IDLE, model_name="chat"))
    assert "The evidence of the model chat was not judged (speedup 1.20, 12 tokens)." in told


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


def test_a_dry_run_says_where_it_would_stand() -> None:
    """Once a step was told, the words still say which state its reason is about."""
    away = replace(IDLE, reason=GuardReason.COOLING_DOWN, shadow=Phase.FALLBACK)
    begun = "Still active, flag on; but for the dry run it would be fallback: the cool-down"
    assert explain(away).startswith(begun)
    told = explain(replace(away, wanted=Phase.FALLBACK))
    assert told.count("but for the dry run") + told.count("But for the dry run") == 1


def test_every_reason_has_words() -> None:
    """No code reaches a person without words, and what is foreign is still readable."""
    assert set(REASONS) == {*GuardReason, *VerdictReason}
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


def test_a_trial_that_is_too_young_names_its_key() -> None:
    """Wherever it is explained, an operator reads what it means and which key changes it."""
    root = Path(__file__).parents[1]
    rows = (root / "docs" / "guard.md").read_text().splitlines()
    (row,) = (one for one in rows if one.startswith("| `probe_too_short` |"))
    for said in (reason_in_words("probe_too_short"), row):
        assert "too young to decide" in said
        assert "guard.recovery.probe_for" in said
        assert "horten that key" in said
    described = RecoveryKeys.model_fields["probe_for"].description or ""
    assert "probe_too_short" in described
