"""The guard as JSON for `/api/v1/guard` and `/api/v1/history`; functions of the view."""

from dataclasses import asdict
from typing import Any

from specgauge.guard.audit import decision_document
from specgauge.guard.explain import explain
from specgauge.model.guard_view import GuardView, Past

SCHEMA = "specgauge.guard_status/v1"
HISTORY_SCHEMA = "specgauge.history/v1"
_FOLLOWING = (
    "Another process holds guard.lock_file, or it cannot be locked: this one looks on and writes "
    "nothing."
)


def guard_document(guard: GuardView | None) -> dict[str, Any]:
    """Write where the guard stands, why, and what it did last; times are Unix seconds."""
    if guard is None:
        return {"schema": SCHEMA, "state": None, "says": "no guard is configured"}
    override = guard.override
    return {
        "schema": SCHEMA,
        "target": guard.target,
        "state": str(guard.phase),
        "since": guard.since,
        "dry_run": guard.dry_run,
        "frozen": guard.frozen,
        "following": guard.following,
        "flag": asdict(guard.flag),
        "next_probe": guard.next_probe,
        "override": None
        if override is None
        else {"mode": override.mode, "until": guard.override_until, "reason": override.reason},
        "assessments": {str(outcome): count for outcome, count in guard.assessments.items()},
        "warnings": dict(guard.warnings),
        "transitions": [
            {"from": before, "to": after, "reason": reason, "count": count}
            for (before, after, reason), count in guard.transitions.items()
        ],
        "last": None if guard.last is None else _past(guard.last),
        "history": [_past(one) for one in guard.history],
        "says": _says(guard),
    }


def history_document(guard: GuardView | None) -> dict[str, Any]:
    """Write what changed since the start, the oldest first."""
    past = () if guard is None else guard.history
    return {"schema": HISTORY_SCHEMA, "history": [_past(one) for one in past]}


def _past(past: Past) -> dict[str, Any]:
    return {"unix": past.unix, **decision_document(past.decision), "says": explain(past.decision)}


def _says(guard: GuardView) -> str:
    """Put it into words, with what a person would otherwise find out too late."""
    parts = [explain(guard.last.decision) if guard.last else "Nothing was scraped so far."]
    if guard.following:
        parts = [_FOLLOWING]
    flag = guard.flag
    if guard.dry_run:
        parts.append("This is a dry run: the flag is never written.")
    if flag.given_up is not None:
        value = "on" if flag.given_up else "off"
        parts.append(f"A write of {value} was pending when it began, and was given up.")
    if flag.obeyed_by is None and not flag.moves_traffic:
        parts.append("Nothing is configured to obey the flag: see flag.obeyed_by.")
    if flag.pending_since is not None:
        why = f": {flag.last_error}" if flag.last_error else ""
        parts.append(f"The flag is not confirmed as it is wanted{why}.")
        if guard.frozen:
            parts.append("It is not written while the freeze file is there.")
    if flag.changed_elsewhere:
        parts.append("Somebody else changed the flag since it was written.")
    return " ".join(parts)
