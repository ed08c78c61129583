"""From the configuration to what the gates take: thresholds, what is stated, what is wanted."""

import json
from pathlib import Path

from specgauge.baseline.files import load_dir, load_file
from specgauge.baseline.schema import usable
from specgauge.cli.settings import rules_of
from specgauge.config import Config, FlagKeys, advice
from specgauge.errors import BaselineError
from specgauge.model.baseline import Baseline
from specgauge.preflight.checklist.case import BaselineConfig, GuardConfig, Wanted
from specgauge.preflight.checklist.deployment import Stated
from specgauge.preflight.checklist.lock import NAME, hash_dashboard
from specgauge.preflight.checklist.result import Reason, Trouble
from specgauge.preflight.checklist.terms import Terms
from specgauge.render.dashboards import dashboards
from specgauge.render.options import Options
from specgauge.render.rules import alert_groups, recording_groups
from specgauge.render.verify import rules_of as rules_in


def terms_of(config: Config) -> Terms:
    """Flatten the thresholds."""
    keys = config.checklist
    return Terms(
        max_age=keys.max_age,
        min_acceptance=keys.min_acceptance,
        min_drafts=keys.min_drafts,
        min_speedup=keys.min_speedup,
        min_burst_speedup=keys.min_burst_speedup,
        max_p99_ratio=keys.max_p99_ratio,
        max_memory=keys.max_memory,
        min_repeats=keys.min_repeats,
        expected_concurrency=keys.expected_concurrency,
    )


def stated_in(config: Config) -> Stated:
    """Flatten what an operator states."""
    keys = config.checklist
    return Stated(
        models=keys.models,
        model_revision=keys.model_revision,
        draft=keys.draft,
        draft_revision=keys.draft_revision,
        speculative_config=json.loads(keys.speculative_config or "{}"),
        draft_conditions=keys.draft_conditions,
        routing=keys.routing,
        report_scheduled_by=keys.report_scheduled_by,
    )


def guard_in(config: Config) -> GuardConfig | None:
    """Say what is configured of the guard, and what `config check` warns of."""
    if config.guard is None:
        return None
    flag, warnings = config.flag or FlagKeys(), advice(config)
    return GuardConfig(
        key=flag.key,
        backend=flag.backend,
        obeyed_by=flag.obeyed_by,
        dry_run=config.guard.dry_run,
        nobody_obeys=_warned(warnings, "flag.obeyed_by:"),
        deaf=_warned(warnings, "guard.signals:"),
    )


def _warned(warnings: tuple[str, ...], key: str) -> str | None:
    return next((one for one in warnings if one.startswith(key)), None)


def baseline_in(config: Config) -> BaselineConfig | Trouble:
    """Read the baseline files that are configured."""
    keys = config.baseline
    found: list[Baseline] = []
    try:
        if keys.file is not None:
            found.append(usable(load_file(keys.file), source=str(keys.file)))
        if keys.dir is not None:
            folder = load_dir(keys.dir)
            found += [usable(one.file, source=one.source) for one in folder.candidates]
    except BaselineError as error:
        source = str(keys.file or keys.dir)
        fix = "record it anew with specgauge baseline record"
        return Trouble(source=source, reason=Reason.UNREADABLE, detail=error.problems[0], fix=fix)
    return BaselineConfig(files=tuple(found), target=keys.target)


def wanted_by(config: Config) -> Wanted:
    """Render what is to be found in Prometheus and Grafana."""
    options = rules_of(config)
    groups = [*recording_groups(options), *alert_groups(options)]
    found = list(rules_in({"groups": groups}))
    return Wanted(
        alerts=frozenset(
            (one["alert"], str(one.get("labels", {}).get("severity", "")))
            for one in found
            if "alert" in one
        ),
        records=frozenset(one["record"] for one in found if "record" in one),
        dashboards={
            document["uid"]: hash_dashboard(document)
            for one in dashboards(options)
            if one.path.endswith(".json")
            for document in (json.loads(one.text),)
        },
        runbook_url=options.runbook_url,
        placeholder_url=Options().runbook_url,
    )


def lock_file(config: Config, file: Path | None) -> Path:
    """Say where the lock file lies: as configured, or beside the configuration."""
    beside = Path() if file is None else file.parent
    return config.checklist.lock_file or beside / NAME
