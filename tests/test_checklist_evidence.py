"""Evidence of the checklist: what is stale, foreign or hostile is refused, and says why."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checklists import (
    DASHBOARDS,
    DAY,
    DOCUMENTS,
    NOW,
    STATED,
    draft_document,
    evidence,
    judged,
    live,
    memory_document,
    ready,
    running,
    sweep_document,
    told,
)

from specgauge.preflight.checklist.deployment import Speculation, deployed
from specgauge.preflight.checklist.evidence import (
    DRAFT,
    KINDS,
    MEMORY,
    SWEEP,
    Evidence,
    format_age,
    read_evidence,
)
from specgauge.preflight.checklist.live import SCHEMA, Live, find_live
from specgauge.preflight.checklist.lock import (
    PINS,
    Lock,
    hash_dashboard,
    hash_dashboards,
    pins_of,
    read_lock,
    write_lock,
)
from specgauge.preflight.checklist.reading import moment, number, parse_object, whole, word
from specgauge.preflight.checklist.report import timestamp
from specgauge.preflight.checklist.result import Reason, Status, Trouble

Json = dict[str, Any]
GATE = {"draft": "draft", "sweep": "k_chosen", "compare": "comparison", "memory": "memory"}
every_document = pytest.mark.parametrize("name", DOCUMENTS)


def spoilt(name: str, **more: Any) -> str:
    """Judge a deployment of which one document says something else."""
    kind, make = DOCUMENTS[name]
    return told(GATE[name], ready(**{name: evidence(kind, make(**more))}))


@every_document
@pytest.mark.parametrize(
    ("created", "expected"),
    [
        pytest.param(NOW - 13 * DAY, "pass met", id="two weeks less a day"),
        pytest.param(NOW - 14 * DAY - 1, "not_measured stale", id="over two weeks"),
        pytest.param(NOW + 200, "pass met", id="a clock ahead"),
        pytest.param(NOW + 400, "not_measured from_the_future", id="future"),
    ],
)
def test_age(name: str, created: float, expected: str) -> None:
    """Evidence counts for a fortnight; what is from the future counts as nothing."""
    assert spoilt(name, created=timestamp(created)) == expected


@every_document
@pytest.mark.parametrize(
    "created",
    [None, "", "yesterday", "2027-01-10T00:00:00", -1, True, 1e300, [], {"at": 1}, "9" * 5000],
    ids=str,
)
def test_undated(name: str, created: object) -> None:
    """A document that does not say when it was made, with a zone, is no evidence."""
    assert spoilt(name, created=created) == "not_measured undated"


@every_document
def test_unix_seconds_are_a_date(name: str) -> None:
    """A number is a time as well."""
    assert spoilt(name, created=NOW - DAY) == "pass met"


@every_document
def test_nothing_is_known_of_what_runs(name: str) -> None:
    """Where the sidecar does not answer, nothing can be said to be of what runs."""
    gone = Trouble(source="s", reason=Reason.UNREACHABLE, detail="gone")
    assert told(GATE[name], ready(live=gone)) == "not_measured deployment_unknown"


@every_document
def test_another_model(name: str) -> None:
    """Evidence of another model is refused, and says whose it is."""
    case = running(ready(), models=("other", "/models/other"))
    result = judged(GATE[name], case)
    assert (result.status, result.reason) == (Status.NOT_MEASURED, Reason.OTHER_MODEL)
    assert "other runs" in result.says


@pytest.mark.parametrize("name", ["draft", "sweep", "compare"])
@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("0.25.1", "pass met", id="the same"),
        pytest.param("0.25.1+cpu", "pass met", id="another build"),
        pytest.param("0.25.0", "not_measured other_release", id="another patch"),
        pytest.param(None, "not_measured deployment_unknown", id="unknown"),
    ],
)
def test_another_release(name: str, version: str | None, expected: str) -> None:
    """Evidence of another release is refused, as is any where the release is not known."""
    assert told(GATE[name], running(ready(), version=version)) == expected


@pytest.mark.parametrize(
    ("name", "speculation", "expected"),
    [
        ("draft", {"method": "ngram_of_ours"}, "other_speculation"),
        ("draft", {"draft": "/models/other"}, "other_speculation"),
        ("draft", {"draft": None}, "deployment_unknown"),
        ("draft", {"method": None}, "deployment_unknown"),
        ("sweep", {"method": "draft_model"}, "other_speculation"),
        ("sweep", {"draft": "/models/other"}, "other_speculation"),
        ("sweep", {"method": None}, "deployment_unknown"),
        ("compare", {"k": 3}, "other_speculation"),
        ("compare", {"k": None}, "deployment_unknown"),
        ("memory", {"k": 3}, "other_speculation"),
        ("memory", {"draft": "/models/other"}, "other_speculation"),
    ],
)
def test_another_speculation(name: str, speculation: Mapping[str, Any], expected: str) -> None:
    """Evidence of another method, k or draft is refused."""
    case = ready()
    runs = replace(case.deployment.speculation, **speculation)
    assert told(GATE[name], running(case, speculation=runs)) == f"not_measured {expected}"


@pytest.mark.parametrize(
    ("name", "more"),
    [
        pytest.param("draft", {"target": None}, id="draft without a target"),
        pytest.param("draft", {"release": None}, id="draft without a release"),
        pytest.param("draft", {"draft": None}, id="draft without a draft"),
        pytest.param("sweep", {"states": [], "settings": {}}, id="sweep without a model"),
        pytest.param("sweep", {"states": "?"}, id="sweep without a release"),
        pytest.param("sweep", {"settings": {"model": "target"}}, id="sweep without a method"),
        pytest.param("compare", {"facts": None}, id="compare without facts"),
        pytest.param(
            "compare",
            {"facts": {"speculative": {"model.name": "target"}}},
            id="compare without a release",
        ),
        pytest.param("compare", {"cells": []}, id="compare without k"),
        pytest.param("memory", {"target": {}}, id="memory without a model"),
        pytest.param("memory", {"setting": {"utilization": 0.9}}, id="memory without k"),
        pytest.param(
            "memory",
            {"source": "pages", "after": {"models": ["target"], "kv_cache_usage_ratio": 0.1}},
            id="two servers without k",
        ),
    ],
)
def test_unattributed(name: str, more: Json) -> None:
    """Evidence that does not say whose it is counts for nobody."""
    assert spoilt(name, **more) == "not_measured unattributed"


@pytest.mark.parametrize(
    ("told_k", "expected"),
    [
        pytest.param({"num_speculative_tokens": 4.0}, "pass met", id="k told"),
        pytest.param(
            {"draft_length": 3.7}, "not_measured unattributed", id="drafts of many lengths"
        ),
        pytest.param({"draft_length": 5.0}, "not_measured other_speculation", id="another"),
    ],
)
def test_k_of_a_comparison(told_k: Json, expected: str) -> None:
    """What a pool's own figures say of its drafts is its k."""
    cells = [{"load": "steady", "role": "steady", "speculative": {"server": told_k}}]
    assert spoilt("compare", cells=cells) == expected


