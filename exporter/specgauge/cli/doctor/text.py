"""Findings as text for people: what, why it is thought so, what to do; decides nothing."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from specgauge.cli.values import plain
from specgauge.preflight.doctor.advice import advice
from specgauge.preflight.doctor.case import Case, Probe
from specgauge.preflight.doctor.finding import Ranked, Severity

_WIDTH = 96


def describe(case: Case, ranked: Sequence[Ranked], lacking: str) -> str:
    """Write the whole answer."""
    causes = [one for one in ranked if one.severity is Severity.CAUSE]
    hints = [one for one in ranked if one.severity is Severity.HINT]
    lines = [_head(case)]
    if case.probe is not None:
        lines += ["", *_probe(case.probe)]
    if not causes:
        lines += ["", f"Too little is known: {lacking}." if lacking else "Nothing found."]
    for place, one in enumerate(causes, 1):
        lines += ["", *_finding(one, f"{place}.")]
    if hints:
        lines += ["", "Worth knowing:"]
    for one in hints:
        lines += _finding(one, "-")
    if case.not_measured:
        told = "; ".join(f"{name}: {why}" for name, why in case.not_measured.items())
        lines += ["", *wrap(plain(f"Not looked at: {told}."), _WIDTH, break_on_hyphens=False)]
    return "\n".join(lines)


def _head(case: Case) -> str:
    asked = f"Symptom: {case.symptom}." if case.symptom is not None else "No symptom told."
    served = " ".join(filter(None, (case.dialect, case.release)))
    return plain(f"{asked} Server: {served or 'not seen'}.")


def _finding(one: Ranked, mark: str) -> Iterator[str]:
    found, known = one.finding, advice()[one.finding.code]
    where = f" [{found.where}]" if found.where else ""
    yield plain(f"{mark} {known.title} ({found.code}, confidence {found.confidence:.2f}){where}")
    yield from _indented("seen", found.evidence)
    yield from _indented("fix ", found.fix or known.fix)
    yield f"   more  {known.link}"


def _indented(label: str, text: str) -> Iterator[str]:
    first, *rest = wrap(plain(text), _WIDTH - 9, break_on_hyphens=False) or [""]
    yield f"   {label}  {first}"
    for line in rest:
        yield f"         {line}"


def _probe(one: Probe) -> Iterator[str]:
    """Put what the probe saw on two lines."""
    told = f"Probe: {one.requests} requests, {one.tokens} tokens in {one.chunks} chunks"
    if one.tokens_per_chunk is not None:
        told += f", {one.tokens_per_chunk:.2f} tokens a chunk after the first"
    yield told + "."
    named = (("first token", one.ttft_p50), ("gap p50", one.gap_p50), ("p95", one.gap_p95),
             ("p99", one.gap_p99), ("per token", one.tpot))  # fmt: skip
    times = [f"{name} {1e3 * value:.3g} ms" for name, value in named if value is not None]
    if times:
        yield f"       {', '.join(times)}."
    if one.failed:
        yield plain(f"       {one.failed} failed: {one.detail}.")
