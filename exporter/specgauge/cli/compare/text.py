"""A comparison as text for a person and as Markdown: one table a load, then what follows."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specgauge.cli.values import plain
from specgauge.preflight.compare.bouts import LoadLevel
from specgauge.preflight.compare.cells import Figures
from specgauge.preflight.compare.decide import Decision, Judged, Ruling
from specgauge.preflight.compare.document import Report
from specgauge.preflight.compare.fields import Difference
from specgauge.preflight.compare.from_pages import LOADS_DIFFER
from specgauge.preflight.compare.gates import interval
from specgauge.preflight.compare.quality import Match, Quality

HEAD = ("", "baseline", "speculative", "better by")

_ANSWERS: Mapping[Decision, str] = {
    Decision.PROMOTE: "promote: speculation may take this traffic",
    Decision.EVEN: "even: it makes no difference",
    Decision.KEEP_OFF: "keep off",
    Decision.UNDECIDED: "undecided",
}
_LATENCIES = {"tpot": "time per token", "ttft": "first token", "e2e": "whole request"}
_MORE = {
    "kv_cache_usage_ratio_max": "KV cache, most used",
    "kv_cache_usage_ratio_end": "KV cache at the end",
    "requests_waiting_max": "waiting, at most",
    "requests_waiting_end": "waiting at the end",
    "preemptions": "preemptions",
    "acceptance_ratio": "acceptance",
}
CAVEAT = (
    "Equal texts are not quality, and unequal ones no loss of it: sums in another order round "
    "differently, which the baseline against itself shows."
)

Row = tuple[str, str, str, str]


def draw(report: Report) -> None:
    """Print a comparison on standard output."""
    console = Console(highlight=False, soft_wrap=True)
    for load, cells in by_load(report):
        console.print(Text(f"{load.name}, {load.concurrency:g} at a time", style="bold"))
        for one in cells:
            table = Table(box=None, pad_edge=False, title=Text(title(one)), title_justify="left")
            for place, name in enumerate(HEAD):
                table.add_column(name, justify="left" if place == 0 else "right")
            for row in rows(one):
                table.add_row(*(Text(part) for part in row))
            console.print(table)
    for line in conclusion(report):
        console.print(Text(line))


def markdown(report: Report) -> str:
    """Write a comparison as Markdown."""
    lines = [f"# {answer(report.outcome.overall)}", ""]
    for load, cells in by_load(report):
        lines += [f"## {load.name}, {load.concurrency:g} at a time", ""]
        for one in cells:
            lines += [f"**{_escaped(title(one))}**", "", f"| {' | '.join(HEAD)} |", _RULE]
            lines += [f"| {' | '.join(_escaped(part) for part in row)} |" for row in rows(one)]
            lines.append("")
    lines += [f"- {_escaped(line)}" for line in conclusion(report)]
    return "\n".join([*lines, ""])


_RULE = "|---|---:|---:|---:|"


def by_load(report: Report) -> Iterator[tuple[LoadLevel, Sequence[Judged]]]:
    """Give the cells load by load."""
    cells = report.outcome.cells
    for load in dict.fromkeys(one.cell.key.load for one in cells):
        yield load, [one for one in cells if one.cell.key.load == load]


def title(one: Judged) -> str:
    """Name a cell with its verdict."""
    cell = one.cell
    died = "".join(f"; the {side} pool failed: {why}" for side, why in cell.died.items())
    repeats = f"{cell.repeats} repeat{'' if cell.repeats == 1 else 's'}"
    counted = f"{repeats}, {cell.pairs} pairs" if cell.pairs else repeats
    return plain(f"{cell.key}: {one.verdict} ({counted}){died}")


def rows(one: Judged) -> Iterator[Row]:
    """Give the rows of a cell's table."""
    cell = one.cell
    first, second = cell.baseline, cell.speculative
    for name, label in _LATENCIES.items():
        for kind in ("mean", "p50", "p95", "p99"):
            a, b = (_latency(side, name, kind) for side in (first, second))
            found = cell.ratios.get(f"{name}_{kind}")
            if a is not None or b is not None:
                told = "" if found is None else interval(found)
                yield f"{label}, {kind}", _ms(a), _ms(b), told
    flow = cell.ratios.get("throughput")
    told = "" if flow is None else interval(flow)
    yield "tokens a second", _plain(first.tokens_per_second), _plain(second.tokens_per_second), told
    yield "requests", f"{first.requests}", f"{second.requests}", ""
    for label, counts in (
        ("failed", (first.failed, second.failed)),
        ("to be sent again", (first.retries, second.retries)),
        ("out of memory", (first.out_of_memory, second.out_of_memory)),
    ):
        yield label, f"{counts[0]}", f"{counts[1]}", ""
    for name, label in _MORE.items():
        a, b = first.server.get(name), second.server.get(name)
        if a is not None or b is not None:
            yield label, _server(name, a), _server(name, b), ""


