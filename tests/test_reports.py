"""Faults that practitioners reported, on a page or two: the right value or the right refusal."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from tests.recorded import PAGES, Watched, load_page, measure, measure_life, only
from tests.written import Engine, write_page

from specgauge.engines.reader import Reader
from specgauge.errors import SourceError
from specgauge.model.derived import Absent, Derived, Hints, Reason, Speculation, Warn
from specgauge.model.outcome import ScrapeResult

ANY = Hints()
LIFETIME = str(Warn.LIFETIME_VALUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Pages, and what must and must not be said of them; one page is measured from zero."""

    pages: tuple[str, ...]
    values: Mapping[str, object] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    warnings: frozenset[str] = frozenset()
    state: Speculation = Speculation.ACTIVE
    hints: Hints = ANY

    def derive(self) -> Derived:
        """Measure what the pages show."""
        pages = [load_page(f"reports/{page}") for page in self.pages]
        if len(pages) == 1:
            return only(measure_life(pages[0], self.hints))
        return only(measure(pages, 60.0, self.hints))


CASES = {
    "draft tokens without a count of drafts": Case(
        pages=("no-draft-count-t0.prom", "no-draft-count-t1.prom"),
        values={"acceptance_ratio": 0.7, "draft_tokens": 600, "accepted_tokens": 420},
        absent={
            "acceptance_length": "num_drafts_missing",
            "drafts": "num_drafts_missing",
            "draft_length": "num_drafts_missing",
            "position_acceptance_ratio": "not_exposed_by_engine",
            "num_speculative_tokens": "not_exposed_by_engine",
        },
    ),
    "creation times beside the totals": Case(
        pages=("created-beside-totals.prom",),
        values={
            "drafts": 46,
            "draft_tokens": 230,
            "accepted_tokens": 161,
            "acceptance_ratio": 0.7,
            "acceptance_length": 4.5,
            "position_acceptance_ratio": [1.0, 40 / 46, 33 / 46, 24 / 46, 18 / 46],
        },
        warnings=frozenset({LIFETIME, Warn.LOW_SAMPLE}),
    ),
    "engines of unequal load": Case(
        pages=("four-engines-unequal.prom",),
        values={"acceptance_ratio": 4500 / 6030, "acceptance_length": 1 + 4500 / 2010},
        warnings=frozenset({LIFETIME}),
    ),
    "last of four engines": Case(
        pages=("last-of-four-engines.prom",),
        values={"acceptance_ratio": 0.65},
        warnings=frozenset({LIFETIME, Warn.ENGINES_MISSING}),
        hints=Hints(engines=4),
    ),
    "gauge once per process": Case(
        pages=("gauge-once-per-process.prom",),
        values={"kv_cache_usage_ratio": 0.65, "acceptance_ratio": 0.7},
        warnings=frozenset({LIFETIME}),
    ),
    "engine that crashed and came back": Case(
        pages=("before-crash.prom", "after-crash.prom"),
        values={"drafts": 4, "draft_tokens": 12, "accepted_tokens": 2, "acceptance_ratio": 2 / 12},
        warnings=frozenset({Warn.LOW_SAMPLE}),
    ),
    "lookup drafts padded to full length": Case(
        pages=("padded-lookup-drafts.prom",),
        values={"acceptance_ratio": 0.06, "acceptance_length": 1.3, "num_speculative_tokens": 5},
        warnings=frozenset({LIFETIME, Warn.PADDED_DRAFTS}),
        hints=Hints(method="ngram_gpu"),
    ),
    "every draft token invalid": Case(
        pages=("every-draft-token-invalid.prom",),
        values={
            "acceptance_length": 1.0,
            "draft_length": 0.0,
            "position_acceptance_ratio": [0.0, 0.0, 0.0],
        },
        absent={
            "acceptance_ratio": "all_draft_tokens_invalid",
            "position_conditional_acceptance_ratio": "varying_draft_length",
        },
        warnings=frozenset({LIFETIME, Warn.LOW_SAMPLE}),
    ),
    "Ray gives the last position everything": Case(
        pages=("ray-last-position-has-all.prom",),
        values={
            "acceptance_ratio": 0.7,
            "acceptance_length": 3.1,
            "num_speculative_tokens": 3,
        },
        absent={
            "position_acceptance_ratio": "per_position_not_monotone",
            "accepted_tokens_per_position": "per_position_not_monotone",
        },
        warnings=frozenset({LIFETIME, Warn.NOT_MONOTONE}),
    ),
    "diffusion canvas in place of drafts": Case(
        pages=("diffusion-canvas.prom",),
        absent={
            "acceptance_ratio": "not_speculative",
            "acceptance_length": "not_speculative",
            "drafts": "not_speculative",
        },
        warnings=frozenset({LIFETIME}),
        state=Speculation.NOT_SPECULATIVE,
    ),
    "length includes the bonus token": Case(
        pages=("three-tokens-a-draft.prom",),
        values={"acceptance_length": 3.1, "acceptance_ratio": 0.7, "draft_length": 3.0},
        warnings=frozenset({LIFETIME}),
    ),
    "first tokens faster than light": Case(
        pages=("ttft-below-a-millisecond.prom",),
        values={"e2e_seconds": 3.0},
        absent={
            "ttft_seconds": "implausible_ttft",
            "output_tokens_per_request": "not_exposed_by_engine",
        },
        warnings=frozenset({LIFETIME, Warn.IMPLAUSIBLE_TTFT, Warn.BELOW_FIRST_BUCKET}),
        state=Speculation.ABSENT,
    ),
    "slow minute after a long life": Case(
        pages=("slow-after-long-life-t0.prom", "slow-after-long-life-t1.prom"),
        values={"request_tpot_seconds": 0.08},
        absent={"tpot_seconds": "not_exposed_by_engine"},
        state=Speculation.ABSENT,
    ),
    "series twice with two values": Case(
        pages=("series-twice-two-values.prom",),
        values={"drafts": 100, "draft_tokens": 300},
        absent={
            "acceptance_ratio": "duplicate_series",
            "acceptance_length": "duplicate_series",
            "accepted_tokens": "duplicate_series",
        },
        warnings=frozenset({LIFETIME, Warn.DUPLICATE_SERIES}),
    ),
    "escapes, braces, blanks and commas in labels": Case(
        pages=("escapes-in-labels.prom",),
        values={"acceptance_ratio": 0.7},
        absent={"acceptance_length": "num_drafts_missing"},
        warnings=frozenset({LIFETIME}),
    ),
    "quoted name of something else": Case(
        pages=("quoted-utf8-name.prom",),
        values={"acceptance_ratio": 0.7, "drafts": 100},
        warnings=frozenset({LIFETIME}),
    ),
    "no positions": Case(
        pages=("no-positions.prom",),
        values={"acceptance_ratio": 0.7, "acceptance_length": 3.1},
        absent={"position_acceptance_ratio": "not_exposed_by_engine"},
        warnings=frozenset({LIFETIME}),
    ),
    "samples with timestamps": Case(
        pages=("with-timestamps.prom",),
        values={"acceptance_ratio": 0.7, "drafts": 100},
        warnings=frozenset({LIFETIME}),
    ),
    "bounds spelled two ways": Case(
        pages=("bounds-spelled-two-ways.prom",),
        values={"ttft_seconds": 0.5},
        warnings=frozenset({LIFETIME, Warn.BELOW_FIRST_BUCKET}),
        state=Speculation.ABSENT,
    ),
}

