"""A judgement as a paragraph for people: the answer, its numbers, why, and what to try."""

from collections.abc import Mapping

from specgauge.cli.values import plain
from specgauge.model.derived import Reason
from specgauge.model.verdict import Judgement, Verdict, VerdictReason

_ANSWERS: Mapping[Verdict, str] = {
    Verdict.PAYS: "speculation pays",
    Verdict.COSTS: "speculation costs",
    Verdict.EVEN: "speculation makes no difference",
    Verdict.UNKNOWN: "no verdict",
}
_ADVICE: Mapping[VerdictReason, str] = {
    VerdictReason.ABOVE_ONE: "Keep it on at this load.",
    VerdictReason.BELOW_ONE: "Switch it off at this load, or try fewer draft tokens.",
    VerdictReason.WITHIN_MARGIN: "Time per token is within the margin of the baseline's.",
    VerdictReason.LATENCY_TRADEOFF: "Time per token and time of a whole request disagree: "
    "what is won in one is lost in the other, so decide by what users wait for.",
    VerdictReason.INTERVAL_TOO_WIDE: "The interval crosses the margin; watch for longer.",
    VerdictReason.NO_BASELINE: "No baseline belongs to this server; record one.",
    VerdictReason.OUTSIDE_RANGE: "The load is above the baseline's highest level and what lies "
    "there is not known well enough; record levels at this load.",
    VerdictReason.TOO_FEW_TOKENS: "Too little was generated to tell; watch for longer.",
    VerdictReason.BASELINE_MISMATCH: "The baseline is of another server; record one of this.",
    VerdictReason.WORKLOAD_MISMATCH: "Prompts or answers are of another length than the "
    "baseline's; record one with prompts like these.",
    VerdictReason.UNEVEN_LOAD: "The load came and went between two pages, which reads as a loss; "
    "take pages more often.",
}

ENGINE_RESTARTED = "engine_restarted"
IDENTICAL_PAGES = "identical_pages"
_WARNED: Mapping[str, str] = {
    ENGINE_RESTARTED: "The counters began anew between the pages: the engine restarted, or the "
    "pages are in the wrong order.",
    IDENTICAL_PAGES: "The pages are the same: nothing moved between them, or one was taken twice.",
    "baseline_implausible": "The baseline has tokens of more than 2 seconds; are these "
    "milliseconds?",
}
_PAGES_AT_FAULT = frozenset({ENGINE_RESTARTED, IDENTICAL_PAGES})


def describe(one: Judgement) -> str:
    """Say a verdict in a paragraph, with the numbers that it rests on."""
    parts = [f"{plain(one.model_name)}: {_ANSWERS[one.verdict]} ({one.reason}).", *_numbers(one)]
    few = one.reason is VerdictReason.TOO_FEW_TOKENS
    if not (few and _PAGES_AT_FAULT.intersection(one.warnings)):
        parts.append(_ADVICE[one.reason])
    parts += [text for name, text in _WARNED.items() if name in one.warnings]
    if one.mismatches:
        parts.append(f"The baseline differs in {', '.join(one.mismatches)}.")
    if one.warnings:
        parts.append(f"Mind: {', '.join(one.warnings)}.")
    return " ".join(parts)


def _numbers(one: Judgement) -> list[str]:
    """Say how fast tokens came, and how far acceptance is from what would break even."""
    found = []
    ratio = one.ratios.get("concurrency")
    if ratio is not None:
        interval = ""
        if one.lows:
            interval = f" ({one.lows['concurrency']:.2f} to {one.highs['concurrency']:.2f})"
        found.append(
            f"Each token came {ratio:.2f} times as fast as without it at the same concurrency"
            f"{interval}, {one.ratios['throughput']:.2f} times under the same arrivals."
        )
    length = one.values.get("acceptance_length")
    needed = one.values.get("breakeven_acceptance_length")
    if length is not None and needed is not None:
        found.append(f"Acceptance length is {length:.2f}; it breaks even at {needed:.2f}.")
    elif one.absent.get("breakeven_acceptance_length") == Reason.CANNOT_PAY:
        found.append("A step costs so much that no acceptance length could pay for it.")
    best = one.values.get("suggested_num_speculative_tokens")
    if best is not None and one.verdict is not Verdict.UNKNOWN:
        most = f"{best:.0f} draft tokens would yield most"
        told = most if best else "no number of draft tokens would pay"
        found.append(f"At this acceptance and step cost {told}.")
    return found
