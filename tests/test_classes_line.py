"""One line of the access log: what it says of a request, or why it says nothing."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.class_lines import LINE, of_class, written

from specgauge.model.traffic import LineResult
from specgauge.serve.classes.line import CONTEXT_NAMES, Record, context_of, read_line


def record(line: bytes) -> Record:
    """Read a line that must be one of a request."""
    found = read_line(line)
    assert isinstance(found, Record)
    return found


def test_a_whole_line() -> None:
    """Everything that is counted comes from one line."""
    assert record(written()) == Record(
        traffic_class="chat",
        pool="speculative",
        failed=False,
        retries=0,
        e2e=2.5,
        ttft=0.5,
        completion_tokens=101,
        decode=(100, 2.0),
        context="0-1k",
        drafted=(40, 120, 60),
        whole=True,
    )


def test_numbers_may_be_numbers() -> None:
    """A router that writes numbers as such says the same."""
    numbers = {
        key: json.loads(value)
        for key, value in LINE.items()
        if isinstance(value, str) and value.replace(".", "").isdigit() and "." not in key
    }
    assert record(written(**numbers, time="1790000000.123", status="200")) == record(written())


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Values of a line, and what the record then has."""

    values: dict[str, Any]
    expected: dict[str, Any]


SAME: dict[str, Any] = {"whole": True}
UNTOLD: dict[str, Any] = {
    "completion_tokens": None,
    "decode": None,
    "context": "unknown",
    "drafted": None,
}
FAILED = {"failed": True, "e2e": None, "ttft": None, "decode": None}
CASES = {
    "no stream": Case(values={"stream": "0"}, expected={"ttft": None, "decode": None}),
    "stream not told": Case(values={"stream": ""}, expected={"ttft": None, "decode": None}),
    "stream true": Case(values={"stream": True}, expected={"ttft": 0.5}),
    "nothing told": Case(
        values=dict.fromkeys(
            ("completion_tokens", "prompt_tokens", "drafts", "draft_tokens", "accepted_tokens"), ""
        ),
        expected=UNTOLD,
    ),
    "dash is nothing": Case(
        values={"first_byte_seconds": "-"}, expected={"ttft": None, "decode": None}
    ),
    "one token": Case(
        values={"completion_tokens": "1"}, expected={"completion_tokens": 1, "decode": None}
    ),
    "part of a draft told": Case(values={"drafts": ""}, expected={"drafted": None}),
    "no draft": Case(
        values={"drafts": "0", "draft_tokens": "0", "accepted_tokens": "0"},
        expected={"drafted": (0, 0, 0)},
    ),
    "drafts without tokens": Case(
        values={"drafts": "9", "draft_tokens": "6", "accepted_tokens": "6"},
        expected={"drafted": (9, 6, 6)},
    ),
    "server error": Case(values={"status": 502}, expected=FAILED),
    "client went away": Case(values={"status": 499}, expected=FAILED),
    "stream broken off": Case(values={"complete": ""}, expected=FAILED),
    "refused and not read": Case(
        values={"complete": "", "status": 413},
        expected={"failed": False, "e2e": None, "ttft": None, "decode": None},
    ),
    "stream ended well": Case(values={"complete": "1"}, expected={"failed": False, "e2e": 2.5}),
    "client error": Case(
        values={"status": 400},
        expected={"failed": False, "e2e": None, "ttft": None, "decode": None},
    ),
    "two servers": Case(
        values={"upstream": "127.0.0.1:8000, 127.0.0.1:8001", "upstream_status": "502, 200"},
        expected={"retries": 1},
    ),
    "other pool": Case(
        values={"upstream": "10.0.0.1:8000, 10.0.0.2:8000 : 10.0.1.1:8000"},
        expected={"retries": 2},
    ),
    "whole pool down": Case(
        values={"upstream": "specgauge_speculative : 10.0.1.1:8000"}, expected={"retries": 0}
    ),
    "HAProxy, the same server": Case(
        values={"retries": "2", "upstream": "10.0.1.1:8000"}, expected={"retries": 2}
    ),
    "HAProxy, another server": Case(
        values={"retries": "+1", "upstream": "10.0.1.1:8000"}, expected={"retries": 1}
    ),
    "retries no number": Case(values={"retries": "9999", "upstream": ""}, expected={"retries": 0}),
    "no server": Case(values={"upstream": ""}, expected={"retries": 0}),
    "upstream no text": Case(values={"upstream": 7}, expected={"retries": 0}),
    "pool that was wanted": Case(
        values={"served_pool": "", "pool": "standard"}, expected={"pool": "standard"}
    ),
    "no pool": Case(values={"served_pool": "", "pool": "-"}, expected={"pool": "none"}),
    "no class": Case(values={"class": ""}, expected={"traffic_class": "none"}),
    "clocks of a millisecond": Case(
        values={"first_byte_seconds": "2.502"}, expected={"ttft": 2.502, "decode": (100, 0.0)}
    ),
    "label injection": Case(
        values={"class": 'a",pool="x'}, expected={"traffic_class": 'a",pool="x'}
    ),
    "unknown keys": Case(values={"more": {"deep": [1, 2]}}, expected=SAME),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_differs(case: Case) -> None:
    """Each value changes what it should and nothing else."""
    assert record(written(**case.values)) == record(written())._replace(**case.expected)


PARTIAL = {
    "accepted above proposed": {"accepted_tokens": "121"},
    "proposed without a draft": {"drafts": "0"},
    "negative tokens": {"accepted_tokens": -1},
    "half a token": {"completion_tokens": "1.5"},
    "first byte after the last": {"first_byte_seconds": "2.6"},
    "first byte negative": {"first_byte_seconds": "-0.5"},
    "huge": {"prompt_tokens": 10**40},
    "true": {"drafts": True},
    "list": {"draft_tokens": [1]},
    "word": {"completion_tokens": "many"},
    "stream of a kind": {"stream": "maybe"},
    "stream a list": {"stream": [1]},
    "float stream": {"stream": 0.5},
    "infinite": {"accepted_tokens": "inf"},
    "other digits": {"prompt_tokens": "\u0661\u0662"},
    "underscore": {"prompt_tokens": "1_000"},
}


@pytest.mark.parametrize("values", PARTIAL.values(), ids=PARTIAL)
def test_request_counts_without_figures_that_cannot_be(values: dict[str, object]) -> None:
    """A request is a request although its figures contradict each other; none of them is taken."""
    expected = record(written())._replace(ttft=None, **UNTOLD, whole=False)
    assert record(written(**values)) == expected


DEEP = b'{"class":' + b"[" * 30_000 + b"]" * 30_000 + b"}"
REFUSED: dict[str, tuple[bytes, LineResult]] = {
    "empty": (b"", LineResult.NOT_JSON),
    "binary": (bytes(range(256)), LineResult.NOT_JSON),
    "cut": (written()[:-20], LineResult.NOT_JSON),
    "two objects": (written() + written(), LineResult.NOT_JSON),
    "nul": (b"\0" * 100 + written(), LineResult.NOT_JSON),
    "NaN": (written(seconds=float("nan")), LineResult.NOT_JSON),
    "infinity": (written(seconds=float("inf")), LineResult.NOT_JSON),
    "number of 5,000 digits": (written().replace(b"2.5", b"9" * 5000), LineResult.NOT_JSON),
    "deep": (DEEP, LineResult.NOT_JSON),
    "list": (b"[1]", LineResult.NOT_AN_OBJECT),
    "text": (b'"class"', LineResult.NOT_AN_OBJECT),
    "null": (b"null", LineResult.NOT_AN_OBJECT),
    "key twice": (written()[:-1] + b',"class":"other"}', LineResult.DUPLICATE_KEY),
    "inner key twice": (written()[:-1] + b',"x":{"a":1,"a":1}}', LineResult.DUPLICATE_KEY),
    "no class": (written("class"), LineResult.MISSING_KEY),
    "no status": (written("status"), LineResult.MISSING_KEY),
    "no time": (written("seconds"), LineResult.MISSING_KEY),
    "no pool": (written("pool", "served_pool"), LineResult.MISSING_KEY),
    "status empty": (written(status=""), LineResult.BAD_VALUE),
    "status a word": (written(status="ok"), LineResult.BAD_VALUE),
    "negative time": (written(seconds=-1), LineResult.BAD_VALUE),
    "time of 1e999": (written().replace(b":2.5", b":1e999"), LineResult.BAD_VALUE),
    "time null": (written(seconds=None), LineResult.BAD_VALUE),
    "class a number": (of_class("x").replace(b'"x"', b"7"), LineResult.BAD_VALUE),
    "class of 10 KB": (of_class("x" * 10_000), LineResult.BAD_VALUE),
    "class with a line end": (of_class("a\nb"), LineResult.BAD_VALUE),
    "class half a character": (of_class("\ud800"), LineResult.BAD_VALUE),
    "pool a list": (written(served_pool=["a"]), LineResult.BAD_VALUE),
}


@pytest.mark.parametrize(("line", "result"), REFUSED.values(), ids=REFUSED)
def test_refused_with_a_reason(line: bytes, result: LineResult) -> None:
    """A line that says nothing of a request is refused, and why is an answer of its own."""
    assert read_line(line) is result


def test_bytes_of_clients_do_not_hide_a_request() -> None:
    """What is no UTF-8 in a key that is not read costs nothing."""
    assert record(written(id="ID").replace(b"ID", b"\xff\xfe")) == record(written())


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        (None, "unknown"), (0, "0-1k"), (1023, "0-1k"), (1024, "1k-4k"), (4096, "4k-16k"),
        (16_383, "4k-16k"), (16_384, "16k-64k"), (65_535, "16k-64k"), (65_536, "64k+"),
    ],
)  # fmt: skip
def test_context(tokens: int | None, name: str) -> None:
    """A bucket reaches up to below its bound."""
    assert context_of(tokens) == name
    assert name in CONTEXT_NAMES


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(LINE)), ANYTHING))
def test_whatever_stands_in_a_line(values: dict[str, object]) -> None:
    """Any value of any key gives a sound record or a reason, and never an exception."""
    found = read_line(json.dumps({**LINE, **values}).encode())
    if isinstance(found, LineResult):
        return
    assert found.retries >= 0
    assert all(value is None or value >= 0 for value in (found.e2e, found.ttft))
    assert found.drafted is None or found.drafted[2] <= found.drafted[1]
    assert found.context in CONTEXT_NAMES


@given(st.binary(max_size=200))
def test_whatever_bytes(data: bytes) -> None:
    """Any bytes give a reason."""
    assert isinstance(read_line(data), LineResult)
