"""Classes of traffic, pool by pool; classes are never averaged together."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from specgauge.derive.statistics import Estimate, ratio_estimate
from specgauge.report.grid import Answers
from specgauge.report.growth import Stretch, stretches
from specgauge.report.questions import CLASSES
from specgauge.report.servers import Key, clean, key_of
from specgauge.report.speed import CONFIDENCE

SPECULATIVE, STANDARD = "speculative", "standard"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """One class in one pool. Times are in seconds; `length` is that of acceptance."""

    pool: str
    requests: float
    errors: float
    retries: float
    tpot: Estimate | None
    e2e: float | None
    length: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFigures:
    """One class: its pools, and how many times as fast tokens came from the speculative one.

    `ratio` is the time per token of the standard pool over that of the speculative one, as routers
    saw it; it holds nothing equal but the class. None where one of them answered nothing.
    """

    cluster: str
    name: str
    pools: tuple[PoolFigures, ...]
    ratio: Estimate | None


def classes(answers: Answers, cluster_label: str) -> tuple[ClassFigures, ...]:
    """Take what routers counted, by cluster and class."""
    levels: dict[Key, dict[str, dict[int, float]]] = defaultdict(dict)
    for name in CLASSES:
        for line in answers.of(name):
            levels[key_of(line.labels)][name] = clean(line)
    found: dict[tuple[str, str], dict[str, list[Stretch]]] = defaultdict(dict)
    for key in sorted(levels, key=sorted):
        labels = dict(key)
        place = labels.get(cluster_label, ""), labels.get("class", "")
        found[place].setdefault(labels.get("pool", ""), []).extend(stretches(levels[key]))
    return tuple(_class(cluster, name, pools) for (cluster, name), pools in sorted(found.items()))


def _class(cluster: str, name: str, pools: Mapping[str, Sequence[Stretch]]) -> ClassFigures:
    figures = {pool: _pool(pool, grown) for pool, grown in sorted(pools.items())}
    ours, theirs = figures.get(SPECULATIVE), figures.get(STANDARD)
    return ClassFigures(
        cluster=cluster,
        name=name,
        pools=tuple(figures.values()),
        ratio=quotient(theirs.tpot, ours.tpot) if ours and theirs else None,
    )


def _pool(pool: str, grown: Sequence[Stretch]) -> PoolFigures:
    told = [one for one in grown if one.growth.get("class_decode_tokens", 0.0) > 0.0]
    drafts, answered = _sum(grown, "class_drafts"), _sum(grown, "class_e2e_count")
    return PoolFigures(
        pool=pool,
        requests=_sum(grown, "class_requests"),
        errors=_sum(grown, "class_errors"),
        retries=_sum(grown, "class_retries"),
        tpot=ratio_estimate(
            [one.growth.get("class_decode_seconds", 0.0) for one in told],
            [one.growth["class_decode_tokens"] for one in told],
            confidence=CONFIDENCE,
        )
        if told
        else None,
        e2e=_sum(grown, "class_e2e_sum") / answered if answered else None,
        length=1.0 + _sum(grown, "class_accepted_tokens") / drafts if drafts else None,
    )


def quotient(top: Estimate | None, bottom: Estimate | None) -> Estimate | None:
    """Divide two independent estimates; the interval adds their relative widths as squares."""
    if top is None or bottom is None or not top.value or not bottom.value:
        return None
    value = top.value / bottom.value
    if top.high is None or bottom.high is None:
        return Estimate(value=value, low=None, high=None)
    width = math.hypot(top.high / top.value - 1.0, bottom.high / bottom.value - 1.0)
    return Estimate(value=value, low=value * math.exp(-width), high=value * math.exp(width))


def _sum(grown: Iterable[Stretch], name: str) -> float:
    return math.fsum(one.growth.get(name, 0.0) for one in grown)
