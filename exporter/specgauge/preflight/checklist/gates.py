"""The gates as a table: what each asks, which article asks it, what evidence it takes."""

from collections.abc import Callable
from dataclasses import dataclass

from specgauge.preflight.checklist.baseline_gate import judge_baseline
from specgauge.preflight.checklist.case import Case
from specgauge.preflight.checklist.compare_gates import (
    judge_burst,
    judge_comparison,
    judge_expected,
    judge_p99,
)
from specgauge.preflight.checklist.guard_gates import (
    judge_configured,
    judge_exercised,
    judge_obeyed,
)
from specgauge.preflight.checklist.live_gates import judge_acceptance
from specgauge.preflight.checklist.paper_gates import judge_draft, judge_k, judge_memory
from specgauge.preflight.checklist.result import Result
from specgauge.preflight.checklist.stated_gates import (
    judge_pinned,
    judge_report,
    judge_routing,
)
from specgauge.preflight.checklist.watching_gates import (
    judge_dashboards,
    judge_rules,
    judge_runbook,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate; its name never changes, since CI knows it by that."""

    name: str
    title: str
    article: str
    takes: str
    judge: Callable[[Case], Result]


_PLAYBOOK = "playbook, Pre-Deployment Checklist"
_PRODUCTION = "production serving, Production checklist"


def _readiness(number: int) -> str:
    return f"readiness checklist, Gate {number}"


_ROWS: tuple[tuple[str, str, str, str, Callable[[Case], Result]], ...] = (
    (
        "baseline",
        "A baseline of the running server",
        f"{_PLAYBOOK}; {_readiness(4)}",
        "baseline file or live target of the configuration, the sidecar's status",
        judge_baseline,
    ),
    (
        "draft",
        "The draft is compatible",
        f"{_PLAYBOOK}; {_readiness(2)}",
        "--draft-report",
        judge_draft,
    ),
    ("k_chosen", "k was chosen by experiment", _PLAYBOOK, "--sweep", judge_k),
    (
        "acceptance",
        "Acceptance above break-even in production",
        _PLAYBOOK,
        "the sidecar's status",
        judge_acceptance,
    ),
    (
        "comparison",
        "Compared with a pool without speculation",
        _readiness(4),
        "--compare",
        judge_comparison,
    ),
    (
        "speedup_expected",
        "Faster at the expected load",
        _PLAYBOOK,
        "--compare, or the sidecar's status at checklist.expected_concurrency",
        judge_expected,
    ),
    ("speedup_burst", "Not slower in a burst", _readiness(4), "--compare", judge_burst),
    ("p99", "P99 latency not worse", _readiness(4), "--compare", judge_p99),
    (
        "memory",
        "Memory below its limit",
        f"{_PLAYBOOK}; {_readiness(3)}",
        "--memory, the sidecar's status",
        judge_memory,
    ),
    (
        "guard_configured",
        "An automatic fallback is configured",
        f"{_PLAYBOOK}; {_readiness(5)}",
        "guard and flag of the configuration, the sidecar's guard",
        judge_configured,
    ),
    (
        "guard_exercised",
        "The fallback was exercised and read back",
        _PLAYBOOK,
        "the sidecar's guard, guard.audit_file, --exercise",
        judge_exercised,
    ),
    (
        "flag_obeyed",
        "Something obeys the flag",
        _PRODUCTION,
        "flag.obeyed_by or flag.backend",
        judge_obeyed,
    ),
    ("routing", "Traffic is routed by class", _PLAYBOOK, "checklist.routing", judge_routing),
    (
        "rules",
        "Rules are loaded in Prometheus",
        f"{_PLAYBOOK}; {_readiness(5)}",
        "--prometheus",
        judge_rules,
    ),
    (
        "dashboards",
        "Dashboards are present",
        _PLAYBOOK,
        "--dashboards or --grafana",
        judge_dashboards,
    ),
    ("report", "A report is scheduled", _PLAYBOOK, "checklist.report_scheduled_by", judge_report),
    (
        "runbook",
        "Alerts lead to a runbook",
        _PLAYBOOK,
        "rules.runbook_url, --prometheus",
        judge_runbook,
    ),
    (
        "pinned",
        "Everything is pinned, and is what runs",
        f"{_readiness(5)}; {_readiness(1)}",
        "checklist.lock_file, the sidecar's status, --dashboards or --grafana",
        judge_pinned,
    ),
)

GATES = tuple(
    Gate(name=name, title=title, article=article, takes=takes, judge=judge)
    for name, title, article, takes, judge in _ROWS
)
"""Every gate, in the order in which a person would go through them."""

NAMES = tuple(gate.name for gate in GATES)
