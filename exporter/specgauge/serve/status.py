"""The view as a JSON document for `/api/v1/status` and the page; a function of the view."""

from typing import Any

from specgauge import __version__
from specgauge.derive import inspection
from specgauge.derive.verdict_document import judgement
from specgauge.model.view import TargetView, View

SCHEMA = "specgauge.status/v1"


def status_document(view: View) -> dict[str, Any]:
    """Write everything known now; a target's models are those of `specgauge.inspect/v1`."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "config_last_reload_success": view.reload_ok,
        "targets": [_target(target) for target in view.targets],
    }


def _target(target: TargetView) -> dict[str, Any]:
    return {
        "name": target.name,
        "url": target.url,
        "role": target.role,
        "method": target.hints.method,
        "up": target.up,
        "result": None if target.result is None else str(target.result),
        "detail": target.detail,
        "last_scrape_success_timestamp_seconds": target.last_success,
        "scrape_duration_seconds": target.scrape_seconds,
        "dialect": None if target.dialect is None else str(target.dialect),
        "engine_version": target.version,
        "window_seconds": target.window_seconds,
        "engine_restarts": sum(n for (model, _), n in target.restarts.items() if model),
        "scrapes": {str(result): count for result, count in target.scrapes.items() if count},
        "models": [
            inspection.model(derived)
            | (
                {"verdict": judgement(target.judgements[model])}
                if model in target.judgements
                else {}
            )
            for model, derived in target.models.items()
        ],
    }
