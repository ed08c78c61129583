"""Whether drafts at least pay for their own cheapest cost, where no baseline says more.

A step that carries a draft of k tokens costs v + k*c plain steps and yields L tokens, L being the
acceptance length, so it breaks even at L* = v + k*c whatever the distribution of acceptance
(Leviathan et al., arXiv:2211.17192, sec. 3, with measured L in place of independent acceptance).
v = 1 and c = 0.05 are the cheapest that was measured: an EAGLE head with k = 4 on an H200, one
stream, whose steps cost 1.20 plain ones. A draft model, or a busy GPU, costs several times that,
so below this floor speculation loses and above it nothing is proved.

Tokens within a draft stand or fall together, so drafts are the samples: the interval is Wilson's
(1927) for the share accepted with n = drafts, whose variance m*(k - m)/n is the largest that a
count between 0 and k with mean m can have.
"""

import math
from dataclasses import dataclass

from specgauge.guard.policy import Policy
from specgauge.model.guard import Look

VERIFY_COST = 1.0
DRAFT_TOKEN_COST = 0.05
"""In plain decode steps: what verifying costs, and each token of a draft besides."""

Z = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The acceptance length over the window, its interval, and what it must reach."""

    length: float
    low: float
    high: float
    floor: float

    @property
    def below(self) -> bool:
        """Whether the whole interval lies below the floor."""
        return self.high < self.floor

    @property
    def passed(self) -> bool:
        """Whether the whole interval lies at or above the floor."""
        return self.low >= self.floor


def measure_floor(look: Look, policy: Policy) -> Floor | None:
    """Compare acceptance with the break-even length; None where the page does not tell."""
    drafts = look.numbers.get("drafts", 0.0)
    proposed = look.numbers.get("draft_tokens", 0.0)
    accepted = look.numbers.get("accepted_tokens")
    if accepted is None or drafts <= 0.0 or not 0.0 <= accepted <= proposed or proposed <= 0.0:
        return None
    k = proposed / drafts
    low, high = wilson(accepted / proposed, drafts)
    derived = VERIFY_COST + DRAFT_TOKEN_COST * k
    return Floor(
        length=1.0 + accepted / drafts,
        low=1.0 + k * low,
        high=1.0 + k * high,
        floor=derived if policy.floor is None else policy.floor,
    )


def wilson(share: float, n: float) -> tuple[float, float]:
    """Give Wilson's 95 % interval of a share seen in n samples."""
    weight = 1.0 + Z * Z / n
    middle = (share + Z * Z / (2.0 * n)) / weight
    half = Z / weight * math.sqrt(share * (1.0 - share) / n + Z * Z / (4.0 * n * n))
    return max(middle - half, 0.0), min(middle + half, 1.0)
