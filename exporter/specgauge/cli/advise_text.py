"""Advice for a person: the answer, what to try first, and every reason with its numbers."""

from collections.abc import Mapping

from specgauge.cli.values import plain
from specgauge.preflight.advise.finding import Advice, FirstMethod
from specgauge.preflight.advise.judge import Answer
from specgauge.preflight.advise.lookup import Lookup, Tally

_ANSWERS: Mapping[Advice, str] = {
    Advice.CANDIDATE: "a candidate for speculation",
    Advice.POOR: "a poor candidate for speculation",
    Advice.NOT_MEASURED: "not measured well enough to tell",
}
_METHODS: Mapping[FirstMethod, str] = {
    FirstMethod.NGRAM: "n-gram, which needs no draft and no memory",
    FirstMethod.MODEL: "a draft model or a head; specgauge draft suggest TARGET names some",
}


def describe(one: Answer, lookup: Lookup, cut_by: str | None) -> str:
    """Write the advice on one model."""
    name = plain(one.observed.model_name) or "this server"
    lines = [f"{name}: {_ANSWERS[one.advice]} ({one.advice})"]
    if one.first_method is not None:
        lines.append(f"try first: {_METHODS[one.first_method]}")
    if one.first_method is FirstMethod.NGRAM:
        lines.append(f"  --speculative-config '{_config(lookup)}'")
    for reason in one.reasons:
        lines.append(f"{reason.weight}: {plain(reason.text)} ({reason.code})")
        if reason.fix:
            lines.append(f"  try: {plain(reason.fix)}")
    if one.tally is not None:
        lines.append(_replayed(one.tally, cut_by))
    return "\n".join(lines)


def _config(lookup: Lookup) -> str:
    return (
        f'{{"method":"ngram","num_speculative_tokens":{lookup.draft_tokens},'
        f'"prompt_lookup_min":{lookup.shortest},"prompt_lookup_max":{lookup.longest}}}'
    )


def _replayed(tally: Tally, cut_by: str | None) -> str:
    """Say what was replayed, and how it was cut into tokens."""
    parts = [
        f"replayed {tally.requests} answers of {tally.output_tokens} tokens",
        f"cut by {plain(cut_by or '')}",
    ]
    if tally.acceptance_ratio is not None and tally.acceptance_length is not None:
        parts.append(
            f"{tally.acceptance_ratio:.1%} of drafted tokens accepted, "
            f"acceptance length {tally.acceptance_length:.2f}"
        )
    return ": ".join((parts[0], ", ".join(parts[1:])))
