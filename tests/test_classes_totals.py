"""What lines add up to: series and the document of pools side by side, with nothing averaged."""

import json
import math
import statistics
from collections.abc import Iterable

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from tests.class_lines import of_class, written
from tests.sidecars import read_samples

from specgauge.model.class_names import CLASSES
from specgauge.model.traffic import ClassesView, LineResult, LogState, Spread
from specgauge.model.view import View
from specgauge.serve.classes.document import SCHEMA, classes_document, quantile
from specgauge.serve.classes.line import read_line
from specgauge.serve.classes.totals import (
    E2E_BOUNDS,
    LENGTH_BOUNDS,
    MOST_CLASSES,
    MOST_POOLS,
    TTFT_BOUNDS,
    Totals,
)
from specgauge.serve.collector import ViewCollector

CHAT = 'class="chat",pool="speculative"'
SHORT = 'class="chat",context="0-1k",pool="speculative"'


def added(lines: Iterable[bytes]) -> Totals:
    totals = Totals(since=1790000000.0)
    for line in lines:
        found = read_line(line)
        if isinstance(found, LineResult):
            totals.count(found)
        else:
            totals.add(found)
    return totals


def seen(lines: Iterable[bytes]) -> ClassesView:
    return added(lines).view(LogState.FOLLOWED, 0)


def emitted(view: ClassesView, *, histograms: bool = True) -> dict[str, float]:
    registry = CollectorRegistry()
    whole = View(targets=(), classes=view)
    registry.register(ViewCollector(lambda: whole, histograms=histograms))
    found = read_samples(generate_latest(registry).decode())
    return {key: value for key, value in found.items() if key.startswith("specgauge_class_")}


def test_series_of_two_requests() -> None:
    """Each counter and histogram has what the lines say; results start at 0."""
    found = emitted(seen([written(), written(status=502, upstream="a:1, b:2"), b"no line"]))
    assert found[f"specgauge_class_requests_total{{{CHAT}}}"] == 2
    assert found[f"specgauge_class_errors_total{{{CHAT}}}"] == 1
    assert found[f"specgauge_class_retries_total{{{CHAT}}}"] == 1
    assert found[f"specgauge_class_completion_tokens_total{{{CHAT}}}"] == 202
    assert found[f"specgauge_class_decode_tokens_total{{{CHAT}}}"] == 100
    assert found[f"specgauge_class_decode_seconds_total{{{CHAT}}}"] == 2.0
    assert found[f"specgauge_class_drafts_total{{{SHORT}}}"] == 80
    assert found[f"specgauge_class_draft_tokens_total{{{SHORT}}}"] == 240
    assert found[f"specgauge_class_accepted_tokens_total{{{SHORT}}}"] == 120
    assert found[f"specgauge_class_e2e_seconds_sum{{{CHAT}}}"] == 2.5
    assert found[f"specgauge_class_e2e_seconds_count{{{CHAT}}}"] == 1
    assert found[f'specgauge_class_ttft_seconds_bucket{{class="chat",le="0.5",{CHAT[13:]}}}'] == 1
    assert found[f'specgauge_class_ttft_seconds_bucket{{class="chat",le="0.25",{CHAT[13:]}}}'] == 0
    assert found[f"specgauge_class_acceptance_length_sum{{{SHORT}}}"] == 5.0
    results = {
        str(r): found[f'specgauge_class_log_lines_total{{result="{r}"}}'] for r in LineResult
    }
    assert results == {**dict.fromkeys(map(str, LineResult), 0), "ok": 2, "not_json": 1}
    assert found["specgauge_class_log_unread_bytes"] == 0


def test_every_series_is_in_the_table() -> None:
    """Names and labels are those of the table, and each of the table comes."""
    found = emitted(seen([written()]))
    bases = {one.name: set(one.labels) for one in CLASSES}
    told = set()
    for key in found:
        name, _, labels = key.partition("{")
        base = next(n for n in (name, name.rpartition("_")[0]) if n in bases)
        told.add(base)
        keys = {pair.partition("=")[0] for pair in labels.rstrip("}").split(",") if pair}
        assert keys - {"le"} == bases[base]
    assert told == set(bases)


