"""A deployment that is ready to go live, as values and documents; tests spoil one thing of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.baselines import document as baseline_document
from tests.baselines import level

from specgauge.baseline.schema import parse, usable
from specgauge.preflight.checklist.case import (
    Answer,
    BaselineConfig,
    Case,
    GuardConfig,
    Shown,
    Wanted,
)
from specgauge.preflight.checklist.deployment import Stated, deployed
from specgauge.preflight.checklist.evidence import (
    COMPARE,
    DRAFT,
    MEMORY,
    SWEEP,
    Evidence,
    Kind,
    read_evidence,
)
from specgauge.preflight.checklist.gates import GATES
from specgauge.preflight.checklist.live import Live
from specgauge.preflight.checklist.lock import Lock, hash_dashboards, pins_of
from specgauge.preflight.checklist.report import timestamp
from specgauge.preflight.checklist.result import Result, Trouble

Json = dict[str, Any]

NOW = 1_800_000_000.0
DAY = 86400.0
FRESH = timestamp(NOW - DAY)
JUDGES = {gate.name: gate.judge for gate in GATES}
DASHBOARDS = {"specgauge-fleet": "a" * 64, "specgauge-server": "b" * 64}
RUNBOOK = "https://git.example/rules/README.md"
STATED = Stated(
    models=("/models/target",),
    model_revision="1605565b",
    draft_revision="65e7e93e",
    speculative_config={"method": "eagle3", "model": "/models/head", "num_speculative_tokens": 4},
    routing="gateway/routes.yaml",
    report_scheduled_by="report.timer",
)
WANTED = Wanted(
    alerts=frozenset(
        {("SpecgaugeSpeculationCosts", "warning"), ("SpecgaugeTargetDown", "critical")}
    ),
    records=frozenset({"model:specgauge_drafts:increase5m"}),
    dashboards=DASHBOARDS,
    runbook_url=RUNBOOK,
    placeholder_url="https://example.com/README.md",
)


def live(**more: Any) -> Live:
    """Say what the sidecar sees of a server whose speculation pays."""
    given: Json = {
        "source": "http://s/api/v1/status",
        "target": "spec",
        "model_name": "target",
        "at": NOW - 1.0,
        "up": True,
        "version": "0.25.1",
        "method": "eagle3",
        "k": 4,
        "engines": 1,
        "drafts": 5000.0,
        "acceptance_ratio": 0.6,
        "acceptance_length": 3.4,
        "breakeven_length": 1.4,
        "verdict": "pays",
        "verdict_reason": "speedup_above_one",
        "speedup": 1.9,
        "speedup_low": 1.8,
        "speedup_high": 2.0,
        "decode_concurrency": 20.0,
        "kv_usage": 0.4,
    }
    return Live(**{**given, **more})


def draft_document(**more: Any) -> Json:
    """Write what a draft check says of a head that fits."""
    return {
        "schema": "specgauge.draft-check/v1",
        "created": FRESH,
        "verdict": "compatible",
        "release": "0.25.1",
        "method": "eagle3",
        "target": {"source": "/models/target", "folder": "/models/target"},
        "draft": {"source": "/models/head", "folder": "/models/head"},
        "findings": [],
        **more,
    }


def sweep_document(**more: Any) -> Json:
    """Write what a sweep says that recommends k = 4."""
    config = {"method": "eagle3", "model": "/models/head", "num_speculative_tokens": 4}
    return {
        "schema": "specgauge.sweep/v1",
        "created": FRESH,
        "complete": True,
        "settings": {
            "candidates": [
                {"name": "none", "speculative_config": None},
                {"name": "eagle3-k4", "speculative_config": config},
            ],
            "model": "target",
        },
        "states": [
            {"name": "eagle3-k4", "server": {"engine_version": "0.25.1", "model_name": "target"}}
        ],
        "cells": [{"candidate": "eagle3-k4", "concurrency": load, "repeats": 3} for load in (1, 8)],
        "recommended": {
            "candidate": "eagle3-k4",
            "num_speculative_tokens": 4,
            "speedup_ratio": 1.9,
        },
        **more,
    }


def estimate(value: float, low: float | None = None, high: float | None = None) -> Json:
    """Write a ratio with its interval."""
    return {"value": value, "low": low, "high": high}


def compare_cell(
    role: str, speedup: Json | None = None, p99: Json | None = None, **more: Any
) -> Json:
    """Write a cell of a comparison in which speculation pays."""
    return {
        "load": role,
        "role": role,
        "pairs": 400,
        "speedup": {
            "tpot_mean": speedup or estimate(1.8, 1.7, 1.9),
            "e2e_mean": estimate(1.7, 1.6, 1.8),
            "e2e_p99": p99 or estimate(1.4, 1.2, 1.6),
        },
        "speculative": {"server": {"draft_length": 4.0}},
        **more,
    }


def compare_document(*cells: Json, **more: Any) -> Json:
    """Write a comparison that says to go ahead."""
    return {
        "schema": "specgauge.compare/v1",
        "created": FRESH,
        "partial": False,
        "decision": "promote",
        "why": "every_gate_passed",
        "facts": {"speculative": {"model.name": "target", "engine.version": "0.25.1"}},
        "differences": [{"field": "hardware.kv_blocks", "expected": True}],
        "missing": [],
        "cells": list(cells) or [compare_cell(role) for role in ("idle", "steady", "burst")],
        **more,
    }


def memory_document(**more: Any) -> Json:
    """Write a plan with room to spare."""
    return {
        "schema": "specgauge.memory/v1",
        "created": FRESH,
        "source": "folders",
        "setting": {"utilization": 0.9, "num_speculative_tokens": 4},
        "target": {"path": "/models/target"},
        "draft": {"path": "/models/head"},
        "before": {"kv_cache_use_ratio": 0.5},
        "after": {"kv_cache_use_ratio": 0.6},
        "findings": [{"code": "kv_cache_smaller", "severity": "note"}],
        **more,
    }


DOCUMENTS = {
    "draft": (DRAFT, draft_document),
    "sweep": (SWEEP, sweep_document),
    "compare": (COMPARE, compare_document),
    "memory": (MEMORY, memory_document),
}


def evidence(kind: Kind, document: Json) -> Evidence | Trouble:
    """Read a document as if from a file of its kind's name."""
    return read_evidence(kind, json.dumps(document).encode(), f"{kind.name}.json")


