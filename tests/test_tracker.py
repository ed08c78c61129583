"""One target's state over time: what a page adds, what a failure takes away, what stays."""

from collections.abc import Mapping

import pytest
from tests.judging import base, line
from tests.small_pages import diffusion_page, v0_page, v1_page

from specgauge.errors import SourceError
from specgauge.model.derived import Hints, Value
from specgauge.model.outcome import ScrapeResult
from specgauge.model.quantity import Dialect, Kind, Quantity
from specgauge.model.settings import TargetSettings
from specgauge.model.verdict import Verdict, VerdictReason
from specgauge.model.view import TargetView
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.sibling import Sibling
from specgauge.serve.tracker import Moment, Tracker

TARGET = TargetSettings(name="spec", url="http://engine:8000", hints=Hints(engines=2))
WINDOW = 60.0
DRAFTS = (Quantity.DRAFTS, Kind.COUNTER, "")
FAILED = SourceError(ScrapeResult.HTTP_STATUS, "answered 500")


def tracker(window: float = WINDOW) -> Tracker:
    return Tracker(TARGET, window)


def see(tracked: Tracker, page: bytes, time: float) -> TargetView:
    tracked.page(page, complete=True, at=Moment(time=time, unix=1e9 + time), seconds=0.25)
    return tracked.view


def total(view: TargetView, measure: tuple[Quantity, Kind, object] = DRAFTS) -> float:
    return sum(value for cell, value in view.totals.items() if cell.measure == measure)


def values(view: TargetView, model: str = "small") -> Mapping[str, Value]:
    return view.models[model].values


def test_nothing_is_known_before_the_first_page() -> None:
    """A new target is neither up nor down, and every result has been counted 0 times."""
    view = tracker().view
    assert (view.result, view.up, view.models, view.totals) == (None, False, {}, {})
    assert dict.fromkeys(ScrapeResult, 0) == view.scrapes


def test_first_page_is_only_the_reference() -> None:
    """The first page makes the target up and its counters zero; nothing is derived from it."""
    view = see(tracker(), v1_page(1000), 5)
    assert (view.up, view.result, view.dialect) == (True, ScrapeResult.OK, Dialect.VLLM_V1)
    assert (view.engines, view.seen) == ({"small": ("0",)}, {("small", "0"): 1e9 + 5})
    assert (view.last_success, view.scrape_seconds) == (1e9 + 5, 0.25)
    assert (view.models, view.window_seconds, total(view)) == ({}, None, 0)


def test_second_page_closes_an_interval() -> None:
    """From the second page on there are gauges, over the time since the first."""
    tracked = tracker()
    see(tracked, v1_page(1000), 0)
    interval = tracked.page(v1_page(2000), complete=True, at=Moment(time=10, unix=0), seconds=0.1)
    assert interval is not None
    assert (interval.seconds, interval.reset) == (10, frozenset())
    assert (tracked.view.window_seconds, total(tracked.view)) == (10, 1000)
    assert values(tracked.view)["acceptance_ratio"] == 0.5
    assert values(tracked.view)["tpot_seconds"] == pytest.approx(0.01 / 3)
    assert values(tracked.view)["decode_concurrency"] == pytest.approx(1)
    assert "engines_missing" in tracked.view.models["small"].warnings


@pytest.mark.parametrize(
    ("page", "result"),
    [
        pytest.param(b"", ScrapeResult.NO_ENGINE_METRICS, id="empty"),
        pytest.param(b"<html></html>\n", ScrapeResult.NOT_METRICS, id="html"),
        pytest.param(b"sglang:x 1\n", ScrapeResult.UNRECOGNISED_EXPOSITION, id="foreign"),
        pytest.param(v1_page(3000) + b"vllm:num_requests_r", None, id="cut"),
        pytest.param(v1_page(3000) + b"\xff\n", ScrapeResult.BAD_ENCODING, id="not UTF-8"),
        pytest.param(v1_page(3000) + b"nonsense\n", ScrapeResult.NOT_METRICS, id="no sample"),
    ],
)
def test_refused_page_leaves_totals_as_they_were(page: bytes, result: ScrapeResult | None) -> None:
    """Nothing of a refused page is taken in: the next good one counts from the last good one."""
    tracked = tracker()
    see(tracked, v1_page(1000), 0)
    before = see(tracked, v1_page(2000), 1)
    with pytest.raises(SourceError) as caught:
        tracked.page(page, complete=False, at=Moment(time=2, unix=0), seconds=0.1)
    assert tracked.view is before
    tracked.failure(caught.value, 0.5)
    assert caught.value.result is (result or ScrapeResult.TRUNCATED)
    assert tracked.view.totals == before.totals
    assert tracked.view.scrapes[caught.value.result] == 1
    assert total(see(tracked, v1_page(4000), 3)) == 3000


