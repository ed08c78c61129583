"""What a sweep found, as text for a person: a table, bars, the choice and its reasons."""

import shlex
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specgauge.cli.values import plain
from specgauge.preflight.sweep.cell import Cell
from specgauge.preflight.sweep.picture import draw_bars
from specgauge.preflight.sweep.result import Result
from specgauge.preflight.sweep.schedule import Caution, Refusal
from specgauge.preflight.sweep.schema import Server, State

_COLUMNS = (
    "candidate",
    "k",
    "load",
    "speedup",
    "95 %",
    "accepted",
    "length",
    "TPOT ms",
    "memory",
)
_REFUSALS: Mapping[Refusal, str] = {
    Refusal.ONE_K: "one k is best at every load, so none is needed",
    Refusal.NOTHING_PAYS: "no speculation pays at any load measured",
    Refusal.NOTHING_MEASURED: "nothing with speculation was measured",
    Refusal.TOO_OLD: "this engine takes none; vLLM does from 0.24.0 on",
    Refusal.DATA_PARALLEL: "vLLM ignores it under data parallelism",
}
_CAUTIONS: Mapping[Caution, str] = {
    Caution.RELEASE_UNKNOWN: "the server did not tell its release; it takes vLLM 0.24.0 or newer",
    Caution.METHOD_UNKNOWN: "add method and model: the servers were given, not started here",
    Caution.NO_BASELINE: "nothing was measured without speculation, so k = 0 is not in it",
    Caution.REJECTED: "some results are missing, so another k may be better at some load",
    Caution.BEYOND: "beyond the highest load measured vLLM keeps the last k",
}


def draw(result: Result, states: Sequence[State], *, complete: bool) -> None:
    """Print everything on standard output."""
    console = Console(highlight=False, soft_wrap=False)
    if result.cells:
        console.print(_table(result.cells, states))
        bars = draw_bars(result.cells, result.picks, width=min(console.width, 100))
        known = any(one.speedup is not None for one in result.cells)
        what = "Speedup over no speculation" if known else "Speed over the slowest"
        console.print(Text(f"\n{what}; * chosen\n{bars}\n"))
    for state in states:
        if state.status in {"failed", "pruned"}:
            console.print(
                Text(plain(f"{state.name}: {state.status}: {state.reason}")), soft_wrap=True
            )
            for line in state.tail:
                console.print(Text(plain(f"    {line}")), soft_wrap=True)
    _choice(console, result)
    if not complete:
        console.print(Text("Not everything was measured: the same command goes on from here."))


def _choice(console: Console, result: Result) -> None:
    for one in result.picks:
        ties = f", no better than {', '.join(one.ties)}" if one.ties else ""
        text = f"concurrency {one.concurrency}: {one.candidate}{_times(one.speedup)}{ties}"
        console.print(Text(text))
    chosen = result.recommended
    if chosen is None:
        console.print(Text("Nothing can be recommended: no candidate has a result to go by."))
        return
    loads = ", ".join(f"{load} ({share:.0%})" for load, share in chosen.weights.items())
    k = "not known" if chosen.k is None else chosen.k
    console.print(
        Text(f"Recommended: {chosen.candidate}, k = {k}{_times(chosen.speedup)} over {loads}")
    )
    if len(chosen.compared) == 1:
        console.print(Text("  Nothing else had a result to compare it with."))
    for name, why in chosen.left_out.items():
        console.print(Text(plain(f"  {name} left out: {why}")))
    schedule = result.schedule
    if schedule.refusal is not None:
        console.print(Text(f"No schedule by batch size: {_REFUSALS[schedule.refusal]}."))
        return
    console.print(Text("Schedule by batch size, for vllm serve:"))
    argument = shlex.quote(schedule.argument or "")
    console.print(Text(f"  --speculative-config {argument}"), soft_wrap=True)
    for caution in schedule.cautions:
        console.print(Text(f"  Mind: {_CAUTIONS[caution]}."))


def _table(cells: Sequence[Cell], states: Sequence[State]) -> Table:
    servers = {one.name: one.server for one in states}
    table = Table(box=None, pad_edge=False)
    for title in _COLUMNS:
        table.add_column(title, justify="left" if title == "candidate" else "right")
    for cell in cells:
        told = cell.speculation
        row = [
            cell.candidate,
            "?" if cell.k is None else str(cell.k),
            str(cell.concurrency),
            "-" if cell.speedup is None else f"{cell.speedup:.2f}x",
            _bounds(cell),
            _share(told.acceptance_ratio if told else None),
            _number(told.acceptance_length if told else None),
            f"{cell.tpot * 1e3:.4g}" if cell.usable else "-",
            _memory(servers.get(cell.candidate)),
        ]
        table.add_row(*(Text(part) for part in row))
        if cell.rejected is not None:
            table.add_row(Text(plain(f"  {cell.rejected}"), style="dim"))
    return table


def _times(speedup: float | None) -> str:
    return "" if speedup is None else f", {speedup:.2f}x"


def _bounds(cell: Cell) -> str:
    if cell.low is None or cell.high is None or cell.k == 0:
        return "-"
    return f"{cell.low:.2f}-{cell.high:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _memory(server: Server | None) -> str:
    """Write the GPU memory, or the blocks of KV cache that are left where it is not known."""
    if server is None:
        return "-"
    if server.gpu_memory_bytes is not None:
        return f"{server.gpu_memory_bytes / (1 << 30):.1f} GiB"
    return "-" if server.kv_blocks is None else f"{server.kv_blocks} blocks"
