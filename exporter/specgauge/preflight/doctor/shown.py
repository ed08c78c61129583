"""What a page's text shows besides the engine's figures: names, adapters, the KV cache, a CPU.

Reads lines that the reader has accepted already; judges nothing.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from specgauge.engines.parse import Line, MalformedLineError, parse_line

_SUFFIX = re.compile(r"_(?:bucket|sum|count|created)$")
_OF_INTEREST = ("cache_config_info", "lora_requests_info")
_LONGEST = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The names on a page without prefix and suffix, and what stands in its info labels.

    `kv_blocks` and `kv_tokens` are sums over engines, None where the page does not say.
    """

    names: frozenset[str] = frozenset()
    adapters: frozenset[str] = frozenset()
    kv_blocks: int | None = None
    kv_tokens: int | None = None
    on_cpu: bool = False
    multiprocess: bool = False


def shown(text: str) -> Shown:
    """Read one page's text."""
    names: set[str] = set()
    infos: list[Line] = []
    has_process = False
    for line in text.splitlines():
        if line[:1] == "#" or not line.strip():
            continue
        name = line.partition("{")[0].partition(" ")[0]
        has_process = has_process or name.startswith(("process_", "python_"))
        bare = bare_name(name)
        if bare is None:
            continue
        names.add(bare)
        if bare in _OF_INTEREST:
            infos += _parsed(line)
    caches = [dict(one.labels) for one in infos if one.name.endswith(_OF_INTEREST[0])]
    blocks = [_count(one.get("num_gpu_blocks")) for one in caches]
    sizes = [_count(one.get("block_size")) for one in caches]
    tokens = [b * s if b and s else None for b, s in zip(blocks, sizes, strict=True)]
    return Shown(
        names=frozenset(names),
        adapters=frozenset(_adapters(infos)),
        kv_blocks=_sum(blocks),
        kv_tokens=_sum(tokens),
        on_cpu=any(_count(one.get("cpu_kvcache_space_bytes")) for one in caches),
        multiprocess=bool(names) and not has_process,
    )


def bare_name(name: str) -> str | None:
    """Take prefix and suffix off a vLLM sample's name; None for another's."""
    found = re.match(r"(?:ray_)?vllm[:_]", name)
    return _SUFFIX.sub("", name[found.end() :]) if found else None


def _parsed(line: str) -> Iterable[Line]:
    try:
        return (parse_line(line.rstrip("\r")),)
    except MalformedLineError:
        return ()


def _adapters(infos: Iterable[Line]) -> Iterator[str]:
    for one in infos:
        for label in ("running_lora_adapters", "waiting_lora_adapters"):
            listed = dict(one.labels).get(label, "")
            yield from (name.strip() for name in listed.split(",") if name.strip())


def _count(text: str | None) -> int | None:
    """Read a whole number; some releases write None for what they do not know."""
    usable = text is not None and text.isascii() and text.isdigit() and len(text) <= _LONGEST
    return int(text) if usable and text is not None else None


def _sum(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None