def test_histograms_can_be_left_out() -> None:
    """As the other histograms."""
    found = emitted(seen([written()]), histograms=False)
    assert not any("_bucket" in key for key in found)


def test_a_hostile_name_stays_one_label() -> None:
    """Quotes, braces and backslashes in a class make no other series."""
    name = 'a",pool="x"} 1\\'
    found = emitted(
        seen([of_class(name), b'{"class":"b\\nc","status":200,"seconds":1,"pool":"p"}'])
    )
    requests = [key for key in found if key.startswith("specgauge_class_requests_total")]
    assert len(requests) == 1
    assert found['specgauge_class_log_lines_total{result="bad_value"}'] == 1


def test_pooled_acceptance_and_never_a_mean_of_means() -> None:
    """Ninety short prompts and ten long ones: 0.605, where the mean over requests says 0.686."""
    short = {"prompt_tokens": 900, "drafts": 100, "draft_tokens": 300, "accepted_tokens": 222}
    long = {"prompt_tokens": 90_000, "drafts": 300, "draft_tokens": 900, "accepted_tokens": 180}
    lines = [*(written(**short) for _ in range(90)), *(written(**long) for _ in range(10))]
    (told,) = classes_document(seen(lines))["classes"]
    (pool,) = told["pools"]
    assert pool["acceptance_ratio"] == pytest.approx(0.605)
    assert pool["acceptance_length"] == pytest.approx(1 + 21_780 / 12_000)
    assert [(c["context"], c["requests"]) for c in pool["contexts"]] == [("0-1k", 90), ("64k+", 10)]
    ratios = [context["acceptance_ratio"] for context in pool["contexts"]]
    assert ratios == pytest.approx([0.74, 0.20])
    assert statistics.mean([0.74] * 90 + [0.20] * 10) == pytest.approx(0.686)