REFUSED = {
    "another-engine.prom": ScrapeResult.UNRECOGNISED_EXPOSITION,
    "another-engine-ratio-above-one.prom": ScrapeResult.UNRECOGNISED_EXPOSITION,
    "json-instead.txt": ScrapeResult.NOT_METRICS,
    "empty.prom": ScrapeResult.NO_ENGINE_METRICS,
    "process-metrics-only.prom": ScrapeResult.NO_ENGINE_METRICS,
    "help-and-type-only.prom": ScrapeResult.NO_ENGINE_METRICS,
    "cut-within-a-label.txt": ScrapeResult.TRUNCATED,
}


def test_every_page_has_its_case() -> None:
    """No page of the folder goes unjudged."""
    judged = {page for case in CASES.values() for page in case.pages} | set(REFUSED)
    assert judged == {path.name for path in (PAGES / "reports").iterdir()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_page_gives_the_right_values(case: Case) -> None:
    """What can be known is known to the last digit, what cannot is absent for the right reason."""
    found = case.derive()
    assert {name: found.values.get(name) for name in case.values} == {
        name: pytest.approx(value) for name, value in case.values.items()
    }
    assert {name: found.absent.get(name) for name in case.absent} == case.absent
    told = {warning for warning in found.warnings if not warning.startswith("identity_violation")}
    assert told == case.warnings
    assert found.speculation is case.state


@pytest.mark.parametrize(("page", "result"), REFUSED.items())
def test_page_is_refused(page: str, result: ScrapeResult) -> None:
    """A page of which nothing can be believed is refused under its own name."""
    with pytest.raises(SourceError) as refused:
        Reader().read(load_page(f"reports/{page}"))
    assert refused.value.result is result
    assert "\n" not in str(refused.value)


def test_engines_of_unequal_load_keep_their_own() -> None:
    """An engine that never drafted has no ratio, one that lost all has 0."""
    found = CASES["engines of unequal load"].derive()
    own = {engine.engine: engine.acceptance_ratio for engine in found.per_engine}
    assert own == {"0": 0.8, "1": 0.7, "2": 0.0, "3": Absent(reason=Reason.NO_DRAFTS)}


def test_crash_is_counted_once() -> None:
    """Counters that fall are one restart, whatever lay in between."""
    watched = Watched(load_page("reports/before-crash.prom"))
    interval = watched.see(load_page("reports/after-crash.prom"), 60.0)
    assert interval.reset == {("acme/chat-70b", "0")}
    assert watched.ledger.restarts == {("acme/chat-70b", "0"): 1}


def test_cut_page_leaves_the_reference() -> None:
    """After a page cut in the middle the next whole one is compared with the last whole one."""
    watched = Watched(write_page(Engine(drafts=90, drafted=270, accepted=190)))
    with pytest.raises(SourceError):
        watched.see(load_page("reports/cut-within-a-label.txt"), 1.0)
    watched.see(write_page(Engine(drafts=100, drafted=300, accepted=210)), 2.0)
    found = only(watched.derive()).values
    assert (found["drafts"], found["draft_tokens"], found["accepted_tokens"]) == (10, 30, 20)


def test_counters_agree_with_a_requests_own_object() -> None:
    """Twenty steps of three drafted tokens, kept 0, 1, 2, 3 in 6, 5, 4, 5 of them."""
    page = write_page(Engine(drafts=20, drafted=60, accepted=28, positions=(14, 9, 5)))
    found = only(measure_life(page)).values
    assert found["accepted_tokens"] == 28
    assert found["acceptance_ratio"] == pytest.approx(0.466667, abs=1e-6)
    assert found["acceptance_length"] == 2.4
    assert found["position_acceptance_ratio"] == [0.7, 0.45, 0.25]


def test_labels_are_read_as_they_were_meant() -> None:
    """A value that ends in a backslash, and one with a quote, a brace, a line feed and a hash."""
    page = Reader().read(load_page("reports/escapes-in-labels.prom"))
    (drafted, accepted) = page.values
    assert drafted.cell.model == accepted.cell.model == "C:\\models\\"
    assert drafted.origin == accepted.origin == (("tag", 'a"b{c},d=e\nf # g'),)
