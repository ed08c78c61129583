"""Gates that rest on an operator's word, and on the lock file that holds everything in place."""

from collections.abc import Iterator

from specgauge.preflight.checklist.case import Case
from specgauge.preflight.checklist.deployment import needs_draft
from specgauge.preflight.checklist.lock import (
    DRAFT_PINS,
    PINS,
    Lock,
    Pins,
    contradictions,
    differences,
    hash_dashboards,
    pins_of,
)
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

_PIN = "specgauge checklist pin"
_UNSEEN = frozenset({"model.revision", *DRAFT_PINS, "speculation.config_sha256"})
"""What no server tells of itself: it is stated in the configuration."""


def judge_routing(case: Case) -> Result:
    """Say whether routing by class of traffic is stated; specgauge cannot see it."""
    return _stated("checklist.routing", case.stated.routing, "routes traffic")


def judge_report(case: Case) -> Result:
    """Say whether a scheduled report is stated; specgauge cannot see it."""
    return _stated("checklist.report_scheduled_by", case.stated.report_scheduled_by, "reports")


def _stated(key: str, told: str | None, what: str) -> Result:
    if told is not None:
        return passed(f"stated: {told}", Proof(source=key), reason=Reason.STATED)
    says = f"nothing tells what {what}; specgauge cannot see it"
    return unmeasured(Reason.MISSING, says, fix=f"name its path or unit in {key}")


def judge_pinned(case: Case) -> Result:
    """Say whether everything is pinned, and what is pinned is what runs."""
    lock = case.lock
    if lock is None:
        return unmeasured(Reason.MISSING, "there is no lock file", fix=_PIN)
    if isinstance(lock, Trouble):
        return troubled(lock)
    proof = Proof(source=lock.source, created=lock.created)
    says = f"{len(pins_wanted(case))} facts are pinned and are what runs"
    return next(_unpinned(case, lock, proof), passed(says, proof))


def _unpinned(case: Case, lock: Lock, proof: Proof) -> Iterator[Result]:
    """Say what is not in place: what differs first, then what is not known."""
    if lock.created is None:
        yield unmeasured(Reason.UNDATED, "when it was pinned is not known", proof, fix=_PIN)
    elif lock.created > case.now + CLOCK_SLACK:
        yield unmeasured(Reason.FROM_THE_FUTURE, "it was pinned in the future", proof, fix=_PIN)
    running, wanted = running_pins(case), pins_wanted(case)
    wrong = [*contradictions(case.deployment, case.stated), *differences(lock.pins, running)]
    if wrong:
        fix = f"run what is pinned, or {_PIN} what runs"
        yield failed(Reason.DIFFERS, "; ".join(wrong), proof, fix=fix)
    unpinned = [name for name in wanted if lock.pins.get(name) is None]
    if unpinned:
        fix = f"{_pinning(unpinned)}, and {_PIN}"
        yield unmeasured(Reason.INCOMPLETE, f"not pinned: {', '.join(unpinned)}", proof, fix=fix)
    unseen = [name for name in wanted if running.get(name) is None]
    if unseen:
        says = f"pinned, but not known of what runs: {', '.join(unseen)}"
        yield unmeasured(Reason.INCOMPLETE, says, proof, fix=_pinning(unseen))


def pins_wanted(case: Case) -> tuple[str, ...]:
    """Name what has to be pinned; a method without a draft needs none."""
    drafts = needs_draft(case.deployment.speculation) is not False
    return tuple(name for name in PINS if drafts or name not in DRAFT_PINS)


def running_pins(case: Case) -> Pins:
    """Say of what runs what could be pinned."""
    shown, hashes = case.shown, None
    if shown is not None and not isinstance(shown, Trouble):
        found = {uid: one for uid, one in shown.hashes.items() if one is not None}
        hashes = hash_dashboards(found) if found and len(found) == len(shown.hashes) else None
    return pins_of(case.deployment, case.stated, hashes)


def _pinning(names: list[str]) -> str:
    """Say how what is not known becomes so."""
    if all(name in _UNSEEN for name in names):
        return "state it under checklist: in the configuration"
    if names == ["dashboards.sha256"]:
        return "give --dashboards DIR or --grafana URL"
    return "see that the sidecar answers and knows its server"
