"""One target against its baselines as pages come in: evidence, totals, the shape of the load."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.judging import base, derived, line
from tests.recorded import Watched
from tests.small_pages import v0_page
from tests.written import Engine, write_page

from specgauge.derive.judge import Terms
from specgauge.model.baseline import Baseline
from specgauge.model.verdict import Judgement, Verdict, VerdictReason
from specgauge.serve.comparison import Comparison, ComparisonTerms
from specgauge.serve.sibling import MEMORY_SECONDS

FILE = base(line((1.0, 0.01), (64.0, 0.01), ttft=0.05))
NOW = 1e9


class Followed:
    """A comparison fed with the pages of a server of our own making, a page a second."""

    def __init__(self, *baselines: Baseline, **more: Any) -> None:
        self.made = Comparison(ComparisonTerms(baselines=baselines or (FILE,), **more))
        self.time = 0.0
        self.counted: dict[str, float] = dict.fromkeys(("tokens", "spent", "firsts", "prompts"), 0)
        self.created = 1.0
        self.watched = Watched(self.page())

    def page(self) -> bytes:
        """Write the page as it stands."""
        counted = self.counted
        return write_page(
            Engine(
                tokens=counted["tokens"] + counted["firsts"],
                firsts=counted["firsts"],
                first_seconds=0.05 * counted["firsts"],
                prompts=counted["prompts"],
                steps=counted["tokens"],
                step_seconds=counted["spent"],
                created=self.created,
            )
        )

    def serve(
        self,
        tokens: float = 1000.0,
        spent: float = 5.0,
        *,
        seconds: float = 1.0,
        firsts: float = 5.0,
        prompts: float = 500.0,
    ) -> None:
        """Let it serve for a while, and take the next page in."""
        grown = {"tokens": tokens, "spent": spent, "firsts": firsts, "prompts": prompts}
        for name, growth in grown.items():
            self.counted[name] += growth
        self.time += seconds
        interval = self.watched.see(self.page(), self.time)
        self.made.add(interval, self.watched.page, None, NOW + self.time)

    def restart(self) -> None:
        """Begin its counters anew."""
        self.counted = dict.fromkeys(self.counted, 0.0)
        self.created += 1.0

    def verdict(self, begin: float = 0.0) -> Judgement:
        """Judge what was seen since."""
        baseline = self.chosen()
        facts = self.made.facts("target", self.watched.page, None)
        return self.made.verdict(derived(), begin, baseline, facts, NOW + self.time)

    def chosen(self, load: float = 5.0) -> Baseline | None:
        """Say which baseline is taken at a load."""
        now = NOW + self.time
        return self.made.baseline_of("target", self.watched.page, None, now, load)

    @property
    def totals(self) -> tuple[float, float]:
        """What the covered tokens would have cost without speculation, and what they did."""
        key = ("target", "concurrency")
        return self.made.baseline_seconds[key], self.made.covered_seconds[key]


def test_totals_make_the_speedup() -> None:
    """The two counters' growth, one over the other, is the speedup of any window."""
    one = Followed()
    one.serve(1000, 5.0)
    assert one.totals == pytest.approx((10.0, 5.0))
    one.serve(500, 5.0)
    assert one.totals == pytest.approx((15.0, 10.0))
    assert one.made.baseline_seconds["target", "throughput"] == pytest.approx(15.0)
    assert one.made.covered_seconds["target", "throughput"] == pytest.approx(10.0)
    assert one.verdict().ratios["concurrency"] == pytest.approx(1.5)


def test_only_evidence_counts() -> None:
    """A gap and an interval with a reset are in no verdict and in neither counter."""
    one = Followed()
    one.serve(1000, 5.0)
    one.serve(1000, 50.0, seconds=2.5)
    one.restart()
    one.serve(1000, 50.0)
    assert one.totals == pytest.approx((10.0, 5.0))
    one.serve(1000, 5.0, seconds=2.0)
    assert one.totals == pytest.approx((20.0, 10.0))
    assert one.verdict().ratios["concurrency"] == pytest.approx(2.0)


