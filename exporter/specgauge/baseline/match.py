"""Whether a baseline belongs to a server: exact reasons where not, doubts where perhaps.

Only what both sides know is compared; what one of them does not say is no mismatch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from specgauge.model.baseline import Baseline

MUST_MATCH = (
    "engine.name",
    "model.name",
    "model.revision",
    "model.quantization",
    "parallelism.tensor",
    "parallelism.data",
    "hardware.gpu",
    "hardware.count",
)
"""Facts that make another server; a difference in one of them refuses the comparison."""

STALE_SECONDS = 30 * 86400.0
"""A baseline older than this is doubted: its interval is widened and a warning says so."""

SLOW_SECONDS = 2.0
"""No server worth speeding up takes so long for a token: milliseconds were meant."""

DOUBT_SPREAD = 0.02
"""Half-width, as a share, that each doubt adds to the baseline's own interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which facts differ, what is doubted, and by how much that widens the interval."""

    mismatches: tuple[str, ...]
    warnings: tuple[str, ...]
    spread: float


def match(baseline: Baseline, server: Mapping[str, object], *, now: float | None) -> Match:
    """Compare a baseline with what is known of a server at Unix time `now`."""
    mismatches = tuple(
        name
        for name in MUST_MATCH
        if _known(baseline.facts, name)
        and _known(server, name)
        and baseline.facts[name] != server[name]
    )
    warnings = []
    if _minor(baseline.facts.get("engine.version")) != _minor(server.get("engine.version")) and (
        _known(baseline.facts, "engine.version") and _known(server, "engine.version")
    ):
        warnings.append("baseline_engine_release")
    if now is not None and baseline.created and now - baseline.created > STALE_SECONDS:
        warnings.append("baseline_stale")
    if baseline.partial:
        warnings.append("baseline_partial")
    if any(level.tpot > SLOW_SECONDS for level in baseline.curve.levels):
        warnings.append("baseline_implausible")
    return Match(
        mismatches=mismatches, warnings=tuple(warnings), spread=DOUBT_SPREAD * len(warnings)
    )


def _known(facts: Mapping[str, object], name: str) -> bool:
    return facts.get(name) is not None


def _minor(version: object) -> tuple[str, ...]:
    """Give the release without its patch level and suffix: "0.25.1+cpu" is 0.25."""
    return tuple(str(version).split("+")[0].split(".")[:2])
