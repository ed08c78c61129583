"""Pages of real vLLM servers: what is derived from them is what truly happened there."""

import re

import pytest
from tests.recorded import (
    CAPTURES,
    H200_LEVELS,
    H200_MODES,
    PAGES,
    Watched,
    load_page,
    load_series,
    load_truth,
    measure,
    measure_life,
    only,
)

from specgauge.engines.reader import Reader
from specgauge.errors import SourceError
from specgauge.model.derived import Derived, Method, Reason, Speculation, Warn
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Dialect
from specgauge.serve.demo.recording import RecordingName, load

V1 = tuple(name for name in CAPTURES if "-v0-" not in name)
V1_SPECULATIVE = tuple(name for name in V1 if not name.endswith("-none"))
V0 = tuple(name for name in CAPTURES if "-v0-" in name)
V1_LOG = re.compile(
    r"(?:length: (?P<length>[\d.]+).*)?Accepted: (?P<accepted>\d+) tokens, "
    r"Drafted: (?P<drafted>\d+) tokens, Per-position acceptance rate: (?P<positions>[\d., ]+\d)"
)


def over(name: str, start: str = "before", end: str = "after", seconds: float = 30.0) -> Derived:
    """Measure one capture between two of its pages."""
    pages = [load_page(f"vllm/{name}/{at}.prom") for at in (start, end)]
    return only(measure(pages, seconds))


def log_lines(folder: str) -> list[re.Match[str]]:
    """Read the engine's own lines about its speculation."""
    lines = (PAGES / folder / "log.txt").read_text().splitlines()
    return [match for match in map(V1_LOG.search, lines) if match]


@pytest.mark.parametrize("name", V1)
def test_window_gives_true_counts(name: str) -> None:
    """Over the whole capture every count is the one that the client and the engine had."""
    truth = load_truth(f"vllm/{name}")
    found = over(name).values
    after = truth["counters_after"]
    assert found["generation_tokens"] == truth["generation_tokens"]
    assert found["output_tokens_per_request"] == truth["generation_tokens"] / truth["requests"]
    assert found["prompt_tokens_per_request"] == truth["prompt_tokens"] / truth["requests"]
    if name in V1_SPECULATIVE:
        assert found["drafts"] == after["drafts"]
        assert found["draft_tokens"] == after["draft_tokens"]
        assert found["accepted_tokens"] == after["accepted_tokens"]
        assert found["num_speculative_tokens"] == truth["num_speculative_tokens"]
        assert found["acceptance_ratio"] == after["accepted_tokens"] / after["draft_tokens"]


@pytest.mark.parametrize("name", V1)
def test_parts_of_a_window_add_up(name: str) -> None:
    """A page in the middle changes no total."""
    pages = [load_page(f"vllm/{name}/{at}.prom") for at in ("before", "during", "after")]
    assert only(measure(pages, 30.0)).values == only(measure(pages[::2], 30.0)).values


@pytest.mark.parametrize("name", V1)
def test_honest_pages_break_no_identity(name: str) -> None:
    """Nothing a real server shows is taken for a contradiction."""
    found = over(name)
    assert found.violations == ()
    assert found.method is Method.COUNTERS
    assert found.speculation is (
        Speculation.ACTIVE if name in V1_SPECULATIVE else Speculation.ABSENT
    )


@pytest.mark.parametrize("name", [n for n in V1 if (PAGES / "vllm" / n / "log.txt").exists()])
def test_counts_agree_with_the_log(name: str) -> None:
    """The engine's own log lines add up to the counts, and its ratios are ours, rounded."""
    found = over(name).values
    lines = log_lines(f"vllm/{name}")
    assert sum(int(line["accepted"]) for line in lines) == found["accepted_tokens"]
    assert sum(int(line["drafted"]) for line in lines) == found["draft_tokens"]
    if len(lines) == 1:
        positions = [float(part) for part in lines[0]["positions"].split(", ")]
        assert found["position_acceptance_ratio"] == pytest.approx(positions, abs=0.0005)
        assert found["acceptance_length"] == pytest.approx(float(lines[0]["length"]), abs=0.005)


