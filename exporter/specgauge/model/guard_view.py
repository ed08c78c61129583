"""The guard as others see it: its flag, its past, and itself at a moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from specgauge.model.guard import Decision, Outcome, Override, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagStatus:
    """Where the flag lies and how writing it went; times are Unix seconds.

    `on_the_word` says that the write's answer alone confirmed it, since nothing can be read back.
    `given_up` is the value whose write was pending when a dry run began.
    """

    key: str
    backend: str
    place: str
    moves_traffic: bool = False
    obeyed_by: str | None = None
    desired: bool | None = None
    confirmed: bool | None = None
    on_the_word: bool = False
    writes: Mapping[str, int] = field(default_factory=dict)
    last_error: str | None = None
    pending_since: float | None = None
    changed_elsewhere: bool = False
    given_up: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A decision that changed something, or said something worth keeping, at Unix time `unix`."""

    unix: float
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardView:
    """The guard at a moment, in Unix seconds; `following` while another process holds the lock."""

    target: str
    dry_run: bool
    phase: Phase
    since: float
    flag: FlagStatus
    next_probe: float | None = None
    override: Override | None = None
    override_until: float | None = None
    frozen: bool = False
    following: bool = False
    transitions: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    assessments: Mapping[Outcome, int] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)
    last: Past | None = None
    history: tuple[Past, ...] = ()