def test_k_of_a_comparison_among_its_facts() -> None:
    """A fact goes before what the figures show."""
    facts = {
        "model.name": "target",
        "engine.version": "0.25.1",
        "speculation.num_speculative_tokens": 2,
    }
    assert spoilt("compare", facts={"speculative": facts}) == "not_measured other_speculation"


@pytest.mark.parametrize(
    ("running_as", "written"),
    [("deepseek_mtp", "mtp"), ("EAGLE3", "eagle3"), ("[ngram]", "ngram")],
)
def test_methods_have_several_names(running_as: str, written: str) -> None:
    """A method is the same whatever family stands before its name."""
    case = ready(draft=evidence(DRAFT, draft_document(method=written)))
    runs = replace(case.deployment.speculation, method=running_as)
    expected = "pass not_needed" if "ngram" in running_as else "pass met"
    assert told("draft", running(case, speculation=runs)) == expected


def test_a_head_within_the_model() -> None:
    """Where the draft is a part of the model, neither side names one."""
    stated = replace(STATED, speculative_config={"method": "mtp", "num_speculative_tokens": 1})
    case = ready(
        stated=stated,
        live=live(method="mtp"),
        draft=evidence(DRAFT, draft_document(method="mtp", draft=None)),
    )
    assert told("draft", case) == "pass met"


def test_a_path_may_end_in_a_slash() -> None:
    """The same folder is the same, with a slash or without."""
    assert spoilt("memory", target={"path": "/models/target/"}) == "pass met"


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "binary": bytes(range(256)),
    "cut off": json.dumps(draft_document()).encode()[:-20],
    "a list": b"[]",
    "a number": b"4",
    "NaN": b'{"schema": "specgauge.sweep/v1", "created": NaN}',
    "Infinity": b'{"schema": -Infinity}',
    "a key twice": b'{"schema": "specgauge.sweep/v1", "schema": "specgauge.sweep/v1"}',
    "deep": b"[" * 100_000,
    "deep within": b'{"a":' * 100_000,
    "a number too long": b'{"created": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_documents(kind: Any, data: bytes) -> None:
    """Whatever is no document is a trouble on one line, never a traceback."""
    found = read_evidence(kind, data, "evidence.json")
    assert isinstance(found, Trouble)
    assert found.reason is Reason.UNREADABLE
    assert found.detail.startswith("evidence.json: ")
    assert found.detail.isprintable()
    assert found.fix


