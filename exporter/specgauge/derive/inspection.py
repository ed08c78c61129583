"""The `specgauge.inspect/v1` document: derived models as JSON, absent fields with their reasons."""

from collections.abc import Iterable
from typing import Any

from specgauge.model.derived import FIELDS, Absent, Derived, EngineAcceptance, Value
from specgauge.model.quantity import Dialect

SCHEMA = "specgauge.inspect/v1"


def document(
    models: Iterable[Derived],
    *,
    dialect: Dialect,
    version: str | None,
    seconds: float | None,
) -> dict[str, Any]:
    """Build the whole document; `seconds` is the window's length, None for a single page."""
    return {
        "schema": SCHEMA,
        "dialect": str(dialect),
        "engine_version": version,
        "window_seconds": seconds,
        "models": [model(one) for one in models],
    }


def model(derived: Derived) -> dict[str, Any]:
    """Build one model's object: every field is a value here or a reason in `absent`."""
    found: dict[str, Any] = {
        "model_name": derived.model_name,
        "engines": list(derived.engines),
        "speculation": str(derived.speculation),
    }
    if derived.speculation_reason:
        found["speculation_reason"] = derived.speculation_reason
    for name in FIELDS:
        if name in derived.values:
            found[name] = _plain(derived.values[name])
    found["per_engine"] = [_engine(one) for one in derived.per_engine]
    found["absent"] = {name: str(why) for name, why in derived.absent.items()}
    found["warnings"] = list(derived.warnings)
    return found


def _engine(one: EngineAcceptance) -> dict[str, Any]:
    fields = {
        "acceptance_ratio": one.acceptance_ratio,
        "acceptance_length": one.acceptance_length,
    }
    absent = {name: str(v.reason) for name, v in fields.items() if isinstance(v, Absent)}
    known = {name: v for name, v in fields.items() if not isinstance(v, Absent)}
    return {"engine": one.engine, **known, **({"absent": absent} if absent else {})}


def _plain(value: Value) -> int | float | list[int | float]:
    return value if isinstance(value, int | float) else list(value)