@pytest.mark.parametrize("name", [n for n in V1 if n.startswith("0.32.0-")])
def test_tpot_agrees_with_the_client(name: str) -> None:
    """The time per output token is the client's own, up to the noise of a busy CPU."""
    phases = load_truth(f"vllm/{name}")["phases"]
    tokens = [phase["generation_tokens"] - phase["requests"] for phase in phases]
    milliseconds = [phase["client_tpot_ms_token_weighted"] for phase in phases]
    client = sum(map(float.__mul__, milliseconds, map(float, tokens))) / sum(tokens) / 1000
    assert over(name).values["tpot_seconds"] == pytest.approx(client, rel=0.15)


@pytest.mark.parametrize("level", H200_LEVELS)
@pytest.mark.parametrize("mode", H200_MODES)
def test_tpot_on_h200_is_the_clients(mode: str, level: int) -> None:
    """With and without speculation, at every load, within two per cent of the client."""
    truth = load_truth(f"h200/{mode}")["levels"][str(level)]
    pages = [load_page(f"h200/{mode}/c{level}-{at}.prom") for at in ("before", "after")]
    found = only(measure(pages, truth["wall_s"])).values
    assert found["tpot_seconds"] == pytest.approx(truth["tpot_mean"], rel=0.02)
    assert found["generation_tokens"] == truth["tokens"]
    assert found["decode_concurrency"] <= level  # type: ignore[operator]  # a number


@pytest.mark.parametrize("level", H200_LEVELS)
@pytest.mark.parametrize("mode", H200_MODES[1:])
def test_acceptance_on_h200_is_what_was_configured(mode: str, level: int) -> None:
    """Synthetic acceptance is known beforehand; what is derived lies within its chance."""
    truth = load_truth(f"h200/{mode}")
    pages = [load_page(f"h200/{mode}/c{level}-{at}.prom") for at in ("before", "after")]
    found = only(measure(pages, truth["levels"][str(level)]["wall_s"])).values
    rates = truth["synthetic_acceptance_rates"]
    assert found["position_acceptance_ratio"] == pytest.approx(rates, abs=0.05)
    assert found["acceptance_ratio"] == pytest.approx(sum(rates) / len(rates), abs=0.03)
    assert found["draft_coverage_ratio"] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("name", V0)
def test_v0_counts_delivered_tokens(name: str) -> None:
    """V0's own generation counter counts steps; ours counts what finished requests got."""
    truth = load_truth(f"vllm/{name}")
    found = over(name).values
    assert found["generation_tokens"] == truth["generation_tokens"]
    spent = truth["counters_after"]["request_decode_time_sum"]
    after_first = truth["generation_tokens"] - truth["requests"]
    assert found["tpot_seconds"] == pytest.approx(spent / after_first)


def test_v0_single_collection_is_recovered() -> None:
    """With one collection between the pages its totals are those of the engine's log."""
    found = over("0.8.5-v0-ngram", "before", "during").values
    assert (found["drafts"], found["draft_tokens"]) == (245, 980)
    assert found["accepted_tokens"] == 740 - 245
    assert found["draft_length"] == 4
    assert found["acceptance_ratio"] == 495 / 980


V0_LOST = [
    ("0.8.5-v0-ngram", "before", "after"),
    ("0.8.5-v0-ngram", "during", "after"),
    ("0.8.5-v0-draft", "before", "during"),
    ("0.8.5-v0-draft", "before", "after"),
    ("0.8.5-v0-draft", "during", "after"),
]


@pytest.mark.parametrize(("name", "start", "end"), V0_LOST)
def test_v0_several_collections_are_not_guessed_at(name: str, start: str, end: str) -> None:
    """Sums of several totals say nothing; the naive quotient of the counters is never shown."""
    found = over(name, start, end)
    for field in ("acceptance_ratio", "acceptance_length", "drafts", "draft_tokens"):
        assert found.absent[field] == Reason.V0_NOT_RECOVERABLE
    assert found.speculation is Speculation.ACTIVE
    assert found.method is Method.V0_INTERVAL


