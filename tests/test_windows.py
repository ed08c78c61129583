"""Which window is shown, and which one a guard acts on."""

import pytest

from specgauge.model.verdict import Judgement, Verdict, VerdictReason
from specgauge.serve.windows import choose, points

SAID = {
    "costs": (Verdict.COSTS, VerdictReason.BELOW_ONE),
    "pays": (Verdict.PAYS, VerdictReason.ABOVE_ONE),
    "even": (Verdict.EVEN, VerdictReason.WITHIN_MARGIN),
    "wide": (Verdict.UNKNOWN, VerdictReason.INTERVAL_TOO_WIDE),
    "leans": (Verdict.UNKNOWN, VerdictReason.INTERVAL_TOO_WIDE),
    "uneven": (Verdict.UNKNOWN, VerdictReason.UNEVEN_LOAD),
    "few": (Verdict.UNKNOWN, VerdictReason.TOO_FEW_TOKENS),
}
Shown = tuple[str, float, float, int]
"""What a window says, its speedup, the upper end of that, and what it is worth."""


def judged(shown: Shown) -> Judgement:
    """Write the judgement of a window."""
    said, ratio, high, _ = shown
    verdict, reason = SAID[said]
    return Judgement(
        model_name="target",
        verdict=verdict,
        reason=reason,
        ratios={"concurrency": ratio},
        highs={"concurrency": high},
        confidence=0.95,
        leans=said == "leans",
    )


WIDE, MILD, GREAT = ("wide", 0.9, 0.98, 1), ("costs", 0.85, 0.93, 1), ("costs", 0.6, 0.7, 1)
GAIN, FEW = ("wide", 1.2, 1.4, 1), ("few", 0.9, 0.98, 1)
ONE, TWO, THREE = ("costs", 0.9, 0.94, 1), ("costs", 0.91, 0.94, 2), ("costs", 0.92, 0.94, 3)
VAGUE, PAYS = ("wide", 0.92, 0.97, 2), ("pays", 1.2, 1.3, 2)
EVEN, LOWER, UNEVEN = ("even", 1.0, 1.1, 1), ("even", 0.96, 1.1, 1), ("uneven", 0.9, 0.94, 1)
LEANS, LEANING = ("leans", 0.9, 0.97, 1), ("leans", 0.91, 0.96, 2)


@pytest.mark.parametrize(
    ("usual", "longer", "shown", "acted_on"),
    [
        pytest.param(WIDE, [], WIDE, WIDE, id="nothing longer"),
        pytest.param(WIDE, [VAGUE, VAGUE], WIDE, WIDE, id="none is clear"),
        pytest.param(WIDE, [VAGUE, TWO, THREE], TWO, THREE, id="the one that is worth most"),
        pytest.param(WIDE, [ONE, ("costs", 0.93, 0.94, 1)], ONE, ONE, id="of equals the shortest"),
        pytest.param(MILD, [TWO], MILD, TWO, id="clear, and longer is worth more"),
        pytest.param(MILD, [ONE], MILD, MILD, id="clear, and longer is worth no more"),
        pytest.param(GREAT, [TWO], GREAT, GREAT, id="severe by itself"),
        pytest.param(GAIN, [TWO, PAYS], PAYS, PAYS, id="a loss of before a recovery"),
        pytest.param(WIDE, [PAYS], WIDE, WIDE, id="a gain of before a fall"),
        pytest.param(FEW, [TWO], FEW, FEW, id="too little"),
        pytest.param(EVEN, [TWO], EVEN, EVEN, id="even"),
        pytest.param(LOWER, [VAGUE, THREE], LOWER, THREE, id="even by chance, and longer it costs"),
        pytest.param(LOWER, [VAGUE], LOWER, LOWER, id="even, and longer nothing is clear"),
        pytest.param(UNEVEN, [TWO], UNEVEN, TWO, id="uneven, and longer it costs"),
        pytest.param(LEANS, [VAGUE], LEANS, LEANS, id="it leans"),
        pytest.param(WIDE, [LEANING, VAGUE], WIDE, LEANING, id="a longer one leans"),
        pytest.param(LEANS, [LEANING, TWO], TWO, TWO, id="one costs for sure"),
        pytest.param(LOWER, [LEANING], LOWER, LEANING, id="even by chance, and longer it leans"),
        pytest.param(MILD, [LEANING], MILD, MILD, id="sure before leaning"),
    ],
)
def test_choice(usual: Shown, longer: list[Shown], shown: Shown, acted_on: Shown | None) -> None:
    """Shown is the shortest that is clear; acted on what costs and is worth most."""
    found = choose(usual, iter(longer), judged, worth=lambda one: one[3], severe=0.8)
    assert found == (shown, acted_on or shown)


def test_nobody_acts() -> None:
    """Without a guard the usual window stands if it is clear; few more are looked at."""
    rest = iter([VAGUE, TWO, THREE])
    assert choose(WIDE, rest, judged) == (TWO, TWO)
    assert list(rest) == [THREE]
    rest = iter([TWO])
    assert choose(MILD, rest, judged) == (MILD, MILD)
    assert list(rest) == [TWO]


def test_a_point_that_is_not_known() -> None:
    """Without a ratio a window points nowhere, and without an upper end it is not severe."""
    blank = Judgement(
        model_name="target", verdict=Verdict.COSTS, reason=VerdictReason.BELOW_ONE, confidence=0.95
    )
    assert points(blank) == 1.0
    pair = choose("a", ["b"], lambda _: blank, worth=lambda _: 1, severe=0.8)
    assert pair == ("a", "a")