def test_gauges_vanish_with_the_first_failure_and_counters_stay() -> None:
    """A failed scrape takes the gauges and what stands for the last page, and nothing else."""
    tracked = tracker()
    see(tracked, v1_page(1000), 0)
    before = see(tracked, v1_page(2000), 1)
    tracked.failure(FAILED, 0.5)
    view = tracked.view
    assert (view.models, view.engines, view.window_seconds) == ({}, {}, None)
    assert (view.up, view.result, view.detail) == (False, FAILED.result, "answered 500")
    assert (view.totals, view.seen, view.last_success) == (
        before.totals,
        before.seen,
        before.last_success,
    )
    assert (view.scrapes[ScrapeResult.OK], view.scrapes[ScrapeResult.HTTP_STATUS]) == (2, 1)
    assert values(see(tracked, v1_page(3000), 2))["drafts"] == 2000


@pytest.mark.parametrize(
    "result", [ScrapeResult.NO_ENGINE_METRICS, ScrapeResult.UNRECOGNISED_EXPOSITION], ids=str
)
def test_page_without_an_engine_leaves_the_target_up(result: ScrapeResult) -> None:
    """A server that answers with a page of something else can be fetched and parsed."""
    tracked = tracker()
    tracked.failure(SourceError(result, ""), 0.5)
    assert tracked.view.up


def test_restart_of_the_engine_does_not_make_totals_fall() -> None:
    """Lower counters than before are a restart: all of them are new growth, counted once."""
    tracked = tracker()
    see(tracked, v1_page({"0": 1000, "1": 1000}), 0)
    see(tracked, v1_page({"0": 2000, "1": 2000}), 1)
    view = see(tracked, v1_page({"0": 500, "1": 3000}), 2)
    assert view.restarts == {("small", "0"): 1}
    assert total(view) == (1000 + 500) + (1000 + 1000)
    assert values(view)["acceptance_ratio"] == 0.5


def test_window_looks_back_no_further_than_it_is_long() -> None:
    """A window begins at the last page that is at least its length old."""
    tracked = tracker(window=10)
    lengths = [see(tracked, v1_page(1000 + 25 * time), time).window_seconds for time in range(25)]
    assert lengths == [None, *range(1, 11), *[10] * 14]


@pytest.mark.parametrize(
    ("silence", "expected"),
    [
        pytest.param(14, 14, id="some"),
        pytest.param(15, 15, id="as much as is borne"),
        pytest.param(16, None, id="too much"),
    ],
)
def test_window_after_silence(silence: float, expected: float | None) -> None:
    """After a silence of over one and a half windows nothing is said of it; a new one begins."""
    tracked = tracker(window=10)
    see(tracked, v1_page(1000), 0)
    view = see(tracked, v1_page(2000), silence)
    assert view.window_seconds == expected
    assert bool(view.models) is (expected is not None)
    assert total(view) == 1000
    assert see(tracked, v1_page(3000), silence + 1).window_seconds is not None


def test_two_pages_of_one_moment_are_no_window() -> None:
    """A clock that stands still divides nothing by zero."""
    tracked = tracker()
    see(tracked, v1_page(1000), 5)
    assert see(tracked, v1_page(2000), 5).models == {}


def test_page_in_doubt_begins_no_window() -> None:
    """What a page held back shows up later, and would count as growth of the window."""
    tracked = tracker(window=10)
    see(tracked, v1_page(1000), 0)
    see(tracked, v1_page(2000) + v1_page(2025), 5)
    assert see(tracked, v1_page(3000), 11).window_seconds == 11


def test_broken_identities_are_counted_by_interval() -> None:
    """Each interval in which an identity breaks counts once, by check."""
    tracked = tracker()
    see(tracked, v1_page(1000), 0)
    liar = v1_page(2000).replace(
        b'num_accepted_tokens_total{engine="0",model_name="small"} 4000',
        b'num_accepted_tokens_total{engine="0",model_name="small"} 9000',
    )
    assert liar != v1_page(2000)
    view = see(tracked, liar, 1)
    assert {str(check): n for (_, check), n in view.violations.items()} == {
        "accepted_within_drafted": 1,
        "positions_sum_to_accepted": 1,
    }
    assert "acceptance_ratio" not in values(view)


