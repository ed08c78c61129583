"""Whether the answers stayed as good: equal texts, where they part, and how many pass a check.

Texts come from elsewhere. Equal texts are never called quality, and unequal ones no loss of it:
floating point sums in another order part them too, as the baseline pool against itself shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median

from specgauge.preflight.compare.chances import difference_interval, fall_chance
from specgauge.preflight.compare.gates import LUCK

Texts = Sequence[str | None]
"""One text a prompt in the order of the prompts; None where there is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How many of the texts of two passes are equal; positions count characters from 0."""

    equal: int
    of: int
    first_divergence: tuple[int, ...] = ()

    @property
    def share(self) -> float | None:
        """Share of equal texts; None where nothing was compared."""
        return self.equal / self.of if self.of else None

    @property
    def median_divergence(self) -> float | None:
        """The median position at which unequal texts part."""
        return median(self.first_divergence) if self.first_divergence else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """How many texts of each pool pass the check; `why` has some reasons of those that do not."""

    baseline: int
    baseline_of: int
    speculative: int
    speculative_of: int
    why: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there was an answer of each pool to check."""
        return self.baseline_of > 0 and self.speculative_of > 0

    @property
    def chance(self) -> float:
        """Chance of so few passes with speculation if it made no difference."""
        return fall_chance(self.speculative, self.speculative_of, self.baseline, self.baseline_of)

    @property
    def difference(self) -> tuple[float, float] | None:
        """The 95 % interval of the speculative pass rate minus the baseline's."""
        return difference_interval(
            self.speculative, self.speculative_of, self.baseline, self.baseline_of
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What is known of one class; `itself` is the baseline pool against itself, the yardstick."""

    between: Match
    itself: Match | None = None
    passes: Passes | None = None
    failed: int = 0

    @property
    def differs_more(self) -> bool:
        """Whether the pools differ from each other more than the baseline from itself."""
        one, two = self.between, self.itself
        return two is not None and fall_chance(one.equal, one.of, two.equal, two.of) < LUCK


def compare_texts(first: Texts, second: Texts) -> Match:
    """Compare two passes over the same prompts; one without an answer is not compared."""
    both = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    parted = [divergence(a, b) for a, b in both if a != b]
    return Match(equal=len(both) - len(parted), of=len(both), first_divergence=tuple(parted))


def divergence(first: str, second: str) -> int:
    """Give the position of the first character in which two texts differ."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    )


def unchecked(found: Mapping[str, Quality]) -> tuple[str, ...]:
    """Name the classes whose check was asked for and had no answer of a pool to look at."""
    return tuple(
        name for name, one in found.items() if one.passes is not None and not one.passes.known
    )


def fallen(found: Mapping[str, Quality]) -> tuple[str, ...]:
    """Name the classes whose pass rate fell; each by its share of the luck that is allowed."""
    judged = {name: one.passes for name, one in found.items() if one.passes is not None}
    return tuple(
        name for name, passes in judged.items() if passes.chance < LUCK / max(1, len(judged))
    )
