"""What runs, as far as it is known: whose evidence must be, to be evidence at all.

The model, its release and k are the sidecar's word; method and draft are on no engine's page, so
they are the operator's.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specgauge.preflight.checklist.live import Live
from specgauge.preflight.checklist.reading import at, whole, word


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What an operator states in the configuration."""

    models: tuple[str, ...] = ()
    model_revision: str | None = None
    draft: str | None = None
    draft_revision: str | None = None
    speculative_config: Mapping[str, Any] = field(default_factory=dict)
    draft_conditions: tuple[str, ...] = ()
    routing: str | None = None
    report_scheduled_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How drafts are made: by which method, how many tokens, by which draft."""

    method: str | None = None
    k: int | None = None
    draft: str | None = None

    def __str__(self) -> str:
        parts = (
            self.method,
            None if self.k is None else f"k={self.k}",
            None if self.draft is None else f"draft {self.draft}",
        )
        return ", ".join(part for part in parts if part) or "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The model under all its names, the served one first; the release; the speculation."""

    models: tuple[str, ...] = ()
    version: str | None = None
    speculation: Speculation = field(default_factory=Speculation)

    @property
    def model_name(self) -> str | None:
        """The name that the model is served under."""
        return self.models[0] if self.models else None


def deployed(live: Live | None, stated: Stated) -> Deployment:
    """Put together what is known of what runs; nothing is, where the sidecar does not answer."""
    told = stated_speculation(stated)
    if live is None:
        return Deployment(speculation=Speculation(method=told.method, draft=told.draft))
    return Deployment(
        models=(live.model_name, *stated.models),
        version=live.version,
        speculation=Speculation(method=live.method or told.method, k=live.k, draft=told.draft),
    )


def stated_speculation(stated: Stated) -> Speculation:
    """Read what the operator states of the speculation."""
    config = stated.speculative_config
    return Speculation(
        method=word(at(config, "method")),
        k=whole(at(config, "num_speculative_tokens")),
        draft=stated.draft or word(at(config, "model")),
    )


def needs_draft(speculation: Speculation) -> bool | None:
    """Tell whether the method has a draft or a head of its own; None where it is not known."""
    if speculation.method is None:
        return True if speculation.draft else None
    return speculation.method.lower() not in _DRAFTLESS


_DRAFTLESS = frozenset({"ngram", "ngram_gpu", "[ngram]", "suffix"})
"""Methods that propose from what is there already."""


def canonical(config: Mapping[str, Any]) -> str:
    """Write a speculation config so that two alike are the same text."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"))
