"""From a sample's name and labels to the canonical series it is; one lookup, no arithmetic.

`vllm:` and `vllm_` are the same prefix, Ray's `ray_` may stand before it, and a counter counts
with or without `_total`. Labels that no dialect knows (`pid`, `ReplicaId`, ...) stay with the
series as its origin, so that resets and duplicates are judged a series at a time.
"""

import math
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from specgauge.engines.vllm import TABLE, Entry
from specgauge.model.quantity import Cell, Kind, Measure, Part, Quantity, Series

_PREFIX = re.compile(r"(ray_)?vllm[:_]")
_MODEL = "model_name"
_ENGINE = "engine"
_NEUTRAL = re.compile(r"(python|process)_|http_(requests|request|response)_")
_HISTOGRAM = {"_bucket": Kind.BUCKET, "_sum": Kind.SUM, "_count": Kind.COUNT}
_ADDING_TYPES = frozenset({"counter", "histogram", "summary"})
_MOST_WORDS = 100
"""So many reasons or codes are told apart; no release has a tenth of them."""

_POSITION = re.compile(r"[0-9]{1,4}")

Origin = tuple[tuple[str, str], ...]
"""The labels of a series that no dialect knows, in order."""


class Unread(Enum):
    """A sample that no quantity is read from."""

    NEUTRAL = "neutral"
    """Of a process or a web server; says nothing about an engine, nor of another one."""
    FOREIGN = "foreign"
    """Of something else that exports metrics."""
    ENGINE = "engine"
    """Of the engine, but nothing that we use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meaning:
    entry: Entry
    kind: Kind
    rank: int


def _meanings() -> Mapping[str, _Meaning]:
    """Every sample name that the table's names give rise to, without the prefix."""
    found: dict[str, _Meaning] = {}
    for entry in TABLE:
        for place, name in enumerate(entry.names):
            if entry.kind is Kind.BUCKET:
                for suffix, kind in _HISTOGRAM.items():
                    found[name.name + suffix] = _Meaning(entry=entry, kind=kind, rank=place)
            elif entry.kind is Kind.COUNTER:
                found[name.name + "_total"] = _Meaning(entry=entry, kind=entry.kind, rank=0)
                found[name.name] = _Meaning(entry=entry, kind=entry.kind, rank=1)
            else:
                found[name.name] = _Meaning(entry=entry, kind=entry.kind, rank=place)
    return found


_MEANINGS = _meanings()


class Catalogue:
    """The series and cells met so far, each made once; grows with the labels of one target."""

    def __init__(self) -> None:
        self._series: dict[tuple[object, ...], Series] = {}
        self._cells: dict[tuple[object, ...], Cell] = {}
        self._words: dict[Quantity, set[str]] = {}

    def identify(
        self, name: str, labels: Mapping[str, str], family_type: str | None
    ) -> Series | Unread:
        """Say which series a sample belongs to; `family_type` is its TYPE line's, if any."""
        prefix = _PREFIX.match(name)
        if not prefix:
            return self._outside(name, labels)
        rest = name[prefix.end() :]
        meaning = _MEANINGS.get(rest)
        if meaning:
            return self._listed(meaning, name, labels)
        if rest.endswith("_created"):
            return self._other(Kind.CREATED, rest, name, labels)
        if family_type in _ADDING_TYPES and not rest.endswith("_sum"):
            # Not in the table, but its fall proves a restart as well as any other's.
            return self._other(Kind.COUNTER, rest, name, labels)
        return Unread.ENGINE

    def cell(self, measure: Measure, model: str, engine: str) -> Cell:
        """Give the one cell of a measure, model and engine."""
        key = (measure, model, engine)
        found = self._cells.get(key)
        if found is None:
            found = self._cells[key] = Cell(measure=measure, model=model, engine=engine)
        return found

    def __len__(self) -> int:
        return len(self._series)

    def keep(self, live: AbstractSet[object]) -> None:
        """Forget every series that is not among these; cells stay."""
        self._series = {key: series for key, series in self._series.items() if series in live}

    def _outside(self, name: str, labels: Mapping[str, str]) -> Series | Unread:
        if name == "http_requests_total":
            code = self._word(Quantity.HTTP_REQUESTS, labels.get("status", labels.get("code", "")))
            return self._server_wide((Quantity.HTTP_REQUESTS, Kind.COUNTER, code), name, labels)
        if name == "process_start_time_seconds":
            return self._server_wide((Quantity.PROCESS_START, Kind.CREATED, ""), name, labels)
        return Unread.NEUTRAL if _NEUTRAL.match(name) else Unread.FOREIGN

    def _listed(self, meaning: _Meaning, name: str, labels: Mapping[str, str]) -> Series | Unread:
        entry, kind = meaning.entry, meaning.kind
        part: Part = ""
        consumed = frozenset[str]()
        if kind is Kind.BUCKET:
            consumed = frozenset({"le"})
            bound = _bound(labels.get("le", ""))
            if bound is None:
                return Unread.ENGINE
            part = bound
        elif entry.part == "position":
            consumed = frozenset({"position"})
            position = _position(labels.get("position", ""))
            if position is None:
                return Unread.ENGINE
            part = position
        elif entry.part:
            word = labels.get(entry.part, "")
            part = self._word(entry.quantity, word)
            # What is taken as another word keeps its own: two of those are no duplicates.
            consumed = frozenset({entry.part}) if part == word else frozenset()
        elif entry.quantity is Quantity.DIFFUSION:
            part = name
        measure = entry.quantity, kind, part
        cell, origin = self._place(measure, labels, consumed)
        return self._make(cell, name, origin, rank=meaning.rank)

    def _word(self, quantity: Quantity, word: str) -> str:
        """Take a label's value as it is, but of very many different ones the rest as one."""
        words = self._words.setdefault(quantity, set())
        if word in words or len(words) < _MOST_WORDS:
            words.add(word)
            return word
        return "other"

    def _other(self, kind: Kind, rest: str, name: str, labels: Mapping[str, str]) -> Series:
        cell, origin = self._place((Quantity.OTHER, kind, rest), labels)
        return self._make(cell, name, origin)

    def _server_wide(self, measure: Measure, name: str, labels: Mapping[str, str]) -> Series:
        """Make a series that is of the whole server, not of an engine."""
        return self._make(self.cell(measure, "", ""), name, tuple(sorted(labels.items())))

    def _place(
        self, measure: Measure, labels: Mapping[str, str], consumed: frozenset[str] = frozenset()
    ) -> tuple[Cell, Origin]:
        """Find the cell that labels name, and what they say beyond that."""
        known = consumed | {_MODEL, _ENGINE}
        origin = tuple(sorted((k, v) for k, v in labels.items() if k not in known))
        return self.cell(measure, labels.get(_MODEL, ""), labels.get(_ENGINE, "")), origin

    def _make(self, cell: Cell, name: str, origin: Origin, *, rank: int = 0) -> Series:
        quantity, kind, _ = cell.measure
        key = (cell, rank, origin, name if quantity is Quantity.OTHER else "")
        found = self._series.get(key)
        if found is None:
            found = self._series[key] = Series(
                cell=cell, kind=kind, quantity=quantity, name=name, rank=rank, origin=origin
            )
        return found


def _bound(text: str) -> float | None:
    """Read a bucket's upper bound as a number, so that "1" and "1.0" are one bucket."""
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound


def _position(text: str) -> int | None:
    return int(text) if _POSITION.fullmatch(text) else None
