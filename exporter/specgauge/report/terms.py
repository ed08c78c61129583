"""What a report holds a deployment to, and what it is told beside Prometheus; reckons nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Thresholds of the recommendations; ages in seconds."""

    min_acceptance: float = 0.55
    min_speedup: float = 1.3
    max_fallbacks: int = 5
    max_baseline_age: float = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How figures are reckoned.

    `min_draft_tokens` is what a window must hold for its acceptance to be told, `baseline_blocks`
    the KV blocks of the baseline's server by the name of its model, where they are known.
    """

    limits: Limits = field(default_factory=Limits)
    cluster_label: str = "cluster"
    min_draft_tokens: float = 1000.0
    gpus_per_server: int = 1
    baseline_blocks: Mapping[str, int] = field(default_factory=dict)
