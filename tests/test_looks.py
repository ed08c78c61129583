"""From pages to what the guard looks at: the window's numbers, the last interval's counts."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from tests.judging import base, derived, line
from tests.small_pages import diffusion_page, v1_page
from tests.written import Engine, write_page

from specgauge.engines.reader import Reader
from specgauge.model.derived import Speculation
from specgauge.model.guard import Look
from specgauge.model.ledger import Interval, ModelWindow
from specgauge.model.quantity import Cell, Kind, Quantity
from specgauge.model.settings import TargetSettings
from specgauge.model.verdict import Judgement, Verdict, VerdictReason
from specgauge.serve.comparison import ComparisonTerms
from specgauge.serve.looks import answers, look
from specgauge.serve.tracker import Moment, Tracker

TERMS = ComparisonTerms(
    baselines=(base(line((0.001, 0.02 / 3), (1e6, 0.02 / 3))),), decision_window=3.0, guarded=True
)
ALONE = ComparisonTerms(decision_window=3.0, guarded=True)


def looks(pages: Iterable[bytes], terms: ComparisonTerms = TERMS) -> Mapping[str, Look]:
    """Watch pages a second apart; gives what the last one shows."""
    tracker = Tracker(TargetSettings(name="spec", url="http://a"), 60.0, terms)
    for time, page in enumerate(pages):
        tracker.page(page, complete=True, at=Moment(time=time, unix=1e9 + time), seconds=0.1)
    return tracker.view.looks


def steady(seconds: int = 10, each: int = 1000) -> list[bytes]:
    return [v1_page(each * (1 + second)) for second in range(seconds)]


def test_look_of_a_steady_server() -> None:
    """Window and last interval carry the counts; decode tokens exclude first tokens."""
    (found,) = looks(steady()).values()
    assert (found.start, found.end, found.model_name) == (6.0, 9.0, "small")
    assert (found.speculating, found.restarted, found.covered) == (True, False, True)
    assert (found.verdict, found.verdict_reason) == (Verdict.PAYS, "speedup_above_one")
    window = {
        "tokens": 9000.0,
        "requests": 120.0,
        "first_tokens": 120.0,
        "drafts": 3000.0,
        "draft_tokens": 12000.0,
        "accepted_tokens": 6000.0,
        "acceptance_ratio": 0.5,
        "speedup_ratio": 2.0,
        "decode_concurrency": 10.0,
        "tpot_seconds": 0.01 / 3,
        "requests_waiting": 0.0,
    }
    assert {name: found.numbers[name] for name in window} == pytest.approx(window)
    assert found.step == pytest.approx(
        {
            "tokens": 3000.0,
            "requests": 40.0,
            "first_tokens": 40.0,
            "drafts": 1000.0,
            "draft_tokens": 4000.0,
            "accepted_tokens": 2000.0,
        }
    )
    assert found.step_seconds == 1.0
    assert "errors" not in found.numbers


def test_no_look_without_an_interval_or_a_guard() -> None:
    """The first page shows nothing, and a sidecar without a guard makes no looks."""
    assert looks(steady(1)) == {}
    assert looks(steady(), replace(TERMS, guarded=False)) == {}


def test_look_without_a_baseline() -> None:
    """There is no verdict, and the load is not covered; acceptance is all there."""
    (found,) = looks(steady(), ALONE).values()
    assert (found.verdict, found.verdict_reason, found.covered) == (
        *("unknown", "no_baseline"),
        False,
    )
    assert "speedup_ratio" not in found.numbers
    assert found.numbers["drafts"] == 3000.0


@pytest.mark.parametrize(
    ("pages", "speculating"),
    [
        pytest.param(steady(), True, id="active"),
        pytest.param(
            [v1_page(1000 * n, speculative=False) for n in range(1, 10)], False, id="absent"
        ),
        pytest.param([diffusion_page(1000 * n) for n in range(1, 10)], False, id="diffusion"),
        pytest.param([v1_page(1000)] * 10, None, id="idle"),
    ],
)
def test_whether_it_speculates(pages: list[bytes], speculating: bool | None) -> None:
    """What a page does not tell is not known."""
    (found,) = looks(pages, ALONE).values()
    assert found.speculating is speculating


def test_restart_is_seen_once() -> None:
    """Only the page after a restart says so."""
    pages = [*steady(5), *steady(2)]
    assert [next(iter(looks(pages[:count]).values())).restarted for count in (5, 6, 7)] == [
        False,
        True,
        False,
    ]


def test_models_are_told_apart() -> None:
    """Each model has its own look, with its own counts."""
    found = looks(
        [v1_page(1000 * n) + v1_page(2000 * n, model="other") for n in range(1, 8)], ALONE
    )
    assert {name: one.step["drafts"] for name, one in found.items()} == {
        "small": 1000.0,
        "other": 2000.0,
    }


def test_what_is_in_doubt_is_in_no_step() -> None:
    """A counter that could not be read leaves no count, not one of zero."""

    def page(second: int, drafts: float) -> bytes:
        steps = 1000 * second
        return write_page(
            Engine(drafts=drafts, drafted=4 * steps, accepted=2 * steps, tokens=3 * steps)
        )

    (found,) = looks([page(n, 1000 * n) for n in range(1, 5)] + [page(5, float("nan"))]).values()
    assert "drafts" not in found.step
    assert found.step["draft_tokens"] == 4000.0


HTTP = b'http_requests_total{status="%s",handler="/v1",method="POST"} %d\n'


def test_answers_of_the_server() -> None:
    """Answers are counted over the window, those of 5xx beside all."""
    pages = [
        v1_page(1000 * n) + HTTP % (b"2xx", 90 * n) + HTTP % (b"5xx", 10 * n) for n in range(1, 8)
    ]
    (found,) = looks(pages).values()
    assert (found.numbers["served"], found.numbers["errors"]) == (300.0, 30.0)


CELLS = {
    code: Cell(measure=(Quantity.HTTP_REQUESTS, Kind.COUNTER, code), model="", engine="")
    for code in ("2xx", "4xx", "5xx", "503")
}


@pytest.mark.parametrize(
    ("totals", "before", "expected"),
    [
        pytest.param({}, {}, {}, id="not counted"),
        pytest.param({"2xx": 10}, {}, {"served": 10, "errors": 0}, id="first seen"),
        pytest.param(
            {"2xx": 10, "5xx": 4, "503": 2, "4xx": 9},
            {"2xx": 5, "5xx": 4, "4xx": 9},
            {"served": 7, "errors": 2},
            id="grown",
        ),
    ],
)
def test_answers(
    totals: dict[str, float], before: dict[str, float], expected: dict[str, float]
) -> None:
    """What grew since is what counts, code by code."""
    other = Cell(measure=(Quantity.DRAFTS, Kind.COUNTER, ""), model="m", engine="0")
    now = {CELLS[code]: value for code, value in totals.items()} | {other: 99.0}
    assert answers(now, {CELLS[code]: value for code, value in before.items()}) == expected


UNKNOWN_COST = (
    *("no_baseline", "outside_baseline_range", "baseline_mismatch"),
    "workload_mismatch",
)
WINDOW = ModelWindow(
    model="m",
    layout=Reader().read(v1_page(25)).layout,
    engines=("0",),
    seconds=15.0,
    sums={},
    by_engine={},
    gauges={},
    faults={},
    engine_faults={},
    lifetime_drafts=0.0,
)
NOTHING = Interval(start=0.0, end=1.0, deltas={})


@pytest.mark.parametrize(
    ("reason", "covered"),
    [
        pytest.param(
            reason,
            reason not in UNKNOWN_COST,
            id=str(reason),
        )
        for reason in VerdictReason
    ],
)
def test_whether_a_baseline_covers_the_load(reason: VerdictReason, covered: bool) -> None:
    """Where none does, acceptance may decide; a ratio is of decode concurrency alone."""
    judgement = Judgement(
        model_name="m",
        verdict=Verdict.UNKNOWN,
        reason=reason,
        ratios={"throughput": 0.6, "concurrency": 0.7},
        lows={"throughput": 0.5},
        values={"e2e_speedup_ratio": 0.9},
    )
    found = look(WINDOW, derived(), judgement, NOTHING, start=0.0, served={})
    assert (found.covered, found.verdict_reason) == (covered, reason)
    judged = {name: value for name, value in found.numbers.items() if "speedup" in name}
    assert judged == {"e2e_speedup_ratio": 0.9, "speedup_ratio": 0.7}


@pytest.mark.parametrize("state", Speculation)
def test_every_state_of_speculation(state: Speculation) -> None:
    """Active is yes; inactive, absent and another use of drafts are no; the rest is unknown."""
    known = {"active": True, "inactive": False, "absent": False, "not_speculative": False}
    found = look(
        WINDOW,
        replace(derived(), speculation=state),
        None,
        NOTHING,
        start=0.0,
        served={},
    )
    assert found.speculating is known.get(state)
    assert (found.verdict, found.covered) == (Verdict.UNKNOWN, False)
