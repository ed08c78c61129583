"""What a gate says: how it ended, why, and on which evidence; decides nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Status(StrEnum):
    """How a gate ended; only `pass` is one."""

    PASS = "pass"  # noqa: S105 - names no secret
    FAIL = "fail"
    NOT_MEASURED = "not_measured"
    WAIVED = "waived"


class Reason(StrEnum):
    """Why a gate ended so."""

    MET = "met"
    STATED = "stated"
    NOT_NEEDED = "not_needed"
    NOT_MET = "not_met"
    REJECTED = "rejected"
    CONDITIONS_OPEN = "conditions_open"
    OTHER_K = "other_k"
    COSTS = "costs"
    MISMATCH = "mismatch"
    NOT_CONFIGURED = "not_configured"
    NOT_EXERCISED = "not_exercised"
    NOT_CONFIRMED = "not_confirmed"
    NOBODY_OBEYS = "nobody_obeys"
    NOT_LOADED = "not_loaded"
    UNHEALTHY = "unhealthy"
    DIFFERS = "differs"
    PLACEHOLDER = "placeholder"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNREACHABLE = "unreachable"
    WRONG_SCHEMA = "wrong_schema"
    INCOMPLETE = "incomplete"
    UNDATED = "undated"
    FROM_THE_FUTURE = "from_the_future"
    STALE = "stale"
    UNATTRIBUTED = "unattributed"
    DEPLOYMENT_UNKNOWN = "deployment_unknown"
    OTHER_MODEL = "other_model"
    OTHER_RELEASE = "other_release"
    OTHER_SPECULATION = "other_speculation"
    TARGET_DOWN = "target_down"
    LOW_SAMPLE = "low_sample"
    SYNTHETIC = "synthetic"
    NO_VERDICT = "no_verdict"
    WAIVED = "waived"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One piece of evidence: where it lies, when it was made, whose it is, what it says.

    `created` is Unix seconds. What is not known is None; `numbers` hold what was compared.
    """

    source: str
    created: float | None = None
    model_name: str | None = None
    engine_version: str | None = None
    speculation: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one gate says; `fix` is what to do where it did not pass."""

    status: Status
    reason: Reason
    says: str
    proofs: tuple[Proof, ...] = ()
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a piece of evidence cannot be looked at."""

    source: str
    reason: Reason
    detail: str
    fix: str = ""


def passed(says: str, *proofs: Proof, reason: Reason = Reason.MET) -> Result:
    """Say that a gate is met."""
    return Result(status=Status.PASS, reason=reason, says=says, proofs=proofs)


def failed(reason: Reason, says: str, *proofs: Proof, fix: str = "") -> Result:
    """Say that a gate was measured and is not met."""
    return Result(status=Status.FAIL, reason=reason, says=says, proofs=proofs, fix=fix)


def unmeasured(reason: Reason, says: str, *proofs: Proof, fix: str = "") -> Result:
    """Say that nothing is known that a gate could go by."""
    return Result(status=Status.NOT_MEASURED, reason=reason, says=says, proofs=proofs, fix=fix)


def troubled(trouble: Trouble) -> Result:
    """Say that the evidence of a gate cannot be looked at."""
    return unmeasured(trouble.reason, trouble.detail, Proof(source=trouble.source), fix=trouble.fix)
