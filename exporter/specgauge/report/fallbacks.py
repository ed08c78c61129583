"""Fallbacks of guards as events: when each began, why, how long speculation was off; no averages.

The state as scraped tells when, to the second where the guard's own clock is known; the counter
of transitions tells why, and of those that came and went between two scrapes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from specgauge.model.guard import Phase
from specgauge.report.grid import MINUTE, Answers, Period
from specgauge.report.servers import Key, clean, key_of

_OFF = frozenset({Phase.FALLBACK, Phase.LATCHED, Phase.PROBING})
_DOWN = frozenset({Phase.FALLBACK, Phase.LATCHED})
_APART = {"state", "from", "to", "reason"}
_BLIND = 5
"""Minutes without a value of the state after which it is no longer known to have gone on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """One time that a guard turned speculation off, until it was active again or overridden.

    Times are Unix seconds. `reason` is None where no transition was counted for it. `ended` is
    None where it went on at the end, or nobody knows; `seconds` is how long it was seen, None where
    it was never seen: then it began after `after`, and by `began`. `before` says that it had begun
    before the period.
    """

    guard: Mapping[str, str]
    began: float
    ended: float | None
    seconds: float | None
    reason: str | None
    after: float | None = None
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    state: str
    start: float
    seen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    """A transition that was counted after one time and by another, as scraped."""

    after: float
    end: float
    reason: str


def fallbacks(answers: Answers) -> tuple[Fallback, ...]:
    """List every fallback of every guard, in the order in which they began."""
    states: dict[Key, dict[int, str]] = defaultdict(dict)
    for line in answers.of("state"):
        for at in line.points:
            states[_guard(line.labels)][at] = line.labels.get("state", "")
    since = {_guard(line.labels): clean(line) for line in answers.of("since")}
    watched = {_guard(line.labels): line.points for line in answers.of("watched")}
    causes: dict[Key, list[_Cause]] = defaultdict(list)
    for line in answers.of("transitions"):
        if _falls(line.labels):
            key = _guard(line.labels)
            reason = line.labels.get("reason", "")
            causes[key] += _causes(reason, clean(line), watched.get(key, {}), answers.period)
    found: list[Fallback] = []
    for key in sorted({*states, *causes}, key=sorted):
        runs = list(_runs(states.get(key, {}), since.get(key, {}), answers.period))
        seen = list(_episodes(dict(key), runs, answers.period))
        found += _explained(dict(key), seen, causes.get(key, []), slack=answers.period.step)
    return tuple(sorted(found, key=lambda one: one.began))


def _guard(labels: Mapping[str, str]) -> Key:
    return key_of({name: value for name, value in labels.items() if name not in _APART})


def _falls(labels: Mapping[str, str]) -> bool:
    """Tell whether a transition is a fallback: a probe that failed goes on with the same one."""
    return labels.get("to") in _DOWN and labels.get("from") not in _OFF


def _causes(
    reason: str, points: Mapping[int, float], watched: Collection[int], period: Period
) -> Iterator[_Cause]:
    """Find in which cell a transition was counted.

    Its counter is not there before the first: a value that appears where the guard was `watched`
    before is all new. Where it was not, nobody knows when that was counted.
    """
    level, before = 0.0, -1
    for at in sorted(points):
        value = points[at]
        appeared = at - before > 1 and any(before < cell < at for cell in watched)
        if before < 0 and not appeared:
            level, before = value, at
            continue
        grown = value if appeared or value < level else value - level
        if grown:
            seen = max((cell for cell in watched if cell < at), default=before)
            after = period.cells.time(max(seen, before))
            cause = _Cause(after=after, end=period.cells.time(at), reason=reason)
            yield from (cause for _ in range(round(grown)))
        level, before = value, at


def _runs(states: Mapping[int, str], since: Mapping[int, float], period: Period) -> Iterator[_Run]:
    """Put equal states that follow each other together; `seen` is when it was last so."""
    run: _Run | None = None
    last = 0
    for at in sorted(states):
        now, state = period.minutes.time(at), states[at]
        start = min(since.get(at, now), now)
        same = run is not None and run.state == state and at - last <= _BLIND
        if run is not None and not (same and start <= run.seen):
            yield run
            run = None
        run = replace(run, seen=now) if run else _Run(state=state, start=start, seen=now)
        last = at
    if run is not None:
        yield run


def _episodes(guard: Mapping[str, str], runs: Sequence[_Run], period: Period) -> Iterator[Fallback]:
    """Join fallback, probes and latch into one event; what comes after it says when it ended."""
    began: float | None = None
    seen = 0.0
    for run in (*runs, None):
        if run is not None and began is not None and run.start - seen > _BLIND * MINUTE:
            yield _event(guard, began, None, seen, period)
            began = None
        if run is not None and (run.state in _DOWN or (began is not None and run.state in _OFF)):
            began = run.start if began is None else began
        elif began is not None:
            yield _event(guard, began, run.start if run else None, seen, period)
            began = None
        seen = run.seen if run else seen


def _event(
    guard: Mapping[str, str], began: float, ended: float | None, seen: float, period: Period
) -> Fallback:
    last = seen if ended is None else ended
    return Fallback(
        guard=guard,
        began=began,
        ended=ended,
        seconds=max(last - max(began, period.start), 0.0),
        reason=None,
        before=began < period.start,
    )


def _explained(
    guard: Mapping[str, str],
    seen: Iterable[Fallback],
    causes: Iterable[_Cause],
    *,
    slack: float,
) -> Iterator[Fallback]:
    """Give each event its reason, and make events of what was counted and never seen.

    A scrape comes up to `slack` seconds after what it tells.
    """
    left = sorted(causes, key=lambda one: one.end)
    for one in seen:
        near = [cause for cause in left if cause.after - slack <= one.began <= cause.end]
        if near and not one.before:
            left.remove(near[0])
            yield replace(one, reason=near[0].reason)
        else:
            yield one
    for cause in left:
        yield Fallback(
            guard=guard,
            began=cause.end,
            ended=None,
            seconds=None,
            reason=cause.reason,
            after=cause.after,
        )
