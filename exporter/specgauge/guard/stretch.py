"""Counts of drafts over a stretch of traffic, and the rolling past that they are compared with."""

import math
from dataclasses import dataclass

from specgauge.model.guard import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What was drafted and accepted in so many seconds of traffic, and for how many requests.

    `present` is the number of requests in decode, added up over the seconds.
    """

    seconds: float = 0.0
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: float = 0.0
    first_tokens: float = 0.0
    present: float = 0.0

    @property
    def requests(self) -> float:
        """How many requests it rests on: those there at a time, and those that came."""
        there = self.present / self.seconds if self.seconds > 0.0 else 0.0
        return there + self.first_tokens

    @property
    def accepted_per_draft(self) -> float:
        """Tokens accepted of a draft; the stretch must hold drafts."""
        return self.accepted / self.drafts

    @property
    def draft_length(self) -> float:
        """Tokens of a draft; the stretch must hold drafts."""
        return self.draft_tokens / self.drafts


NOTHING = Stretch()


def plus(one: Stretch, other: Stretch, sign: float = 1.0) -> Stretch:
    """Add two stretches, or take the other away with `sign` -1."""
    return Stretch(
        seconds=one.seconds + sign * other.seconds,
        drafts=one.drafts + sign * other.drafts,
        draft_tokens=one.draft_tokens + sign * other.draft_tokens,
        accepted=one.accepted + sign * other.accepted,
        first_tokens=one.first_tokens + sign * other.first_tokens,
        present=one.present + sign * other.present,
    )


def faded(one: Stretch, share: float) -> Stretch:
    """Keep a share of a stretch's weight."""
    return Stretch(
        seconds=one.seconds * share,
        drafts=one.drafts * share,
        draft_tokens=one.draft_tokens * share,
        accepted=one.accepted * share,
        first_tokens=one.first_tokens * share,
        present=one.present * share,
    )


def last_step(look: Look) -> Stretch | None:
    """Read the last interval of a look; None where it carried no draft or does not add up."""
    seconds = look.step_seconds
    drafts = look.step.get("drafts", 0.0)
    proposed = look.step.get("draft_tokens", 0.0)
    accepted = look.step.get("accepted_tokens")
    if accepted is None or not all(math.isfinite(one) for one in (seconds, drafts, proposed)):
        return None
    if min(seconds, drafts, proposed) <= 0.0 or not 0.0 <= accepted <= proposed:
        return None
    return Stretch(
        seconds=seconds,
        drafts=drafts,
        draft_tokens=proposed,
        accepted=accepted,
        first_tokens=look.step.get("first_tokens", 0.0),
        present=look.numbers.get("decode_concurrency", 0.0) * seconds,
    )
