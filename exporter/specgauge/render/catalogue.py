"""Which series there are to ask for: the sidecar's own, vLLM's, and what rules record."""

import re
from collections.abc import Iterable

from specgauge.engines.vllm import TABLE
from specgauge.model.names import ALL
from specgauge.model.quantity import Kind

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_NAMES = re.compile(r"(?<![\w:$])[a-zA-Z_][\w:]*")
_PARTS = ("bucket", "sum", "count")


def names_in(expression: str) -> set[str]:
    """Find the names in an expression that can only be ours, vLLM's or a recording rule's."""
    bare = _STRINGS.sub('""', expression)
    bare = re.sub(r"\[[^\]]*\]", "[]", bare)  # ranges and steps of subqueries
    found = (name for name in _NAMES.findall(bare) if not name.endswith(":"))
    return {name for name in found if ":" in name or name.startswith("specgauge_")}


def names_known(recorded: Iterable[str]) -> frozenset[str]:
    """Give every name that an expression may ask for."""
    return frozenset({*_sidecar(), *_engine(), *recorded})


def _sidecar() -> Iterable[str]:
    for one in ALL:
        if one.kind == "histogram":
            yield from (f"{one.name}_{part}" for part in _PARTS)
        else:
            yield one.name


def _engine() -> Iterable[str]:
    for entry in TABLE:
        for one in entry.names:
            if entry.kind is Kind.BUCKET:
                yield from (f"vllm:{one.name}_{part}" for part in _PARTS)
            elif entry.kind is Kind.COUNTER:
                yield f"vllm:{one.name}_total"
            else:
                yield f"vllm:{one.name}"
