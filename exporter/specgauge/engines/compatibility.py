"""What specgauge reads from which vLLM release, as a table for people; made from the dialect table.

For documentation only: nothing decides by a release, the page itself does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from specgauge.engines.vllm import NEWEST_RELEASE, TABLE, Name, Span
from specgauge.model.quantity import Quantity

_LISTED = """
0.5.5 0.6.0 0.6.1 0.6.1.post1 0.6.1.post2 0.6.2 0.6.3 0.6.3.post1 0.6.4 0.6.4.post1 0.6.5 0.6.6
0.6.6.post1 0.7.0 0.7.1 0.7.2 0.7.3 0.8.0 0.8.1 0.8.2 0.8.3 0.8.4 0.8.5 0.8.5.post1 0.9.0 0.9.0.1
0.9.1 0.9.2 0.10.0 0.10.1 0.10.1.1 0.10.2 0.11.0 0.11.1 0.11.2 0.12.0 0.13.0 0.14.0 0.14.1 0.15.0
0.15.1 0.16.0 0.17.0 0.17.1 0.18.0 0.18.1 0.19.0 0.19.1 0.20.0 0.20.1 0.20.2 0.21.0 0.22.0 0.22.1
0.23.0 0.24.0 0.25.0 0.25.1 0.26.0 0.27.0 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0
"""

RELEASES = tuple(_LISTED.split())
"""The releases that the table covers, from the oldest on."""

_HEAD = ("vLLM", "engine", "acceptance from", "true TPOT from", "step latency", "KV usage", "notes")
_NOTHING = "-"

_NAMES: Mapping[Quantity, tuple[Name, ...]] = {entry.quantity: entry.names for entry in TABLE}

_MISSED = {
    Quantity.E2E: "`e2e_seconds`",
    Quantity.REQUESTS_FINISHED: "`requests_finished`",
    Quantity.PREEMPTIONS: "`preemptions`",
}

_NOTES: tuple[tuple[Span, str], ...] = (
    (Span(engine="V0", first="0.5.5"), "`generation_tokens` of finished requests"),
    (Span(engine="V1", first="0.7.1", last="0.8.2"), "no `engine` label"),
    (Span(engine="V1", first="0.8.3", last="0.8.4"), "zeros without speculation, too"),
    (Span(engine="V1", first="0.8.3", last="0.9.2"), "only the last data-parallel engine shows"),
    (Span(engine="V1", first="0.9.2", last="0.11.0"), "KV usage once a process: the most counts"),
    (Span(engine="V1", first="0.24.0"), "diffusion models tell themselves apart"),
)
"""What the series' names do not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Releases of one engine generation that are read alike, and what they are read from."""

    first: str
    last: str
    cells: tuple[str, ...]


def markdown_table() -> str:
    """Write the table as Markdown, the newest releases first."""
    found = [*rows("V0"), *rows("V1")]
    lines = [_HEAD, ("---",) * len(_HEAD)]
    lines += [(_releases(row), *row.cells) for row in reversed(found)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def rows(engine: str) -> list[Row]:
    """Join neighbouring releases that are read alike; the oldest come first."""
    found: list[Row] = []
    for release in RELEASES:
        if not _shown(Quantity.STEP_LATENCY, engine, release):
            continue
        cells = _cells(engine, release)
        if found and found[-1].cells == cells:
            found[-1] = Row(first=found[-1].first, last=release, cells=cells)
        else:
            found.append(Row(first=release, last=release, cells=cells))
    return found


def _releases(row: Row) -> str:
    return row.first if row.first == row.last else f"{row.first} to {row.last}"


def _cells(engine: str, release: str) -> tuple[str, ...]:
    """Say what one release is read from, column by column behind the first."""
    return (
        engine,
        _acceptance(engine, release),
        _true_tpot(engine, release),
        _name(Quantity.STEP_LATENCY, engine, release),
        _name(Quantity.KV_CACHE_USAGE, engine, release),
        "; ".join(_notes(engine, release)) or _NOTHING,
    )


def _acceptance(engine: str, release: str) -> str:
    if _shown(Quantity.EMITTED_TOKENS, engine, release):
        return "recovered totals"
    if _shown(Quantity.ACCEPTED_PER_POSITION, engine, release):
        return "counters, by position"
    return "counters, ratio only" if _shown(Quantity.DRAFT_TOKENS, engine, release) else _NOTHING


def _true_tpot(engine: str, release: str) -> str:
    if engine == "V1":
        return _name(Quantity.STEP_LATENCY, engine, release)
    return "finished requests" if _shown(Quantity.DECODE_TIME, engine, release) else _NOTHING


def _notes(engine: str, release: str) -> Iterator[str]:
    missing = [text for q, text in _MISSED.items() if not _shown(q, engine, release)]
    if missing:
        yield f"no {', '.join(missing)}"
    if _shown(Quantity.REQUEST_TPOT, engine, release):
        yield "`request_tpot_seconds`"
    for span, text in _NOTES:
        if _covers(span, engine, release):
            yield text
    for name in _hidden(engine, release):
        yield f"`{name}` is hidden and not needed"


def _hidden(engine: str, release: str) -> Iterator[str]:
    """Name the older names that a server shows only when told to."""
    for quantity in (Quantity.STEP_LATENCY, Quantity.KV_CACHE_USAGE):
        for name in _NAMES[quantity]:
            for span in name.spans:
                first, _, last = (span.hidden or "").partition(" to ")
                hidden = Span(engine=span.engine, first=first, last=last)
                if span.hidden and _covers(hidden, engine, release):
                    yield name.name


def _shown(quantity: Quantity, engine: str, release: str) -> bool:
    return any(_visible(quantity, engine, release))


def _name(quantity: Quantity, engine: str, release: str) -> str:
    """Give the name that is read: the preferred one of those that a server shows."""
    return f"`{next(_visible(quantity, engine, release))}`"


def _visible(quantity: Quantity, engine: str, release: str) -> Iterator[str]:
    for name in _NAMES[quantity]:
        if any(_covers(span, engine, release) for span in name.spans):
            yield name.name


def _covers(span: Span, engine: str, release: str) -> bool:
    last = span.last or NEWEST_RELEASE
    return span.engine == engine and _order(span.first) <= _order(release) <= _order(last)


def _order(release: str) -> tuple[int, ...]:
    """Sort 0.10.0 behind 0.9.2 and a post-release behind its release."""
    return tuple(int(part) for part in release.replace("post", "").split("."))
