"""From the configuration tree to the plain values that the sidecar and its guard take."""

from pathlib import Path

from specgauge.baseline.files import load_dir, load_file
from specgauge.baseline.schema import BaselineFile, usable
from specgauge.cli.route.settings import router_name, router_of, told_of
from specgauge.cli.route.switch import switch_of
from specgauge.config import (
    BaselineKeys,
    Config,
    FlagKeys,
    GuardKeys,
    Target,
    control_token,
    given_secret,
    request_headers,
)
from specgauge.errors import BaselineError, ConfigError
from specgauge.guard.policy import Objective, Policy
from specgauge.guard.settings import (
    PLAYBOOK_WINDOW,
    FlagSettings,
    GrafanaSettings,
    GuardSettings,
    PrometheusSettings,
)
from specgauge.model.baseline import Baseline
from specgauge.model.derived import Hints
from specgauge.model.guard import Signal, Switch
from specgauge.model.settings import Settings, TargetSettings
from specgauge.render.alert import levels_known
from specgauge.render.options import Objective as PromisedTpot
from specgauge.render.options import Options, Thresholds
from specgauge.serve.fleet_queries import span_of
from specgauge.units import parse_duration, quote


def settings_of(config: Config) -> Settings:
    """Read the secrets that the configuration names and flatten the rest."""
    return Settings(
        targets=tuple(_target(target) for target in config.targets),
        interval=config.scrape.interval,
        timeout=config.scrape.timeout,
        max_bytes=config.scrape.max_bytes,
        window=config.window,
        host=config.listen_address.host,
        port=config.listen_address.port,
        token=control_token(config),
        histograms=config.export.histograms,
        positions=config.export.positions,
        decision_window=min(config.decision_window, config.window),
        baselines=_baselines(config.baseline),
        baseline_target=config.baseline.target,
        margin=config.baseline.margin,
        routing=told_of(config),
        access_log=_text(config.routing.access_log) if config.routing else None,
        access_log_state=_text(config.routing.access_log_state_file) if config.routing else None,
    )


def guard_of(config: Config) -> GuardSettings | None:
    """Flatten what the configuration says of the guard and its flag; None where there is none."""
    guard = config.guard
    if guard is None:
        return None
    decision_window = min(config.decision_window, config.window)
    if guard.preset == "playbook":
        decision_window = PLAYBOOK_WINDOW
    usual = decision_window
    if guard.source == "prometheus":  # a pool's windows are longer, and none the more for that
        usual = span_of(decision_window, guard.prometheus.interval).window
    return GuardSettings(
        policy=_policy(guard, config.baseline.margin, usual),
        flag=_flag(config.flag or FlagKeys(), router_name(config)),
        decision_window=decision_window,
        source=guard.source,
        state_file=_text(guard.state_file),
        audit_file=_text(guard.audit_file),
        freeze_file=_text(guard.freeze_file),
        lock_file=_text(guard.lock_file),
        prometheus=_prometheus(guard),
        grafana=_grafana(guard),
    )


def _policy(guard: GuardKeys, margin: float, decision_window: float) -> Policy:
    objective = guard.objective
    return Policy(
        dry_run=guard.dry_run,
        playbook=guard.preset == "playbook",
        min_tokens=guard.min_tokens,
        min_requests=guard.min_requests,
        min_drafts=guard.min_drafts,
        consecutive=guard.consecutive,
        severe=guard.severe,
        decision_window=decision_window,
        margin=margin,
        signals={Signal(name): Switch(mode) for name, mode in guard.signals},
        objective=Objective(
            tpot_seconds=objective.tpot, ttft_seconds=objective.ttft, e2e_seconds=objective.e2e
        ),
        floor=guard.acceptance_floor,
        cooldown=guard.cooldown,
        backoff_factor=guard.backoff.factor,
        backoff_max=guard.backoff.max,
        probes=guard.recovery.mode == "probe",
        probe_for=guard.recovery.probe_for,
        max_fallbacks_per_day=guard.max_fallbacks_per_day,
        startup_grace=guard.startup_grace,
        require_standard_capacity=guard.require_standard_capacity,
        max_fallback_share=guard.max_fallback_share,
    )


