"""Who was watched: answers sorted by group, and within it by server; reckons nothing but growth.

A group is one model of one cluster. Groups are never merged.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from specgauge.model.series_name import MODEL, TARGET
from specgauge.report.grid import Answers, Line
from specgauge.report.growth import Stretch, stretches
from specgauge.report.questions import COUNTERS, GAUGES, QUANTITY

Key = frozenset[tuple[str, str]]
Points = Mapping[int, float]

_TOGETHER = (("draft_tokens", "accepted_tokens"), ("baseline_seconds", "covered_seconds"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupName:
    """What a group is called; `cluster` is empty where series have no such label."""

    cluster: str
    model_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server and model: how its counters grew, its gauges, and where it had values at all.

    `place` are its labels without the model, by which series of whole servers belong to it.
    `not_numbers` counts points that were left out since a value there was none.
    """

    place: Mapping[str, str]
    grown: tuple[Stretch, ...]
    present: frozenset[int]
    gauges: Mapping[str, Points] = field(default_factory=dict)
    not_numbers: int = 0

    @property
    def name(self) -> str:
        """What it is called, for people."""
        parts = (self.place.get("instance"), self.place.get(TARGET))
        return " ".join(one for one in parts if one) or "server"

    @property
    def drafted(self) -> bool:
        """Whether it drafted anything; else nothing of it tells of speculation."""
        return any(one.growth.get("draft_tokens", 0.0) > 0.0 for one in self.grown)

    @property
    def resets(self) -> int:
        """How often its counters began anew."""
        return sum(one.reset for one in self.grown)


def groups_of(answers: Answers, cluster_label: str) -> dict[GroupName, tuple[Server, ...]]:
    """Sort what was answered about servers by the group that they are of."""
    counted: dict[Key, dict[str, Points]] = defaultdict(dict)
    for name in COUNTERS:
        for line in answers.of(name):
            counted[key_of(line.labels)][name] = line.points
    shown: dict[Key, dict[str, Points]] = defaultdict(dict)
    for name in GAUGES:
        for line in answers.of(name):
            shown[key_of(line.labels)][name] = line.points
    for line in answers.of("mismatch"):
        key = key_of({name: value for name, value in line.labels.items() if name != "field"})
        shown[key][f"mismatch {line.labels.get('field', '')}"] = line.points
    found: dict[GroupName, list[Server]] = defaultdict(list)
    for key in sorted(counted, key=sorted):
        labels = dict(key)
        group = GroupName(cluster=labels.get(cluster_label, ""), model_name=labels.get(MODEL, ""))
        found[group].append(_server(labels, counted[key], shown.get(key, {})))
    ordered = sorted(found, key=lambda one: (one.cluster, one.model_name))
    return {one: tuple(found[one]) for one in ordered}


def key_of(labels: Mapping[str, str]) -> Key:
    """Name a series by its own labels."""
    return frozenset((name, value) for name, value in labels.items() if name != QUANTITY)


def belongs(labels: Mapping[str, str], servers: Iterable[Server]) -> bool:
    """Tell whether a series of a whole server is of one of these."""
    return any(
        all(labels.get(name) == value for name, value in one.place.items()) for one in servers
    )


def clean(line: Line) -> dict[int, float]:
    """Drop what is not a finite number."""
    return {at: value for at, value in line.points.items() if math.isfinite(value)}


def _server(
    labels: Mapping[str, str], levels: Mapping[str, Points], gauges: Mapping[str, Points]
) -> Server:
    """Take a server's series; a point at which one is no number is left out of all of them.

    Some servers keep nothing there, so that one of two that are always told together is missing.
    """
    bad = {at for points in levels.values() for at, one in points.items() if not math.isfinite(one)}
    for one, other in _TOGETHER:
        bad |= levels.get(one, {}).keys() ^ levels.get(other, {}).keys()
    kept = {
        name: {at: one for at, one in points.items() if at not in bad}
        for name, points in levels.items()
    }
    return Server(
        place={name: value for name, value in labels.items() if name != MODEL},
        grown=tuple(stretches(kept)),
        present=frozenset(at for points in kept.values() for at in points),
        gauges={
            name: {at: one for at, one in points.items() if math.isfinite(one)}
            for name, points in gauges.items()
        },
        not_numbers=len(bad),
    )