def guard_document(**more: Any) -> Json:
    """Write how a guard stands that turned its flag off an hour ago, and on again."""
    return {
        "schema": "specgauge.guard_status/v1",
        "target": "spec",
        "state": "active",
        "dry_run": False,
        "flag": {"key": "spec_on", "backend": "file", "desired": True, "confirmed": True},
        "history": [flip(NOW - 3600.0)],
        **more,
    }


def flip(unix: float, **more: Any) -> Json:
    """Write a line of the record: the flag went off."""
    return {
        "unix": unix,
        "state": "fallback",
        "flag": False,
        "changed": True,
        "reason": "speedup_below_one",
        **more,
    }


def rule(name: str, severity: str | None = None, **more: Any) -> Json:
    """Write a rule as Prometheus lists it."""
    alert = severity is not None
    return {
        "name": name,
        "type": "alerting" if alert else "recording",
        "health": "ok",
        **(
            {"labels": {"severity": severity}, "annotations": {"runbook_url": RUNBOOK}}
            if alert
            else {}
        ),
        **more,
    }


def rules_answer(*rules: Json, **more: Any) -> Answer:
    """Write Prometheus' answer; with every rule that is wanted unless told otherwise."""
    every = [
        *(rule(name, severity) for name, severity in sorted(WANTED.alerts)),
        *(rule(name) for name in WANTED.records),
        rule("SomebodyElses", "critical", health="err"),
    ]
    groups = [{"name": "g", "rules": list(rules) or every}]
    body = {"status": "success", "data": {"groups": groups}, **more}
    return Answer(source="http://p/api/v1/rules", body=body)


def baseline_config(**more: Any) -> BaselineConfig:
    """Read a baseline of the server."""
    given: Json = {
        "created": FRESH,
        "engine": {"name": "vllm", "version": "0.25.0"},
        "parallelism": {"data": 1},
        **more,
    }
    text = json.dumps(baseline_document(level(1.0), level(8.0), **given))
    return BaselineConfig(files=(usable(parse(text, source="base.json"), source="base.json"),))


def ready(**more: Any) -> Case:
    """Give a case in which every gate passes, but for what is said otherwise."""
    seen = more.get("live", live())
    stated = more.get("stated", STATED)
    runs = deployed(seen if isinstance(seen, Live) else None, stated)
    pins = pins_of(deployed(live(), STATED), STATED, hash_dashboards(DASHBOARDS))
    documents = {name: evidence(kind, make()) for name, (kind, make) in DOCUMENTS.items()}
    given: Json = {
        "now": NOW,
        "deployment": runs,
        "stated": stated,
        "live": seen,
        "baseline": baseline_config(),
        **documents,
        "guard_config": GuardConfig(key="spec_on", backend="file", obeyed_by="the gateway"),
        "guard": Answer(source="http://s/api/v1/guard", body=guard_document()),
        "rules": rules_answer(),
        "shown": Shown(source="monitoring", hashes=DASHBOARDS),
        "wanted": WANTED,
        "lock": Lock(source="specgauge.lock.json", created=NOW - DAY, pins=pins),
    }
    return Case(**{**given, **more})


def running(case: Case, **more: Any) -> Case:
    """Have something else run than the evidence is about."""
    return replace(case, deployment=replace(case.deployment, **more))


def judged(gate: str, case: Case) -> Result:
    """Let one gate judge."""
    return JUDGES[gate](case)


def told(gate: str, case: Case) -> str:
    """Let one gate judge; gives how it ended and why."""
    result = judged(gate, case)
    return f"{result.status} {result.reason}"


def write(folder: Path, name: str, document: object) -> Path:
    """Write a document into a file."""
    file = folder / name
    file.write_text(json.dumps(document))
    return file
