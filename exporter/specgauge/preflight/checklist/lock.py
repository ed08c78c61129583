"""The lock file `specgauge.lock/v1`: what was pinned, and whether that is what runs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from specgauge.preflight.checklist.deployment import (
    Deployment,
    Stated,
    canonical,
    stated_speculation,
)
from specgauge.preflight.checklist.reading import at, clean, moment, parse_object, whole, word
from specgauge.preflight.checklist.result import Reason, Trouble

SCHEMA = "specgauge.lock/v1"
NAME = "specgauge.lock.json"
Pins = Mapping[str, str | int | None]

_WHOLE = ("speculation.num_speculative_tokens",)
DRAFT_PINS = ("draft.name", "draft.revision")
PINS = (
    "engine.version",
    "model.name",
    "model.revision",
    *DRAFT_PINS,
    "speculation.method",
    *_WHOLE,
    "speculation.config_sha256",
    "dashboards.sha256",
)
"""What is pinned, by its dotted path in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """What was pinned, when; None is what was not known then."""

    source: str
    created: float | None = None
    pins: Pins = field(default_factory=dict)


def pins_of(deployment: Deployment, stated: Stated, dashboards: str | None) -> Pins:
    """Say of a deployment what can be pinned; None where it is not known."""
    config, spoken = stated.speculative_config, deployment.speculation
    return {
        "engine.version": deployment.version,
        "model.name": deployment.model_name,
        "model.revision": stated.model_revision,
        "draft.name": spoken.draft,
        "draft.revision": stated.draft_revision,
        "speculation.method": spoken.method,
        "speculation.num_speculative_tokens": spoken.k,
        "speculation.config_sha256": _hash(canonical(config)) if config else None,
        "dashboards.sha256": dashboards,
    }


def write_lock(pins: Pins, stated: Stated, *, created: str, created_by: str) -> str:
    """Write the file's text; the speculation config stands in it in full, beside its hash."""
    document: dict[str, Any] = {"schema": SCHEMA, "created": created, "created_by": created_by}
    for path in PINS:
        part, _, name = path.partition(".")
        document.setdefault(part, {})[name] = pins.get(path)
    document["speculation"]["config"] = dict(stated.speculative_config) or None
    return json.dumps(document, indent=1) + "\n"


def read_lock(data: bytes, source: str) -> Lock | Trouble:
    """Read the file, whoever wrote it."""
    fix = "write it anew with specgauge checklist pin"
    try:
        body = parse_object(data)
    except ValueError as error:
        detail = f"{source}: {clean(str(error))}"
        return Trouble(source=source, reason=Reason.UNREADABLE, detail=detail, fix=fix)
    if body.get("schema") != SCHEMA:
        detail = f"{source}: not {SCHEMA}"
        return Trouble(source=source, reason=Reason.WRONG_SCHEMA, detail=detail, fix=fix)
    pins = {
        path: whole(at(body, path)) if path in _WHOLE else word(at(body, path)) for path in PINS
    }
    return Lock(source=source, created=moment(body.get("created")), pins=pins)


def differences(locked: Pins, running: Pins) -> Iterator[str]:
    """Say where what is pinned is not what runs, of what both sides know."""
    for path in PINS:
        pinned, runs = locked.get(path), running.get(path)
        if pinned is not None and runs is not None and pinned != runs:
            yield f"{path}: {_short(pinned)} is pinned, {_short(runs)} runs"


def contradictions(deployment: Deployment, stated: Stated) -> Iterator[str]:
    """Say where what an operator states is not what the sidecar sees."""
    told, seen = stated_speculation(stated), deployment.speculation
    for name, said, found in (
        ("method", told.method, seen.method),
        ("num_speculative_tokens", told.k, seen.k),
    ):
        if said is not None and found is not None and str(said).lower() != str(found).lower():
            yield f"speculative_config.{name}: {said} is stated, {found} runs"


def hash_dashboards(hashes: Mapping[str, str]) -> str:
    """Make one hash of those of all dashboards."""
    return _hash(json.dumps(dict(sorted(hashes.items()))))


def hash_dashboard(document: Mapping[str, Any]) -> str:
    """Make a hash of what a dashboard shows, wherever it lies.

    Whatever Grafana numbers anew at an import does not count, nor what an import asks for.
    """
    kept = {name: value for name, value in document.items() if name not in _NUMBERED}
    return _hash(json.dumps(kept, sort_keys=True))


_NUMBERED = frozenset({"id", "version", "iteration", "__requires", "__inputs", "__elements"})


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _short(value: str | int) -> str:
    text = str(value)
    is_hash = len(text) == sha256().digest_size * 2 and text.isalnum()
    return text[:12] if is_hash else text
