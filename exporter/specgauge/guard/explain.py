"""A decision in plain words for a person; decides nothing."""

from collections.abc import Mapping

from specgauge.guard.words import reason_in_words, span_in_words
from specgauge.model.guard import Decision, GuardReason, Outcome

_OUTCOMES: Mapping[Outcome, str] = {
    Outcome.HEALTHY: "healthy",
    Outcome.DEGRADED: "degraded",
    Outcome.INCONCLUSIVE: "not clear either way",
    Outcome.NO_DATA: "not judged",
    Outcome.ERROR: "nothing that could be used",
}
_NUMBERS: Mapping[str, tuple[str, str]] = {
    "decode_concurrency": ("{:.1f}", "requests in decode"),
    "tokens": ("{:.0f}", "tokens"),
    "requests": ("{:.0f}", "finished requests"),
    "drafts": ("{:.0f}", "drafts"),
    "acceptance_ratio": ("{:.2f}", "acceptance ratio"),
    "acceptance_length": ("{:.2f}", "acceptance length"),
}


def explain(decision: Decision) -> str:
    """Say one decision: what moved or did not, why, on which numbers, what comes next."""
    parts = [f"{_what(decision)}: {reason_in_words(decision.reason)}."]
    whose = f" of the model {decision.model_name}" * bool(decision.model_name)
    found = f"{_OUTCOMES[decision.outcome]}{_numbers(decision.evidence)}"
    parts.append(f"The evidence{whose} was {found}.")
    if decision.wanted is not None:
        parts.append(_unlet(decision))
    if decision.rehearsed:
        told = "; ".join(map(reason_in_words, decision.rehearsed))
        parts.append(f"Signals in dry run would have acted: {told}.")
    if decision.companions:
        told = ", ".join(one.replace("_", " ") for one in decision.companions)
        parts.append(f"Beside it, which decides nothing: {told}.")
    parts += [f"Mind: {reason_in_words(warning)}." for warning in decision.warnings]
    if decision.next_probe is not None:
        ahead = span_in_words(decision.next_probe - decision.time)
        parts.append(f"The next trial is due in {ahead}.")
    return " ".join(parts)


def _what(decision: Decision) -> str:
    flag = {True: "on", False: "off", None: "unknown"}[decision.flag]
    if decision.changed:
        return f"From {decision.before} to {decision.state}, flag {flag}"
    told = f"Still {decision.state}, flag {flag}"
    if decision.shadow is None or decision.wanted is not None:
        return told
    return f"{told}; but for the dry run it would be {decision.shadow}"


def _unlet(decision: Decision) -> str:
    hold = "the freeze file" if decision.reason == GuardReason.FROZEN else "the dry run"
    return f"But for {hold} it would now be {decision.wanted}."


def _numbers(evidence: Mapping[str, float]) -> str:
    """Say the numbers that a decision rests on, as far as they are known."""
    parts = []
    if "speedup_ratio" in evidence:
        told = f"speedup {evidence['speedup_ratio']:.2f}"
        if "speedup_ratio_low" in evidence and "speedup_ratio_high" in evidence:
            low, high = evidence["speedup_ratio_low"], evidence["speedup_ratio_high"]
            told += f" (between {low:.2f} and {high:.2f})"
        parts.append(told)
    for name, (form, unit) in _NUMBERS.items():
        if name in evidence:
            number = form.format(evidence[name])
            parts.append(f"{unit} {number}" if "acceptance" in unit else f"{number} {unit}")
    if "tpot_seconds" in evidence:
        parts.append(f"{evidence['tpot_seconds'] * 1000.0:.1f} ms per token")
    return f" ({', '.join(parts)})" if parts else ""
