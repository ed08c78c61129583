"""The report as JUnit XML, for CI: a gate is a test case whose name never changes."""

import re
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from specgauge.preflight.checklist.report import Report, cite
from specgauge.preflight.checklist.result import Result, Status

SUITE = "specgauge.checklist"
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_TIME = "0.000"


def write_junit(report: Report, *, allowed: bool = False) -> str:
    """Write the report: a fail is a failure, what is not measured an error, a waiver a skip.

    Where gates that were not measured are `allowed` to pass, they are skips as well.
    """
    skips = report.count(Status.WAIVED)
    errors = report.count(Status.NOT_MEASURED)
    if allowed:
        skips, errors = skips + errors, 0
    counts = {
        "tests": str(len(report.lines)),
        "failures": str(report.count(Status.FAIL)),
        "errors": str(errors),
        "skipped": str(skips),
        "time": _NO_TIME,
    }
    root = Element("testsuites", {"name": SUITE, **counts})
    when = datetime.fromtimestamp(report.now, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    more = {"id": "0", "package": "specgauge", "hostname": "localhost", "timestamp": when}
    suite = SubElement(root, "testsuite", {"name": SUITE, **counts, **more})
    _properties(suite, report)
    for gate, result in report.lines:
        case = SubElement(
            suite, "testcase", {"name": gate.name, "classname": SUITE, "time": _NO_TIME}
        )
        _outcome(case, result, report.now, allowed=allowed)
    SubElement(suite, "system-out").text = fit(
        "\n".join(f"{gate.name}: {result.status}: {result.says}" for gate, result in report.lines)
    )
    SubElement(suite, "system-err")
    indent(root)
    body = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _properties(suite: Element, report: Report) -> None:
    runs = report.deployment
    found = SubElement(suite, "properties")
    for name, value in (
        ("outcome", str(report.outcome)),
        ("model_name", runs.model_name),
        ("engine_version", runs.version),
        ("speculation", str(runs.speculation)),
    ):
        SubElement(found, "property", {"name": name, "value": fit(value or "unknown")})


def _outcome(case: Element, result: Result, now: float, *, allowed: bool) -> None:
    """Put the element that says how it ended; a pass has none."""
    if result.status is Status.PASS:
        return
    kind = _KINDS[result.status]
    if allowed and kind == "error":
        kind = "skipped"
    attributes = {"message": fit(result.says)}
    if kind != "skipped":
        attributes["type"] = str(result.reason)
    lines = [*(cite(one, now) for one in result.proofs), *([result.fix] if result.fix else [])]
    SubElement(case, kind, attributes).text = fit("\n".join(lines))


_KINDS = {Status.FAIL: "failure", Status.NOT_MEASURED: "error", Status.WAIVED: "skipped"}


def fit(text: str) -> str:
    """Leave out what no XML document may hold."""
    return _UNFIT.sub("?", text)
