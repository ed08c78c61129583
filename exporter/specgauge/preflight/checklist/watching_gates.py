"""Gates of what watches it: rules in Prometheus, dashboards, the runbook that alerts lead to."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specgauge.preflight.checklist.case import Answer, Case
from specgauge.preflight.checklist.reading import at, mappings, word
from specgauge.preflight.checklist.result import (
    Proof,
    Reason,
    Result,
    Trouble,
    failed,
    passed,
    troubled,
    unmeasured,
)

_RENDER = "specgauge render rules, and load rules/specgauge.rules.yaml"
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One rule as Prometheus has it; `severity` is None for a recording rule."""

    name: str
    severity: str | None
    health: str | None
    error: str | None
    runbook: str | None


def judge_rules(case: Case) -> Result:
    """Say whether Prometheus has every rule of ours, and can evaluate each."""
    answer = case.rules
    if answer is None:
        return unmeasured(Reason.MISSING, "no Prometheus was asked", fix="give --prometheus URL")
    if isinstance(answer, Trouble):
        return troubled(answer)
    groups = at(answer.body, "data.groups")
    if answer.body.get("status") != "success" or not isinstance(groups, list):
        says = f"{answer.source}: not an answer of /api/v1/rules"
        return unmeasured(Reason.WRONG_SCHEMA, says, Proof(source=answer.source))
    rules, wanted = _ours(case, answer), case.wanted
    proof = Proof(source=answer.source, numbers={"rules": float(len(rules))})
    says = f"all {len(wanted.alerts)} alerts and {len(wanted.records)} recording rules are healthy"
    return next(_unhealthy(case, rules, proof), passed(says, proof))


def _unhealthy(case: Case, rules: list[Loaded], proof: Proof) -> Iterator[Result]:
    missing = _missing(case, rules)
    if missing:
        says = f"{len(missing)} of our rules are not loaded: {_named(missing)}"
        yield failed(Reason.NOT_LOADED, says, proof, fix=_RENDER)
    sick = [one for one in rules if one.health == "err"]
    if sick:
        says = f"{sick[0].name} cannot be evaluated: {sick[0].error or 'no reason is told'}"
        yield failed(Reason.UNHEALTHY, says, proof, fix="mend the rule, or what it asks for")
    waiting = [one.name for one in rules if one.health != "ok"]
    if waiting:
        says = f"not evaluated yet: {_named(waiting)}"
        yield unmeasured(Reason.INCOMPLETE, says, proof, fix="try again in a minute")


def _ours(case: Case, answer: Answer) -> list[Loaded]:
    """List those of the loaded rules that are rendered from this configuration."""
    wanted = case.wanted
    return [
        one
        for one in _loaded(answer.body)
        if (one.name, one.severity) in wanted.alerts
        or (one.severity is None and one.name in wanted.records)
    ]


def _missing(case: Case, rules: list[Loaded]) -> list[str]:
    alerts = case.wanted.alerts - {(one.name, one.severity) for one in rules}
    records = case.wanted.records - {one.name for one in rules if one.severity is None}
    return [*sorted(f"{name} ({level})" for name, level in alerts), *sorted(records)]


def _loaded(body: Mapping[str, Any]) -> list[Loaded]:
    return [
        Loaded(
            name=name,
            severity=(word(at(rule, "labels.severity")) or "") if alerts else None,
            health=word(rule.get("health")),
            error=word(rule.get("lastError")),
            runbook=word(at(rule, "annotations.runbook_url")),
        )
        for group in mappings(at(body, "data.groups"))
        for rule in mappings(group.get("rules"))
        if (name := word(rule.get("name"))) is not None
        for alerts in (rule.get("type") == "alerting",)
    ]


def judge_dashboards(case: Case) -> Result:
    """Say whether every dashboard is there, and in a folder as it would be rendered."""
    shown, wanted = case.shown, case.wanted.dashboards
    if shown is None:
        fix = "give --dashboards DIR or --grafana URL"
        return unmeasured(Reason.MISSING, "no dashboards were looked for", fix=fix)
    if isinstance(shown, Trouble):
        return troubled(shown)
    proof = Proof(source=shown.source, numbers={"dashboards": float(len(wanted))})
    gone = [uid for uid in wanted if shown.hashes.get(uid) is None]
    if gone:
        fix = "specgauge render dashboards, and import or provision them"
        says = f"{shown.source} has no {_named(gone)}"
        return failed(Reason.NOT_LOADED, says, proof, fix=fix)
    other = [uid for uid, made in wanted.items() if shown.hashes[uid] != made]
    if other:
        says = f"{_named(other)} in {shown.source}: not what is rendered from this configuration"
        return failed(Reason.DIFFERS, says, proof, fix="import them anew, or render with its keys")
    return passed(f"{', '.join(wanted)} are in {shown.source} as rendered", proof)


def judge_runbook(case: Case) -> Result:
    """Say whether alerts lead to a runbook of yours."""
    url = case.wanted.runbook_url
    proof = Proof(source="rules.runbook_url")
    fix = "set rules.runbook_url to where the on-call finds rules/README.md, and render again"
    if not url or url == case.wanted.placeholder_url:
        says = "rules.runbook_url is the placeholder"
        return failed(Reason.PLACEHOLDER, says, proof, fix=fix)
    if isinstance(case.rules, Answer):
        rules = [one for one in _ours(case, case.rules) if one.severity is not None]
        other = [one for one in rules if not (one.runbook or "").startswith(url)]
        if other:
            says = f"{other[0].name} as loaded leads to {other[0].runbook or 'no runbook'}"
            return failed(Reason.DIFFERS, says, Proof(source=case.rules.source), fix=_RENDER)
    return passed(f"alerts lead to {url}", proof, reason=Reason.STATED)


def _named(names: Collection[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return ", ".join(found[:_MOST_NAMED]) + more
