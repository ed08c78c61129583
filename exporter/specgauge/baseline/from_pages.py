"""Pages of a server without speculation, in pairs or as a timeline, to a baseline's levels.

The pages come in read and with their times; nothing here opens a file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specgauge.baseline.bins import fill, gather, level, levels
from specgauge.baseline.observation import Look, Observation, Unfit, follow
from specgauge.baseline.schema import LevelRecord
from specgauge.derive.accumulate import open_ledger
from specgauge.derive.pieces import is_evidence, usual_spacing
from specgauge.errors import BaselineError
from specgauge.model.derived import Speculation
from specgauge.model.ledger import Interval
from specgauge.model.quantity import Page

_BECAUSE: Mapping[Unfit, str] = {
    Unfit.RESET: "the engine restarted between them, or they are in the wrong order",
    Unfit.NO_TOKENS: "no tokens were generated between them",
    Unfit.SPECULATING: "speculation was active; a baseline needs a server started without it",
    Unfit.HIDDEN: "several tokens came a step; is speculation on that the page does not count?",
    Unfit.NOT_EXPOSED: "the page lacks what the time per token is made of",
}
_REFUSED = (Unfit.SPECULATING, Unfit.HIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePair:
    """Two pages of one server, `seconds` apart, at a steady load; `place` is for messages."""

    before: Page
    after: Page
    seconds: float
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPage:
    """A page of a timeline, at `time` seconds."""

    time: float
    page: Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What pages gave: whose they are, the levels, and what a person should know of them."""

    model: str
    page: Page
    levels: tuple[LevelRecord, ...]
    notes: tuple[str, ...] = ()


def from_pairs(pairs: Sequence[PagePair], *, model: str | None = None) -> Learned:
    """Make a level of each pair; raises BaselineError naming every pair that gives none."""
    problems: list[str] = []
    notes: list[str] = []
    names: set[str] = set()
    found: list[LevelRecord] = []
    for pair in pairs:
        try:
            name, look = _look(pair, model)
        except BaselineError as problem:
            problems += problem.problems
            continue
        names.add(name)
        if isinstance(look.found, Observation):
            found.append(level([look.found], filling=fill([look.found])))
            notes += _notes(look, pair.place)
        else:
            problems.append(f"{pair.place}: {_reason(look)}")
    if len(names) > 1:
        problems.append(f"the pairs are of different models: {', '.join(sorted(names))}")
    if problems or not found:
        raise BaselineError(problems or ["no pages are given"])
    found.sort(key=lambda one: one.decode_concurrency)
    return Learned(model=names.pop(), page=pairs[-1].after, levels=tuple(found), notes=tuple(notes))


def from_timeline(pages: Sequence[TimedPage], *, place: str, model: str | None = None) -> Learned:
    """Gather a timeline's intervals by load; raises BaselineError where they give no level."""
    if len(pages) < 2:  # noqa: PLR2004 - an interval has two ends
        raise BaselineError([f"{place}: a baseline needs at least two pages"])
    ledger = open_ledger(pages[0].page, pages[0].time)
    seen: list[tuple[Interval, Look]] = []
    name = pick_model(pages[-1].page, model, place)
    for one in pages[1:]:
        ledger, interval, looks = follow(ledger, one.page, one.time)
        if name in looks:
            seen.append((interval, looks[name]))
    refused = [look.found for _, look in seen if look.found in _REFUSED]
    if refused:
        text = f"{len(refused)} of {len(seen)} intervals: {_BECAUSE[Unfit(refused[0])]}"
        raise BaselineError([f"{place}: {text}"])
    usual = usual_spacing([interval.seconds for interval, _ in seen])
    steady = [look for interval, look in seen if is_evidence(interval, usual)]
    learnt = [look.found for look in steady if isinstance(look.found, Observation)]
    made, left_out = levels(gather({}, learnt))
    if not made:
        why = left_out or (f"no interval can be used: {_counted([look for _, look in seen])}",)
        raise BaselineError([f"{place}: {line}" for line in why])
    notes = (*left_out, *_once(steady, place))
    return Learned(model=name, page=pages[-1].page, levels=made, notes=notes)


def pick_model(page: Page, wanted: str | None, place: str) -> str:
    """Pick the one model of a page, or the one that is wanted; raises BaselineError otherwise."""
    names = [name for name in page.layout.engines if name]
    if wanted is not None and wanted in names:
        return wanted
    if not names:
        raise BaselineError([f"{place}: the server has served nothing yet"])
    if wanted is not None:
        raise BaselineError([f"{place}: no model {wanted!r}; there is {', '.join(names)}"])
    if len(names) > 1:
        raise BaselineError([f"{place}: several models: {', '.join(names)}; choose with --model"])
    return names[0]


def _look(pair: PagePair, model: str | None) -> tuple[str, Look]:
    name = pick_model(pair.after, model, pair.place)
    if pair.seconds <= 0:
        raise BaselineError([f"{pair.place}: the time between two pages must be above 0"])
    _, _, looks = follow(open_ledger(pair.before, 0.0), pair.after, pair.seconds)
    return name, looks[name]


def _reason(look: Look) -> str:
    found = look.found
    assert isinstance(found, Unfit)
    absent = look.derived.absent.get("tpot_seconds")
    detail = f" (tpot_seconds: {absent})" if found is Unfit.NOT_EXPOSED and absent else ""
    return f"{_BECAUSE[found]}{detail}"


def _notes(look: Look, place: str) -> list[str]:
    assert isinstance(look.found, Observation)
    found = _once([look], place)
    if look.found.uneven:
        found.append(f"{place}: uneven_load: the load came or went between the pages")
    return found


def _once(looks: Sequence[Look], place: str) -> list[str]:
    """Note, once, that the server was started with speculation, though none happened."""
    if any(look.derived.speculation is Speculation.INACTIVE for look in looks):
        text = "speculation is configured but drafted nothing; a server without it is faster"
        return [f"{place}: {text}"]
    return []


def _counted(looks: Sequence[Look]) -> str:
    reasons = [str(look.found) for look in looks if isinstance(look.found, Unfit)]
    counts = {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
    return ", ".join(f"{number} {reason}" for reason, number in counts.items()) or "all are gaps"
