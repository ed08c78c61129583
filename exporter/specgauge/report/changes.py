"""A period beside the one before it; judges nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

from specgauge.report.figures import GroupFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One figure then and now; None where it was not known."""

    figure: str
    before: float | None
    now: float | None

    @property
    def change(self) -> float | None:
        """How much it grew, as it is."""
        return None if self.before is None or self.now is None else self.now - self.before


def changes(now: GroupFigures, before: GroupFigures | None) -> tuple[Change, ...]:
    """Set the headline figures of a group beside those of the period before."""
    then = dict(_headlines(before)) if before is not None else {}
    return tuple(
        Change(figure=name, before=then.get(name), now=value) for name, value in _headlines(now)
    )


def _headlines(group: GroupFigures) -> Iterator[tuple[str, float | None]]:
    yield "data_share", group.coverage.share
    yield "acceptance_ratio", group.acceptance.ratio
    yield "acceptance_length", group.acceptance.length
    yield "speedup_ratio", group.speed.speedup.value if group.speed.speedup else None
    yield "e2e_p50_seconds", group.latency.p50
    yield "e2e_speedup_ratio", group.latency.matched
    yield "net_saved_seconds", group.speed.worth.net_seconds if group.speed.speedup else None
    yield "gpu_hours", group.gpu_hours if group.speed.speedup else None
    yield "fallbacks", float(group.fallback_count)
