"""Which names of vLLM there are in a release, which have changed, and what to ask for instead.

Read off the dialect table and the file beside this module; looks at no server.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from specgauge.engines.vllm import NEWEST_RELEASE, TABLE, Span
from specgauge.model.quantity import Dialect, Kind, Quantity


class Status(StrEnum):
    """What a name is to a server."""

    OK = "ok"
    V0_ONLY = "v0_only"
    UNKNOWN = "unknown"
    RENAMED = "renamed"
    TOO_NEW = "too_new"
    OTHER_MEANING = "other_meaning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What is known of the server that is to be asked; nothing known means the newest V1."""

    dialect: Dialect | None = None
    release: str | None = None
    names: AbstractSet[str] = frozenset()

    @property
    def engine(self) -> str:
        """The generation whose names count."""
        return "V0" if self.dialect is Dialect.VLLM_V0 else "V1"


_ONE_NAME = re.compile(r"^vllm:\w+(?=$| \()")
_PARTS = ("_bucket", "_sum", "_count", "_created")
_READ_OTHERWISE = frozenset(
    {
        "spec_decode_num_draft_tokens",
        "spec_decode_num_accepted_tokens",
        "spec_decode_num_emitted_tokens",
        "generation_tokens",
    }
)
"""Names of which V0 means another thing."""


def status_of(name: str, server: Server) -> tuple[Status, str]:
    """Say what a name (without prefix) is to a server, and what to ask for instead if anything."""
    spelled, part = _without_part(name)
    base = _base(spelled)
    if base in {_base(one) for one in server.names}:
        return _of_page(base, server)
    spans = _spans().get(base)
    if spans is None:
        known = base in _table()["others"].split() or base.startswith(tuple(_table()["families"]))
        return (Status.OK, "") if known else (Status.UNKNOWN, _instead(base))
    found = _by_release(base, spans, server)
    if found is None:
        return _spelling(base, spelled, part)
    status, instead = found
    return status, _ONE_NAME.sub(rf"\g<0>{part}", instead) if part else instead


def _by_release(base: str, spans: Sequence[Span], server: Server) -> tuple[Status, str] | None:
    """Hold a known name against generation and release; None where it should be there."""
    own = [span for span in spans if span.engine == server.engine]
    if not own:
        v0_only = server.engine == "V1"
        return (Status.V0_ONLY if v0_only else Status.TOO_NEW), _instead(base)
    release = release_order(server.release or NEWEST_RELEASE)
    shown = {_base(one) for one in server.names}
    same = _same(base)
    other = next((one for one in same if one in shown), None)
    too_new = all(release_order(span.first) > release for span in own)
    gone = all(release_order(span.last or NEWEST_RELEASE) < release for span in own)
    if too_new or (other is not None and not gone and _is_preferred(base, other)):
        return Status.TOO_NEW, _named(other or next(iter(same), None))
    if gone or other is not None:
        return Status.RENAMED, _instead(base) or _named(other)
    return None


def _is_preferred(base: str, other: str) -> bool:
    """Tell whether a name is the later one of two."""
    names = next(names for names in _alike() if base in names)
    return names.index(base) < names.index(other)


def _base(name: str) -> str:
    """Take _total off a counter's name; one histogram has it in its own."""
    return name if name in _spans() else name.removesuffix("_total")


def _of_page(base: str, server: Server) -> tuple[Status, str]:
    """Judge a name that the page has."""
    if server.dialect is Dialect.VLLM_V0 and base in _READ_OTHERWISE:
        return Status.OTHER_MEANING, _V0_INSTEAD.get(base, "")
    return Status.OK, ""


_V0_INSTEAD = {
    "spec_decode_num_accepted_tokens": "vllm:spec_decode_draft_acceptance_rate",
    "spec_decode_num_draft_tokens": "vllm:spec_decode_draft_acceptance_rate",
    "spec_decode_num_emitted_tokens": "vllm:spec_decode_efficiency",
    "generation_tokens": "vllm:request_generation_tokens_sum",
}


def _spelling(base: str, spelled: str, part: str) -> tuple[Status, str]:
    """Refuse a counter without _total, and a histogram without one of its parts."""
    kind = _kinds().get(base)
    if kind is Kind.COUNTER and not part and spelled == base:
        return Status.RENAMED, f"vllm:{base}_total"
    if kind is Kind.BUCKET and not part:
        return Status.RENAMED, f"vllm:{base}_bucket, {base}_sum or {base}_count"
    return Status.OK, ""


def _without_part(name: str) -> tuple[str, str]:
    for part in _PARTS:
        if name.endswith(part):
            return name.removesuffix(part), part
    return name, ""


def _instead(base: str) -> str:
    told: str = _table()["instead"].get(base, "")
    return " ".join(told.split())


def _named(base: str | None) -> str:
    return "" if base is None else f"vllm:{base}"


def _same(base: str) -> tuple[str, ...]:
    """Give the other names of the same quantity, the preferred first."""
    return tuple(name for names in _alike() if base in names for name in names if name != base)


@cache
def _alike() -> tuple[tuple[str, ...], ...]:
    """List the quantities that have had several names; diffusion's are several quantities."""
    several = [entry for entry in TABLE if entry.quantity is not Quantity.DIFFUSION]
    return tuple(tuple(one.name for one in entry.names) for entry in several if entry.names[1:])


@cache
def _spans() -> Mapping[str, tuple[Span, ...]]:
    found = {one.name: one.spans for entry in TABLE for one in entry.names}
    for name, spans in _table()["spans"].items():
        found[name] = tuple(Span(engine=e, first=str(f), last=last) for e, f, last in spans)
    return found


@cache
def _kinds() -> Mapping[str, Kind]:
    found = {one.name: entry.kind for entry in TABLE for one in entry.names}
    return found | dict.fromkeys(_table()["counters"].split(), Kind.COUNTER)


@cache
def _table() -> Mapping[str, Any]:
    text = (files(__package__) / "names.yaml").read_text(encoding="utf-8")
    read: Mapping[str, Any] = yaml.safe_load(text)
    return read


def known_release(text: str | None) -> str | None:
    """Give a release as one; None where it is none, or a build that tells no release.

    A build of a working copy without tags calls itself 0.1.dev.
    """
    found = re.match(r"v?(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)(?![\w-]*/)", text or "")
    if found is None or text is None or text.lstrip("v").startswith("0.1.dev"):
        return None
    return text.removeprefix("v")


def release_order(release: str) -> tuple[int, ...]:
    """Sort 0.10.0 behind 0.9.2; a build's suffix ("0.32.0+cpu") says nothing."""
    parts = release.partition("+")[0].replace("post", "").split(".")
    return tuple(int(part) if part.isdigit() else 0 for part in parts)
