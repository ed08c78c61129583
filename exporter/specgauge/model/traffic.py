"""What the router's access log tells of each class of traffic and pool, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class LineResult(StrEnum):
    """What became of a line of the access log; only the first two count a request."""

    OK = "ok"
    PARTIAL = "partial"
    TOO_LONG = "too_long"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    DUPLICATE_KEY = "duplicate_key"
    MISSING_KEY = "missing_key"
    BAD_VALUE = "bad_value"
    CUT = "cut"


class LogState(StrEnum):
    """How it stands with the access log."""

    OFF = "off"
    STARTING = "starting"
    FOLLOWED = "followed"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A histogram: how many values lie up to each bound, the last count those above all."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """What requests with prompts of one length drafted; `lengths` counts their averages."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    lengths: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFigures:
    """One class in one pool; `decode_tokens` are those after the first, in `decode_seconds`."""

    requests: int
    errors: int
    retries: int
    completion_tokens: int
    decode_tokens: int
    decode_seconds: float
    ttft: Spread
    e2e: Spread
    contexts: Mapping[str, Drafted]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassesView:
    """All that is known; `figures` by class and pool, `unread_bytes` None where none can be read.

    Everything is counted from `since`, the Unix time at which the sidecar began to.
    """

    since: float
    state: LogState = LogState.STARTING
    unread_bytes: int | None = None
    lines: Mapping[LineResult, int] = field(default_factory=dict)
    figures: Mapping[tuple[str, str], ClassFigures] = field(default_factory=dict)
