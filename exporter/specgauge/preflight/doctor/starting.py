"""Rules on how a server was started: what its log complains of, and what its flags mean today."""

from collections.abc import Iterator, Mapping

from specgauge.model.quantity import Dialect
from specgauge.preflight.doctor.case import Case
from specgauge.preflight.doctor.codes import Code
from specgauge.preflight.doctor.finding import LIKELY, MEASURED, SEEN, Figure, Finding
from specgauge.preflight.doctor.logs import Error, Fault, Mark
from specgauge.preflight.doctor.names import release_order
from specgauge.preflight.doctor.setup import Setup

_FAULTS: Mapping[Fault, Code] = {
    Fault.VOCABULARY: Code.VOCABULARY_MISMATCH,
    Fault.REFUSED_METHOD: Code.DRAFT_MODEL_REFUSED,
    Fault.FLAGS: Code.UNRECOGNISED_FLAGS,
    Fault.MEMORY: Code.OUT_OF_MEMORY,
    Fault.OTHER: Code.ENGINE_FAILED,
}
_OLD_FLAGS_END = (0, 8, 3)
_SWITCH_GONE = (0, 17)
_SCHEDULE_OFF = (0, 26)
_HETEROGENEOUS = (0, 25)
_ASYNC_BY_DEFAULT = (0, 14)


def starting_rules(case: Case) -> Iterator[Finding]:
    """Judge a log's errors and a start's flags."""
    yield from _errors(case)
    if case.setup is not None:
        yield from _flags(case, case.setup)
    yield from _asynchronous(case)
    if case.log is not None and Mark.SAMPLING_REFUSED in case.log.marks:
        yield Finding(
            code=Code.SAMPLING_REFUSED,
            confidence=MEASURED,
            evidence="the log refuses requests for what is not supported with speculation",
        )


def _errors(case: Case) -> Iterator[Finding]:
    """Tell each kind of error once; others only where nothing better is known."""
    errors = case.log.errors if case.log is not None else ()
    known = [one for one in errors if one.fault is not Fault.OTHER]
    first: dict[Fault, Error] = {}
    for one in known or errors[:1]:
        held = first.get(one.fault)
        if held is None or (one.numbers and not held.numbers):
            first[one.fault] = one
    for fault, one in first.items():
        numbers: dict[str, Figure] = {f"{name}_vocabulary": n for name, n in one.numbers.items()}
        if one.names:
            numbers["names"] = ", ".join(one.names)
        yield Finding(
            code=_FAULTS[fault],
            confidence=LIKELY if fault is Fault.OTHER else SEEN,
            evidence=f"the log says: {one.words}",
            numbers=numbers,
            fix=_vocabulary_fix(case) if fault is Fault.VOCABULARY else "",
        )


def _vocabulary_fix(case: Case) -> str:
    """Leave out what this release has not got."""
    old = case.release is not None and release_order(case.release)[:2] < _HETEROGENEOUS
    if not old:
        return ""
    return (
        "take a draft of the target's family and hold the two folders against each other before "
        f"a start ({case.release} takes no other; from 0.25.0 on use_heterogeneous_vocab lets a "
        "greedy draft_model differ); n-gram and suffix need no draft"
    )


def _flags(case: Case, setup: Setup) -> Iterator[Finding]:
    release = release_order(case.release) if case.release is not None else None
    if setup.old_flags and (release is None or release >= _OLD_FLAGS_END):
        yield Finding(
            code=Code.UNRECOGNISED_FLAGS,
            confidence=SEEN if release is not None else LIKELY,
            evidence=f"{setup.source} has {', '.join(setup.old_flags)}, which no release from "
            "0.8.3 on takes",
            numbers={"names": ", ".join(setup.old_flags)},
        )
    limit = setup.speculative.get("disable_by_batch_size")
    if limit is not None and case.dialect is not Dialect.VLLM_V0:
        gone = release is not None and release[:2] >= _SWITCH_GONE
        what = "refuses to start with" if gone else "takes and never reads"
        yield Finding(
            code=Code.SWITCH_WITHOUT_EFFECT,
            confidence=SEEN if release is not None or case.dialect is not None else LIKELY,
            evidence=f"{setup.source} sets disable_by_batch_size, which this engine {what}",
            numbers={"disable_by_batch_size": str(limit)},
        )
    yield from _schedule(case, setup, release)


def _schedule(case: Case, setup: Setup, release: tuple[int, ...] | None) -> Iterator[Finding]:
    said = case.log is not None and Mark.SCHEDULE_OFF in case.log.marks
    parallel = setup.data_parallel > 1 or any(len(m.derived.engines) > 1 for m in case.models)
    late = release is None or release[:2] >= _SCHEDULE_OFF
    if said or (setup.schedule and parallel and late):
        yield Finding(
            code=Code.SCHEDULE_OFF,
            confidence=SEEN if said or release is not None else MEASURED,
            evidence="the engine says that it falls back to a fixed number of draft tokens"
            if said
            else f"{setup.source} has a schedule by batch size and "
            f"{max(setup.data_parallel, 2)} data-parallel ranks",
            numbers={"data_parallel_size": setup.data_parallel},
        )


def _asynchronous(case: Case) -> Iterator[Finding]:
    """Mention what a method costs even where it drafts nothing."""
    said = case.log is not None and Mark.ASYNC_OFF in case.log.marks
    known = case.release is not None and release_order(case.release)[:2] >= _ASYNC_BY_DEFAULT
    lookup = case.setup is not None and case.setup.method in {"ngram", "suffix"}
    if said or (known and lookup):
        yield Finding(
            code=Code.ASYNC_SCHEDULING_OFF,
            confidence=SEEN if said else MEASURED,
            evidence="the engine says that it switches asynchronous scheduling off"
            if said
            else f"{case.release} switches asynchronous scheduling off for this method",
            hint=True,
        )
