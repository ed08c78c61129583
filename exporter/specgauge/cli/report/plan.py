"""What a command line and a configuration ask for; asks nothing yet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specgauge.baseline.files import load_dir, load_file
from specgauge.cli.report.options import FORMATS
from specgauge.cli.values import service_root, span_seconds
from specgauge.config import BaselineKeys, Config, ReportKeys, given_secret, read_secret
from specgauge.errors import UsageError
from specgauge.guard.settings import PrometheusSettings
from specgauge.report.grid import HOUR, Period
from specgauge.report.terms import Limits, Terms
from specgauge.serve.fleet_history import parse_time

_FORMS = {".md": "markdown", ".html": "html", ".htm": "html", ".json": "json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Whom to ask about which periods, how to reckon, and where the report goes."""

    server: PrometheusSettings
    period: Period
    before: Period | None
    terms: Terms
    form: str
    output: str | None
    webhook: str | None = field(repr=False)


def plan_of(given: Mapping[str, Any], config: Config, *, now: float) -> Plan:
    """Put the plan together; raises UsageError for what cannot be meant."""
    keys = config.report
    period, before = _periods(given, keys.step, now)
    return Plan(
        server=_server(given, config),
        period=period,
        before=before,
        terms=_terms(given, keys, config.baseline),
        form=given["form"] or _form(given["output"] or ""),
        output=given["output"],
        webhook=_webhook(given["webhook"], keys),
    )


def _periods(given: Mapping[str, Any], step: float, now: float) -> tuple[Period, Period | None]:
    last = span_seconds("--last", given["last"])
    if last < HOUR or last % HOUR:
        raise UsageError(f"--last {given['last']}: whole hours are needed, as 7d or 36h")
    end = parse_time(given["until"], now) // step * step
    if end <= last:
        raise UsageError(f"--last {given['last']}: begins before 1970; write 7d or 36h")
    if end > now:
        raise UsageError(f"--until {given['until']} is not a time of the past")
    period = Period(start=end - last, end=end, step=step)
    if given["compare_to"] is None:
        return period, None
    shift = span_seconds("--compare-to", given["compare_to"])
    if shift < last or shift % step:
        raise UsageError(
            f"--compare-to {given['compare_to']} must be no shorter than --last {given['last']}, "
            f"in steps of {step:g} s"
        )
    return period, Period(start=period.start - shift, end=period.end - shift, step=step)


def _server(given: Mapping[str, Any], config: Config) -> PrometheusSettings:
    """Find whom to ask; a token of the configuration goes only where it was meant to go."""
    keys, guard = config.report, config.guard.prometheus if config.guard else None
    url = None if given["url"] is None else service_root("--prometheus", given["url"])
    selector = _checked("--selector", "selector", given["selector"]) or keys.selector
    own = keys.prometheus or (guard.url if guard else None)
    if (url or own) is None:
        raise UsageError("whom to ask? give --prometheus URL, or report.prometheus in --config")
    terms = keys if keys.prometheus or guard is None else guard
    known = url in {None, own}
    token_file = given["token_file"] or (terms.token_file if known else None)
    return PrometheusSettings(
        url=url or own or "",
        token_file=_text(token_file),
        token=given_secret(terms.token) if known and given["token_file"] is None else None,
        ca_file=_text(terms.ca_file if known else keys.ca_file),
        tenant=keys.tenant or (terms.tenant if known else None),
        selector=selector,
        timeout=keys.timeout,
    )


def _checked(option: str, key: str, value: str | None) -> str | None:
    """Hold an option to what its key must be."""
    if value is None:
        return None
    try:
        found: str | None = getattr(ReportKeys.model_validate({key: value}), key)
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"{option}: {why}") from None
    return found


def _terms(given: Mapping[str, Any], keys: ReportKeys, baseline: BaselineKeys) -> Terms:
    return Terms(
        limits=Limits(
            min_acceptance=keys.min_acceptance,
            min_speedup=keys.min_speedup,
            max_fallbacks=keys.max_fallbacks,
            max_baseline_age=keys.max_baseline_age,
        ),
        cluster_label=keys.cluster_label,
        min_draft_tokens=keys.min_draft_tokens,
        gpus_per_server=given["gpus_per_server"] or keys.gpus_per_server,
        baseline_blocks=_blocks(baseline),
    )


def _blocks(baseline: BaselineKeys) -> dict[str, int]:
    """Read how many KV blocks the servers of configured baselines had, by model."""
    files = [load_file(baseline.file)] if baseline.file else []
    files += [one.file for one in load_dir(baseline.dir).candidates] if baseline.dir else []
    found: dict[str, set[int]] = {}
    for one in files:
        if one.hardware.kv_blocks is not None:
            found.setdefault(one.model.name, set()).add(one.hardware.kv_blocks)
    return {name: next(iter(blocks)) for name, blocks in found.items() if len(blocks) == 1}


def _webhook(given: str | None, keys: ReportKeys) -> str | None:
    if given is not None:
        return _checked("--webhook", "webhook", given)
    return read_secret(keys.webhook_file) if keys.webhook_file else keys.webhook


def _form(output: str) -> str:
    """Take the form from the file's ending; a file without one, as a device, gets the usual one."""
    ending = Path(output).suffix.lower()
    if ending and ending not in _FORMS:
        known = ", ".join(_FORMS)
        raise UsageError(f"--output {output}: no form ends in {ending}; use {known} or --format")
    return _FORMS.get(ending, FORMATS[0])


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
