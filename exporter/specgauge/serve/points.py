"""A point of the page's curves: what one scrape showed, column by column; it keeps nothing."""

import math
from array import array
from collections.abc import MutableSequence

from specgauge.derive.interpolate import covers, spread_at, tpot_at
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Derived
from specgauge.model.verdict import Judgement

COLUMNS = (
    "speedup_ratio",
    "speedup_ratio_low",
    "speedup_ratio_high",
    "decode_concurrency",
    "acceptance_ratio",
    "acceptance_length",
    "breakeven_acceptance_length",
    "tokens_per_step",
    "tpot_seconds",
    "baseline_tpot_seconds",
    "baseline_tpot_low_seconds",
    "baseline_tpot_high_seconds",
    "flag",
)
"""What a point holds beside its time; the flag is 1 where the guard wants speculation on."""

_OF_VERDICT = ("decode_concurrency", "acceptance_ratio", "acceptance_length")

BASIS = "concurrency"
UNKNOWN = math.nan
"""In memory only: what is told is null."""


def make_point(
    derived: Derived,
    judgement: Judgement | None,
    baseline: Baseline | None,
    longer: float | None,
    flag: bool | None,
) -> MutableSequence[float]:
    """Give the columns; `longer` is how many times as long the tokens would have taken."""
    found: dict[str, float | None] = {
        name: derived.number(name) for name in (*_OF_VERDICT, "tokens_per_step", "tpot_seconds")
    }
    load, tpot = found["decode_concurrency"], found["tpot_seconds"]
    if baseline is not None and load is not None and covers(baseline.curve, load):
        usual, spread = tpot_at(baseline.curve, load), spread_at(baseline.curve, load)
        if longer is not None and tpot is not None:
            usual = tpot * longer
        found["baseline_tpot_seconds"] = usual
        found["baseline_tpot_low_seconds"] = usual * (1.0 - spread)
        found["baseline_tpot_high_seconds"] = usual * (1.0 + spread)
    found["flag"] = flag
    if judgement is not None and judgement.ratios:
        found |= _judged(judgement)
    known = (found.get(name) for name in COLUMNS)
    return array("d", (UNKNOWN if value is None else value for value in known))


def _judged(one: Judgement) -> dict[str, float | None]:
    """Give the verdict's columns, and what lies beside them over its own, shorter window."""
    ratio, cost = one.ratios.get(BASIS), one.values.get("step_cost_ratio")
    found = {name: one.values.get(name) for name in _OF_VERDICT}
    if ratio is not None and cost is not None:
        found["tokens_per_step"] = cost * ratio
    return {
        **found,
        "speedup_ratio": ratio,
        "speedup_ratio_low": one.lows.get(BASIS),
        "speedup_ratio_high": one.highs.get(BASIS),
        "breakeven_acceptance_length": one.values.get("breakeven_acceptance_length"),
    }
