"""The documents of other commands as evidence: whether each may be looked at, and if not, why.

What a document concludes is for the gates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specgauge.preflight.checklist.deployment import Deployment, Speculation
from specgauge.preflight.checklist.origin import ORIGINS, Origin
from specgauge.preflight.checklist.reading import clean, moment, parse_object, word
from specgauge.preflight.checklist.result import Proof, Reason, Trouble
from specgauge.preflight.checklist.terms import CLOCK_SLACK, Terms
from specgauge.units import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of document: its schemas, the option it is given with, the command that makes it.

    `asks` names what it has to say of its origin beside the model.
    """

    name: str
    schemas: tuple[str, ...]
    option: str
    command: str
    asks: frozenset[str]


DRAFT = Kind(
    name="draft",
    schemas=("specgauge.draft-check/v1", "specgauge.draft_check/v1"),
    option="--draft-report",
    command="specgauge draft check",
    asks=frozenset({"release", "draft"}),
)
SWEEP = Kind(
    name="sweep",
    schemas=("specgauge.sweep/v1",),
    option="--sweep",
    command="specgauge sweep",
    asks=frozenset({"release", "method", "draft"}),
)
COMPARE = Kind(
    name="compare",
    schemas=("specgauge.compare/v1",),
    option="--compare",
    command="specgauge compare",
    asks=frozenset({"release", "k"}),
)
MEMORY = Kind(
    name="memory",
    schemas=("specgauge.memory/v1",),
    option="--memory",
    command="specgauge memory",
    asks=frozenset({"k"}),
)
KINDS = (DRAFT, SWEEP, COMPARE, MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A document that could be read: of when and whose it is, as far as it says so."""

    kind: Kind
    source: str
    created: float | None = None
    origin: Origin = field(default_factory=Origin)
    body: Mapping[str, Any] = field(default_factory=dict)

    def proof(self, **numbers: float | None) -> Proof:
        """Cite it."""
        of = self.origin
        spoken = Speculation(method=of.method, k=of.k, draft=next(iter(of.drafts), None))
        return Proof(
            source=self.source,
            created=self.created,
            model_name=next(iter(of.models), None),
            engine_version=of.version,
            speculation=str(spoken) if spoken != Speculation() else None,
            numbers={name: value for name, value in numbers.items() if value is not None},
        )


Given = Evidence | Trouble | None
"""A document, why it cannot be read, or that none was given."""


def read_evidence(kind: Kind, data: bytes, source: str) -> Evidence | Trouble:
    """Read a document, however hostile."""
    try:
        body = parse_object(data)
    except ValueError as error:
        return Trouble(
            source=source,
            reason=Reason.UNREADABLE,
            detail=f"{source}: {clean(str(error))}",
            fix=f"make it anew with {kind.command} --json",
        )
    if body.get("schema") not in kind.schemas:
        said = word(body.get("schema")) or "no schema"
        return Trouble(
            source=source,
            reason=Reason.WRONG_SCHEMA,
            detail=f"{source}: {said}, not {kind.schemas[0]}",
            fix=f"give {kind.option} what {kind.command} --json prints",
        )
    created, origin = moment(body.get("created")), ORIGINS[kind.name](body)
    return Evidence(kind=kind, source=source, created=created, origin=origin, body=body)


def refuse(evidence: Evidence, deployment: Deployment, terms: Terms, now: float) -> Trouble | None:
    """Say why a document is no evidence for what runs now; None where it may be looked at."""
    checks = (
        _out_of_date(evidence.created, terms, now),
        _of_another_model(evidence, deployment),
        _of_another_release(evidence, deployment),
        _of_other_speculation(evidence, deployment.speculation),
    )
    found = next((check for check in checks if check is not None), None)
    if found is None:
        return None
    reason, detail = found
    return Trouble(
        source=evidence.source,
        reason=reason,
        detail=f"{evidence.source}: {detail}",
        fix=_FIXES.get(reason, f"run {evidence.kind.command} for what runs now"),
    )


_FIXES = {
    Reason.DEPLOYMENT_UNKNOWN: "see that the sidecar answers and knows its server",
    Reason.FROM_THE_FUTURE: "set the clocks, and measure anew",
}
Refusal = tuple[Reason, str]


def _out_of_date(created: float | None, terms: Terms, now: float) -> Refusal | None:
    if created is None:
        return Reason.UNDATED, "does not say when it was made"
    if created > now + CLOCK_SLACK:
        return Reason.FROM_THE_FUTURE, f"made {format_age(created - now)} from now"
    if now - created > terms.max_age:
        limit = format_duration(terms.max_age)
        return Reason.STALE, f"{format_age(now - created)} old, and stale from {limit}"
    return None


def _of_another_model(evidence: Evidence, deployment: Deployment) -> Refusal | None:
    """Compare models; one of the names that either side has is enough."""
    told = evidence.origin
    if not told.models:
        return Reason.UNATTRIBUTED, "does not say which model it is about"
    if not deployment.models:
        return Reason.DEPLOYMENT_UNKNOWN, "which model runs is not known"
    if not _shared(told.models, deployment.models):
        says = f"about {told.models[0]}, and {deployment.model_name} runs"
        return Reason.OTHER_MODEL, f"{says}; if both are one, name it in checklist.models"
    return None


def _of_another_release(evidence: Evidence, deployment: Deployment) -> Refusal | None:
    told = evidence.origin
    if told.version is None:
        asked = "release" in evidence.kind.asks
        return (Reason.UNATTRIBUTED, "does not say which release it is about") if asked else None
    if deployment.version is None:
        return Reason.DEPLOYMENT_UNKNOWN, "which release runs is not known"
    if _public(told.version) != _public(deployment.version):
        return Reason.OTHER_RELEASE, f"about {told.version}, and {deployment.version} runs"
    return None


def _of_other_speculation(evidence: Evidence, runs: Speculation) -> Refusal | None:
    """Compare method, k and draft; a document of a kind that is asked has to say."""
    told, asks = evidence.origin, evidence.kind.asks
    drafts = (runs.draft,) if runs.draft is not None else ()
    for name, given, real, same in (
        ("method", told.method, runs.method, _method(told.method) == _method(runs.method)),
        ("k", told.k, runs.k, told.k == runs.k),
        ("draft", next(iter(told.drafts), None), runs.draft, _shared(told.drafts, drafts)),
    ):
        if given is None and (real is None or name not in asks):
            continue
        if given is None:
            return Reason.UNATTRIBUTED, f"does not say which {name} it is about"
        if real is None:
            return Reason.DEPLOYMENT_UNKNOWN, f"which {name} runs is not known{_STATE[name]}"
        if not same:
            return Reason.OTHER_SPECULATION, f"about {name} {given}, and {real} runs"
    return None


_STATE = {
    "method": "; state it in targets[].method or checklist.speculative_config",
    "k": "",
    "draft": "; state it in checklist.draft or checklist.speculative_config",
}


def _shared(names: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return not set(map(_folded, names)).isdisjoint(map(_folded, others))


def format_age(seconds: float) -> str:
    """Write an age in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            many = seconds / length
            return f"{many:.0f} {unit}" if many >= _MANY else f"{many:.3g} {unit}"
    return f"{max(seconds, 0.0):.0f} s"


_MANY = 1000.0


def _folded(name: str) -> str:
    return name.rstrip("/").removeprefix("./")


def _method(name: str | None) -> str | None:
    """Give a method's name without the family that vLLM puts before it: deepseek_mtp is mtp."""
    if name is None:
        return None
    plain = name.lower().strip("[]")
    return "mtp" if plain.endswith("_mtp") else plain


def _public(version: str) -> str:
    """Give a release without its local part: 0.25.1+cpu is 0.25.1."""
    return version.strip().removeprefix("v").partition("+")[0]
