"""Ready evidence as a look: what is known, what follows from it, and what is refused."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from specgauge.guard.evidence import judge_numbers, read_evidence
from specgauge.model.guard import Look
from specgauge.model.verdict import Verdict, VerdictReason


def read(found: Mapping[str, object], **more: Any) -> Look:
    terms = {"end": 1000.0, "window": 15.0, "spacing": 15.0, "margin": 0.05, **more}
    return read_evidence(found, **terms)


def test_whole_look() -> None:
    """Names, flags, numbers, counts and the other pool all arrive."""
    found = read(
        {
            "model_name": "m",
            "speculating": True,
            "restarted": True,
            "speedup_ratio": 0.7,
            "tokens": 8000,
            "requests": 40,
            "standard": {"served": 10, "errors": "?"},
        }
    )
    assert found == Look(
        start=985.0,
        end=1000.0,
        model_name="m",
        speculating=True,
        verdict=Verdict.COSTS,
        verdict_reason="speedup_below_one",
        covered=True,
        numbers={"speedup_ratio": 0.7, "tokens": 8000.0, "requests": 40.0},
        step={"tokens": 8000.0, "requests": 40.0},
        step_seconds=15.0,
        restarted=True,
        standard={"served": 10.0},
    )


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(value, id=str(value)[:12])
        for value in (None, True, "8", math.nan, math.inf, -math.inf, [8], {"a": 1}, 10**400)
    ],
)
def test_what_is_no_number_is_unknown(value: object) -> None:
    """Only finite numbers count; a truth value is none."""
    assert read({"tokens": value}).numbers == {}


@pytest.mark.parametrize(
    ("found", "speculating", "restarted", "model"),
    [
        pytest.param({}, None, False, "", id="unknown"),
        pytest.param(
            {"speculating": False, "restarted": False, "model_name": ""}, False, False, "", id="no"
        ),
        pytest.param(
            {"speculating": 1, "restarted": 1, "model_name": 7}, None, False, "7", id="other types"
        ),
        pytest.param({"model_name": None, "standard": [1]}, None, False, "", id="null"),
    ],
)
def test_flags(
    found: dict[str, object], speculating: bool | None, restarted: bool, model: str
) -> None:
    """Only true and false say something."""
    look = read(found)
    assert (look.speculating, look.restarted, look.model_name) == (speculating, restarted, model)
    assert look.standard == {}


@pytest.mark.parametrize(
    ("window", "spacing", "share", "seconds"),
    [
        pytest.param(15.0, 15.0, 1.0, 15.0, id="side by side"),
        pytest.param(15.0, 3.0, 0.2, 3.0, id="overlapping"),
        pytest.param(15.0, 60.0, 1.0, 15.0, id="apart"),
        pytest.param(15.0, math.inf, 1.0, 15.0, id="first"),
        pytest.param(15.0, 0.0, 0.0, 0.0, id="same time"),
        pytest.param(15.0, -5.0, 0.0, 0.0, id="clock went back"),
        pytest.param(0.0, 5.0, 1.0, 0.0, id="no window"),
    ],
)
def test_new_share_of_the_counts(
    window: float, spacing: float, share: float, seconds: float
) -> None:
    """Where windows overlap only so much of the counts is new, and never less than nothing."""
    look = read({"tokens": 1000.0, "tpot_seconds": 0.01}, window=window, spacing=spacing)
    assert look.step == {"tokens": pytest.approx(1000.0 * share)}
    assert look.step_seconds == pytest.approx(seconds)
    assert (look.start, look.end) == (1000.0 - window, 1000.0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            {"drafts": 100, "num_speculative_tokens": 4, "acceptance_ratio": 0.5},
            {"draft_tokens": 400, "accepted_tokens": 200, "acceptance_length": 3.0},
            id="from k",
        ),
        pytest.param(
            {"drafts": 100, "num_speculative_tokens": 4, "draft_length": 2},
            {"draft_tokens": 200},
            id="from the length",
        ),
        pytest.param({"drafts": 100}, {}, id="no length"),
        pytest.param({"draft_length": 4}, {}, id="no drafts"),
        pytest.param(
            {"drafts": 100, "draft_tokens": 300, "accepted_tokens": 90, "draft_length": 4},
            {"acceptance_length": 1.9},
            id="known counts stay",
        ),
        pytest.param({"draft_tokens": 300}, {}, id="no ratio"),
        pytest.param({"drafts": 0, "accepted_tokens": 0}, {}, id="no drafts to divide by"),
        pytest.param(
            {"drafts": 100, "accepted_tokens": 90, "acceptance_length": 2.5}, {}, id="known length"
        ),
    ],
)
def test_counts_that_follow(given: dict[str, float], expected: dict[str, float]) -> None:
    """Drafts, their length and the acceptance imply the counts of tokens; what is given stays."""
    assert read(given).numbers == pytest.approx({**given, **expected})


RATIO, LOW, HIGH, E2E = "speedup_ratio", "speedup_ratio_low", "speedup_ratio_high", "e2e"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "e2e", "verdict", "reason"),
    [
        pytest.param(None, None, None, None, "unknown", "no_baseline", id="nothing"),
        pytest.param(None, 0.1, 0.2, None, "unknown", "no_baseline", id="interval alone"),
        pytest.param(1.04, None, None, None, "even", "within_margin", id="within"),
        pytest.param(0.96, 0.5, 2.0, None, "even", "within_margin", id="within, wide"),
        pytest.param(1.5, None, None, None, "pays", "speedup_above_one", id="point pays"),
        pytest.param(1.5, 1.2, 1.8, None, "pays", "speedup_above_one", id="pays"),
        pytest.param(1.5, 1.2, 1.8, 1.1, "pays", "speedup_above_one", id="pays as a whole"),
        pytest.param(1.5, 1.2, 1.8, 0.9, "even", "latency_tradeoff", id="pays by token only"),
        pytest.param(1.5, 1.0, 2.0, None, "unknown", "interval_too_wide", id="wide gain"),
        pytest.param(0.7, None, None, None, "costs", "speedup_below_one", id="point costs"),
        pytest.param(0.7, 0.6, 0.8, None, "costs", "speedup_below_one", id="costs"),
        pytest.param(0.7, 0.6, 0.8, 0.8, "costs", "speedup_below_one", id="costs as a whole"),
        pytest.param(0.7, 0.6, 0.8, 1.1, "even", "latency_tradeoff", id="costs by token only"),
        pytest.param(0.7, 0.4, 1.0, None, "unknown", "interval_too_wide", id="wide loss"),
    ],
)
def test_numbers_against_the_margin(
    ratio: float | None,
    low: float | None,
    high: float | None,
    e2e: float | None,
    verdict: str,
    reason: str,
) -> None:
    """The whole interval has to lie beyond the margin, and the whole request to agree."""
    given = {RATIO: ratio, LOW: low, HIGH: high, "e2e_speedup_ratio": e2e}
    numbers = {name: value for name, value in given.items() if value is not None}
    assert judge_numbers(numbers, 0.05) == (verdict, reason)
    look = read(numbers)
    assert (look.verdict, look.verdict_reason) == (verdict, reason)
    assert look.covered is (ratio is not None)


@pytest.mark.parametrize(
    ("found", "verdict", "reason", "covered"),
    [
        pytest.param(
            {"verdict": "costs", "verdict_reason": "latency_tradeoff", "speedup_ratio": 0.9},
            *("costs", "latency_tradeoff", True),
            id="both",
        ),
        pytest.param(
            {"verdict": "unknown", "reason": "outside_baseline_range"},
            *("unknown", "outside_baseline_range", False),
            id="short name",
        ),
        pytest.param(
            {"verdict": "unknown", "verdict_reason": "baseline_mismatch", "speedup_ratio": 2},
            *("unknown", "baseline_mismatch", False),
            id="said goes before numbers",
        ),
        pytest.param({"verdict": "pays"}, "pays", "speedup_above_one", True, id="pays alone"),
        pytest.param(
            {"verdict": "costs"}, "unknown", "evidence_impossible", True, id="costs alone"
        ),
        pytest.param({"verdict": "even"}, "even", "within_margin", True, id="even alone"),
        pytest.param({"verdict": "unknown"}, "unknown", "no_baseline", False, id="unknown alone"),
        pytest.param(
            {"verdict": "unknown", "speedup_ratio": 1.0},
            *("unknown", "interval_too_wide", True),
            id="unknown against numbers",
        ),
        pytest.param(
            {"verdict": "costs", "speedup_ratio": 0.7},
            *("costs", "speedup_below_one", True),
            id="numbers agree",
        ),
    ],
)
def test_verdict_that_is_said(
    found: dict[str, object], verdict: str, reason: str, covered: bool
) -> None:
    """A verdict that comes along counts; without a reason it gets the one that fits."""
    look = read(found)
    assert (look.verdict, look.verdict_reason, look.covered) == (verdict, reason, covered)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({"verdict": "maybe"}, id="verdict"),
        pytest.param({"verdict": True}, id="truth value"),
        pytest.param({"verdict": "costs", "verdict_reason": "because"}, id="reason"),
        pytest.param({"verdict": "costs", "reason": 1}, id="number as a reason"),
    ],
)
def test_words_that_are_none(found: dict[str, object]) -> None:
    """A verdict or a reason that there is not is refused."""
    with pytest.raises(ValueError, match="is not a valid"):
        read(found)


def test_every_verdict_has_a_usual_reason() -> None:
    """No verdict that stands alone is without a reason."""
    for verdict in set(Verdict) - {Verdict.COSTS}:
        assert read({"verdict": str(verdict)}).verdict_reason in set(VerdictReason)
    costs = read({"verdict": "costs", "speedup_ratio": 0.97}, margin=0.05)
    assert (costs.verdict, costs.verdict_reason) == (Verdict.COSTS, VerdictReason.BELOW_ONE)


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param({RATIO: 0.0}, id="no speed"),
        pytest.param({RATIO: -0.5}, id="below zero"),
        pytest.param({RATIO: 0.5, "e2e_speedup_ratio": 0.0}, id="no speed of requests"),
        pytest.param({RATIO: 0.7, LOW: 0.8, HIGH: 0.6}, id="turned round"),
        pytest.param({LOW: 0.8, HIGH: 0.6}, id="turned round, without a value"),
        pytest.param({RATIO: 0.7, LOW: -2.0, HIGH: -1.0}, id="an interval below zero"),
        pytest.param({RATIO: 0.7, LOW: 0.8, HIGH: 0.9}, id="below its interval"),
        pytest.param({RATIO: 0.7, LOW: 0.4, HIGH: 0.6}, id="above its interval"),
        pytest.param({RATIO: 0.7, HIGH: 0.6}, id="above its end"),
        pytest.param({RATIO: 0.7, LOW: 0.75}, id="below its beginning"),
    ],
)
@pytest.mark.parametrize("verdict", [None, *Verdict])
def test_evidence_that_cannot_be(numbers: dict[str, float], verdict: Verdict | None) -> None:
    """It is no judgement, whatever verdict comes with it, and no want of a baseline either."""
    said = {} if verdict is None else {"verdict": str(verdict)}
    look = read({**numbers, **said})
    expected = (Verdict.UNKNOWN, "evidence_impossible", True)
    assert (look.verdict, look.verdict_reason, look.covered) == expected


@pytest.mark.parametrize("name", [RATIO, LOW, HIGH, "e2e_speedup_ratio"])
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(value, id=str(value)[:12])
        for value in (True, "0.9", math.nan, math.inf, -math.inf, [1], 10**400)
    ],
)
def test_a_speed_that_is_no_number_cannot_be(name: str, value: object) -> None:
    """A loss whose end is not known is no loss: the point alone decides only where it is alone."""
    look = read({RATIO: 0.85, LOW: 0.8, HIGH: 0.9, name: value})
    assert (look.verdict, look.verdict_reason) == (Verdict.UNKNOWN, "evidence_impossible")
    assert read({RATIO: 0.85, name: None}).verdict_reason != "evidence_impossible"


@pytest.mark.parametrize(
    ("found", "possible"),
    [
        pytest.param({"verdict": "costs"}, False, id="loss without a number"),
        pytest.param({"verdict": "costs", RATIO: math.nan}, False, id="loss with none"),
        pytest.param({"verdict": "costs", LOW: 0.6, HIGH: 0.7}, False, id="loss, interval alone"),
        pytest.param({"verdict": "costs", RATIO: 1.4}, False, id="loss with a gain"),
        pytest.param({"verdict": "pays", RATIO: 0.6}, False, id="gain with a loss"),
        pytest.param({"verdict": "costs", RATIO: 0.9, LOW: 0.7}, True, id="loss"),
        pytest.param({"verdict": "pays"}, True, id="gain without a number"),
        pytest.param({"verdict": "even", RATIO: 1.3}, True, id="neither, for another reason"),
        pytest.param({RATIO: 0.87, LOW: 0.87, HIGH: 0.8699999999}, True, id="rounded"),
    ],
)
def test_verdict_against_its_numbers(found: dict[str, object], possible: bool) -> None:
    """A loss needs a number, and neither side may be contradicted by it."""
    assert (read(found).verdict_reason != "evidence_impossible") is possible
