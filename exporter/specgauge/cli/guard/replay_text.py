"""A replay for a person: what changed, when and why, and how it ended; decides nothing."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specgauge.cli.guard.figures import figures, moment
from specgauge.guard.words import reason_in_words, span_in_words
from specgauge.model.guard import Decision, Phase

_FLAGS = {True: "on", False: "off", None: "unknown"}
_MARKS: Mapping[Phase, tuple[str, str]] = {
    Phase.STARTING: ("·", "dim"),
    Phase.ACTIVE: ("█", "green"),
    Phase.PROBING: ("▒", "yellow"),
    Phase.FALLBACK: ("▁", "red"),
    Phase.LATCHED: ("_", "bold red"),
    Phase.OVERRIDE: ("▓", "blue"),
}
_PLAIN_WIDTH = 1000
"""No row is broken where nobody looks at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What a person is told of a replay: ends, what is worth a row, and how often it was off."""

    count: int
    first: Decision
    last: Decision
    rows: Sequence[Decision]
    seconds: float
    off: float


def draw(decisions: Iterable[Decision]) -> None:
    """Print what changed and a summary; on a terminal, a line of the states as well."""
    run = _collect(decisions)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PLAIN_WIDTH)
    if run is None:
        console.print("The timeline is empty.")
        return
    console.print(_table(run.rows) if run.rows else Text("Nothing changed."))
    if console.is_terminal and run.seconds > 0.0:
        console.print(_strip(run, max(console.width - 2, 1)))
    console.print(Text(_summary(run)), soft_wrap=True)


def _collect(decisions: Iterable[Decision]) -> _Run | None:
    first = last = None
    rows: list[Decision] = []
    count, seconds, off = 0, 0.0, 0.0
    for decision in decisions:
        count += 1
        if last is not None:
            passed = max(decision.time - last.time, 0.0)
            seconds += passed
            off += passed if last.flag is False else 0.0
        first, last = first or decision, decision
        if decision.changed or decision.warnings:
            rows.append(decision)
    if first is None or last is None:
        return None
    return _Run(count=count, first=first, last=last, rows=rows, seconds=seconds, off=off)


def _table(rows: Sequence[Decision]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("time", "state", "flag", "reason"):
        table.add_column(name, no_wrap=True)
    table.add_column("evidence", overflow="fold")
    for one in rows:
        state = f"{one.before} → {one.state}" if one.changed else str(one.state)
        told = [one.reason] if one.changed else list(one.warnings)
        table.add_row(
            moment(one.time), state, _FLAGS[one.flag], ", ".join(told), figures(one.evidence)
        )
    return table


def _summary(run: _Run) -> str:
    """Say in one line how long it was, what happened and how it ended."""
    ways = Counter((one.before, one.state) for one in run.rows if one.changed)
    fallbacks = sum(ways[Phase.ACTIVE, to] for to in (Phase.FALLBACK, Phase.LATCHED))
    probes = sum(number for (_, to), number in ways.items() if to is Phase.PROBING)
    counts = [
        _number(run.count, "line"),
        _number(fallbacks, "fallback"),
        _number(probes, "probe"),
        f"{ways[Phase.PROBING, Phase.ACTIVE]} passed",
    ]
    share = f" ({run.off / run.seconds:.0%})" if run.seconds > 0.0 else ""
    last = run.last
    return (
        f"{', '.join(counts)}, in {span_in_words(run.seconds)}; flag off for "
        f"{span_in_words(run.off)}{share}. It ends {last.state} with the flag "
        f"{_FLAGS[last.flag]}: {reason_in_words(last.reason)}."
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _strip(run: _Run, width: int) -> Text:
    """Draw the states from the first line to the last, a cell for an equal share of the time."""
    changes = [one for one in run.rows if one.changed]
    begun = [run.first.before, *(one.state for one in changes)]
    edges = [run.first.time, *(one.time for one in changes), max(run.last.time, run.first.time)]
    text = Text()
    used = set()
    for place in range(width):
        at = edges[0] + (place + 0.5) / width * (edges[-1] - edges[0])
        inside = [
            phase for phase, (a, b) in zip(begun, pairwise(edges), strict=True) if a <= at < b
        ]
        phase = inside[-1] if inside else begun[-1]
        used.add(phase)
        text.append(*_MARKS[phase])
    text.append("\n")
    for phase in sorted(used):
        text.append(*_MARKS[phase])
        text.append(f" {phase}  ")
    return text
