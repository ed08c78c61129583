"""Two baselines beside each other: level by level where both cover the load, or why not at all.

Runs under another sampling, other prompts or other lengths are not compared: what differs then
is the load, not the server.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specgauge.baseline.schema import BaselineFile, Workload, usable
from specgauge.derive.interpolate import SAME_LOAD, spread_at, tpot_at
from specgauge.derive.judge import SHAPE_FACTOR
from specgauge.model.baseline import Baseline, Curve, Level

UNMEASURED = 0.05
"""Half-width, as a share, that stands for a baseline's own where it recorded none."""

LENGTHS_DIFFER = 1.1
"""Outputs longer by more than this make a plain comparison of whole requests misleading."""

MISMATCH = "baseline_mismatch"
NO_COMMON_LOAD = "no_common_load"
LENGTH_MISMATCH = "output_length_mismatch"

_FINGERPRINT = ("temperature", "prompts_sha256", "output_tokens", "prefix_caching")
_SHAPE = ("prompt_tokens_per_request", "output_tokens_per_request")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both at one load: seconds a token, and the second over the first with its interval.

    `interpolated` says that one of them did not measure this load itself.
    """

    decode_concurrency: float
    first: float
    second: float
    ratio: float
    low: float
    high: float
    interpolated: bool

    @property
    def equal(self) -> bool:
        """Whether no difference is shown."""
        return self.low <= 1.0 <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The pairs, or the reason why there are none with the fields in which the loads differ.

    `provenance` holds the differing facts of the two servers; `e2e_ratio` is the second's mean
    end-to-end latency over the first's at the lowest common load.
    """

    reason: str | None
    mismatches: tuple[str, ...]
    provenance: Mapping[str, tuple[object, object]]
    pairs: tuple[Pair, ...]
    e2e_ratio: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool:
        """Whether the two may be compared at all."""
        return self.reason is None

    @property
    def equal(self) -> bool:
        """Whether they may be compared and no pair shows a difference."""
        return self.comparable and all(pair.equal for pair in self.pairs)


def compare(first: BaselineFile, second: BaselineFile) -> Comparison:
    """Compare two baselines."""
    a, b = (usable(one, source=name) for one, name in ((first, "first"), (second, "second")))
    mismatches = (
        *workload_mismatches(first.workload, second.workload),
        *_shape_mismatches(a.curve, b.curve),
    )
    provenance = _provenance(first, second, a, b)
    pairs = () if mismatches else _pairs(a.curve, b.curve)
    reason = MISMATCH if mismatches else None if pairs else NO_COMMON_LOAD
    e2e, warnings = _e2e(a.curve, b.curve) if pairs else (None, ())
    return Comparison(
        reason=reason,
        mismatches=mismatches,
        provenance=provenance,
        pairs=pairs,
        e2e_ratio=e2e,
        warnings=warnings,
    )


def workload_mismatches(first: Workload, second: Workload) -> tuple[str, ...]:
    """Name the parts of two loads' fingerprints that differ; what one does not say is none.

    Prompt sets of different names are different prompts, unless both digests tell more.
    """
    found = [name for name in _FINGERPRINT if _differ(getattr(first, name), getattr(second, name))]
    digests = first.prompts_sha256 is not None and second.prompts_sha256 is not None
    if not digests and _differ(first.name, second.name):
        found.append("prompts_sha256")
    return tuple(name for name in _FINGERPRINT if name in found)


def _differ(first: object, second: object) -> bool:
    return first is not None and second is not None and first != second


def _shape_mismatches(a: Curve, b: Curve) -> tuple[str, ...]:
    """Name the lengths that differ so much that it is another load."""
    found = []
    for name in _SHAPE:
        one, other = _typical(a.levels, name), _typical(b.levels, name)
        if one and other and not 1.0 / SHAPE_FACTOR <= one / other <= SHAPE_FACTOR:
            found.append(name)
    return tuple(found)


def _typical(levels: Sequence[Level], name: str) -> float | None:
    values = [value for level in levels if (value := getattr(level, name)) is not None]
    return math.fsum(values) / len(values) if values else None


def _provenance(
    first: BaselineFile, second: BaselineFile, a: Baseline, b: Baseline
) -> dict[str, tuple[object, object]]:
    """Collect every fact about the servers in which the two differ."""
    facts_a: dict[str, object] = {**a.facts, "hardware.kv_blocks": first.hardware.kv_blocks}
    facts_b: dict[str, object] = {**b.facts, "hardware.kv_blocks": second.hardware.kv_blocks}
    for facts, file in ((facts_a, first), (facts_b, second)):
        facts["model.max_model_len"] = file.model.max_model_len
        facts["method"] = file.method
    return {
        name: (facts_a[name], facts_b[name]) for name in facts_a if facts_a[name] != facts_b[name]
    }


def _pairs(a: Curve, b: Curve) -> tuple[Pair, ...]:
    """Compare at every level of either that lies in the range of both."""
    low = max(a.levels[0].decode_concurrency, b.levels[0].decode_concurrency) / SAME_LOAD
    high = min(a.top, b.top) * SAME_LOAD
    found: list[Pair] = []
    for level in sorted((*a.levels, *b.levels), key=lambda one: one.decode_concurrency):
        load = level.decode_concurrency
        repeated = found and load <= SAME_LOAD * found[-1].decode_concurrency
        if low <= load <= high and not repeated:
            found.append(_pair(a, b, load))
    return tuple(found)


def _pair(a: Curve, b: Curve, load: float) -> Pair:
    first, second = tpot_at(a, load), tpot_at(b, load)
    ratio = second / first
    half = ratio * math.hypot(_spread(a, load), _spread(b, load))
    return Pair(
        decode_concurrency=load,
        first=first,
        second=second,
        ratio=ratio,
        low=max(ratio - half, 0.0),  # times have no negative ratio
        high=ratio + half,
        interpolated=not (_measured(a, load) and _measured(b, load)),
    )


def _spread(curve: Curve, load: float) -> float:
    measured = any(level.tpot_high is not None for level in curve.levels)
    return spread_at(curve, load) if measured else UNMEASURED


def _measured(curve: Curve, load: float) -> bool:
    return any(
        1.0 / SAME_LOAD <= level.decode_concurrency / load <= SAME_LOAD for level in curve.levels
    )


def _e2e(a: Curve, b: Curve) -> tuple[float | None, tuple[str, ...]]:
    """Compare whole requests at the lowest load; warn where they are not of one length."""
    one, other = a.levels[0], b.levels[0]
    if not one.e2e or not other.e2e:
        return None, ()
    n, m = one.output_tokens_per_request, other.output_tokens_per_request
    same = n and m and 1.0 / LENGTHS_DIFFER <= n / m <= LENGTHS_DIFFER
    return other.e2e / one.e2e, (LENGTH_MISMATCH,) if n and m and not same else ()
