"""A smaller k from the acceptance of a server that runs, without a restart: a hint.

Numbers in, numbers out. What it takes for granted is part of the answer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from specgauge.derive.breakeven import suggested_k
from specgauge.model.derived import Derived, Reason, Value
from specgauge.preflight.sweep.methods import is_chain

SCHEMA = "specgauge.sweep-predict/v1"
COST_OF_A_TOKEN = 0.05
"""Steps that one more drafted token is taken to cost where no baseline tells."""

NOT_A_CHAIN = "not_a_chain"
NO_SURVIVAL = "no_survival"


class Assumption(StrEnum):
    """What a prediction takes for granted."""

    CHAIN = "chain_drafter"
    EVEN_COST = "step_cost_grows_evenly"
    SAME_LOAD = "same_load_and_prompts"
    ASSUMED_COST = "token_cost_assumed"
    GOES_ON = "last_conditional_acceptance_goes_on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a server would do with another k; `extrapolated` beyond the k that it has."""

    k: int
    survival: float
    tokens_per_step: float
    step_cost: float
    extrapolated: bool = False

    @property
    def speedup(self) -> float:
        """Tokens of a step over its cost."""
        return self.tokens_per_step / self.step_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """The answer for one model; `absent` says why there is none."""

    model_name: str
    k: int | None = None
    suggested: int | None = None
    step_cost_ratio: float | None = None
    rows: tuple[Row, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()
    absent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What is known of a step's cost: measured against a baseline by model, or taken for granted.

    `measured` has the cost of a step at the k that runs, in steps without speculation.
    """

    measured: Mapping[str, float] = field(default_factory=dict)
    token_cost: float = COST_OF_A_TOKEN


def hint(derived: Derived, costs: Costs, *, k_max: int | None, method: str | None) -> Hint:
    """Predict every k up to `k_max`, or up to the one that runs, and suggest one of the latter."""
    survival = _shares(derived.values.get("position_acceptance_ratio"))
    name, k = derived.model_name, len(survival)
    if method is not None and not is_chain(method):
        return Hint(model_name=name, absent=NOT_A_CHAIN, warnings=derived.warnings)
    if not survival:
        why = derived.absent.get("position_acceptance_ratio", Reason.NO_DRAFTS)
        return Hint(model_name=name, absent=f"{NO_SURVIVAL}: {why}", warnings=derived.warnings)
    covered = derived.values.get("draft_coverage_ratio")
    coverage = min(float(covered), 1.0) if isinstance(covered, int | float) else 1.0
    measured = costs.measured.get(name)
    rho = 1.0 + coverage * k * costs.token_cost if measured is None else measured
    told = (
        (method is None, Assumption.CHAIN),
        (True, Assumption.EVEN_COST),
        (True, Assumption.SAME_LOAD),
        (measured is None, Assumption.ASSUMED_COST),
        (k_max is not None and k_max > k, Assumption.GOES_ON),
    )
    return Hint(
        model_name=name,
        k=k,
        suggested=suggested_k([coverage * one for one in survival], rho),
        step_cost_ratio=rho,
        rows=_rows(survival, coverage, rho, k_max or k),
        assumptions=tuple(one for is_so, one in told if is_so),
        warnings=derived.warnings,
    )


def document(hints: Sequence[Hint], *, seconds: float | None) -> dict[str, Any]:
    """Build the `specgauge.sweep-predict/v1` document."""
    models = [_model(one) for one in hints]
    return {"schema": SCHEMA, "window_seconds": seconds, "models": models}


def _rows(survival: Sequence[float], coverage: float, rho: float, k_max: int) -> tuple[Row, ...]:
    measured = len(survival)
    before = survival[-2] if measured > 1 else 1.0
    ratio = min(survival[-1] / before, 1.0) if before > 0.0 else 0.0
    shares = list(survival)
    while len(shares) < k_max:
        shares.append(shares[-1] * ratio)
    return tuple(
        Row(
            k=k,
            survival=shares[k - 1],
            tokens_per_step=1.0 + coverage * math.fsum(shares[:k]),
            step_cost=max(1.0 + k * (rho - 1.0) / measured, _LEAST_COST),
            extrapolated=k > measured,
        )
        for k in range(1, k_max + 1)
    )


_LEAST_COST = 0.01
"""A measured cost far below 1 would go below 0 beyond the k that runs."""


def _model(one: Hint) -> dict[str, Any]:
    found: dict[str, Any] = {"model_name": one.model_name}
    if one.absent is None:
        found |= {
            "num_speculative_tokens": one.k,
            "suggested_num_speculative_tokens": one.suggested,
            "step_cost_ratio": one.step_cost_ratio,
            "predictions": [
                {
                    "k": row.k,
                    "position_acceptance_ratio": row.survival,
                    "tokens_per_step": row.tokens_per_step,
                    "step_cost_ratio": row.step_cost,
                    "speedup_ratio": row.speedup,
                    "extrapolated": row.extrapolated,
                }
                for row in one.rows
            ],
        }
    return {
        **found,
        "assumptions": [str(name) for name in one.assumptions],
        "warnings": list(one.warnings),
        "absent": {} if one.absent is None else {"suggested_num_speculative_tokens": one.absent},
    }


def _shares(value: Value | None) -> Sequence[float]:
    return () if value is None or isinstance(value, int | float) else value