def _flag(flag: FlagKeys, router: str | None) -> FlagSettings:
    """Hand on the keys of the chosen backend alone."""
    section = getattr(flag, flag.backend.replace("-", "_"))
    terms: dict[str, object] = {}
    for name, value in section:
        if name != "token":
            terms[name] = str(value) if isinstance(value, Path) else value
        elif value is not None:
            terms[name] = given_secret(value)
    if flag.backend == "etcd":
        terms["key"] = section.key or flag.key
    return FlagSettings(
        backend=flag.backend,
        key=flag.key,
        timeout=flag.timeout,
        check_interval=flag.check_interval,
        obeyed_by=flag.obeyed_by or router,
        terms=terms,
    )


def _prometheus(guard: GuardKeys) -> PrometheusSettings | None:
    keys = guard.prometheus
    if keys.url is None:
        return None
    return PrometheusSettings(
        url=keys.url,
        token_file=_text(keys.token_file),
        token=given_secret(keys.token),
        ca_file=_text(keys.ca_file),
        tenant=keys.tenant,
        selector=keys.selector,
        interval=keys.interval,
        timeout=keys.timeout,
    )


def _grafana(guard: GuardKeys) -> GrafanaSettings | None:
    keys = guard.grafana
    if keys.url is None:
        return None
    token = given_secret(keys.token)
    return GrafanaSettings(url=keys.url, token_file=_text(keys.token_file), token=token)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _baselines(keys: BaselineKeys) -> tuple[Baseline, ...]:
    """Read the baseline file, or those of the folder; raises ConfigError for one that is bad."""
    files: dict[str, BaselineFile] = {}
    problems: list[str] = []
    if keys.file is not None:
        try:
            files[str(keys.file)] = load_file(keys.file)
        except BaselineError as error:
            problems += [f"baseline.file: {line}" for line in error.problems]
    if keys.dir is not None:
        try:
            folder = load_dir(keys.dir)
        except BaselineError as error:
            problems += [f"baseline.dir: {line}" for line in error.problems]
        else:
            files |= {one.source: one.file for one in folder.candidates}
            problems += [f"baseline.dir: {line}" for line in folder.problems]
    if problems:
        raise ConfigError(problems)
    return tuple(usable(file, source=source) for source, file in files.items())


def _target(target: Target) -> TargetSettings:
    tls = target.tls
    return TargetSettings(
        name=target.name,
        url=target.address.page,
        role=target.role,
        hints=Hints(method=target.method, engines=target.engines),
        facts=target.facts.stated,
        headers=request_headers(target.auth),
        ca_file=_text(tls.ca_file),
        cert_file=_text(tls.cert_file),
        key_file=_text(tls.key_file),
        server_name=tls.server_name,
    )


def rules_of(config: Config) -> Options:
    """Flatten what the configuration says of rendered files; raises ConfigError for no alert."""
    rules = config.rules
    options = Options(
        job=rules.job,
        engine_job=rules.engine_job,
        sidecars=rules.sidecars,
        engines=rules.engines,
        alertmanagers=rules.alertmanagers,
        image=rules.image,
        selector=rules.selector or "",
        models=rules.models,
        keep_labels=rules.keep_labels,
        scrape_interval=rules.scrape_interval,
        evaluation_interval=rules.evaluation_interval,
        short_window=rules.windows.short,
        medium_window=rules.windows.medium,
        long_window=rules.windows.long,
        team=rules.team,
        teams=rules.teams,
        labels=rules.labels,
        levels=rules.levels,
        severities=rules.severity,
        waits={name: parse_duration(wait) for name, wait in rules.waits.items()},
        runbook_url=rules.runbook_url,
        grafana_url=rules.grafana_url,
        datasource=rules.datasource,
        receiver_url=rules.receiver_url,
        thresholds=Thresholds(**dict(rules.thresholds)),
        objective=PromisedTpot(tpot=rules.objective.tpot, share=rules.objective.share),
        router=router_of(config),
        switch=switch_of(config),
    )
    known = levels_known(options)
    problems = [
        f"rules.{key}.{quote(name)}: no alert of that name; see rules/README.md"
        for key, names in (("severity", rules.severity), ("for", rules.waits))
        for name in names
        if name not in known
    ]
    if problems:
        raise ConfigError(problems)
    return options