def test_diffusion_model_is_silenced() -> None:
    """The draft counters of a diffusion model are no speculation, and the view says so."""
    tracked = tracker()
    see(tracked, diffusion_page(1000), 0)
    assert see(tracked, diffusion_page(2000), 1).silenced == {"canvas"}


def test_v0_counts_by_recovery() -> None:
    """The former engine's totals come back from what it adds at each collection."""
    tracked = tracker()
    see(tracked, v0_page([], 0), 0)
    see(tracked, v0_page([500], 500), 5)
    view = see(tracked, v0_page([500, 1225], 1225), 10)
    assert (view.dialect, total(view)) == (Dialect.VLLM_V0, 1225)


def test_version_and_changed_settings() -> None:
    """What is learnt and configured besides the pages stands in the view, too."""
    tracked = tracker()
    see(tracked, v1_page(1000), 0)
    tracked.learn_version("0.32.0")
    changed = TargetSettings(
        name="spec", url=TARGET.url, role="standard", hints=Hints(method="ngram")
    )
    tracked.adopt(changed, 5, ComparisonTerms(window=5), None)
    assert (tracked.view.version, tracked.view.role) == ("0.32.0", "standard")
    assert tracked.view.hints == Hints(method="ngram")
    view = [see(tracked, v1_page(1000 + 25 * time), time) for time in range(1, 10)][-1]
    assert (view.window_seconds, total(view)) == (5, 9 * 25)
    assert "engines_missing" not in view.models["small"].warnings


# Against a baseline: 20/3 ms a token, twice what the small pages show

FILE = base(line((0.1, 0.02 / 3), (64.0, 0.02 / 3), ttft=0.05))
TERMS = ComparisonTerms(baselines=(FILE,))


def compared(terms: ComparisonTerms = TERMS, *, steps: int = 100, seconds: int = 20) -> Tracker:
    """Follow a server that makes so many steps a second for a while."""
    tracked = Tracker(TARGET, WINDOW, terms)
    for time in range(seconds + 1):
        see(tracked, v1_page(1000 + steps * time), time)
    return tracked


def test_verdict_and_baseline_stand_in_the_view() -> None:
    """From the second page on there is a verdict, with the baseline that it rests on."""
    view = compared(seconds=0).view
    assert (view.judgements, view.baselines, view.baseline_seconds) == ({}, {}, {})
    view = compared().view
    one = view.judgements["small"]
    assert (one.verdict, one.reason) == (Verdict.PAYS, VerdictReason.ABOVE_ONE)
    assert one.ratios["concurrency"] == pytest.approx(2.0)
    assert one.values["acceptance_length"] == 3.0
    assert view.baselines == {"small": FILE}
    assert view.baseline_seconds["small", "concurrency"] == pytest.approx(40.0)
    assert view.covered_seconds["small", "concurrency"] == pytest.approx(20.0)


def test_no_verdict_without_anything_to_compare_with() -> None:
    """Where nothing is configured there is neither verdict nor counter."""
    view = compared(ComparisonTerms()).view
    assert (view.judgements, view.baselines, view.baseline_seconds) == ({}, {}, {})


def test_verdict_is_of_the_decision_window() -> None:
    """It forgets after fifteen seconds what the gauges still show."""
    tracked = compared(steps=100, seconds=20)
    for time in range(21, 41):
        # four times the tokens in the same time a step: as if each token came four times as fast
        page = v1_page(3000 + 100 * (time - 20)).replace(
            b'inter_token_latency_seconds_sum{engine="0",model_name="small"} %d' % (30 + time - 20),
            b'inter_token_latency_seconds_sum{engine="0",model_name="small"} %g'
            % (30 + (time - 20) / 4),
        )
        view = see(tracked, page, time)
    assert view.judgements["small"].ratios["concurrency"] == pytest.approx(8.0)
    assert view.models["small"].values["tpot_seconds"] == pytest.approx(0.01 / 3 * 25 / 40)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        pytest.param(25, VerdictReason.ABOVE_ONE, id="enough in fifteen seconds"),
        pytest.param(0, VerdictReason.TOO_FEW_TOKENS, id="nothing happens"),
    ],
)
def test_how_much_is_needed(steps: int, reason: VerdictReason) -> None:
    """A verdict needs tokens; without any the reason is that."""
    assert compared(steps=steps).view.judgements["small"].reason is reason