def test_load_out_of_reach_counts_in_neither() -> None:
    """What the baseline does not cover leaves both counters where they were."""
    one = Followed()
    one.serve(1000, 97.0)
    assert one.totals == (0.0, 0.0)
    one.serve(1000, 96.0)
    assert one.totals == pytest.approx((10.0, 96.0))


def test_baseline_of_another_server_counts_in_neither() -> None:
    """Nothing is compared with a baseline that is another server's."""
    one = Followed(replace(FILE, facts={"model.name": "another"}))
    one.serve()
    assert one.totals == (0.0, 0.0)
    found = one.verdict()
    assert (found.reason, found.mismatches) == (VerdictReason.BASELINE_MISMATCH, ("model.name",))
    assert found.ratios == {}


@pytest.mark.parametrize(
    ("gpu", "mismatches"),
    [("NVIDIA H200", ()), ("NVIDIA L4", ("hardware.gpu",)), (None, ())],
    ids=["the same", "another", "not stated"],
)
def test_stated_facts_are_compared(gpu: str | None, mismatches: tuple[str, ...]) -> None:
    """What no page tells and the operator states refuses a baseline of another server."""
    stated = {} if gpu is None else {"hardware.gpu": gpu}
    one = Followed(replace(FILE, facts={"hardware.gpu": "NVIDIA H200"}), stated=stated)
    one.serve()
    assert one.verdict().mismatches == mismatches
    assert (one.totals == (0.0, 0.0)) == bool(mismatches)


def test_the_servers_word_goes_before_a_stated_one() -> None:
    """A fact that the server itself tells is not overruled."""
    one = Followed(replace(FILE, facts={"model.name": "target"}), stated={"model.name": "another"})
    one.serve()
    assert one.verdict().mismatches == ()


def test_window_of_evidence_is_bounded() -> None:
    """Evidence older than the window is forgotten."""
    one = Followed(window=10.0)
    one.serve(1000, 20.0)
    for _ in range(10):
        one.serve(1000, 5.0)
    assert one.verdict().ratios["concurrency"] == pytest.approx(2.0)
    assert len(one.made._evidence) == 10


@pytest.mark.parametrize(
    ("tokens", "quiet", "lengths"),
    [
        pytest.param(400.0, False, [30.0, 45.0, 60.0], id="a loss all along"),
        pytest.param(600.0, False, [30.0, 45.0], id="a loss for less than a minute"),
        pytest.param(600.0, True, [30.0, 45.0, 60.0], id="nobody before it"),
    ],
)
def test_longer_windows_of_a_loss_hold_nothing_else(
    tokens: float,
    quiet: bool,
    lengths: list[float],
) -> None:
    """Each part that is added has to point to a loss too; one without traffic points nowhere."""
    one = Followed()
    for _ in range(15):
        one.serve(*((0.0, 0.0) if quiet else (tokens, 5.0)), firsts=0.0 if quiet else 5.0)
    for _ in range(45):
        one.serve(400.0, 5.0)
    begin = one.made.start("target", one.time)
    starts = one.made.longer(one.verdict(begin), begin, one.time, one.chosen())
    assert [one.time - start for start in starts] == pytest.approx(lengths)


@pytest.mark.parametrize(
    ("more", "slow", "reason", "leans"),
    [
        pytest.param({}, 16.0, "interval_too_wide", True, id="a loss, though not for sure"),
        pytest.param({}, 14.0, "interval_too_wide", False, id="hardly one"),
        pytest.param({}, 20.0, "speedup_below_one", False, id="sure anyway"),
        pytest.param({"guarded": False}, 16.0, "interval_too_wide", False, id="nobody asks"),
        pytest.param(
            {"terms": Terms(confidence=0.6)}, 16.0, "speedup_below_one", False, id="easily sure"
        ),
    ],
)
def test_a_guard_is_told_which_way_an_open_verdict_leans(
    more: dict[str, Any], slow: float, reason: str, *, leans: bool
) -> None:
    """At a lower confidence than was asked for it would be `costs`."""
    one = Followed(**{"guarded": True, **more})
    for place in range(15):
        one.serve(1000.0, (slow, 9.0, 10.2)[place % 3])
    said = one.verdict()
    assert (said.reason, said.leans) == (reason, leans), said