@pytest.mark.parametrize(
    "schema",
    [None, 7, "specgauge.sweep/v2", "specgauge.baseline/v1", ["specgauge.sweep/v1"], "\x1b[2J"],
    ids=repr,
)
def test_another_schema(schema: object) -> None:
    """A document of another kind is refused, and says which is wanted."""
    found = evidence(SWEEP, sweep_document(schema=schema))
    assert isinstance(found, Trouble)
    assert found.reason is Reason.WRONG_SCHEMA
    assert found.detail.endswith("not specgauge.sweep/v1")
    assert found.detail.isprintable()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(data=st.data())
def test_any_shape_of_document_is_judged(data: st.DataObject) -> None:
    """Any value at any key of any document gives a result, and never a pass for want of a date."""
    name = data.draw(st.sampled_from(sorted(DOCUMENTS)))
    kind, make = DOCUMENTS[name]
    document = make()
    for key in data.draw(st.lists(st.sampled_from(sorted(document)), max_size=3)):
        document[key] = data.draw(ANYTHING)
    document["schema"] = kind.schemas[0]
    found = read_evidence(kind, json.dumps(document).encode(), "e.json")
    for gate in ("draft", "k_chosen", "comparison", "speedup_burst", "p99", "memory"):
        result = judged(gate, ready(**{name: found}))
        assert result.says
        if isinstance(found, Evidence) and found.created is None and gate == GATE[name]:
            assert result.status is not Status.PASS


@given(document=st.dictionaries(st.sampled_from(["status", "targets", "data", "schema"]), ANYTHING))
def test_any_answer_of_a_sidecar_is_read(document: Json) -> None:
    """Whatever a server answers, there is one model or a reason why not."""
    found = find_live({"schema": SCHEMA, **document}, "s", target=None, model=None)
    assert isinstance(found, Live | Trouble)


def status(*targets: Json) -> Json:
    return {"schema": SCHEMA, "targets": list(targets)}


def target(name: str, *models: str, **more: Any) -> Json:
    found = [{"model_name": one, "engines": ["0"]} for one in models]
    return {"name": name, "role": "speculative", "up": True, "models": found, **more}


@pytest.mark.parametrize(
    ("document", "wanted", "expected"),
    [
        pytest.param(status(target("a", "m")), {}, "m", id="one"),
        pytest.param(
            status(target("a", "m"), target("b", "m", role="standard")), {}, "m", id="a sibling"
        ),
        pytest.param(
            status(target("a", "m"), target("b", "n")), {"target": "b"}, "n", id="by target"
        ),
        pytest.param(status(target("a", "m", "n")), {"model": "n"}, "n", id="by model"),
        pytest.param(
            status(target("a", "m"), target("b", "n")), {}, Reason.DEPLOYMENT_UNKNOWN, id="two"
        ),
        pytest.param(
            status(target("a", "m")), {"target": "x"}, Reason.DEPLOYMENT_UNKNOWN, id="no such"
        ),
        pytest.param(
            status(target("a", "m")), {"model": "x"}, Reason.DEPLOYMENT_UNKNOWN, id="no model"
        ),
        pytest.param(status(target("a", up=False)), {}, Reason.TARGET_DOWN, id="down"),
        pytest.param({"schema": "x"}, {}, Reason.WRONG_SCHEMA, id="another server"),
    ],
)
def test_which_model_goes_live(document: Json, wanted: Json, expected: object) -> None:
    """There is one speculative model, or it is named."""
    found = find_live(document, "s", **{"target": None, "model": None, **wanted})
    assert (found.model_name if isinstance(found, Live) else found.reason) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1.0), (True, None), ("1", None), (1e300, None), (float("inf"), None), (10**400, None)],
    ids=repr,
)
def test_numbers(value: object, expected: float | None) -> None:
    """A number is one that can be reckoned with."""
    assert number(value) == expected


def test_small_readers() -> None:
    """Whole numbers, times and texts are taken as such alone."""
    assert (whole(3.0), whole(-1), whole(2.5)) == (3, None, None)
    assert moment("2027-01-15T08:00:00Z") == NOW
    assert moment("0001-01-01T00:00:00+14:00") is None
    assert word(" a\x00b ") == "a\\x00b"
    assert word("x" * 400) == "x" * 299 + "…"
    assert word("\ud800") == "\\ud800"
    with pytest.raises(ValueError, match="not UTF-8"):
        parse_object(b"\xff")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 s"),
        (-3.0, "0 s"),
        (90.0, "1.5 min"),
        (7200.0, "2 h"),
        (20 * DAY, "20 d"),
        (26310 * DAY, "26310 d"),
    ],
)
def test_ages(seconds: float, expected: str) -> None:
    """An age is told in its largest unit."""
    assert format_age(seconds) == expected


