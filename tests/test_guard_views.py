"""The guard's view as series and as documents: what is known is there, the rest is not."""

import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.guarding import KEY, decision, guard_view
from tests.sidecars import read_samples

from specgauge.guard.flags.protocol import WriteResult
from specgauge.model.guard import Outcome, Override, Phase
from specgauge.model.guard_names import GUARD
from specgauge.model.guard_view import FlagStatus, GuardView, Past
from specgauge.model.names import ALL
from specgauge.model.obedience import moves_traffic
from specgauge.model.view import View
from specgauge.serve.collector import ViewCollector
from specgauge.serve.guard_document import guard_document, history_document
from specgauge.serve.guard_series import guard_series

T = 'target="spec"'
FRESH = guard_view(
    phase=Phase.STARTING,
    flag=FlagStatus(
        key=KEY, backend="file", place="/run/flag", writes=dict.fromkeys(map(str, WriteResult), 0)
    ),
)


def emit(guard: GuardView | None) -> dict[str, float]:
    """Scrape a view that holds a guard and nothing else."""
    registry = CollectorRegistry()
    registry.register(ViewCollector(lambda: View(targets=(), guard=guard)))
    found = read_samples(generate_latest(registry).decode())
    return {name: value for name, value in found.items() if "_guard_" in name}


def test_no_guard_no_series() -> None:
    """Without a guard there is no series of one."""
    assert emit(None) == {}


def test_fresh_guard() -> None:
    """Known label values stand at 0; what is not known is not there."""
    assert emit(FRESH) == {
        **{
            f'specgauge_guard_state{{state="{phase}",{T}}}': float(phase is Phase.STARTING)
            for phase in Phase
        },
        **{
            f'specgauge_guard_assessments_total{{outcome="{outcome}",{T}}}': 0.0
            for outcome in Outcome
        },
        **{
            f'specgauge_guard_flag_writes_total{{result="{result}",{T}}}': 0.0
            for result in WriteResult
        },
        f"specgauge_guard_state_since_timestamp_seconds{{{T}}}": 1000.0,
        f"specgauge_guard_override{{{T}}}": 0.0,
    }


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"next_probe": 2000.0}, {"next_probe_timestamp_seconds": 2000.0}, id="probe"),
        pytest.param({"phase": Phase.OVERRIDE}, {"override": 1.0}, id="override"),
        pytest.param({"since": 1.5}, {"state_since_timestamp_seconds": 1.5}, id="since"),
        pytest.param(
            {"flag": FlagStatus(key=KEY, backend="file", place="x", desired=True, confirmed=False)},
            {"flag_desired": 1.0, "flag_confirmed": 0.0},
            id="unconfirmed",
        ),
        pytest.param(
            {"flag": FlagStatus(key=KEY, backend="file", place="x", desired=False)},
            {"flag_desired": 0.0},
            id="wanted only",
        ),
    ],
)
def test_gauges(more: dict[str, Any], expected: dict[str, float]) -> None:
    """A gauge is there when its value is known, off as well as on."""
    found = emit(guard_view(**more))
    for name, value in expected.items():
        assert found[f"specgauge_guard_{name}{{{T}}}"] == value
    optional = {"flag_desired", "flag_confirmed", "next_probe_timestamp_seconds"}
    for name in optional - set(expected):
        assert f"specgauge_guard_{name}{{{T}}}" not in found


def test_counters() -> None:
    """Transitions are by where from, where to and why."""
    found = emit(
        guard_view(
            transitions={("active", "fallback", "speedup_below_one"): 2},
            assessments={Outcome.HEALTHY: 7},
            flag=FlagStatus(key=KEY, backend="file", place="x", writes={"ok": 3, "401": 1}),
        )
    )
    labels = f'from="active",reason="speedup_below_one",{T},to="fallback"'
    assert found[f"specgauge_guard_transitions_total{{{labels}}}"] == 2
    assert found[f'specgauge_guard_assessments_total{{outcome="healthy",{T}}}'] == 7
    assert found[f'specgauge_guard_flag_writes_total{{result="401",{T}}}'] == 1


def test_every_series_is_in_the_table() -> None:
    """What is emitted has its labels as the table says, and the table is known as a whole."""
    full = guard_view(
        next_probe=1.0,
        transitions={("a", "b", "c"): 1},
        warnings={"d": 1},
        flag=FlagStatus(
            key=KEY, backend="x", place="x", desired=True, confirmed=True, writes={"ok": 1}
        ),
    )
    samples = list(guard_series(full))
    assert {name.name for name, _, _ in samples} == {name.name for name in GUARD}
    assert all(len(labels) == len(name.labels) for name, labels, _ in samples)
    assert set(GUARD) <= set(ALL)


def status(backend: str = "exec", **more: Any) -> FlagStatus:
    given = {"moves_traffic": moves_traffic(backend, None), **more}
    return FlagStatus(key=KEY, backend=backend, place="x", **given)