def test_longer_windows_of_a_gain_or_without_a_baseline() -> None:
    """A gain may hold what it likes, and so may what cannot be compared."""
    one = Followed()
    for tokens in (400.0, 600.0):
        for _ in range(30):
            one.serve(tokens, 5.0)
    begin = one.made.start("target", one.time)
    gain = one.verdict(begin)
    assert len(list(one.made.longer(gain, begin, one.time, one.chosen()))) == 3
    assert len(list(one.made.longer(gain, begin, one.time, None))) == 3


@pytest.mark.parametrize(
    ("rate", "length"),
    [
        pytest.param(1000.0, 15.0, id="plenty"),
        pytest.param(33.4, 15.0, id="just enough"),
        pytest.param(25.0, 20.0, id="a little longer"),
        pytest.param(10.0, 50.0, id="much longer"),
        pytest.param(1.0, 60.0, id="never enough: the whole window"),
    ],
)
def test_decision_window_grows_until_it_holds_enough(rate: float, length: float) -> None:
    """Fifteen seconds, or as many as hold 500 tokens, at most the window."""
    one = Followed()
    for _ in range(80):
        one.serve(rate, rate * 0.005)
    assert one.time - one.made.start("target", one.time) == pytest.approx(length, abs=1.0)


def test_decision_window_without_evidence() -> None:
    """Where nothing is known it is empty; of another model too."""
    one = Followed()
    assert one.made.start("target", 7.0) == 7.0
    one.serve()
    assert one.made.start("another", 1.0) == 0.0


# Which baseline


def test_one_file_is_taken_whatever_it_is() -> None:
    """With one file alone its mismatches are told, not that there is none."""
    one = Followed(replace(FILE, facts={"model.name": "another"}))
    assert one.chosen() is one.made.terms.baselines[0]


def test_of_several_the_one_that_fits() -> None:
    """Of several files the server's own is taken; of none that fits, none."""
    mine = replace(FILE, facts={"model.name": "target"}, source="mine")
    others = replace(FILE, facts={"model.name": "another"}, source="others")
    assert Followed(others, mine).chosen() is mine
    one = Followed(others, replace(others, source="more"))
    one.serve()
    assert one.chosen() is None
    assert one.verdict().reason is VerdictReason.NO_BASELINE
    assert one.totals == (0.0, 0.0)


def live(age: float | None = 0.0) -> Baseline:
    created = None if age is None else NOW - age
    return base(line((1.0, 0.02), (8.0, 0.02)), method="live", created=created)


@pytest.mark.parametrize(
    ("sibling", "load", "taken"),
    [
        pytest.param(live(), 12.0, True, id="it knows the load"),
        pytest.param(live(), 12.1, False, id="the load is beyond its reach"),
        pytest.param(live(MEMORY_SECONDS), 1.0, True, id="old"),
        pytest.param(live(MEMORY_SECONDS + 1), 1.0, False, id="too old"),
        pytest.param(live(None), 1.0, True, id="of no known age"),
        pytest.param(None, 1.0, False, id="it knows nothing yet"),
    ],
)
def test_live_sibling_goes_before_the_file(
    sibling: Baseline | None, load: float, taken: bool
) -> None:
    """A sibling's curve is taken where it covers the load and is fresh, else the file."""
    one = Followed(live=lambda _: sibling)
    assert one.chosen(load) is (sibling if taken else FILE)


def test_sibling_alone() -> None:
    """Without a file there is no baseline where the sibling knows nothing."""
    terms = ComparisonTerms(live=lambda _: None)
    assert terms.wanted
    assert not ComparisonTerms().wanted
    one = Followed()
    one.made.terms = terms
    one.serve()
    assert one.verdict().reason is VerdictReason.NO_BASELINE


