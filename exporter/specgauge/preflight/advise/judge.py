"""Whether a server is a candidate for speculation: reasons are weighed, the gravest decide.

Every limit stands in `Limits` and is told with the answer; what is not known is never a pass.
"""

from dataclasses import dataclass

from specgauge.preflight.advise.expect import Expected
from specgauge.preflight.advise.finding import Advice, Code, FirstMethod, Reason, Weight, ordered
from specgauge.preflight.advise.lookup import Tally
from specgauge.preflight.advise.method import first_method
from specgauge.preflight.advise.observed import Limits, Observed
from specgauge.preflight.advise.reasons import (
    cache,
    load,
    outputs,
    speculating,
    temperature,
    version,
)

_REQUIRED = frozenset({Code.LOAD_NOT_MEASURED, Code.KV_NOT_MEASURED, Code.OUTPUTS_NOT_MEASURED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The advice on one model with everything that it rests on."""

    observed: Observed
    advice: Advice
    first_method: FirstMethod | None
    reasons: tuple[Reason, ...]
    tally: Tally | None
    expected: Expected | None
    limits: Limits


def judge(
    observed: Observed,
    *,
    draft_tokens: int,
    tally: Tally | None = None,
    expected: Expected | None = None,
    limits: Limits,
) -> Answer:
    """Weigh what is known."""
    reasons = [
        *speculating(observed),
        *load(observed, draft_tokens, expected, limits),
        *cache(observed, limits),
        *outputs(observed, limits),
        *temperature(observed, limits),
        *version(observed),
    ]
    method, why = first_method(tally, expected, limits)
    reasons += why
    return Answer(
        observed=observed,
        advice=_advice(reasons),
        first_method=method,
        reasons=ordered(reasons),
        tally=tally,
        expected=expected,
        limits=limits,
    )


def _advice(reasons: list[Reason]) -> Advice:
    codes = {one.code for one in reasons}
    if Code.ALREADY_SPECULATING in codes:
        return Advice.NOT_MEASURED
    if any(one.weight is Weight.AGAINST for one in reasons):
        return Advice.POOR
    return Advice.NOT_MEASURED if codes & _REQUIRED else Advice.CANDIDATE