PAST = Past(unix=1700000000.0, decision=decision())


def test_document_of_no_guard() -> None:
    """It says that there is none."""
    assert guard_document(None) == {
        "schema": "specgauge.guard_status/v1",
        "state": None,
        "says": "no guard is configured",
    }
    assert history_document(None) == {"schema": "specgauge.history/v1", "history": []}


def test_document() -> None:
    """Everything that is known, as plain JSON, with what happened in the words of a replay."""
    view = guard_view(
        phase=Phase.FALLBACK,
        next_probe=2000.0,
        transitions={("active", "fallback", "speedup_below_one"): 1},
        warnings={"no_fallback_capacity": 2},
        last=PAST,
        history=(PAST,),
        flag=status(desired=False, confirmed=False),
    )
    found = json.loads(json.dumps(guard_document(view), allow_nan=False))
    past = found.pop("last")
    assert found.pop("history") == [past]
    assert past.pop("says") == found["says"]
    assert past == {
        "unix": 1700000000.0,
        "t": 125.0,
        "state": "fallback",
        "flag": False,
        "outcome": "degraded",
        "reason": "speedup_below_one",
        "changed": True,
        "evidence": {"speedup_ratio": 0.712346, "tokens": 8123.0},
    }
    assert found.pop("says").startswith("From active to fallback, flag off: ")
    assert found == {
        "schema": "specgauge.guard_status/v1",
        "target": "spec",
        "state": "fallback",
        "since": 1000.0,
        "dry_run": False,
        "frozen": False,
        "following": False,
        "flag": {
            "key": KEY,
            "backend": "exec",
            "place": "x",
            "moves_traffic": True,
            "obeyed_by": None,
            "desired": False,
            "confirmed": False,
            "on_the_word": False,
            "writes": {},
            "last_error": None,
            "pending_since": None,
            "changed_elsewhere": False,
            "given_up": None,
        },
        "next_probe": 2000.0,
        "override": None,
        "assessments": {str(outcome): 0 for outcome in Outcome},
        "warnings": {"no_fallback_capacity": 2},
        "transitions": [
            {"from": "active", "to": "fallback", "reason": "speedup_below_one", "count": 1}
        ],
    }


def test_document_of_an_override() -> None:
    """It shows what was ordered, until when and why."""
    override = Override(mode="off", until=55.0, reason="a test")
    found = guard_document(
        guard_view(phase=Phase.OVERRIDE, override=override, override_until=3000.0)
    )
    assert found["override"] == {"mode": "off", "until": 3000.0, "reason": "a test"}
    assert found["last"] is None


def test_history() -> None:
    """The history is the oldest first, each with its words."""
    other = Past(unix=1700000300.0, decision=decision(state=Phase.PROBING, flag=True))
    found = history_document(guard_view(history=(PAST, other)))
    assert [one["unix"] for one in found["history"]] == [1700000000.0, 1700000300.0]
    assert all(one["says"] for one in found["history"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        pytest.param({}, "Nothing was scraped so far.", id="nothing"),
        pytest.param({"dry_run": True}, "This is a dry run: the flag is never written.", id="dry"),
        pytest.param(
            {"flag": status("embedded")},
            "Nothing is configured to obey the flag: see flag.obeyed_by.",
            id="nobody obeys",
        ),
        pytest.param(
            {"flag": status(pending_since=1.0)},
            "The flag is not confirmed as it is wanted.",
            id="pending",
        ),
        pytest.param(
            {"flag": status(pending_since=1.0, last_error="no answer")},
            "The flag is not confirmed as it is wanted: no answer.",
            id="pending and why",
        ),
        pytest.param(
            {"flag": status(changed_elsewhere=True)},
            "Somebody else changed the flag since it was written.",
            id="changed elsewhere",
        ),
    ],
)
def test_words(more: dict[str, Any], words: str) -> None:
    """It says what a person would otherwise find out too late, and nothing else."""
    plain = guard_view(flag=status())
    says = guard_document(guard_view(**{"flag": plain.flag, **more}))["says"]
    assert says == f"Nothing was scraped so far. {words}".removesuffix(
        " Nothing was scraped so far."
    )


@pytest.mark.parametrize(
    ("flag", "asked"),
    [
        pytest.param(status("webhook", obeyed_by="the gateway"), False, id="somebody obeys"),
        pytest.param(status("haproxy"), False, id="moves traffic itself"),
        pytest.param(status("kubernetes", moves_traffic=True), False, id="weights of a route"),
        pytest.param(status("kubernetes"), True, id="a ConfigMap"),
        pytest.param(status("webhook"), True, id="nobody"),
    ],
)
def test_who_obeys(flag: FlagStatus, asked: bool) -> None:
    """Only a flag that somebody has to ask for needs someone who does."""
    assert ("obeyed_by" in guard_document(guard_view(flag=flag))["says"]) is asked