@pytest.mark.parametrize(("name", "ratio"), [("0.8.5-v0-ngram", 0.734), ("0.8.5-v0-draft", 0.45)])
def test_v0_single_page_gives_the_gauge(name: str, ratio: float) -> None:
    """From one page there is the lifetime gauge, marked as what it is."""
    found = only(measure_life(load_page(f"vllm/{name}/after.prom")))
    gauge = re.search(rb"acceptance_rate\{.*\} (.*)", load_page(f"vllm/{name}/after.prom"))
    assert gauge
    assert found.values["acceptance_ratio"] == float(gauge[1])
    assert found.values["acceptance_ratio"] == pytest.approx(ratio, abs=0.1)
    assert {Warn.LIFETIME_VALUE, Warn.V0_ANY_POSITION} <= set(found.warnings)
    assert found.method is Method.V0_LIFETIME


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("at", ["before", "during", "after"])
def test_dialect_is_told_from_any_page(name: str, at: str) -> None:
    """The page alone says which engine it is, loaded or not."""
    layout = Reader().read(load_page(f"vllm/{name}/{at}.prom")).layout
    assert layout.dialect is (Dialect.VLLM_V0 if name in V0 else Dialect.VLLM_V1)


def test_engines_keep_their_own_acceptance() -> None:
    """Two engines on one page: the model's ratio is that of the sums, each engine has its own."""
    found = over("0.32.0-draft-dp2")
    assert found.engines == ("0", "1")
    own = [engine.acceptance_ratio for engine in found.per_engine]
    assert len(set(own)) == 2
    assert found.values["acceptance_ratio"] == 331 / 1593


def test_asking_for_openmetrics_changes_nothing() -> None:
    """The 0.32.0 server answers an OpenMetrics request with classic text, which is read as such."""
    asked = load_page("vllm/0.32.0-ngram/after-asked-for-openmetrics.prom")
    plain = load_page("vllm/0.32.0-ngram/after.prom")
    before = load_page("vllm/0.32.0-ngram/before.prom")
    assert only(measure([before, asked])).values == only(measure([before, plain])).values


@pytest.mark.parametrize("name", ["ngram", "none"])
def test_series_adds_up_and_never_contradicts_itself(name: str) -> None:
    """Fifty pages of a changing load: no reset, no violation, and the sums of the phases."""
    series = load_series(name)
    pages = series["pages"]
    watched = Watched(pages[0]["text"].encode(), pages[0]["at"])
    for page in pages[1:]:
        assert watched.see(page["text"].encode(), page["at"]).reset == frozenset()
        found = only(watched.derive())
        assert found.violations == ()
        assert found.speculation is not Speculation.UNKNOWN
    sent = sum(phase.get("generation_tokens", 0) for phase in series["phases"])
    assert found.values["generation_tokens"] == sent


@pytest.mark.parametrize("name", list(RecordingName), ids=str)
def test_ramp_adds_up_and_never_contradicts_itself(name: RecordingName) -> None:
    """An H200 under a rising and falling load, a page a second: no reset, no violation."""
    pages = load(name).pages
    watched = Watched(pages[0].text.encode(), pages[0].at)
    for page in pages[1:]:
        assert watched.see(page.text.encode(), page.at).reset == frozenset()
        watched_now = only(watched.derive())
        assert watched_now.violations == ()
    direct = measure([pages[0].text.encode(), pages[-1].text.encode()], load(name).duration)
    assert only(direct).values == watched_now.values


@pytest.mark.parametrize("name", ["0.32.0-ngram", "0.8.5-v0-ngram", "0.32.0-draft-dp2"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_part_of_a_page_is_refused(name: str, share: float) -> None:
    """A page that ends within a line is never read, however much of it is there."""
    page = load_page(f"vllm/{name}/after.prom")
    cut = page[: int(len(page) * share)].rstrip(b"\n")
    with pytest.raises(SourceError) as refused:
        Reader().read(cut)
    assert refused.value.result is ScrapeResult.TRUNCATED