def conclusion(report: Report) -> Iterator[str]:
    """Say what follows, with the reasons, and what to mind."""
    outcome = report.outcome
    for name, one in outcome.quality.items():
        yield from _quality(name, one)
    if outcome.quality:
        yield CAVEAT
    for other in report.likeness.differences if report.likeness else ():
        why = f"expected: {_change(other)}" if other.expected else "allowed"
        yield plain(f"{other.field}: {other.baseline} and {other.speculative} ({why})")
    if report.likeness and report.likeness.not_compared:
        lacking = ", ".join(report.likeness.not_compared)
        yield f"Not compared, since a server does not tell: {lacking}"
    yield from (plain(f"Mind: {note}") for note in report.notes)
    unlike = [str(one.cell.key) for one in outcome.cells if LOADS_DIFFER in one.cell.notes]
    if unlike:
        yield plain(f"Mind: the pools had different loads at {', '.join(unlike)} ({LOADS_DIFFER})")
    if report.partial:
        yield "Partial: not every cell of the plan was measured."
    if len(outcome.by_class) > 1:
        for name, ruling in outcome.by_class.items():
            yield plain(f"{name}: {answer(ruling)} ({ruling.why})")
    yield from (plain(f"  {reason}") for reason in outcome.overall.reasons)
    yield f"Decision: {answer(outcome.overall)} ({outcome.overall.why})"


def _change(other: Difference) -> str:
    one, two = other.baseline, other.speculative
    if isinstance(one, int) and isinstance(two, int) and one:
        return f"{two / one - 1.0:+.1%}, the draft's memory"
    return "the draft's memory"


def answer(ruling: Ruling) -> str:
    """Say a decision."""
    if ruling.decision is Decision.ONLY_BELOW_LOAD:
        return f"only below load {ruling.below:g}: switch it off from there on"
    return _ANSWERS[ruling.decision]


def _quality(name: str, one: Quality) -> Iterator[str]:
    prefix = f"{name}: " if name else ""
    itself = "" if one.itself is None else f"; the baseline against itself {_match(one.itself)}"
    yield plain(f"{prefix}greedy answers equal in both pools: {_match(one.between)}{itself}")
    if one.failed:
        yield plain(f"{prefix}{one.failed} requests of the sample were not answered with a text")
    if one.differs_more:
        yield plain(
            f"{prefix}the pools differ more than the baseline from itself: look at the texts"
        )
    if one.passes is not None:
        found = one.passes
        difference = found.difference
        told = (
            ""
            if difference is None
            else f", difference {difference[0]:+.0%} to {difference[1]:+.0%}"
        )
        yield plain(
            f"{prefix}answers that pass the check: {found.baseline} of {found.baseline_of} and "
            f"{found.speculative} of {found.speculative_of} with speculation{told}"
        )


def _match(one: Match) -> str:
    if one.share is None:
        return "none compared"
    median = one.median_divergence
    parted = "" if median is None else f", parting at character {median:g} (median)"
    return f"{one.equal} of {one.of}{parted}"


def _latency(side: Figures, name: str, kind: str) -> float | None:
    found = side.latencies.get(name)
    value = getattr(found, kind) if found is not None else None
    return value if isinstance(value, float) else None


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{1000 * value:.4g} ms"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _server(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1%}" if "_ratio" in name else f"{value:g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
