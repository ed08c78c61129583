"""The thresholds of the gates as values; the articles' unless an operator says otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, field

DAY = 86400.0
CLOCK_SLACK = 300.0
"""Seconds by which another machine's clock may be ahead of ours."""

NOW = 300.0
"""Age in seconds up to which the word of a sidecar that answers is about now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a deployment is held to; shares from 0 to 1, ages in seconds."""

    max_age: float = 14 * DAY
    min_acceptance: float = 0.55
    min_drafts: int = 1000
    min_speedup: float = 1.3
    min_burst_speedup: float = 1.0
    max_p99_ratio: float = 1.0
    max_memory: float = 0.95
    min_repeats: int = 3
    expected_concurrency: float | None = None
    waive: Mapping[str, str] = field(default_factory=dict)
