"""What is not known at either end of a window: absent with its reason, never another number."""

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.recorded import Watched, load_page, measure, only
from tests.rewritten import as_ray
from tests.small_pages import v1_page
from tests.written import Engine, write_page

from specgauge.model.derived import Derived, Reason
from specgauge.model.quantity import Quantity

FULL = Engine(
    drafts=100,
    drafted=300,
    accepted=200,
    positions=(90, 60, 50),
    tokens=400,
    prompts=900,
    firsts=20,
    first_seconds=2.0,
    steps=180,
    step_seconds=26.7,
    finished=20,
)
GROWN = Engine(
    drafts=200,
    drafted=600,
    accepted=420,
    positions=(190, 140, 90),
    tokens=900,
    prompts=1800,
    firsts=40,
    first_seconds=4.0,
    steps=380,
    step_seconds=46.7,
    finished=40,
)
BAD = {
    "NaN": ("NaN", Reason.NOT_FINITE),
    "infinite": ("+Inf", Reason.NOT_FINITE),
    "below zero": ("-5", Reason.NEGATIVE_VALUE),
    "twice": (None, Reason.DUPLICATE_SERIES),
}
NEEDED = {
    "inter_token_latency_seconds_sum": {"tpot_seconds", "step_seconds", "decode_concurrency"},
    "spec_decode_num_accepted_tokens_total": {
        *("acceptance_ratio", "acceptance_length", "accepted_tokens"),
    },
    "spec_decode_num_drafts_total": {
        *("drafts", "acceptance_length", "draft_length", "draft_coverage_ratio"),
    },
    "spec_decode_num_draft_tokens_total": {"draft_tokens", "acceptance_ratio", "draft_length"},
    "generation_tokens_total": {
        *("generation_tokens", "generation_tokens_per_second", "tpot_seconds", "tokens_per_step"),
    },
    "time_to_first_token_seconds_count": {
        *("ttft_seconds", "tpot_seconds", "output_tokens_per_request"),
    },
    "e2e_request_latency_seconds_sum": {"e2e_seconds"},
    "request_time_per_output_token_seconds_sum": {"request_tpot_seconds"},
    "prompt_tokens_total": {"prompt_tokens_per_request"},
}


def page(engine: Engine) -> bytes:
    """Write the page of one engine, with the one histogram that is not in `Engine`."""
    labels = f'{{model_name="{engine.model}",engine="{engine.engine}"}}'
    name = "vllm:request_time_per_output_token_seconds"
    extra = [f"{name}_count{labels} {engine.finished}", f"{name}_sum{labels} {engine.finished}"]
    return write_page(engine, extra=extra)


def spoil(text: bytes, start: str, value: str | None) -> bytes:
    """Put a value to the first sample whose name and labels begin so, or a second one with it."""
    (line, *_) = re.findall(rf"^vllm:{start}[{{ ].*$".encode(), text, re.MULTILINE)
    head = line.rpartition(b" ")[0]
    new = head + b" " + value.encode() if value else line + b"\n" + head + b" 77777"
    return text.replace(line, new)


def drop(text: bytes, pattern: str) -> bytes:
    """Leave out the lines in which a pattern is found."""
    lines = text.splitlines(keepends=True)
    return b"".join(line for line in lines if not re.search(pattern.encode(), line))


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize(("value", "reason"), BAD.values(), ids=BAD)
@pytest.mark.parametrize(("series", "fields"), NEEDED.items(), ids=NEEDED)
def test_bad_value_at_one_end(
    series: str, fields: set[str], value: str | None, reason: Reason, end: str
) -> None:
    """What is built on a value that is bad at either end is absent with the reason."""
    pages = [page(FULL), page(GROWN)]
    whole = only(measure(pages))
    assert fields <= set(whole.values)
    place = ["before", "after"].index(end)
    pages[place] = spoil(pages[place], series, value)
    found = only(measure(pages))
    assert {found.absent.get(name) for name in fields} == {reason}
    assert set(found.values) < set(whole.values)
    assert {name: whole.values[name] for name in found.values} == found.values