def test_verdict_goes_with_the_first_failure_and_its_counters_stay() -> None:
    """Like every gauge it vanishes while the target does not answer."""
    tracked = compared()
    before = tracked.view
    tracked.failure(FAILED, 0.5)
    assert (tracked.view.judgements, tracked.view.baselines) == ({}, {})
    assert tracked.view.baseline_seconds == before.baseline_seconds
    assert tracked.view.covered_seconds == before.covered_seconds
    assert see(tracked, v1_page(3200), 22).judgements["small"].verdict is Verdict.PAYS


def test_gaps_alone_are_no_evidence() -> None:
    """Pages that come too far apart leave a verdict open, and say so."""
    tracked = Tracker(TARGET, WINDOW, TERMS)
    for time in range(0, 60, 3):
        view = see(tracked, v1_page(1000 + 100 * time), time)
    assert view.judgements["small"].reason is VerdictReason.TOO_FEW_TOKENS
    assert view.baseline_seconds == {}


def test_sibling_learns_from_its_own_pages() -> None:
    """The target that others are compared with teaches its curve, if it does not speculate."""
    for speculative in (False, True):
        sibling = Sibling("plain", 1.0)
        tracked = Tracker(TARGET, WINDOW, None, sibling)
        for time in range(30):
            page = v1_page(1000 + 200 * time, speculative=speculative)
            # one token a step, as without speculation
            page = page.replace(
                b'generation_tokens_total{engine="0",model_name="small"} %g'
                % (3 * (1000 + 200 * time) + (1000 + 200 * time) // 25),
                b'generation_tokens_total{engine="0",model_name="small"} %g'
                % ((1000 + 200 * time) + (1000 + 200 * time) // 25),
            )
            see(tracked, page, time)
        assert tracked.sibling is sibling
        assert (sibling.baseline("small") is None) is speculative


def test_adopted_terms_go_on_with_the_evidence() -> None:
    """Another baseline judges what was seen before as well; a sibling in use stays."""
    tracked = compared()
    other = base(line((0.1, 0.01 / 3), (64.0, 0.01 / 3)))
    first, second = Sibling("plain", 1.0), Sibling("plain", 1.0)
    tracked.adopt(TARGET, WINDOW, ComparisonTerms(baselines=(other,)), first)
    assert tracked.sibling is first
    tracked.adopt(TARGET, WINDOW, ComparisonTerms(baselines=(other,)), second)
    assert tracked.sibling is first
    view = see(tracked, v1_page(3100), 21)
    assert view.judgements["small"].verdict is Verdict.EVEN
    assert view.baseline_seconds["small", "concurrency"] == pytest.approx(41.0)
    tracked.adopt(TARGET, WINDOW, ComparisonTerms(), None)
    assert tracked.sibling is None
    assert see(tracked, v1_page(3200), 22).judgements == {}


@pytest.mark.parametrize("fault", ["NaN", "twice"])
def test_lasting_fault_does_not_blind_the_target(fault: str) -> None:
    """A series that is bad on every page takes what is built on it, and nothing else."""

    def bad(steps: int) -> bytes:
        page = v1_page(steps)
        name = b'vllm:prompt_tokens_total{engine="0",model_name="small"} '
        before, _, rest = page.partition(name)
        line, _, after = rest.partition(b"\n")
        twice = line + b"\n" + name + b"9"
        return before + name + (b"NaN" if fault == "NaN" else twice) + b"\n" + after

    tracked = tracker(window=10)
    for time in range(30):
        view = see(tracked, bad(1000 + 25 * time), time)
    assert view.window_seconds == 10
    assert values(view)["drafts"] == 250
    absent = view.models["small"].absent
    assert absent["prompt_tokens_per_request"] in {"not_finite", "duplicate_series"}
    for time in range(30, 45):
        view = see(tracked, v1_page(1000 + 25 * time), time)
    assert values(view)["prompt_tokens_per_request"] == 100


def test_engines_long_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that change all the time do not fill the list of engines seen."""
    monkeypatch.setattr("specgauge.serve.tracker._MOST_SEEN", 10)
    tracked = tracker()
    for time in range(50):
        view = see(tracked, v1_page(25, model=f"m{time}"), time)
        assert (f"m{time}", "0") in view.seen
    assert len(view.seen) <= 11
