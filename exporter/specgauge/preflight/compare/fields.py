"""In which fields two pools differ, and which of these make the comparison one of something else.

Compares what both sides tell; what one of them does not tell is listed, never taken as equal.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from specgauge.baseline.facts import facts_of, max_model_len
from specgauge.baseline.faults import is_text
from specgauge.model.quantity import Page, Quantity

MUST_AGREE = (
    "engine.name",
    "engine.version",
    "model.name",
    "model.root",
    "model.revision",
    "model.quantization",
    "model.dtype",
    "model.max_model_len",
    "parallelism.tensor",
    "parallelism.pipeline",
    "parallelism.data",
    "cache.dtype",
    "cache.block_size",
    "cache.memory_utilization",
    "workload.prefix_caching",
)
"""Facts that speculation does not change; a difference in one of them refuses the comparison."""

SPECULATION = "speculation"
"""Not a fact but what the comparison is of; allowed like one to differ from what is expected."""

EXPECTED = ("hardware.kv_blocks",)
"""Facts that speculation does change: a draft's memory is taken from the cache."""

_CACHE = {
    "cache.dtype": "cache_dtype",
    "cache.block_size": "block_size",
    "cache.memory_utilization": "gpu_memory_utilization",
}
_TOLD = {
    "model.revision": "revision",
    "model.quantization": "quantization",
    "model.dtype": "dtype",
    "parallelism.tensor": "tensor_parallel_size",
    "parallelism.pipeline": "pipeline_parallel_size",
    "parallelism.data": "data_parallel_size",
    "cache.dtype": "kv_cache_dtype",
}
_LONGEST = 256

Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field with both values; `expected` says that a draft explains it."""

    field: str
    baseline: object
    speculative: object
    expected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """How alike two pools are: what differs, and what could not be compared."""

    differences: tuple[Difference, ...]
    not_compared: tuple[str, ...]

    def refused(self, allowed: Collection[str]) -> tuple[Difference, ...]:
        """Give the differences that refuse a comparison."""
        return tuple(
            one for one in self.differences if not one.expected and one.field not in allowed
        )


def all_facts(
    page: Page | None,
    model: str,
    *,
    version: str | None = None,
    models: object = None,
    server_info: object = None,
) -> dict[str, object]:
    """Gather what a server tells of itself: its page, release, list of models and settings."""
    found: dict[str, object] = {"model.name": model, "model.root": _root(models, model)}
    if page is not None:
        found |= facts_of(page, model, version=version, models=models) | _cache(page)
    else:
        found |= {"engine.version": version, "model.max_model_len": max_model_len(models, model)}
    found = {**_settings(server_info), **{k: v for k, v in found.items() if v is not None}}
    return {name: value for name, value in found.items() if value is not None and is_text(value)}


def likeness(baseline: Facts, speculative: Facts) -> Likeness:
    """Compare two pools field by field."""
    differences = [
        Difference(
            field=name,
            baseline=baseline[name],
            speculative=speculative[name],
            expected=name in EXPECTED,
        )
        for name in (*MUST_AGREE, *EXPECTED)
        if name in baseline and name in speculative and baseline[name] != speculative[name]
    ]
    lacking = [name for name in MUST_AGREE if name not in baseline or name not in speculative]
    return Likeness(differences=tuple(differences), not_compared=tuple(lacking))


def _root(models: object, model: str) -> str | None:
    """Read from an OpenAI-style list of models what a served name stands for."""
    listed = models.get("data") if isinstance(models, dict) else None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("id") == model:
            root = one.get("root")
            return root if isinstance(root, str) and 0 < len(root) <= _LONGEST else None
    return None


def _cache(page: Page) -> dict[str, object]:
    for series in page.values:
        if series.quantity is Quantity.CACHE_CONFIG:
            labels = dict(series.origin)
            return {name: labels[label] for name, label in _CACHE.items() if label in labels}
    return {}


def _settings(server_info: object) -> dict[str, object]:
    """Read the settings that a server in development mode spells out in one line of text."""
    text = server_info.get("vllm_config") if isinstance(server_info, dict) else None
    if not isinstance(text, str):
        return {}
    found: dict[str, object] = {}
    for name, key in _TOLD.items():
        match = re.search(rf"(?<![\w-]){key}='?([^,'\s]{{1,{_LONGEST}}})'?(?:,|$|\s)", text)
        if match is not None:
            value = match[1]
            found[name] = int(value) if value.isascii() and value.isdigit() else value
    return found
