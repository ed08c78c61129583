"""Derived models as text for a person: figures with units, absent ones with their reason."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from specgauge.model.derived import FIELDS, Absent, Derived, Value

_LABELS = {
    "kv_cache_usage_ratio": "KV cache usage",
    "num_speculative_tokens": "draft positions (K)",
    "tpot_seconds": "time per output token",
    "request_tpot_seconds": "same, finished requests",
    "ttft_seconds": "time to first token",
    "e2e_seconds": "end-to-end latency",
    "step_seconds": "time per step",
}
_MILLI = 1.0


def draw_models(models: Sequence[Derived], *, dialect: str, seconds: float | None) -> None:
    """Print every model on standard output."""
    console = Console(highlight=False, soft_wrap=False)
    span = "since the engine started" if seconds is None else f"over {seconds:g} s"
    console.print(Text(f"{dialect}, {span}"))
    if not models:
        console.print(Text("The server has served nothing yet."))
    for one in models:
        console.print(_table(one))
        if one.warnings:
            console.print(Text(f"Mind: {', '.join(one.warnings)}"))


def _table(one: Derived) -> Table:
    why = f" ({one.speculation_reason})" if one.speculation_reason else ""
    title = Text(f"{_shown(one.model_name)}: speculation {one.speculation}{why}")
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(min_width=38)
    table.add_column()
    for field in FIELDS:
        label = _LABELS.get(field, field.replace("_", " ").removesuffix(" ratio"))
        if field in one.values:
            table.add_row(label, Text(write(field, one.values[field])))
        else:
            table.add_row(label, Text(f"- {one.absent[field]}", style="dim"))
    if len(one.per_engine) > 1:
        for engine in one.per_engine:
            known = engine.acceptance_ratio
            shown = f"- {known.reason}" if isinstance(known, Absent) else f"{known:.1%}"
            table.add_row(Text(f"acceptance, engine {_shown(engine.engine)}"), Text(shown))
    return table


def _shown(label: str) -> str:
    """Make what a page says of itself fit for a terminal, which obeys escape codes."""
    return label if label.isprintable() else ascii(label)


def write(field: str, value: Value) -> str:
    """Write one field with its unit."""
    if not isinstance(value, int | float):
        return "  ".join(write(field, one) for one in value)
    if field.endswith("_ratio"):
        return f"{value:.1%}"
    if field.endswith("_seconds"):
        return f"{1000 * value:.4g} ms" if value < _MILLI else f"{value:.4g} s"
    if isinstance(value, int):
        return f"{value}"
    return f"{value:.2f} /s" if field.endswith("_per_second") else f"{value:.3f}"
