"""The report as text for a person; decides nothing."""

from collections.abc import Iterator

from specgauge.preflight.checklist.report import Outcome, Report, cite
from specgauge.preflight.checklist.result import Status

_SHOWN = {
    Status.PASS: "pass",
    Status.FAIL: "FAIL",
    Status.NOT_MEASURED: "not measured",
    Status.WAIVED: "waived",
}
_COLOURS = {
    Status.PASS: "green",
    Status.FAIL: "red",
    Status.NOT_MEASURED: "yellow",
    Status.WAIVED: "blue",
}
_OUTCOMES = {
    Outcome.READY: "Ready to go live",
    Outcome.NOT_READY: "Not ready to go live",
    Outcome.NOT_MEASURED: "Not ready to go live: not everything was measured",
}
_INDENT = " " * 14


def lines(report: Report) -> Iterator[tuple[str, str | None]]:
    """Write the report line by line, each with a colour for a terminal."""
    runs = report.deployment
    version = f"vLLM {runs.version}" if runs.version else "release not known"
    yield f"{runs.model_name or 'model not known'}, {version}, {runs.speculation}", None
    for gate, result in report.lines:
        yield f"{_SHOWN[result.status]:<14}{gate.name}: {gate.title}", _COLOURS[result.status]
        yield f"{_INDENT}{result.says}", None
        for proof in result.proofs:
            yield f"{_INDENT}[{cite(proof, report.now)}]", "bright_black"
        if result.fix and result.status is not Status.PASS:
            yield f"{_INDENT}-> {result.fix}", None
    yield summary(report), None


def summary(report: Report) -> str:
    """Sum up on one line."""
    counts = ", ".join(f"{report.count(one)} {_SHOWN[one].lower()}" for one in Status)
    return f"{_OUTCOMES[report.outcome]} ({counts})."
