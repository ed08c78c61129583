"""Which method to try first, from a replay of recorded answers."""

from specgauge.preflight.advise.expect import Expected
from specgauge.preflight.advise.finding import Code, FirstMethod, Reason, Weight
from specgauge.preflight.advise.lookup import Tally
from specgauge.preflight.advise.observed import Limits


def first_method(
    tally: Tally | None, expected: Expected | None, limits: Limits
) -> tuple[FirstMethod | None, list[Reason]]:
    """Say what to try first: n-gram where answers repeat what stands before them."""
    if tally is None or (gained := tally.tokens_per_step) is None:
        return None, [
            Reason(
                code=Code.PROMPTS_NOT_GIVEN,
                weight=Weight.UNKNOWN,
                text="whether n-gram would do cannot be told without recorded answers",
                fix="--prompts FILE with prompts and their outputs; a draft otherwise: specgauge "
                "draft suggest",
            )
        ]
    speedup = None if expected is None else expected.ngram_speedup
    pays = gained >= limits.ngram_tokens_per_step and (speedup is None or speedup > limits.speedup)
    numbers = {
        "tokens_per_step": gained,
        "draft_coverage_ratio": tally.coverage or 0.0,
        "acceptance_length": tally.acceptance_length or 1.0,
        "threshold": limits.ngram_tokens_per_step,
    }
    told = (
        f"n-gram would yield {gained:.2f} tokens a step and draft in {tally.coverage:.0%} of them"
    )
    if speedup is not None:
        numbers["speedup_ratio"] = speedup
        told += f", {speedup:.2f} times as fast by the baseline"
    reasons = [
        Reason(
            code=Code.NGRAM_MATCHES if pays else Code.NGRAM_SELDOM_MATCHES,
            weight=Weight.FOR if pays else Weight.CAUTION,
            text=told,
            numbers=numbers,
            fix=None if pays else "a draft model or a head: specgauge draft suggest TARGET",
        )
    ]
    if tally.output_tokens < limits.answer_tokens:
        reasons.append(
            Reason(
                code=Code.FEW_ANSWERS,
                weight=Weight.CAUTION,
                text=f"the recorded answers have {tally.output_tokens} tokens in all",
                numbers={"output_tokens": tally.output_tokens, "threshold": limits.answer_tokens},
                fix="record more answers",
            )
        )
    return FirstMethod.NGRAM if pays else FirstMethod.MODEL, reasons
