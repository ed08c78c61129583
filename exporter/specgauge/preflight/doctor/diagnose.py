"""From a case to its findings in order, what of them is a cause, and the exit code."""

from collections.abc import Iterator, Sequence
from itertools import chain

from specgauge.model.outcome import ExitCode, ScrapeResult
from specgauge.model.verdict import Verdict
from specgauge.preflight.doctor.absence import absence_rules
from specgauge.preflight.doctor.acceptance import MIN_DRAFTS, acceptance_rules
from specgauge.preflight.doctor.advice import advice
from specgauge.preflight.doctor.case import Case
from specgauge.preflight.doctor.codes import Code, Symptom
from specgauge.preflight.doctor.drafting import draftings
from specgauge.preflight.doctor.finding import Finding, Ranked, Severity
from specgauge.preflight.doctor.memory import memory_rules
from specgauge.preflight.doctor.prompts import prompt_rules
from specgauge.preflight.doctor.speed import speed_rules
from specgauge.preflight.doctor.starting import starting_rules
from specgauge.preflight.doctor.streaming import streaming_rules

RULES = (
    starting_rules,
    absence_rules,
    acceptance_rules,
    memory_rules,
    speed_rules,
    prompt_rules,
    streaming_rules,
)
_NOT_HAD = frozenset({ScrapeResult.UNREACHABLE, ScrapeResult.TIMEOUT, ScrapeResult.TLS})
_ASIDE = 0.3
_ORDER = {code: place for place, code in enumerate(Code)}


def diagnose(case: Case) -> list[Ranked]:
    """Run every rule and order what they find."""
    found = chain.from_iterable(rule(case) for rule in RULES)
    ranked = [_rank(finding, case.symptom) for finding in _once(found)]
    return sorted(ranked, key=_place)


def exit_code(case: Case, ranked: Sequence[Ranked]) -> ExitCode:
    """Give 3 where the server was not had, 1 for a cause, 4 where too little is known, else 0."""
    if case.failure is not None and case.failure.result in _NOT_HAD:
        return ExitCode.UNREADABLE
    if any(one.severity is Severity.CAUSE for one in ranked):
        return ExitCode.FAILED
    if case.probe_failed:
        return ExitCode.UNREADABLE
    return ExitCode.NO_VERDICT if lacking(case) else ExitCode.OK


def lacking(case: Case) -> str:
    """Say what is missing for this symptom to be judged at all; '' where there is enough."""
    drafts = max((one.drafts for one in draftings(case)), default=0.0)
    verdicts = [m.judgement.verdict for m in case.models if m.judgement is not None]
    read = case.log is not None and case.log.lines > 0
    judged = any(verdict is not Verdict.UNKNOWN for verdict in verdicts)
    enough = {
        None: any((case.looked, read, case.setup, case.queries is not None, case.segmented)),
        Symptom.SLOWER: judged,
        Symptom.PROMPTS: drafts >= MIN_DRAFTS or case.segmented is not None,
        Symptom.CLUMPS: case.probe is not None or bool(case.models),
        Symptom.VOCABULARY: read,
        Symptom.NO_METRICS: case.looked or case.queries is not None,
        Symptom.ZERO: case.looked,
    }
    return "" if enough[case.symptom] else _NEEDED[case.symptom]


_NEEDED = {
    None: "the log is empty",
    Symptom.SLOWER: "two pages or --url, and a --baseline that fits, are needed to tell a loss",
    Symptom.PROMPTS: f"{MIN_DRAFTS} drafts, or --requests, are needed to tell where they fail",
    Symptom.CLUMPS: "a page or --probe is needed to tell how tokens come",
    Symptom.VOCABULARY: "the log of the start is needed (--log)",
    Symptom.NO_METRICS: "a page, --url, or the rules or dashboards that stay empty are needed",
    Symptom.ZERO: "a page or --url is needed",
}


def _once(found: Iterator[Finding]) -> list[Finding]:
    """Keep of findings of one code and place the surest."""
    kept: dict[tuple[Code, str, object], Finding] = {}
    for one in found:
        key = (one.code, one.where, one.numbers.get("name"))
        if key not in kept or one.confidence > kept[key].confidence:
            kept[key] = one
    return list(kept.values())


def _rank(finding: Finding, symptom: Symptom | None) -> Ranked:
    """Weigh a finding by how sure it is and how well it explains the symptom told."""
    known = advice()[finding.code]
    weight = max(known.explains.values(), default=0.0)
    explains = known.explains.get(symptom, 0.0) if symptom is not None else weight
    cause = not finding.hint and (explains >= _ASIDE if symptom is not None else known.alone)
    return Ranked(
        finding=finding,
        severity=Severity.CAUSE if cause else Severity.HINT,
        score=finding.confidence * explains,
    )


def _place(one: Ranked) -> tuple[bool, float, int]:
    return (one.severity is Severity.HINT, -round(one.score, 6), _ORDER[one.finding.code])