def test_sum_that_falls_is_absent_and_counted_once() -> None:
    """A sum that falls and climbs back has grown by nothing; meanwhile it is not known."""
    pages = [page(replace(FULL, step_seconds=seconds)) for seconds in (26.7, 20.0, 26.7, 27.7)]
    watched = Watched(pages[0])
    watched.see(pages[1], 1.0)
    assert only(watched.derive()).absent["decode_concurrency"] == Reason.NEGATIVE_VALUE
    watched.see(pages[2], 2.0)
    assert only(watched.derive()).values["decode_concurrency"] == 0.0
    watched.see(pages[3], 3.0)
    assert only(watched.derive()).values["decode_concurrency"] == pytest.approx(1 / 3)
    assert watched.ledger.restarts == {}


LACKING = {
    "steps": ("inter_token_latency", ("step_seconds", "tpot_seconds", "decode_concurrency")),
    "accepted tokens": (
        "num_accepted_tokens_total",
        ("acceptance_ratio", "acceptance_length", "accepted_tokens"),
    ),
    "draft tokens": ("num_draft_tokens", ("acceptance_ratio", "draft_length", "draft_tokens")),
}


@pytest.mark.parametrize("missing_from", [(0, 1), (1,)], ids=["never there", "vanished"])
@pytest.mark.parametrize(("pattern", "fields"), LACKING.values(), ids=LACKING)
def test_engine_that_lacks_what_its_sibling_has(
    pattern: str, fields: tuple[str, ...], missing_from: tuple[int, ...]
) -> None:
    """A sum over the engines is none where one of them does not say its part."""
    pages = [v1_page({"0": 1000, "1": 1000}), v1_page({"0": 2000, "1": 2000})]
    for place in missing_from:
        pages[place] = drop(pages[place], rf'{pattern}.*engine="1"')
    found = only(measure(pages))
    assert {found.absent.get(field) for field in fields} == {Reason.NOT_EXPOSED}
    first, second = found.per_engine
    assert first.acceptance_ratio == 0.5
    assert (second.acceptance_ratio == 0.5) is (pattern == "inter_token_latency")


def test_idle_engine_without_speculation() -> None:
    """An engine that shows no counter of speculation at all has drafted nothing."""
    pages = [v1_page({"0": 1000, "1": 0}), v1_page({"0": 2000, "1": 0})]
    found = only(measure([drop(one, 'spec_decode.*engine="1"') for one in pages]))
    assert (found.values["drafts"], found.values["acceptance_ratio"]) == (1000, 0.5)


def test_ray_makes_series_late() -> None:
    """Through Ray a series appears with its first observation: one that is not there is 0."""
    pages = [v1_page({"0": 1000, "1": 0}), v1_page({"0": 2000, "1": 0})]
    late = [drop(as_ray(one, "a"), 'num_accepted_tokens_total.*engine="1"') for one in pages]
    assert only(measure(late)).values["acceptance_ratio"] == 0.5


def test_series_of_a_single_engine_is_away() -> None:
    """What was there and is not is not known; once it is back, its growth is exact again."""
    watched = Watched(v1_page(1000))
    for time in (1.0, 2.0):
        watched.see(drop(v1_page(2000), "num_accepted_tokens_total"), time)
        found = only(watched.derive())
        assert found.absent["acceptance_ratio"] == Reason.NOT_EXPOSED
        assert found.values["drafts"] == 1000
    watched.see(v1_page(3000), 3.0)
    assert only(watched.derive()).values["accepted_tokens"] == 4000


def test_position_that_vanished() -> None:
    """A position that is away leaves K in doubt: it is not one less."""
    after = drop(v1_page(2000), 'position="3"')
    assert only(measure([v1_page(1000), after])).absent["num_speculative_tokens"]


