"""Damaged pages: twenty thousand of them, and some of very many series."""

import time

import psutil
import pytest
from tests.fuzz import fuzz, load_seeds
from tests.recorded import load_page, samples

from specgauge.engines.reader import Reader
from specgauge.errors import SourceError
from specgauge.model.outcome import ScrapeResult


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_pages_do_no_harm(seed: int) -> None:
    """No page raises anything but a refusal, shows an impossible number or leaves a trace."""
    outcome = fuzz(10_000, seed)
    assert outcome.finding is None
    assert 0.1 < outcome.accepted / outcome.cases < 0.9


def test_seeds_are_of_every_kind() -> None:
    """The fuzzer starts from pages that are read and from pages that are refused."""
    assert len(load_seeds()) > 20


def test_every_cut_of_a_recorded_page_is_refused() -> None:
    """A page cut anywhere but behind a line is refused, with one of two names."""
    page = load_page("vllm/0.8.5-v0-ngram/during.prom")[-4000:]
    page = page[page.index(b"\n") + 1 :]
    reader = Reader()
    for at in range(1, len(page)):
        if page[at - 1 : at] == b"\n":
            continue
        with pytest.raises(SourceError) as refused:
            reader.read(page[:at])
        assert refused.value.result is ScrapeResult.TRUNCATED


HOSTILE = {
    "foreign series": (b'other_bucket{path="/v1/%d",le="0.5"} 1\n', 240_000),
    "engine series": (b'vllm:prompt_tokens_total{model_name="m",pid="%d"} 1\n', 55_000),
}


def memory() -> int:
    """Give the bytes that this process holds."""
    return psutil.Process().memory_info().rss


@pytest.mark.slow
@pytest.mark.parametrize(("line", "many"), HOSTILE.values(), ids=HOSTILE)
def test_very_many_series(line: bytes, many: int) -> None:
    """A page of a great many series is read in bounded time and memory, and then let go of."""
    good = load_page("vllm/0.32.0-ngram/after.prom")
    page = good + b"".join(line % number for number in range(many))
    reader = Reader()
    expected = samples(reader.read(good))
    before = memory()
    began = time.perf_counter()
    read = reader.read(page)
    assert time.perf_counter() - began < 60
    assert memory() - before < 1024**3
    assert len(read.values) in {len(expected), len(expected) + many}
    del read
    assert samples(reader.read(good)) == expected


def test_more_series_than_any_engine_has() -> None:
    """A page with labels gone wild is refused, and the next good one is read as before."""
    line, _ = HOSTILE["engine series"]
    reader = Reader()
    assert len(reader.read(b"".join(line % number for number in range(60_000))).values) == 60_000
    with pytest.raises(SourceError, match="more than 60,000 series") as refused:
        reader.read(b"".join(line % number for number in range(60_001)))
    assert refused.value.result is ScrapeResult.TOO_LARGE
    assert len(reader.read(line % 1).values) == 1


def test_a_million_series_are_refused_unread() -> None:
    """A page of more lines than any server has is refused before it costs anything."""
    line, _ = HOSTILE["engine series"]
    page = b"".join(line % number for number in range(1_000_000))
    began = time.perf_counter()
    with pytest.raises(SourceError, match="250,000 lines") as refused:
        Reader().read(page)
    assert refused.value.result is ScrapeResult.TOO_LARGE
    assert time.perf_counter() - began < 20


LINES = {
    "open quote": 'vllm:x{a="' + "\\\\" * 200_000,
    "quotes": 'vllm:x{a="' + '\\"' * 200_000 + '"} 1',
    "labels": "vllm:x{" + "".join(f'a{n}="b",' for n in range(50_000)) + "} 1",
    "blanks": "vllm:x" + " " * 400_000 + "1",
    "blanks and no value": "vllm:x" + " \t" * 200_000,
    "digits": "vllm:x " + "9" * 400_000,
    "digits and no number": "vllm:x " + "9" * 400_000 + "x",
    "braces": "vllm:x" + "{" * 400_000,
    "name": "v" * 400_000,
    "hashes": "vllm:x 1 " + "#" * 400_000,
    "carriage returns": "vllm:x 1" + "\r" * 400_000 + "1",
    "comments": "\n".join("# TYPE a counter" for _ in range(20_000)),
    "counters without samples": "\n".join(f"# TYPE a{n} counter" for n in range(20_000)),
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_no_line_takes_long(line: str) -> None:
    """No line makes the grammar go over it again and again."""
    reader = Reader()
    began = time.perf_counter()
    with pytest.raises(SourceError):
        reader.read(f"{line}\n".encode())
    assert time.perf_counter() - began < 5
