"""The reader: a page is taken whole or refused whole, and warm it reads as it does cold."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.recorded import CAPTURES, faults, load_page, load_series, samples, shuffle_lines
from tests.rewritten import as_openmetrics
from tests.written import Engine, sample, write_page

from specgauge.engines import reader as under_test
from specgauge.engines.reader import DUPLICATE, NEGATIVE, NO_FINAL_NEWLINE, NOT_FINITE, Reader
from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Quantity

GOOD = write_page(Engine(drafts=10, drafted=30, accepted=20, positions=(10, 6, 4), tokens=50))
OPENMETRICS = as_openmetrics(
    b"# TYPE vllm:spec_decode_num_drafts_total counter\n" + GOOD.replace(b".0\n", b"\n")
)
ALL_PAGES = [f"vllm/{name}/{at}.prom" for name in CAPTURES for at in ("before", "during", "after")]


def refuse(reader: Reader, page: bytes) -> SourceError:
    """Read a page that must be refused."""
    with pytest.raises(SourceError) as refused:
        reader.read(page)
    return refused.value


@pytest.mark.parametrize("name", ALL_PAGES)
def test_recorded_page_reads_as_the_reference_parser_reads_it(name: str) -> None:
    """Every sample that is recognised has the value that prometheus_client finds."""
    page = Reader().read(load_page(name))
    ours = Counter((series.name, value) for series, value in page.values.items())
    known = {series.name for series in page.values}
    families = text_string_to_metric_families(load_page(name).decode())
    theirs = [(s.name, s.value) for family in families for s in family.samples]
    assert ours == Counter(pair for pair in theirs if pair[0] in known)
    assert page.faults == {}


def test_warm_reads_as_cold() -> None:
    """What is kept between pages changes nothing that is read."""
    warm = Reader()
    for page in load_series("ngram")["pages"]:
        text = page["text"].encode()
        assert samples(warm.read(text)) == samples(Reader().read(text))


def test_series_are_the_same_objects_from_page_to_page() -> None:
    """A series keeps its identity while the target lives, also when its labels change places."""
    reader = Reader()
    first = reader.read(b'vllm:generation_tokens_total{engine="0",model_name="m"} 1\n')
    again = reader.read(b'vllm:generation_tokens_total{model_name="m",engine="0"} 2\n')
    assert list(first.values) == list(again.values)
    assert first.layout is again.layout


def test_order_of_lines_does_not_matter() -> None:
    """Series and values are the same however the lines of a page are shuffled."""
    page = load_page("vllm/0.9.2-ngram/after.prom")
    straight = Reader().read(page)
    expected = samples(straight)

    @given(st.integers(0, 2**32))
    def hold(seed: int) -> None:
        order = list(range(page.count(b"\n")))
        random.Random(seed).shuffle(order)  # noqa: S311 - shuffling, not secrets
        shuffled = Reader().read(shuffle_lines(page, order))
        assert samples(shuffled) == expected
        assert shuffled.layout.dialect is straight.layout.dialect

    hold()


BODIES = {
    "nothing": (b"", ScrapeResult.NO_ENGINE_METRICS),
    "blank lines": (b"\n\n", ScrapeResult.NO_ENGINE_METRICS),
    "process metrics": (
        b"process_open_fds 4\nhttp_requests_total 3\n",
        ScrapeResult.NO_ENGINE_METRICS,
    ),
    "comments": (b"# TYPE vllm:x counter\n # indented\n", ScrapeResult.NO_ENGINE_METRICS),
    "another engine": (b"sglang:num_running_reqs 7\n", ScrapeResult.UNRECOGNISED_EXPOSITION),
    "engine series that nobody knows": (
        b"vllm:lora_info 7\n",
        ScrapeResult.UNRECOGNISED_EXPOSITION,
    ),
    "counter that nobody knows": (
        b"# TYPE vllm:x counter\nvllm:x_total 7\n# EOF\n",
        ScrapeResult.UNRECOGNISED_EXPOSITION,
    ),
    "HTML": (b" \r\n<!doctype html><p>Sign in</p>", ScrapeResult.NOT_METRICS),
    "JSON": (b"[]\n", ScrapeResult.NOT_METRICS),
    "long line that is no sample": (b"x" * 200 + b"\n", ScrapeResult.NOT_METRICS),
    "no final newline": (GOOD[:-1], ScrapeResult.TRUNCATED),
    "Latin-1": (GOOD + 'vllm:x{a="ü"} 1\n'.encode("latin-1"), ScrapeResult.BAD_ENCODING),
    "UTF-16": (GOOD.decode().encode("utf-16"), ScrapeResult.BAD_ENCODING),
    "OpenMetrics by its counters without an end": (
        OPENMETRICS.removesuffix(b"# EOF\n"),
        ScrapeResult.TRUNCATED,
    ),
    "OpenMetrics by a unit without an end": (
        GOOD + b"# UNIT vllm:x_seconds seconds\n",
        ScrapeResult.TRUNCATED,
    ),
    "OpenMetrics by its first line without an end": (
        b"# UNIT vllm:x_seconds seconds\n" + GOOD,
        ScrapeResult.TRUNCATED,
    ),
    "two pages in one": (OPENMETRICS + OPENMETRICS, ScrapeResult.TRUNCATED),
    "samples behind the end": (OPENMETRICS + GOOD, ScrapeResult.TRUNCATED),
}


@pytest.mark.parametrize(("body", "result"), BODIES.values(), ids=BODIES)
def test_body_is_refused(body: bytes, result: ScrapeResult) -> None:
    """What is no whole page of an engine is refused in one short line."""
    problem = refuse(Reader(), body)
    assert problem.result is result
    assert len(str(problem)) < 200
    foreign = {ScrapeResult.NO_ENGINE_METRICS, ScrapeResult.UNRECOGNISED_EXPOSITION}
    assert problem.result.page_arrived is (result in foreign)


@pytest.mark.parametrize(("body", "result"), BODIES.values(), ids=BODIES)
def test_refused_body_leaves_nothing_behind(body: bytes, result: ScrapeResult) -> None:
    """After a refused page the good one reads as if nothing had been."""
    reader = Reader()
    first = samples(reader.read(GOOD))
    assert refuse(reader, body).result is result
    assert samples(reader.read(GOOD)) == first
    assert samples(reader.read(OPENMETRICS)) == samples(Reader().read(OPENMETRICS))


def test_malformed_line_is_named() -> None:
    """The refusal names the line by number and shows its beginning."""
    problem = refuse(Reader(), GOOD + b"vllm:x{ 1\n")
    line = GOOD.count(b"\n") + 1
    assert problem.detail == f"line {line} is no sample: 'vllm:x{{ 1'"


def test_page_that_was_fine_may_break_later() -> None:
    """A key that is known does not excuse the value behind it."""
    reader = Reader()
    reader.read(GOOD)
    assert refuse(reader, GOOD.replace(b" 50", b" fifty")).result is ScrapeResult.NOT_METRICS


ACCEPTED = {
    "CRLF": GOOD.replace(b"\n", b"\r\n"),
    "OpenMetrics": OPENMETRICS,
    "OpenMetrics with CRLF": OPENMETRICS.replace(b"\n", b"\r\n"),
    "indented comment": b"  # note\n" + GOOD,
    "indented samples": GOOD.replace(b"vllm:", b"  vllm:"),
    "trailing blanks": GOOD.replace(b".0\n", b".0 \n"),
    "tab before the value": GOOD.replace(b"} ", b"}\t"),
    "no blank before the value": GOOD.replace(b"} ", b"}"),
    "timestamps": GOOD.replace(b".0\n", b".0 1790000000123\n"),
    "the same sample twice": GOOD + GOOD,
}


@pytest.mark.parametrize("page", ACCEPTED.values(), ids=ACCEPTED)
def test_ways_of_writing_do_not_matter(page: bytes) -> None:
    """Cold or warm, the same samples are the same samples."""
    warm = Reader()
    expected = samples(warm.read(GOOD))
    assert samples(Reader().read(page)) == expected
    assert samples(warm.read(page)) == expected
    assert samples(warm.read(page)) == expected


def test_missing_final_newline_is_taken_from_a_transport_that_vouches() -> None:
    """With the length known to be right, a missing newline is only noted."""
    page = Reader().read(GOOD[:-1], complete=True)
    assert page.notes == (NO_FINAL_NEWLINE,)
    assert samples(page) == samples(Reader().read(GOOD))


FAULTY = {
    "NaN": (b" NaN\n", NOT_FINITE),
    "infinity": (b" +Inf\n", NOT_FINITE),
    "too large for a float": (b" 1e400\n", NOT_FINITE),
    "so large that sums overflow": (b" 1e308\n", NOT_FINITE),
    "below zero": (b" -1\n", NEGATIVE),
}


@pytest.mark.parametrize(("value", "reason"), FAULTY.values(), ids=FAULTY)
@pytest.mark.parametrize("quantity", ["generation_tokens_total", "kv_cache_usage_perc"])
def test_value_that_cannot_be_is_set_aside(quantity: str, value: bytes, reason: str) -> None:
    """The one series is at fault, the rest of the page stays."""
    line = f'vllm:{quantity}{{engine="1",model_name="target"}}'.encode() + value
    page = Reader().read(GOOD + line)
    assert list(faults(page).values()) == [reason]
    assert samples(page) == samples(Reader().read(GOOD))


@pytest.mark.parametrize("second", [b" 11\n", b" NaN\n"])
def test_series_with_two_values_is_set_aside(second: bytes) -> None:
    """Neither of two values is better than the other."""
    key = b'vllm:spec_decode_num_drafts_total{model_name="target",engine="0"}'
    page = Reader().read(GOOD + key + second)
    assert set(faults(page).values()) <= {DUPLICATE, NOT_FINITE}
    assert len(page.faults) == 1


def test_names_of_one_series_collide() -> None:
    """`vllm:` and `vllm_` are one prefix: two values under both are one series twice."""
    page = Reader().read(GOOD + GOOD.replace(b"vllm:", b"vllm_").replace(b" 50", b" 51"))
    assert list(faults(page).values()) == [DUPLICATE]


def test_layout_follows_the_page() -> None:
    """A page of another shape is described anew, and the first shape again when it returns."""
    reader = Reader()
    first = reader.read(GOOD).layout
    other = reader.read(write_page(Engine(engine="7", tokens=1))).layout
    assert (first.engines, other.engines) == ({"target": ("0",)}, {"target": ("7",)})
    assert reader.read(GOOD).layout.positions == {"target": frozenset({0, 1, 2})}


def test_openmetrics_page_that_loses_its_end_is_refused() -> None:
    """The need for an end is remembered with the layout."""
    reader = Reader()
    reader.read(OPENMETRICS)
    assert refuse(reader, OPENMETRICS.removesuffix(b"# EOF\n")).result is ScrapeResult.TRUNCATED


def churn(number: int) -> bytes:
    """Write a page with a thousand series that come only once."""
    lines = [
        sample("vllm:prompt_tokens_total", {"model_name": "m", "pid": f"{number}-{i}"}, i)
        for i in range(1000)
    ]
    return write_page(Engine(tokens=1.0), extra=lines)


def test_changing_labels_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and series that no longer come are let go of."""
    monkeypatch.setattr(under_test, "_SPARE_KEYS", 1000)
    reader = Reader()
    for number in range(20):
        reader.read(churn(number))
    assert len(reader._keys) < 5000
    assert len(reader._catalogue) < 5000


def test_refused_pages_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither do the series of pages that are refused in their last line."""
    monkeypatch.setattr(under_test, "_SPARE_KEYS", 1000)
    reader = Reader()
    first = list(reader.read(GOOD).values)
    for number in range(20):
        refuse(reader, churn(number) + b"!\n")
    assert len(reader._keys) < 1000
    assert len(reader._catalogue) < 5000
    assert list(reader.read(GOOD).values) == first


def test_numbers_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spellings that were met are forgotten when there are too many."""
    monkeypatch.setattr(under_test, "_MAX_NUMBERS", 100)
    reader = Reader()
    for value in range(500):
        reader.read(write_page(Engine(tokens=float(value))))
    assert len(reader._numbers) <= 102


@settings(max_examples=200)
@given(st.lists(st.sampled_from(sorted(ACCEPTED)), min_size=1, max_size=6))
def test_any_history_reads_as_cold(names: list[str]) -> None:
    """Whatever was read before, a page reads the same."""
    reader = Reader()
    for name in names:
        read = reader.read(ACCEPTED[name])
        assert samples(read) == samples(Reader().read(ACCEPTED[name]))
        assert {series.quantity for series in read.values} >= {Quantity.DRAFTS}