def test_healthy_engine_beside_a_faulty_one() -> None:
    """A bad series of one engine is no doubt about its sibling."""
    pages = [v1_page({"0": 1000, "1": 1000}), v1_page({"0": 2000, "1": 2000})]
    pages[1] = spoil(pages[1], "spec_decode_num_accepted_tokens_total", "NaN")
    found = only(measure(pages))
    assert found.absent["acceptance_ratio"] == Reason.NOT_FINITE
    faulty, healthy = found.per_engine
    assert getattr(faulty.acceptance_ratio, "reason", None) == Reason.NOT_FINITE
    assert (healthy.acceptance_ratio, healthy.acceptance_length) == (0.5, 3.0)


def test_gauge_of_one_engine_is_bad() -> None:
    """The others' sum or mean is not the model's."""
    pages = [v1_page({"0": 1000, "1": 1000}), v1_page({"0": 2000, "1": 2000})]
    pages[1] = spoil(pages[1], "num_requests_running", "NaN")
    assert only(measure(pages)).absent["requests_running"] == Reason.NOT_FINITE


PAIRS = {
    "one engine": (v1_page(1000), v1_page(2000)),
    "two engines": (v1_page({"0": 1000, "1": 500}), v1_page({"0": 2000, "1": 2500})),
    "by hand": (page(FULL), page(GROWN)),
    "V0": tuple(load_page(f"vllm/0.8.5-v0-ngram/{at}.prom") for at in ("during", "after")),
}
FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "NaN": lambda line: line.rpartition(b" ")[0] + b" NaN",
    "infinite": lambda line: line.rpartition(b" ")[0] + b" -Inf",
    "below zero": lambda line: line.rpartition(b" ")[0] + b" -3",
    "twice": lambda line: line + b"\n" + line.rpartition(b" ")[0] + b" 12345.5",
    "away": lambda _: b"",
}
Fault = tuple[int, int, str]
faults = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 10_000), st.sampled_from(sorted(FAULTS))),
    min_size=1,
    max_size=4,
)


def spoilt(pages: tuple[bytes, ...], chosen: list[Fault]) -> list[bytes]:
    """Put faults on samples; only a counter that has counted goes away, and only after."""
    lines = [one.splitlines() for one in pages]
    for end, place, kind in chosen:
        own = [n for n, line in enumerate(lines[end]) if line[:5] == b"vllm:" and b"\n" not in line]
        at = own[place % len(own)]
        line = lines[end][at]
        counts = re.search(rb"_(total|count|sum)[{ ]", line) and not line.endswith((b" 0", b" 0.0"))
        if kind == "away" and not (end and counts and line in pages[1].splitlines()):
            continue
        lines[end][at] = FAULTS[kind](line)
    return [b"\n".join(line for line in one if line) + b"\n" for one in lines]


def check_same_or_absent(found: Derived, whole: Derived) -> None:
    """Hold every field against what it is without a fault."""
    for name, value in found.values.items():
        assert value == whole.values.get(name), name
    for one, healthy in zip(found.per_engine, whole.per_engine, strict=True):
        assert one.engine == healthy.engine
        for got, true in (
            (one.acceptance_ratio, healthy.acceptance_ratio),
            (one.acceptance_length, healthy.acceptance_length),
        ):
            assert not isinstance(got, float) or got == true


@pytest.mark.parametrize("pages", PAIRS.values(), ids=PAIRS)
@given(chosen=faults)
@settings(deadline=None, max_examples=60)
def test_fault_gives_no_other_number(pages: tuple[bytes, ...], chosen: list[Fault]) -> None:
    """Whatever is at fault on either page: a field is what it is without, or absent."""
    found = measure(spoilt(pages, chosen), 10.0)
    check_same_or_absent(only(found), only(measure(pages, 10.0)))


def test_fault_is_no_growth_later() -> None:
    """A fault that has passed leaves the totals as they would be without it."""
    watched = Watched(page(FULL))
    watched.see(spoil(page(GROWN), "inter_token_latency_seconds_sum", "NaN"), 1.0)
    watched.see(page(GROWN), 2.0)
    spent = [
        total
        for cell, total in watched.ledger.totals.items()
        if cell.measure[:2] == (Quantity.STEP_LATENCY, "sum")
    ]
    assert math.isclose(sum(spent), 20.0)