# lock file


def lock(**more: Any) -> Lock:
    pins = pins_of(deployed(live(), STATED), STATED, hash_dashboards(DASHBOARDS))
    return Lock(source="lock", created=NOW - DAY, pins={**pins, **more})


def test_a_lock_is_read_as_it_was_written() -> None:
    """What is pinned comes back from the file."""
    pins = lock().pins
    text = write_lock(pins, STATED, created=timestamp(NOW), created_by="specgauge 1")
    found = read_lock(text.encode(), "lock")
    assert isinstance(found, Lock)
    assert (found.pins, found.created) == (pins, NOW)
    assert json.loads(text)["speculation"]["config"] == STATED.speculative_config


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", Reason.UNREADABLE), (b"[]", Reason.UNREADABLE), (b"{}", Reason.WRONG_SCHEMA)],
)
def test_a_lock_that_is_none(data: bytes, reason: Reason) -> None:
    """Another file is a trouble that the gate tells."""
    found = read_lock(data, "lock")
    assert isinstance(found, Trouble)
    assert told("pinned", ready(lock=found)) == f"not_measured {reason}"


@pytest.mark.parametrize("pin", PINS)
def test_everything_pinned_has_to_run(pin: str) -> None:
    """A single fact that differs fails the gate, and both values are shown."""
    result = judged("pinned", ready(lock=lock(**{pin: "another"})))
    assert (result.status, result.reason) == (Status.FAIL, Reason.DIFFERS)
    assert f"{pin}: another is pinned" in result.says


@pytest.mark.parametrize("pin", PINS)
def test_everything_has_to_be_pinned(pin: str) -> None:
    """A single fact that is not pinned keeps the gate from passing."""
    result = judged("pinned", ready(lock=lock(**{pin: None})))
    assert (result.status, result.reason) == (Status.NOT_MEASURED, Reason.INCOMPLETE)
    assert result.says == f"not pinned: {pin}"
    assert result.fix


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"lock": None}, "not_measured missing", id="none"),
        pytest.param({"lock": replace(lock(), created=None)}, "not_measured undated", id="undated"),
        pytest.param(
            {"lock": replace(lock(), created=NOW + DAY)},
            "not_measured from_the_future",
            id="future",
        ),
        pytest.param({"lock": replace(lock(), created=1.0)}, "pass met", id="old and still true"),
        pytest.param({"shown": None}, "not_measured incomplete", id="dashboards not seen"),
        pytest.param(
            {"stated": replace(STATED, model_revision=None)},
            "not_measured incomplete",
            id="revision not stated any more",
        ),
        pytest.param(
            {"live": live(version=None)}, "not_measured incomplete", id="release not known"
        ),
        pytest.param({"live": live(k=3)}, "fail differs", id="another k than stated"),
        pytest.param({"live": live(method="eagle")}, "fail differs", id="another method"),
    ],
)
def test_pinned(more: Json, expected: str) -> None:
    """What is pinned has to be known of what runs, and has to be it."""
    assert told("pinned", ready(**more)) == expected


def test_a_method_without_a_draft_pins_none() -> None:
    """N-gram has no draft whose revision could be pinned."""
    stated = replace(
        STATED,
        speculative_config={"method": "ngram", "num_speculative_tokens": 4},
        draft_revision=None,
    )
    seen = live(method="ngram")
    pins = pins_of(deployed(seen, stated), stated, hash_dashboards(DASHBOARDS))
    found = Lock(source="lock", created=NOW, pins=pins)
    assert told("pinned", ready(stated=stated, live=seen, lock=found)) == "pass met"


def test_what_grafana_numbers_does_not_count() -> None:
    """A dashboard is the same after an import."""
    made = {"uid": "u", "panels": [1], "version": 1, "__requires": []}
    assert hash_dashboard(made) == hash_dashboard(
        {"uid": "u", "panels": [1], "id": 7, "version": 9}
    )
    assert hash_dashboard(made) != hash_dashboard({"uid": "u", "panels": [2]})


def test_speculation_in_words() -> None:
    """What is known of the speculation is put on one line."""
    assert str(Speculation()) == "unknown"
    assert str(Speculation(method="eagle3", k=4, draft="d")) == "eagle3, k=4, draft d"


def test_memory_of_one_server_alone() -> None:
    """A plan without a draft is of k = 0."""
    found = evidence(MEMORY, memory_document(after=None))
    assert isinstance(found, Evidence)
    assert found.origin.k == 0
