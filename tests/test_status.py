"""The status document: the same figures as everywhere else, as JSON."""

import json

from tests.small_pages import v1_page

from specgauge import __version__
from specgauge.derive import inspection
from specgauge.errors import SourceError
from specgauge.model.derived import Hints
from specgauge.model.outcome import ScrapeResult
from specgauge.model.settings import TargetSettings
from specgauge.model.view import View
from specgauge.serve.status import status_document
from specgauge.serve.tracker import Moment, Tracker

TARGET = TargetSettings(
    name="spec",
    url="http://engine:8000",
    hints=Hints(method="eagle"),
    headers={"Authorization": "Bearer secret"},
)


def test_before_the_first_page() -> None:
    """What is not known yet is null or empty; the keys are there from the start."""
    document = status_document(View(targets=(Tracker(TARGET, 60).view,), reload_ok=False))
    assert document == {
        "schema": "specgauge.status/v1",
        "version": __version__,
        "config_last_reload_success": False,
        "targets": [
            {
                "name": "spec",
                "url": "http://engine:8000",
                "role": "speculative",
                "method": "eagle",
                "up": False,
                "result": None,
                "detail": "",
                "last_scrape_success_timestamp_seconds": None,
                "scrape_duration_seconds": None,
                "dialect": None,
                "engine_version": None,
                "window_seconds": None,
                "engine_restarts": 0,
                "scrapes": {},
                "models": [],
            }
        ],
    }


def test_of_a_running_target() -> None:
    """Models are those of `specgauge inspect`; counts are of what happened, and no secret shows."""
    tracker = Tracker(TARGET, 60)
    for time, steps in enumerate([1000, 2000, 500]):
        at = Moment(time=time, unix=100 + time)
        tracker.page(v1_page(steps), complete=True, at=at, seconds=0.25)
    tracker.learn_version("0.32.0")
    document = status_document(View(targets=(tracker.view,)))
    (target,) = document["targets"]
    (derived,) = tracker.view.models.values()
    assert target["models"] == [inspection.model(derived)]
    shown = {key: target[key] for key in list(target)[4:14]}
    assert shown == {
        "up": True,
        "result": "ok",
        "detail": "",
        "last_scrape_success_timestamp_seconds": 102,
        "scrape_duration_seconds": 0.25,
        "dialect": "vllm-v1",
        "engine_version": "0.32.0",
        "window_seconds": 2,
        "engine_restarts": 1,
        "scrapes": {"ok": 3},
    }
    assert "secret" not in json.dumps(document, allow_nan=False)


def test_of_a_target_that_is_down() -> None:
    """The reason stands in words beside the result; models are gone."""
    tracker = Tracker(TARGET, 60)
    tracker.page(v1_page(25), complete=True, at=Moment(time=0, unix=100), seconds=0.25)
    tracker.failure(SourceError(ScrapeResult.TIMEOUT, "no complete answer within 3 s"), 3.0)
    (target,) = status_document(View(targets=(tracker.view,)))["targets"]
    assert (target["up"], target["result"], target["detail"], target["models"]) == (
        False,
        "timeout",
        "no complete answer within 3 s",
        [],
    )
    assert target["scrapes"] == {"ok": 1, "timeout": 1}
    assert target["last_scrape_success_timestamp_seconds"] == 100