def test_requests_without_a_draft() -> None:
    """They count as none drafted, and have no acceptance length."""
    none = {"drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}
    document = classes_document(seen([written(**none)]))
    (context,) = document["classes"][0]["pools"][0]["contexts"]
    zeros = {"requests": 0, **none}
    assert context == {"context": "0-1k", **zeros}
    assert not any("acceptance_length" in key for key in emitted(seen([written(**none)])))


def test_pools_stand_side_by_side() -> None:
    """A class served by two pools shows both, and a figure that is not known is not there."""
    lines = [
        written(),
        written(served_pool="standard", seconds=4.5, drafts="", draft_tokens="", stream="1"),
        of_class("batch", stream="0", completion_tokens=""),
    ]
    document = classes_document(seen(lines))
    assert [one["class"] for one in document["classes"]] == ["batch", "chat"]
    batch, chat = document["classes"]
    assert [pool["pool"] for pool in chat["pools"]] == ["speculative", "standard"]
    assert [pool["tpot_seconds"] for pool in chat["pools"]] == [0.02, 0.04]
    assert "acceptance_ratio" not in chat["pools"][1]
    assert batch["pools"][0]["ttft_seconds"] == {"count": 0}
    assert "tpot_seconds" not in batch["pools"][0]
    e2e = chat["pools"][1]["e2e_seconds"]
    assert (e2e["count"], e2e["mean"]) == (1, 4.5)
    assert 2.5 < e2e["p50"] < e2e["p95"] <= 5.0


def test_document_without_a_log() -> None:
    """It says so, and has no classes."""
    document = classes_document(None)
    assert document == {"schema": SCHEMA, "log": {"state": "off", "lines": {}}, "classes": []}


def test_document_of_a_log_that_cannot_be_read() -> None:
    """What was counted stays; how much is not read is not known."""
    document = classes_document(added([written()]).view(LogState.MISSING, None))
    assert document["log"] == {"state": "missing", "lines": {"ok": 1}}
    assert document["since"] == 1790000000.0
    json.dumps(document, allow_nan=False)


def test_classes_are_bounded() -> None:
    """Beyond the most the rest is one class, which is said; those that were first keep theirs."""
    totals = added(of_class(f"c{number}") for number in range(MOST_CLASSES))
    assert not totals.crowded
    for number in (0, MOST_CLASSES, MOST_CLASSES + 1):
        found = read_line(of_class(f"c{number}"))
        assert not isinstance(found, LineResult)
        totals.add(found)
    assert totals.crowded
    view = totals.view(LogState.FOLLOWED, 0)
    requests = {name: figures.requests for (name, _), figures in view.figures.items()}
    assert len(requests) == MOST_CLASSES + 1
    assert (requests["c0"], requests["c1"], requests["other"]) == (2, 1, 2)


def test_pools_are_bounded() -> None:
    """So are pools."""
    view = seen(written(served_pool=f"p{number}") for number in range(100))
    assert len(view.figures) == MOST_POOLS + 1


def test_other_is_no_crowd() -> None:
    """A class that the router itself calls other takes nobody's place."""
    totals = added([of_class("other"), *(of_class(f"c{n}") for n in range(MOST_CLASSES))])
    assert not totals.crowded


@pytest.mark.parametrize("bounds", [TTFT_BOUNDS, E2E_BOUNDS, LENGTH_BOUNDS])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    """Buckets are in order."""
    assert list(bounds) == sorted(set(bounds))


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ((0, 10, 0, 0), 0.5, 1.5),
        ((10, 0, 10, 0), 0.5, 1.0),
        ((10, 0, 10, 0), 0.75, 3.0),
        ((0, 0, 0, 5), 0.5, 4.0),
        ((1, 0, 0, 9), 0.05, 0.5),
    ],
    ids=["inside", "at a bound", "over a gap", "above all", "below the first"],
)
def test_quantile(counts: tuple[int, ...], share: float, expected: float) -> None:
    """It is what histogram_quantile gives for the same buckets."""
    spread = Spread(bounds=(1.0, 2.0, 4.0), counts=counts, total=1.0)
    assert quantile(spread, share) == pytest.approx(expected)


@given(st.lists(st.floats(min_value=0, max_value=5000), min_size=1))
def test_percentiles_lie_in_the_right_bucket(values: list[float]) -> None:
    """The median and its estimate lie between the same two bounds."""
    view = seen(written(seconds=value, first_byte_seconds="", stream="0") for value in values)
    (figures,) = view.figures.values()
    assert figures.e2e.count == len(values)
    assert figures.e2e.total == pytest.approx(math.fsum(values))
    exact = sorted(values)[math.ceil(len(values) / 2) - 1]
    upper = next(bound for bound in E2E_BOUNDS if exact <= bound)
    lower = max((bound for bound in E2E_BOUNDS if bound < upper), default=0.0)
    assert lower * 0.999 <= quantile(figures.e2e, 0.5) <= upper * 1.001


def test_document_has_its_form() -> None:
    """Every part is where the page and the report look for it."""
    number, count = {"type": "number", "minimum": 0}, {"type": "integer", "minimum": 0}
    spread = {
        "type": "object",
        "required": ["count"],
        "additionalProperties": False,
        "properties": {"count": count, "mean": number, "p50": number, "p95": number},
    }
    document = classes_document(seen([written()]))
    (pool,) = document["classes"][0]["pools"]
    for name in ("ttft_seconds", "e2e_seconds"):
        jsonschema.validate(pool[name], spread)
    assert set(pool) == {
        "pool", "requests", "errors", "retries", "completion_tokens", "ttft_seconds",
        "e2e_seconds", "tpot_seconds", "acceptance_ratio", "acceptance_length", "contexts",
    }  # fmt: skip
    assert set(pool["contexts"][0]) == {
        "context", "requests", "drafts", "draft_tokens", "accepted_tokens", "acceptance_ratio",
        "acceptance_length",
    }  # fmt: skip
