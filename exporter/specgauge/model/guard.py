"""What the guard sees, thinks and wants, as plain values; decides nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from specgauge.model.verdict import Verdict


class Phase(StrEnum):
    """Where the guard stands; the flag is on in `active` and `probing`, off in the next two."""

    STARTING = "starting"
    ACTIVE = "active"
    FALLBACK = "fallback"
    PROBING = "probing"
    LATCHED = "latched"
    OVERRIDE = "override"


class Outcome(StrEnum):
    """What one look at the evidence says; only `degraded` can turn the flag off."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    INCONCLUSIVE = "inconclusive"
    NO_DATA = "no_data"
    ERROR = "error"


class Signal(StrEnum):
    """What an outcome rests on."""

    SPEEDUP = "speedup"
    ACCEPTANCE_FLOOR = "acceptance_floor"
    COLLAPSE = "collapse"
    LATENCY = "latency"
    ERRORS = "errors"


class Switch(StrEnum):
    """Whether a signal acts, only tells what it would do, or is not looked at."""

    ON = "on"
    DRY_RUN = "dry_run"
    OFF = "off"


class GuardReason(StrEnum):
    """Why an outcome or a decision is what it is, beside the reasons of a verdict."""

    ACCEPTANCE_BELOW_FLOOR = "acceptance_below_floor"
    ACCEPTANCE_COLLAPSED = "acceptance_collapsed"
    ACCEPTANCE_HELD = "acceptance_held"
    LATENCY_OBJECTIVE_MISSED = "latency_objective_missed"
    EXCESS_ERRORS = "excess_errors"
    STARTUP_GRACE = "startup_grace"
    ENGINE_RESTARTED = "engine_restarted"
    CLOCK_WENT_BACK = "clock_went_back"
    NO_PAGE = "no_page"
    NEEDS_WINDOW = "needs_window"
    EVALUATION_FAILED = "evaluation_failed"
    NO_MODEL = "no_model"
    NOT_SPECULATING = "not_speculating"
    FLAG_OFF = "flag_off"
    EVIDENCE_IMPOSSIBLE = "evidence_impossible"
    WITHIN_USUAL = "within_usual"
    SPEEDUP_FELL = "speedup_fell"
    TOO_FEW_TOKENS = "too_few_tokens"
    TOO_FEW_REQUESTS = "too_few_requests"
    TOO_FEW_DRAFTS = "too_few_drafts"
    MODELS_DISAGREE = "models_disagree"
    ALL_SIGNALS_OFF = "all_signals_off"
    READ_BACK_ADOPTED = "read_back_adopted"
    READ_BACK_UNKNOWN = "read_back_unknown"
    NOT_YET_IN_A_ROW = "not_yet_in_a_row"
    COOLING_DOWN = "cooling_down"
    PROBE_DUE = "probe_due"
    PROBE_ASKED = "probe_asked"
    PROBE_TOO_SHORT = "probe_too_short"
    PROBE_LOAD_TOO_LOW = "probe_load_too_low"
    PROBE_NOT_CLEAR = "probe_not_clear"
    PROBE_SUCCEEDED = "probe_succeeded"
    PROBE_FAILED = "probe_failed"
    MANUAL_RECOVERY = "manual_recovery"
    NO_FALLBACK_CAPACITY = "no_fallback_capacity"
    FALLBACK_INEFFECTIVE = "fallback_ineffective"
    TOO_MANY_FALLBACKS = "too_many_fallbacks"
    MEMBERS_FALLING_BACK = "members_falling_back"
    FROZEN = "frozen"
    OVERRIDE_ON = "override_on"
    OVERRIDE_OFF = "override_off"
    OVERRIDE_EXPIRED = "override_expired"
    OVERRIDE_LIFTED = "override_lifted"
    CHANGED_ELSEWHERE = "changed_elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One model's evidence over the decision window that ends now; times in seconds.

    `numbers` are named as in the contract of `inspect` and `verdict`, with the window's counts
    beside them: tokens (decode), requests (finished), drafts, draft_tokens, accepted_tokens,
    first_tokens, errors and served (HTTP answers 5xx and all). `step` holds the same counts of the
    last interval alone, for what must be noticed at once. What is unknown is in neither. `covered`
    says whether a baseline covers the load, so that acceptance does not decide. `leans` says that
    an open verdict would be `costs` at a lower confidence. `standard` is the same window of the
    pool without speculation, where one is watched.
    """

    start: float
    end: float
    model_name: str = ""
    speculating: bool | None = None
    verdict: Verdict = Verdict.UNKNOWN
    verdict_reason: str = "no_baseline"
    covered: bool = False
    leans: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)
    step: Mapping[str, float] = field(default_factory=dict)
    step_seconds: float = 0.0
    restarted: bool = False
    standard: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """Why there is no look at a pool: a reason of its own, and a person's line."""

    reason: str
    detail: str = ""
    outcome: Outcome = Outcome.NO_DATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What one look says, why, and on which numbers; `start` to `end` is its window in seconds.

    `rehearsed` are reasons of signals in dry run that would have said `degraded`; `companions` are
    co-signals (waiting, preempting, kv_cache_full): they explain and never decide. `severe` means
    that one window is enough.
    """

    start: float
    end: float
    outcome: Outcome
    reason: str
    signal: Signal | None = None
    model_name: str = ""
    severe: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)
    rehearsed: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """An operator's word: `mode` is on or off, until `until` on the guard's clock, or for good.

    `mode` auto, passed for one decision, ends an override and lets go of a latch.
    """

    mode: str
    until: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a decision depends on beside its evidence; None is what is not known.

    `standard_up` and `standard_has_room` tell of the pool that would take the traffic, both None
    where none is watched. `standard` are numbers of that pool now (decode_concurrency,
    tpot_seconds). `confirmed` is the flag as last read back. `others_falling_back` says that as
    many members of the pool as may already fall back, `changed_elsewhere` that somebody else made
    the flag what was read, `probe_asked` that an operator wants the next probe at once.
    """

    time: float
    frozen: bool = False
    override: Override | None = None
    standard_up: bool | None = None
    standard_has_room: bool | None = None
    standard: Mapping[str, float] = field(default_factory=dict)
    confirmed: bool | None = None
    others_falling_back: bool = False
    changed_elsewhere: bool = False
    probe_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardState:
    """All that the guard remembers between two decisions; times in seconds on its own clock.

    `flag` is what is wanted, None as long as nothing has been read back or decided. `streak` counts
    degraded windows in a row, the last of which ended at `streak_end` and none of which may begin
    before `row_from`, which tells nothing while there is none. `failures` counts probes that failed
    since the last success. `fallback_load` is the decode concurrency at which it fell back and
    `fallback_tpot` the time per token then, in seconds; `probe_load` is the load that a probe must
    stand. `fallbacks` are the times of going from active to fallback of the last day. `told` are
    reasons that are said once per fallback. `healthy_for` are the seconds of healthy windows,
    overlaps counted once, since a probe began. `saved` is what an earlier run left, until the flag
    has been read back; `shadow` is where a dry run would stand.
    """

    phase: Phase = Phase.STARTING
    flag: bool | None = None
    time: float = 0.0
    since: float = 0.0
    streak: int = 0
    streak_end: float = 0.0
    row_from: float = 0.0
    failures: int = 0
    next_probe: float | None = None
    fallback_load: float | None = None
    fallback_tpot: float | None = None
    probe_load: float | None = None
    fallbacks: tuple[float, ...] = ()
    told: tuple[str, ...] = ()
    healthy_for: float = 0.0
    saved: "GuardState | None" = None
    shadow: "GuardState | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was decided at `time` and why; `changed` says whether state or flag moved.

    `reason` of a change is what caused it, else why nothing moved or what the evidence said.
    `model_name` says, where a server has several models, whose evidence it is. `wanted` is what a
    guard in dry run or frozen would have decided, `shadow` where a dry run would stand by now, if
    elsewhere; else None.
    """

    time: float
    before: Phase
    state: Phase
    flag: bool | None
    outcome: Outcome
    reason: str
    changed: bool
    signal: Signal | None = None
    model_name: str = ""
    evidence: Mapping[str, float] = field(default_factory=dict)
    wanted: Phase | None = None
    shadow: Phase | None = None
    rehearsed: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    next_probe: float | None = None
    warnings: tuple[str, ...] = ()