def test_each_piece_is_priced_by_the_baseline_that_covers_it() -> None:
    """Where the load moves beyond the sibling's reach its pieces are the file's."""
    one = Followed(live=lambda _: live())
    one.serve(1000, 5.0)
    assert one.totals[0] == pytest.approx(20.0)
    one.serve(1000, 50.0)
    assert one.totals[0] == pytest.approx(30.0)


# The shape of the load

SHAPED = base(
    line(
        (1.0, 0.01), (64.0, 0.01), prompt_tokens_per_request=100.0, output_tokens_per_request=201.0
    )
)


def shapes(one: Followed, *counts: tuple[int, float]) -> Iterator[VerdictReason]:
    for requests, outputs in counts:
        tokens = requests * (outputs - 1)
        one.serve(tokens, 0.001 * tokens, firsts=float(requests), prompts=100.0 * requests)
        yield one.verdict().reason


def test_shape_of_the_last_hundred_requests() -> None:
    """Another load is told once a hundred requests show it, and forgotten after as many others."""
    one = Followed(SHAPED)
    above = VerdictReason.ABOVE_ONE
    assert list(shapes(one, (50, 201), (49, 601))) == [above, above]
    assert list(shapes(one, (1, 601), (60, 601))) == [
        VerdictReason.WORKLOAD_MISMATCH,
        VerdictReason.WORKLOAD_MISMATCH,
    ]
    assert list(shapes(one, (50, 201), (50, 201))) == [VerdictReason.WORKLOAD_MISMATCH, above]


def test_another_shape_of_load_is_not_priced() -> None:
    """What a load of another shape would have cost without speculation is not known."""
    one = Followed(SHAPED)
    one.serve(100 * 200, 20.0, firsts=100.0, prompts=10000.0)
    priced = one.made.covered_seconds["target", "concurrency"]
    assert priced > 0.0
    one.serve(200 * 600, 100.0, firsts=200.0, prompts=20000.0)
    assert one.made.covered_seconds["target", "concurrency"] == priced


def test_few_requests_tell_no_shape() -> None:
    """Below a hundred requests the shape is not judged."""
    one = Followed(SHAPED)
    assert list(shapes(one, (99, 601))) == [VerdictReason.ABOVE_ONE]
    assert list(shapes(one, (1, 601))) == [VerdictReason.WORKLOAD_MISMATCH]


def test_shape_reaches_back_ten_minutes() -> None:
    """What was asked for longer ago says nothing of the load now; gaps and resets count for it."""
    one = Followed(SHAPED)
    one.serve(90 * 600, 5.0, firsts=90.0, prompts=9000.0)
    one.restart()
    one.serve(9 * 600, 5.0, firsts=9.0, prompts=900.0, seconds=599.0)
    one.serve(600, 5.0, firsts=1.0, prompts=100.0)
    assert one.verdict().reason is VerdictReason.WORKLOAD_MISMATCH
    one.serve(600, 5.0, firsts=1.0, prompts=100.0)
    assert one.verdict().reason is VerdictReason.ABOVE_ONE


def test_no_requests_at_all() -> None:
    """Without a request there is no shape to judge."""
    one = Followed(SHAPED)
    one.serve(1000, 5.0, firsts=0.0, prompts=0.0)
    assert one.verdict().verdict is Verdict.PAYS


def test_v0_shape_is_that_of_finished_requests() -> None:
    """The former engine's own token counter counts steps; its finished requests tell the length."""
    made = Comparison(ComparisonTerms(baselines=(SHAPED,)))
    watched = Watched(v0_page([], 0))
    interval = watched.see(v0_page([], 25 * 100), 1.0)
    made.add(interval, watched.page, None, NOW)
    shape = made._shape("old")
    assert (shape.requests, shape.output_tokens, shape.prompt_tokens) == (100.0, 76.0, 100.0)


def test_terms_decide() -> None:
    """Margin and tokens wanted are those of the settings."""
    one = Followed(terms=Terms(margin=0.5, min_tokens=100.0))
    one.serve(100, 0.75)
    assert one.verdict().verdict is Verdict.EVEN
