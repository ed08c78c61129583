"""Memory for a person: a table of both sides, then what there is to say of them."""

from collections.abc import Callable, Iterable, Sequence

import click

from specgauge.cli.values import plain
from specgauge.preflight.memory.finding import Finding
from specgauge.preflight.memory.measured import GAUGES, Capacity, Pair
from specgauge.preflight.memory.plan import Plan, Side
from specgauge.preflight.memory.weights import Role

Row = tuple[str, ...]

_GIB, _MIB, _KIB = 1 << 30, 1 << 20, 1 << 10
_LABELS = {"kv_cache_usage_ratio": "KV cache usage"}


def draw_plan(plan: Plan, findings: Iterable[Finding]) -> None:
    """Print what was reckoned from folders."""
    sides = [plan.before] if plan.after is None else [plan.before, plan.after]
    method = "" if plan.role is Role.TARGET else f"with {_method(plan)}"
    rows: list[Row] = [("", "without", *([method] if plan.after else []))]
    for label, write in _ROWS:
        cells = [write(side) for side in sides]
        if any(cells):
            rows.append((label, *cells))
    what = "on one GPU" if plan.setting.memory else "on the CPU engine"
    click.echo(f"{plain(plan.target.path)}: memory {what}")
    _table(rows)
    if plan.change is not None:
        click.echo(f"the KV cache changes by {plan.change:+.2%}")
    draw_findings(findings)


def draw_pair(pair: Pair) -> None:
    """Print what two servers told."""
    rows: list[Row] = [("", "before", "after")]
    both = (pair.before, pair.after)
    rows.append(("blocks", *(_number(one.blocks) for one in both)))
    rows.append(("tokens a block", *(_number(one.block_size) for one in both)))
    rows.append(("KV cache, tokens", *(_number(one.tokens) for one in both)))
    for name in GAUGES:
        label = _LABELS.get(name, name.replace("_", " "))
        rows.append((label, _gauge(pair.before, name), _gauge(pair.after, name)))
    _table(rows)
    if pair.change is not None:
        click.echo(f"the KV cache changes by {pair.change:+.2%}")
    draw_findings(pair.findings)


def draw_findings(findings: Iterable[Finding]) -> None:
    """Print findings, each with its fix below it."""
    for one in findings:
        click.echo(f"{one.severity}: {plain(one.text)} ({one.code})")
        if one.engine_says:
            click.echo(f"  the engine says: {plain(one.engine_says)}")
        if one.fix:
            click.echo(f"  try: {plain(one.fix)}")


def _method(plan: Plan) -> str:
    if plan.role is not Role.OTHER:
        return str(plan.role)
    return "heads" if plan.draft is not None else "no draft model"


def _size(size: int) -> str:
    return f"{size / _GIB:.2f} GiB" if abs(size) >= _GIB // 10 else f"{size / _MIB:.1f} MiB"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value}"


def _gauge(side: Capacity, name: str) -> str:
    value = side.values.get(name)
    if value is None:
        return f"- {side.absent.get(name, '')}".rstrip()
    return f"{value:.1%}" if name.endswith("_ratio") else f"{value:g}"


def _use(side: Side) -> str:
    return "" if side.holds.use_ratio is None else f"{side.holds.use_ratio:.1%}"


def _mean(side: Side) -> str:
    return "" if (found := side.holds.mean_concurrency) is None else f"{found:.2f}"


def _kept(side: Side) -> str:
    return "" if side.reserve is None else _size(side.reserve.total)


_ROWS: Sequence[tuple[str, Callable[[Side], str]]] = (
    ("weights of the target", lambda side: _size(side.target_weights)),
    ("weights of the draft", lambda side: _size(side.draft_weights) if side.draft_weights else ""),
    ("activations, graphs, libraries", _kept),
    ("KV cache", lambda side: _size(side.kv_memory)),
    (
        "KV cache, a token",
        lambda side: f"{(side.target_token_bytes + side.draft_token_bytes) / _KIB:g} KiB",
    ),
    ("blocks", lambda side: f"{side.holds.blocks}"),
    ("KV cache, tokens", lambda side: f"{side.holds.tokens}"),
    ("requests of the longest kind", lambda side: f"{side.holds.max_concurrency:.2f}"),
    ("requests of mean length", _mean),
    ("use at the expected load", _use),
)


def _table(rows: Sequence[Row]) -> None:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        click.echo("  ".join([first, *rest]).rstrip())
