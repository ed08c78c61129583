"""Pages of two pools from files, as the cells of a comparison; drives nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgauge.baseline.from_pages import TimedPage
from specgauge.cli.baseline.reading import read_pages, read_pairs
from specgauge.cli.compare.options import loads_of
from specgauge.errors import NoVerdictError, UsageError
from specgauge.model.quantity import Page
from specgauge.preflight.compare.bouts import CellKey, LoadLevel, Role, Side
from specgauge.preflight.compare.cells import Cell
from specgauge.preflight.compare.fields import Likeness, all_facts, likeness
from specgauge.preflight.compare.from_pages import Seen, cell_of, see_pair, see_timeline
from specgauge.preflight.compare.plan import ranked

_LEAST_LOAD = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The cells that pages gave, and whose they are."""

    cells: tuple[Cell, ...]
    facts: Mapping[Side, Mapping[str, object]]
    likeness: Likeness
    speculates: Mapping[Side, bool]


def read_recorded(options: Mapping[str, Any]) -> Recorded:
    """Read what the command line names, pair by pair or slice by slice."""
    one, two = options["baseline_page"], options["speculative_page"]
    first, second = options["baseline_timeline"], options["speculative_timeline"]
    if bool(one) != bool(two) or bool(first) != bool(second) or bool(one) == bool(first):
        raise UsageError(
            "give --baseline-page and --speculative-page, equally often, or "
            "--baseline-timeline and --speculative-timeline"
        )
    if one:
        return _of_pairs(one, two, options)
    return _of_timelines(first, second, options)


def _of_pairs(
    one: Sequence[tuple[Path, Path, float]],
    two: Sequence[tuple[Path, Path, float]],
    options: Mapping[str, Any],
) -> Recorded:
    if len(one) != len(two):
        told = f"{len(one)} and {len(two)}"
        raise UsageError(f"--baseline-page and --speculative-page: {told}; give them equally often")
    pairs, others = read_pairs(one), read_pairs(two)
    model = options["model"]
    rounds = [(see_pair(a, model), see_pair(b, model)) for a, b in zip(pairs, others, strict=True)]
    loads = _loads(options, rounds)
    keys = [CellKey(load=load) for load in loads]
    cells = [
        cell_of(key, [pair for pair, other in zip(rounds, keys, strict=True) if other == key])
        for key in sorted(set(keys), key=lambda key: key.load.concurrency)
    ]
    return _recorded(cells, rounds, pairs[-1].after, others[-1].after)


def _loads(options: Mapping[str, Any], rounds: Sequence[tuple[Seen, Seen]]) -> list[LoadLevel]:
    """Name the load of every pair: as the command line says, else by what was in decode."""
    told = options["concurrency"]
    if not told and not options["load"]:
        found = [round(max(a.concurrency or 0.0, _LEAST_LOAD), 3) for a, _ in rounds]
        by_load = {one.concurrency: one for one in ranked(sorted(set(found)))}
        return [by_load[load] for load in found]
    levels = {one.concurrency: one for one in loads_of(options)}
    if told:
        asked = [float(part) for part in told.split(",") if part.strip()]
    else:
        asked = [
            float(part.partition("=")[2]) for part in options["load"].split(",") if part.strip()
        ]
    if len(asked) != len(rounds):
        name = "--concurrency" if told else "--load"
        raise UsageError(f"{name}: {len(asked)} loads for {len(rounds)} pairs of pages; name each")
    return [levels[load] for load in asked]


def _of_timelines(first: Path, second: Path, options: Mapping[str, Any]) -> Recorded:
    model, length = options["model"], options["slice"]
    one, two = read_pages(first), read_pages(second)
    for path, pages in ((first, one), (second, two)):
        if len(pages) < 2:  # noqa: PLR2004 - an interval has two ends
            raise NoVerdictError(f"{path}: fewer than two pages; a comparison needs two at least")
    slices = zip(_cut(one, length), _cut(two, length), strict=False)
    rounds = [
        (see_timeline(a, str(first), model), see_timeline(b, str(second), model))
        for a, b in slices
        if len(a) > 1 and len(b) > 1
    ]
    if not rounds:
        raise NoVerdictError(
            f"{first}, {second}: no slice of both holds two pages; cut longer ones"
        )
    found = [round(max(a.concurrency or 0.0, _LEAST_LOAD), 3) for a, _ in rounds]
    by_load = {level.concurrency: level for level in ranked(sorted(set(found)))}
    cells = [
        cell_of(CellKey(load=_numbered(by_load[load], place)), [pair])
        for place, (load, pair) in enumerate(zip(found, rounds, strict=True), 1)
    ]
    cells.sort(key=lambda cell: cell.key.load.concurrency)
    return _recorded(cells, rounds, one[-1].page, two[-1].page)


def _numbered(level: LoadLevel, place: int) -> LoadLevel:
    """Name a slice by its place; nobody said which of them is idle and which a burst."""
    role = level.role if level.role is Role.BURST else Role.STEADY
    return LoadLevel(name=f"slice{place}", role=role, concurrency=level.concurrency)


def _cut(pages: Sequence[TimedPage], length: float | None) -> list[list[TimedPage]]:
    """Cut a timeline into slices of so many seconds; a page at a cut belongs to both."""
    if length is None:
        return [list(pages)]
    begin, end = pages[0].time, pages[-1].time
    found = []
    while begin < end:
        found.append([one for one in pages if begin <= one.time <= begin + length])
        begin += length
    return found


def _recorded(
    cells: Sequence[Cell],
    rounds: Sequence[tuple[Seen, Seen]],
    first: Page,
    second: Page,
) -> Recorded:
    facts = {
        side: all_facts(page, next(iter(page.layout.engines), ""))
        for side, page in ((Side.BASELINE, first), (Side.SPECULATIVE, second))
    }
    return Recorded(
        cells=tuple(cells),
        facts=facts,
        likeness=likeness(facts[Side.BASELINE], facts[Side.SPECULATIVE]),
        speculates={
            Side.BASELINE: any(a.speculates for a, _ in rounds),
            Side.SPECULATIVE: any(b.speculates for _, b in rounds),
        },
    )
