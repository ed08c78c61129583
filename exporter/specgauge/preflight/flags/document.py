"""The answers as documents for machines; the keys of each are documented and tested."""

from collections.abc import Iterable, Mapping

from specgauge.preflight.flags.finding import Finding
from specgauge.preflight.flags.release import Release
from specgauge.preflight.flags.show import Shown
from specgauge.preflight.flags.translate import Translation

TRANSLATE = "specgauge.flags-translate/v1"
SHOW = "specgauge.flags-show/v1"
CHECK = "specgauge.flags-check/v1"


def translation_document(done: Translation) -> dict[str, object]:
    """Write down a translation."""
    return {
        "schema": TRANSLATE,
        "release": str(done.to),
        "from": {
            "first": _release(done.source_span.first, known=not done.source_span.is_empty),
            "last": _release(done.source_span.last, known=not done.source_span.is_empty),
        },
        "engine": {"before": done.engine_before, "after": done.engine_after},
        "translated": done.command is not None,
        "command": done.command,
        "arguments": list(done.arguments),
        "speculative_config": dict(done.config) or None,
        "findings": _findings(done.findings),
    }


def shown_document(shown: Shown) -> dict[str, object]:
    """Write down a command line for a method."""
    return {
        "schema": SHOW,
        "release": str(shown.release),
        "method": shown.method,
        "engine": shown.engine,
        "command": shown.command,
        "arguments": list(shown.arguments),
        "speculative_config": dict(shown.config),
        "why": dict(shown.why),
        "settings": [
            {"key": one.name, "meaning": one.help, "default": one.default} for one in shown.settings
        ],
        "findings": _findings(shown.findings),
    }


def check_document(
    config: Mapping[str, object], release: Release, findings: Iterable[Finding], *, passed: bool
) -> dict[str, object]:
    """Write down a check."""
    return {
        "schema": CHECK,
        "release": str(release),
        "passed": passed,
        "speculative_config": dict(config),
        "findings": _findings(findings),
    }


def _release(release: Release | None, *, known: bool) -> str | None:
    return str(release) if known and release is not None else None


def _findings(findings: Iterable[Finding]) -> list[dict[str, str]]:
    return [
        {
            "code": one.code,
            "severity": one.severity,
            "subject": one.subject,
            "message": one.message,
            "fix": one.fix,
        }
        for one in findings
    ]
