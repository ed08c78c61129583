"""Whose a baseline is: what a page and a server's answers tell, put together with the levels.

Facts go by their dotted path in the file (`model.name`); what is not known is not among them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from specgauge.baseline.faults import is_text, shown, word
from specgauge.baseline.match import MUST_MATCH
from specgauge.baseline.schema import BaselineFile, LevelRecord, keys_at
from specgauge.errors import BaselineError
from specgauge.model.quantity import Page, Quantity

Facts = Mapping[str, object]

WANTED = (
    *(name for name in MUST_MATCH if name != "engine.name"),
    "engine.version",
    "workload.temperature",
    "workload.prompts_sha256",
)
"""Facts that a baseline should state; those that it does not are listed as missing."""


def facts_of(
    page: Page, model: str, *, version: str | None = None, models: object = None
) -> dict[str, object]:
    """Tell what is known of a server: from its page, its version and its `/v1/models` answer."""
    found: dict[str, object] = {
        "engine.name": "vllm",
        "engine.version": version,
        "model.name": model,
        "model.max_model_len": max_model_len(models, model),
        "parallelism.data": len(page.layout.engines.get(model, ())) or None,
        **_cache_config(page),
    }
    return {name: value for name, value in found.items() if value is not None and is_text(value)}


def contradictions(told: Facts, stated: Facts) -> tuple[str, ...]:
    """Say which facts somebody states though the server tells others."""
    return tuple(
        f"{name}: {shown(value)} is stated, the server tells {shown(told[name])}; state only what "
        "it does not tell"
        for name, value in stated.items()
        if name != "model.name" and told.get(name) not in {None, value}
    )


def served(models: object) -> tuple[str, ...]:
    """List the names that an OpenAI-style list of models has."""
    listed = models.get("data") if isinstance(models, dict) else None
    names = [
        one.get("id") if isinstance(one, dict) else None
        for one in (listed if isinstance(listed, list) else ())
    ]
    return tuple(dict.fromkeys(n for n in names if isinstance(n, str) and n and is_text(n)))


def compose(
    facts: Facts,
    levels: Sequence[LevelRecord],
    *,
    method: str,
    created: datetime,
    created_by: str,
    notes: Sequence[str] = (),
    missing: Sequence[str] = (),
    partial: bool = False,
) -> BaselineFile:
    """Put a file together; what should be known of it and is not is listed in `missing`."""
    unknown = [name for name in WANTED if facts.get(name) is None]
    document: dict[str, Any] = {
        "created": created,
        "created_by": created_by,
        "method": method,
        "levels": tuple(levels),
        "notes": tuple(notes),
        "missing": tuple(dict.fromkeys([*unknown, *missing])),
        "partial": partial,
    }
    for name, value in facts.items():
        part, _, key = name.partition(".")
        document.setdefault(part, {})[key] = value
    try:
        return BaselineFile.model_validate(document)
    except ValidationError as error:
        raise BaselineError([word(one, keys_at) for one in error.errors()]) from None


def max_model_len(models: object, model: str) -> int | None:
    """Read the context length from an OpenAI-style list of models."""
    listed = models.get("data") if isinstance(models, dict) else None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("id") == model:
            length = one.get("max_model_len")
            return length if isinstance(length, int) and 0 < length <= 10**9 else None
    return None


def _cache_config(page: Page) -> dict[str, object]:
    """Read the size of the KV cache and whether prefixes are cached, where the page says so."""
    for series in page.values:
        if series.quantity is Quantity.CACHE_CONFIG:
            labels = dict(series.origin)
            blocks = labels.get("num_gpu_blocks", "")
            caching = labels.get("enable_prefix_caching", "")
            return {
                "hardware.kv_blocks": int(blocks) if _is_count(blocks) else None,
                "workload.prefix_caching": {"True": True, "False": False}.get(caching),
            }
    return {}


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 15  # noqa: PLR2004 - as the schema
