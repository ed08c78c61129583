"""Everything that was gathered for a checklist, as values; the gates look at nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specgauge.model.baseline import Baseline
from specgauge.preflight.checklist.deployment import Deployment, Stated
from specgauge.preflight.checklist.evidence import Given
from specgauge.preflight.checklist.live import Live
from specgauge.preflight.checklist.lock import Lock
from specgauge.preflight.checklist.result import Trouble
from specgauge.preflight.checklist.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineConfig:
    """What the configuration says of the baseline: files as they were read, or a live target."""

    files: tuple[Baseline, ...] = ()
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConfig:
    """What the configuration says of the guard and its flag.

    `nobody_obeys` and `deaf` hold what `config check` warns of, where it does.
    """

    key: str
    backend: str
    obeyed_by: str | None = None
    dry_run: bool = False
    nobody_obeys: str | None = None
    deaf: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """What became of an override off, on and auto through the sidecar: how it went, in words."""

    source: str
    at: float
    done: bool
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is rendered from the configuration: names of rules, dashboards by uid, the runbook.

    Alerts go by name and severity. A dashboard goes by a hash of what it shows.
    """

    alerts: frozenset[tuple[str, str]] = frozenset()
    records: frozenset[str] = frozenset()
    dashboards: Mapping[str, str] = field(default_factory=dict)
    runbook_url: str = ""
    placeholder_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The dashboards that were found, by uid: a hash of what each shows, None where it is not."""

    source: str
    hashes: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A JSON answer, and where it is from."""

    source: str
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All evidence at Unix time `now`; None is what was not given, Trouble what cannot be read."""

    now: float
    terms: Terms = field(default_factory=Terms)
    deployment: Deployment = field(default_factory=Deployment)
    stated: Stated = field(default_factory=Stated)
    live: Live | Trouble
    recorded: bool = False
    baseline: BaselineConfig | Trouble = field(default_factory=BaselineConfig)
    draft: Given = None
    sweep: Given = None
    compare: Given = None
    memory: Given = None
    guard_config: GuardConfig | None = None
    guard: Answer | Trouble
    audit: tuple[Mapping[str, Any], ...] = ()
    exercise: Exercise | None = None
    rules: Answer | Trouble | None = None
    shown: Shown | Trouble | None = None
    wanted: Wanted = field(default_factory=Wanted)
    lock: Lock | Trouble | None = None
