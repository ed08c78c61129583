"""What a look at a server ends in: findings with their numbers; weighs none of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from specgauge.preflight.doctor.codes import Code

Figure = int | float | str | Sequence[int | float]


class Severity(StrEnum):
    """Whether a finding may be why, or is only worth knowing."""

    CAUSE = "cause"
    HINT = "hint"


SEEN = 0.95
"""Confidence of what the engine itself says, or what was given as its configuration."""

MEASURED = 0.85
"""Confidence of what the numbers show and hardly anything else could."""

LIKELY = 0.65
"""Confidence of what the numbers show, and something else might too."""

POSSIBLE = 0.4
"""Confidence of what fits, like much else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found: how sure, in a sentence and in figures; `where` names a file or a model.

    `hint` says that it cannot be the cause here, whatever its code is elsewhere; `fix` is said
    instead of the code's own where this case calls for another.
    """

    code: Code
    confidence: float
    evidence: str
    numbers: Mapping[str, Figure] = field(default_factory=dict)
    where: str = ""
    hint: bool = False
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A finding with its severity under the symptom that was told."""

    finding: Finding
    severity: Severity
    score: float
