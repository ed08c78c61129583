"""What ends a recording before its plan does: the reasons, the brake, and what to watch for.

Watches what it is shown; looks at nothing itself.
"""

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum

from specgauge.baseline.stream import BROKEN, Outcome, Request
from specgauge.baseline.twin import Between

MOST_KV_USAGE = 0.9
"""A production server is not driven beyond this share of its KV cache..."""

PATIENCE = 3
"""...nor seen with requests waiting over so many looks in a row, and as many polls of time."""

IN_A_ROW = 3
"""So many requests that fail in a row mean that the server does."""

FAILING_SHARE = 0.1
ENOUGH_REQUESTS = 50
"""So does this share of at least so many."""

_BAD = BROKEN - {Outcome.EMPTY}
_FOREIGN_SHARE = 0.01
_FOREIGN_TOKENS = 16.0


class Why(StrEnum):
    """What ended a recording before its plan did."""

    STOPPED = "stopped"
    FAILING = "failing"
    LIMIT = "limit"
    TRAFFIC = "other_traffic"
    SPECULATION = "speculation"
    RESTARTED = "restarted"


SPOILT = frozenset({Why.TRAFFIC, Why.SPECULATION, Why.RESTARTED})
"""After these what was measured of the level is worth nothing."""


@dataclass(slots=True)
class Brake:
    """The one brake of a recording: whoever pulls it first says why."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    why: Why = Why.STOPPED
    reason: str = "stopped by the user"

    def pull(self, why: Why, reason: str) -> None:
        """End the recording; a later reason changes nothing."""
        if not self.event.is_set():
            self.why, self.reason = why, reason
            self.event.set()

    @property
    def pulled(self) -> bool:
        """Whether the recording is to end."""
        return self.event.is_set()


class Guard:
    """Pulls the brake where a level fails, hurts its server, or is no baseline.

    A server that is meant to be `speculative` may draft.
    """

    def __init__(
        self, brake: Brake, *, shared: bool, poll: float, speculative: bool = False
    ) -> None:
        self.kv_max: float | None = None
        self._brake = brake
        self._shared = shared
        self._speculative = speculative
        self._patience = PATIENCE * poll
        self._row = self._bad = self._ended = 0
        self._waiting: list[float] = []

    def take_request(self, request: Request) -> None:
        """Count a request that ended."""
        if request.outcome is Outcome.CUT:
            return
        bad = request.outcome in _BAD
        self._row = self._row + 1 if bad else 0
        self._bad += bad
        self._ended += 1
        many = self._ended >= ENOUGH_REQUESTS and self._bad > FAILING_SHARE * self._ended
        if bad and (self._row >= IN_A_ROW or many):
            self._brake.pull(Why.FAILING, f"the server fails: {request.detail}")

    def take_look(self, found: Between, at: float) -> None:
        """Note how the server does under the load at this moment."""
        usage = found.kv_usage
        if usage is not None:
            self.kv_max = max(usage, self.kv_max or 0.0)
        self._waiting = [*self._waiting, at] if found.waiting > 0 else []
        if len(self._waiting) >= PATIENCE and at - self._waiting[0] >= self._patience:
            reason = f"requests waiting: {found.waiting:g}; the server takes no more at once"
            self._brake.pull(Why.LIMIT, reason)
        if usage is not None and usage > MOST_KV_USAGE:
            self._brake.pull(Why.LIMIT, f"the KV cache is {usage:.0%} full")
        if found.restarted:
            self._brake.pull(Why.RESTARTED, "the server restarted under load")
        if found.speculates is not None and not self._speculative:
            reason = f"the server speculates: {found.speculates}; a baseline is recorded without"
            self._brake.pull(Why.SPECULATION, reason)

    def take_count(self, generated: float, known: int, unknown: int) -> list[str]:
        """Hold the tokens that the server counts against those received, and those that may be.

        `unknown` is the most that requests without a usage can have got. Gives notes.
        """
        slack = _FOREIGN_SHARE * known + _FOREIGN_TOKENS
        extra = generated - known - unknown
        if extra > slack:
            told = f"the server generated {extra:.0f} tokens that were not asked for here"
            if not self._shared:
                hint = "stop whoever sends them, or record with --shared"
                self._brake.pull(Why.TRAFFIC, f"other traffic: {told}; {hint}")
            return [f"shared: {told}"]
        if generated < known - slack:
            return ["the page counts fewer tokens than arrived: is it the whole server's?"]
        return []
