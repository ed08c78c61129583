"""Reports on drafts as text for a person; judges nothing."""

from collections.abc import Iterator, Sequence

from specgauge.cli.values import plain
from specgauge.preflight.draft.cost import FORMULA, Cost, Size
from specgauge.preflight.draft.finding import Engine, Finding, Fit
from specgauge.preflight.draft.folder import Model
from specgauge.preflight.draft.judge import Report
from specgauge.preflight.draft.suggest import Suggestion

_FITS = {
    Fit.COMPATIBLE: "compatible",
    Fit.WITH_CONDITIONS: "compatible with conditions",
    Fit.INCOMPATIBLE: "incompatible",
    Fit.UNKNOWN: "cannot be told",
}
_ENGINES = {
    Engine.STARTS: "starts",
    Engine.REFUSES: "refuses to start",
    Engine.FAILS: "starts and fails at the first request",
    Engine.UNKNOWN: "may or may not start",
}
_UNITS = ("B", "kB", "MB", "GB", "TB")
_STEP = 1000.0


def describe(report: Report) -> str:
    """Write a report: the verdict, the two models, the findings, and what drafting costs."""
    pair = report.pair
    engine = f"vLLM {pair.rules.release} {_ENGINES[report.engine]}"
    lines = [
        f"{_FITS[report.fit]} by {pair.method}; {engine}",
        "",
        f"target  {_model(pair.target, report.cost.target)}",
    ]
    if pair.draft is not pair.target:
        lines.append(f"draft   {_model(pair.draft, report.cost.draft)}")
    for one in report.findings:
        lines += ["", *_finding(one)]
    lines += ["", *_measured(report), *_cost(report.cost)]
    return "\n".join(plain(line) for line in lines)


def describe_suggestions(suggestions: Sequence[Suggestion]) -> str:
    """Write suggestions in their order, with why."""
    lines = []
    for number, one in enumerate(suggestions, 1):
        state = "not checked" if one.report is None else _FITS[one.report.fit]
        lines += [f"{number}. {one.name} ({one.method}, {state})", f"   {one.why}"]
    return "\n".join(plain(line) for line in lines)


def _model(model: Model, size: Size | None) -> str:
    config, vocabulary = model.config, model.vocabulary
    kind = config.architectures[0] if config.architectures else config.model_type
    parts = [f"{model.source}:"] + ([kind] if kind else [])
    if config.vocab_size is not None:
        parts.append(f"{config.vocab_size} embedding rows")
    if vocabulary is not None:
        added = len(vocabulary.added)
        parts.append(f"{vocabulary.base} tokens and {added} added")
    if config.max_length is not None:
        parts.append(f"up to {config.max_length} tokens long")
    if size is not None:
        how = "" if size.told_by == "headers" else " (estimated)"
        parts.append(f"{_bytes(size.total)}{how}")
    return f"{parts[0]} {', '.join(parts[1:])}"


def _bytes(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < _STEP:
            return f"{size:.3g} {unit}"
        size /= _STEP
    return f"{size:.3g} {_UNITS[-1]}"


def _finding(one: Finding) -> Iterator[str]:
    yield f"{one.severity}: {one.code}"
    yield f"  {one.message}"
    if one.engine_says is not None:
        yield f"  the engine says: {one.engine_says}"
    if one.fix is not None:
        yield f"  fix: {one.fix}"


def _measured(report: Report) -> Iterator[str]:
    yield f"checked: {', '.join(report.checked)}"
    for one in report.unmeasured:
        yield f"not measured: {one.area} ({one.reason})"


def _cost(cost: Cost) -> Iterator[str]:
    """Write the table of what has to be accepted."""
    if cost.draft is None or cost.ratio is None or cost.size_ratio is None:
        return
    yield ""
    yield (
        f"the draft has {cost.size_ratio:.1%} of the target's bytes; a drafted token costs about "
        f"{cost.ratio:.3f} of a plain step (estimated from the bytes read)"
    )
    yield f"break-even by {FORMULA}:"
    yield "   k  acceptance length  accepted / drafted  chance per token  at best"
    for row in cost.rows:
        chance = "cannot pay" if row.per_token is None else f"{row.per_token:.3f}"
        yield (
            f"  {row.tokens:2}  {row.length:17.2f}  {row.share:18.1%}  {chance:>16}"
            f"  {row.best_speedup:6.2f}x"
        )
