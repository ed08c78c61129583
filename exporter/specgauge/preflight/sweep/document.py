"""The `specgauge.sweep/v1` document: what was asked, what was measured, and what follows."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from specgauge import __version__
from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.cell import Cell
from specgauge.preflight.sweep.choose import Pick
from specgauge.preflight.sweep.result import NO_BASELINE, NO_RESULT, Result
from specgauge.preflight.sweep.schedule import Schedule
from specgauge.preflight.sweep.schema import SCHEMA, Run, State


def digest(settings: Mapping[str, Any]) -> str:
    """Hash the settings, so that a sweep goes on only as what it was begun as."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def described(candidate: Candidate) -> dict[str, Any]:
    """Describe a candidate among the settings."""
    return {
        "name": candidate.name,
        "speculative_config": None if candidate.config is None else dict(candidate.config),
        "url": candidate.url,
        "server": candidate.server,
    }


def document(
    result: Result,
    *,
    states: Sequence[State],
    runs: Sequence[Run],
    settings: Mapping[str, Any],
    created: datetime,
    complete: bool,
) -> dict[str, Any]:
    """Build the whole document."""
    return {
        "schema": SCHEMA,
        "created": created.isoformat(),
        "created_by": f"specgauge {__version__}",
        "complete": complete,
        "settings": dict(settings),
        "settings_sha256": digest(settings),
        "states": [one.model_dump(mode="json") for one in states],
        "cells": [_cell(one, states) for one in result.cells],
        "picks": [_pick(one) for one in result.picks],
        "recommended": _recommended(result),
        "schedule": _schedule(result.schedule),
        "runs": [one.model_dump(mode="json") for one in runs],
    }


def _cell(cell: Cell, states: Sequence[State]) -> dict[str, Any]:
    server = next((one.server for one in states if one.name == cell.candidate), None)
    told = cell.speculation
    absent = dict(told.absent) if told is not None else {}
    found: dict[str, Any] = {
        "tpot_seconds": None if math.isnan(cell.tpot) else cell.tpot,
        "speedup_ratio": cell.speedup,
        "speedup_ratio_low": cell.low,
        "speedup_ratio_high": cell.high,
        "acceptance_ratio": told.acceptance_ratio if told else None,
        "acceptance_length": told.acceptance_length if told else None,
        "gpu_memory_bytes": server.gpu_memory_bytes if server else None,
        "kv_blocks": server.kv_blocks if server else None,
    }
    reasons = {
        **dict.fromkeys(("tpot_seconds", "speedup_ratio"), cell.rejected or NO_BASELINE),
        "gpu_memory_bytes": (server.gpu_memory_unknown if server else None) or NO_RESULT,
        "kv_blocks": "the page does not tell" if server else NO_RESULT,
        **{name: absent.get(name, NO_RESULT) for name in ("acceptance_ratio", "acceptance_length")},
    }
    bounds = ("speedup_ratio_low", "speedup_ratio_high")
    reasons |= dict.fromkeys(bounds, reasons["speedup_ratio"])
    return {
        "candidate": cell.candidate,
        "num_speculative_tokens": cell.k,
        "concurrency": cell.concurrency,
        **{name: value for name, value in found.items() if value is not None},
        "spread_ratio": cell.spread if cell.usable else None,
        "repeats": cell.repeats,
        "rejected": cell.rejected,
        "notes": list(cell.notes),
        "absent": {name: reasons[name] for name, value in found.items() if value is None},
    }


def _pick(one: Pick) -> dict[str, Any]:
    """Write a choice under the names that everything else has."""
    names = {"k": "num_speculative_tokens", "speedup": "speedup_ratio", "best": "quickest"}
    names |= {"low": "speedup_ratio_low", "high": "speedup_ratio_high"}
    return {names.get(name, name): value for name, value in asdict(one).items()}


def _recommended(result: Result) -> dict[str, Any] | None:
    chosen = result.recommended
    if chosen is None:
        return None
    return {
        "candidate": chosen.candidate,
        "num_speculative_tokens": chosen.k,
        "speedup_ratio": chosen.speedup,
        "weights": [
            {"concurrency": load, "weight": share} for load, share in chosen.weights.items()
        ],
        "compared": list(chosen.compared),
        "ties": list(chosen.ties),
        "left_out": dict(chosen.left_out),
    }


def _schedule(found: Schedule) -> dict[str, Any]:
    return {
        "ranges": [list(one) for one in found.ranges],
        "speculative_config": None if found.config is None else dict(found.config),
        "refusal": None if found.refusal is None else str(found.refusal),
        "cautions": [str(one) for one in found.cautions],
    }
