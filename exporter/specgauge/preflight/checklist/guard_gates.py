"""Gates of the guard: it is configured, it has moved its flag and read it back, and is obeyed."""

from collections.abc import Iterator, Mapping
from typing import Any

from specgauge.preflight.checklist.case import Answer, Case, Exercise, GuardConfig
from specgauge.preflight.checklist.evidence import format_age
from specgauge.preflight.checklist.reading import at, mappings, moment, word
from specgauge.preflight.checklist.result import (
    Proof,
    Reason,
    Result,
    Trouble,
    failed,
    passed,
    troubled,
    unmeasured,
)
from specgauge.preflight.checklist.terms import CLOCK_SLACK

SCHEMA = "specgauge.guard_status/v1"
_ADD = "add guard: {} to the configuration"
_EXERCISE = "run specgauge checklist --exercise, which turns the flag off and on again"
_ADOPTED = frozenset({"read_back_adopted", "changed_elsewhere"})
_OFF = frozenset({"fallback", "override", "latched"})
_OFF_STATES = frozenset({"fallback", "latched"})


def judge_configured(case: Case) -> Result:
    """Say whether the sidecar that runs has the guard that is configured."""
    config = case.guard_config
    if config is None:
        return failed(Reason.NOT_CONFIGURED, "no guard is configured", fix=_ADD)
    if config.deaf:
        return failed(Reason.NOT_CONFIGURED, config.deaf, fix="switch a signal on")
    found = _guard(case)
    if isinstance(found, Result):
        return found
    place = Proof(source=found.source)
    if word(found.body.get("state")) is None:
        says = "the sidecar that runs has no guard, though one is configured"
        return failed(Reason.DIFFERS, says, place, fix="reload or restart the sidecar")
    flag, backend = word(at(found.body, "flag.key")), word(at(found.body, "flag.backend"))
    if (flag, backend) != (config.key, config.backend):
        says = f"the sidecar's flag is {flag} in {backend}, configured is {config.key} in "
        return failed(Reason.DIFFERS, f"{says}{config.backend}", place, fix="restart the sidecar")
    return passed(_standing(found.body, config), place)


def _standing(body: Mapping[str, Any], config: GuardConfig) -> str:
    says = f"the guard is {word(body.get('state'))}; its flag {config.key} lies in {config.backend}"
    rehearses = config.dry_run or body.get("dry_run") is True
    return f"{says}; a dry run: it never writes the flag" if rehearses else says


def judge_exercised(case: Case) -> Result:
    """Say whether the flag was moved of late and read back as it was wanted."""
    if case.guard_config is None:
        return unmeasured(Reason.NOT_CONFIGURED, "there is no guard to exercise", fix=_ADD)
    if case.exercise is not None:
        return _of_exercise(case.exercise)
    found = _guard(case)
    if isinstance(found, Result):
        return found
    flips = sorted(_flips(case, found), key=lambda one: one[0])
    if not flips:
        says = f"no flip of the flag within {format_age(case.terms.max_age)}"
        return unmeasured(Reason.NOT_EXERCISED, says, Proof(source=found.source), fix=_EXERCISE)
    time, source, says = flips[-1]
    proof = Proof(source=source, created=time)
    return _confirmed(found.body, f"{says} {format_age(case.now - time)} ago", proof)


def _of_exercise(exercise: Exercise) -> Result:
    proof = Proof(source=exercise.source, created=exercise.at)
    if exercise.done:
        return passed(exercise.told, proof)
    return failed(Reason.NOT_CONFIRMED, exercise.told, proof, fix="see specgauge guard status")


def _confirmed(body: Mapping[str, Any], says: str, proof: Proof) -> Result:
    """Let a flip count if the flag reads now as it is wanted."""
    desired, confirmed = at(body, "flag.desired"), at(body, "flag.confirmed")
    if not isinstance(confirmed, bool):
        says = f"{says}, but the flag could not be read back"
        return unmeasured(Reason.NOT_CONFIRMED, says, proof, fix="see specgauge guard status")
    if desired is not confirmed or at(body, "flag.pending_since") is not None:
        why = word(at(body, "flag.last_error"))
        says = f"{says}, but the flag is not confirmed as it is wanted{f': {why}' if why else ''}"
        return failed(Reason.NOT_CONFIRMED, says, proof, fix="see specgauge guard status")
    word_only = at(body, "flag.on_the_word") is True
    return passed(f"{says}; {_ON_THE_WORD if word_only else 'the flag was read back'}", proof)


_ON_THE_WORD = "confirmed by the write's own answer, since nothing can be read back"


def _flips(case: Case, found: Answer) -> Iterator[tuple[float, str, str]]:
    """List the times at which the flag went off, or would have in a dry run, that are recent."""
    lines = [(line, found.source) for line in mappings(found.body.get("history"))]
    key = at(found.body, "flag.key")
    lines += [
        (line, "guard.audit_file")
        for line in case.audit
        if line.get("flag_key") == key and line.get("target") == found.body.get("target")
    ]
    for line, source in lines:
        time, says = moment(line.get("unix")), _flip(line)
        if says and time is not None and -CLOCK_SLACK <= case.now - time <= case.terms.max_age:
            yield time, source, says


def _flip(line: Mapping[str, Any]) -> str | None:
    """Say what a line of the record tells of the flag going off; None where it does not."""
    reason = word(line.get("reason"))
    if line.get("changed") is True and line.get("flag") is False and reason not in _ADOPTED:
        if line.get("state") in _OFF:
            return f"the flag was turned off ({reason})"
        return None
    would = word(line.get("would_be"))
    if line.get("changed") is False and (would in _OFF_STATES or reason == "override_off"):
        return f"a dry run would have turned the flag off ({reason})"
    return None


def judge_obeyed(case: Case) -> Result:
    """Say whether something moves traffic or the engine when the flag changes."""
    config = case.guard_config
    if config is None:
        return unmeasured(Reason.NOT_CONFIGURED, "there is no flag to obey", fix=_ADD)
    if config.nobody_obeys:
        fix = "set flag.obeyed_by to what moves traffic when the flag changes"
        return failed(Reason.NOBODY_OBEYS, "nothing is configured to obey the flag", fix=fix)
    if config.obeyed_by is not None:
        proof = Proof(source="flag.obeyed_by")
        return passed(f"stated: {config.obeyed_by}", proof, reason=Reason.STATED)
    return passed(f"{config.backend} moves the traffic itself", Proof(source="flag.backend"))


def _guard(case: Case) -> Answer | Result:
    """Give the guard's own word, or say why there is none."""
    if isinstance(case.guard, Trouble):
        return troubled(case.guard)
    if case.guard.body.get("schema") != SCHEMA:
        says = f"{case.guard.source}: the answer is not {SCHEMA}"
        return unmeasured(Reason.WRONG_SCHEMA, says, Proof(source=case.guard.source))
    return case.guard
