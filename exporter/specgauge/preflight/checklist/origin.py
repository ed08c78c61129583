"""Whose a document is, by its kind: where each command writes model, release, k and draft.

What a document does not say is not there; nothing is taken from its name or its file's times.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specgauge.preflight.checklist.reading import at, first, mappings, number, whole, word, words

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The model and the draft, each by every name that it has; release, method and k."""

    models: tuple[str, ...] = ()
    version: str | None = None
    method: str | None = None
    k: int | None = None
    drafts: tuple[str, ...] = ()


def of_draft(body: Body) -> Origin:
    """Read it off a draft check, which is of no k."""
    return Origin(
        models=_sources(body.get("target")),
        version=word(body.get("release")),
        method=word(body.get("method")),
        drafts=_sources(body.get("draft")),
    )


def of_sweep(body: Body) -> Origin:
    """Read it off the candidate that a sweep recommends; of k the gate itself tells.

    Where no speculation is recommended, off those that were tried.
    """
    name = word(at(body, "recommended.candidate"))
    server = next(
        (one for one in mappings(body.get("states")) if word(one.get("name")) == name), {}
    )
    candidates = list(mappings(at(body, "settings.candidates")))
    chosen = [one for one in candidates if word(one.get("name")) == name]
    configs = [
        config
        for one in (*chosen, *candidates)
        if isinstance(config := one.get("speculative_config"), Mapping)
    ]
    is_plain = whole(at(body, "recommended.num_speculative_tokens")) == 0
    own = chosen[0].get("speculative_config") if chosen else None
    config = configs[0] if is_plain and configs else own
    return Origin(
        models=words([at(server, "server.model_name"), at(body, "settings.model")]),
        version=word(at(server, "server.engine_version")),
        method=word(at(config, "method")),
        drafts=words([at(config, "model")]),
    )


def of_compare(body: Body) -> Origin:
    """Read it off the pool that speculates; k is in its own figures."""
    facts = at(body, "facts.speculative")
    told: Body = facts if isinstance(facts, Mapping) else {}
    return Origin(
        models=words([told.get("model.name"), told.get("model.root")]),
        version=word(told.get("engine.version")),
        method=word(told.get("speculation.method")),
        k=_k_of(told, body),
        drafts=words([told.get("speculation.draft")]),
    )


def _k_of(told: Body, body: Body) -> int | None:
    """Give the k that every cell has, as it is told or as long as every draft was."""
    stated = whole(told.get("speculation.num_speculative_tokens"))
    if stated is not None:
        return stated
    cells = list(mappings(body.get("cells")))
    found = {
        whole(
            first(
                cell,
                "speculative.server.num_speculative_tokens",
                "speculative.server.draft_length",
            )
        )
        for cell in cells
    }
    return found.pop() if len(found) == 1 else None


def of_memory(body: Body) -> Origin:
    """Read it off a plan's folders, or off the second of two servers."""
    if body.get("source") == "pages":
        return Origin(
            models=words(at(body, "after.models")),
            version=word(at(body, "after.engine_version")),
            k=whole(at(body, "after.num_speculative_tokens")),
        )
    plain = body.get("after") is None
    return Origin(
        models=words([at(body, "target.path"), at(body, "target.source")]),
        k=0 if plain else whole(at(body, "setting.num_speculative_tokens")),
        drafts=words([at(body, "draft.path"), at(body, "draft.source")]),
    )


def _sources(value: object) -> tuple[str, ...]:
    return words([at(value, "source"), at(value, "folder")])


ORIGINS: Mapping[str, Callable[[Body], Origin]] = {
    "draft": of_draft,
    "sweep": of_sweep,
    "compare": of_compare,
    "memory": of_memory,
}


def share_in_use(body: Body) -> dict[str, float]:
    """Give the shares of memory that a memory report knows: of the GPU, and of the KV cache."""
    side = body.get("after") if body.get("after") is not None else body.get("before")
    found = {
        "gpu_memory_ratio": number(at(body, "setting.utilization")),
        "kv_cache_use_ratio": number(first(side, "kv_cache_use_ratio", "kv_cache_usage_ratio")),
    }
    return {name: value for name, value in found.items() if value is not None}
