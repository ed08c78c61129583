"""The report as Markdown, for a pull request; whatever evidence says stays text there."""

import re

from specgauge.preflight.checklist.report import Outcome, Report, cite, timestamp
from specgauge.preflight.checklist.result import Status

_MARKS = {
    Status.PASS: "✅ pass",
    Status.FAIL: "❌ fail",
    Status.NOT_MEASURED: "❔ not measured",
    Status.WAIVED: "⏭️ waived",
}
_OUTCOMES = {
    Outcome.READY: "ready to go live",
    Outcome.NOT_READY: "not ready to go live",
    Outcome.NOT_MEASURED: "not ready to go live: not everything was measured",
}
_SPECIAL = re.compile(r"[\\`*_{}\[\]()#+!|~$-]")


def write_markdown(report: Report, *, created_by: str, allowed: bool = False) -> str:
    """Write the report; `allowed` says that gates that were not measured do not count."""
    counts = ", ".join(f"{report.count(one)} {_MARKS[one].partition(' ')[2]}" for one in Status)
    runs = report.deployment
    about = ", ".join(
        part
        for part in (
            runs.model_name or "model not known",
            f"vLLM {runs.version}" if runs.version else "release not known",
            str(runs.speculation),
        )
    )
    lines = [
        "## Speculative decoding checklist",
        "",
        f"**{_OUTCOMES[report.outcome].capitalize()}** ({counts}) for {escape(about)}.",
        "",
        *(["**Gates that were not measured were allowed to pass.**", ""] if allowed else []),
        "| gate | status | what it rests on |",
        "|---|---|---|",
    ]
    for gate, result in report.lines:
        said = [escape(result.says), *(escape(cite(one, report.now)) for one in result.proofs)]
        if result.fix and result.status is not Status.PASS:
            said.append(f"→ {escape(result.fix)}")
        lines.append(f"| {escape(gate.title)} | {_MARKS[result.status]} | {'<br>'.join(said)} |")
    return "\n".join([*lines, "", f"{timestamp(report.now)}, {escape(created_by)}", ""])


def escape(text: str) -> str:
    """Have text stay text in a cell of a table: no mark, link, name or HTML comes of it."""
    flat = " ".join(text.split())
    plain = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    marked = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", plain.replace("&#", "&amp;#"))
    return marked.replace("@", "&#64;").replace("://", "&#58;//").replace("www.", "www&#46;")
