"""Adding pages up: whatever engines do, totals are what they truly did while they were watched."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded import Watched, load_page, measure, only, samples, totals
from tests.rewritten import as_ray
from tests.written import Engine, sample, write_page

from specgauge.derive import accumulate
from specgauge.derive.accumulate import whole_life
from specgauge.engines.reader import Reader
from specgauge.model.derived import Reason
from specgauge.model.quantity import Quantity

ONE = Engine(drafts=100, drafted=300, accepted=200, positions=(90, 60, 50), tokens=400)


def watch(*pages: bytes) -> Watched:
    """See pages a second apart."""
    watched = Watched(pages[0])
    for place, page in enumerate(pages[1:], 1):
        watched.see(page, float(place))
    return watched


def total(watched: Watched, quantity: Quantity = Quantity.GENERATION_TOKENS) -> float:
    """Give a counter's total over engines and parts."""
    return sum(v for c, v in watched.ledger.totals.items() if c.measure[0] is quantity)


def tokens(*values: float, **labels: str) -> list[bytes]:
    """Write a page for each count of tokens."""
    return [write_page(Engine(tokens=value, labels=labels)) for value in values]


def test_first_page_is_only_the_reference() -> None:
    """What was counted before we came is not ours."""
    watched = watch(write_page(ONE))
    assert total(watched) == 0.0
    assert set(watched.ledger.totals.values()) == {0.0}
    assert watched.ledger.restarts == {}


def test_whole_life_counts_from_zero() -> None:
    """A single page tells what the engine did since it started."""
    page = Reader().read(write_page(ONE))
    assert {c.measure[0]: v for c, v in whole_life(page, 5.0).totals.items()} == {
        Quantity.DRAFTS: 100,
        Quantity.DRAFT_TOKENS: 300,
        Quantity.ACCEPTED_TOKENS: 200,
        Quantity.ACCEPTED_PER_POSITION: 50,
        Quantity.GENERATION_TOKENS: 400,
    }


def test_interval_knows_its_length() -> None:
    """Times are the caller's."""
    watched = Watched(write_page(ONE), 10.0)
    assert watched.see(write_page(ONE), 12.5).seconds == 2.5


CREATED = [1.0, 2.0]
RESTARTS = {
    "counter falls": [replace(ONE, tokens=400), replace(ONE, tokens=30)],
    "creation time moves forward": [replace(ONE, created=1.0), replace(ONE, created=2.0)],
    "creation time moves back": [replace(ONE, created=2.0), replace(ONE, created=1.0)],
    "count of a histogram falls": [replace(ONE, firsts=5), replace(ONE, firsts=4)],
}


@pytest.mark.parametrize("engines", RESTARTS.values(), ids=RESTARTS)
def test_restart_starts_every_series_from_zero(engines: list[Engine]) -> None:
    """One series that tells is enough: the others had overtaken their old values already."""
    watched = watch(*(write_page(engine) for engine in engines))
    assert total(watched) == engines[1].tokens
    assert total(watched, Quantity.DRAFTS) == 100
    assert watched.ledger.restarts == {("target", "0"): 1}


def test_sum_that_falls_is_no_restart() -> None:
    """A clock set back may lower a sum of seconds; the total waits until it is made up for."""
    pages = [write_page(replace(ONE, steps=9, step_seconds=s)) for s in (5.0, 4.0, 6.0)]
    watched = watch(*pages)
    assert watched.ledger.restarts == {}
    assert total(watched) == 0.0
    assert total(watched, Quantity.STEP_LATENCY) == 1.0


def test_bucket_that_falls_is_a_restart() -> None:
    """Buckets only grow, so they tell as well as counts."""
    lines = [
        sample("vllm:time_to_first_token_seconds_bucket", {"model_name": "target", "le": "1"}, v)
        for v in (3.0, 2.0)
    ]
    watched = watch(*(write_page(replace(ONE, engine=None), extra=[line]) for line in lines))
    assert watched.ledger.restarts == {("target", ""): 1}


def test_one_engine_of_four_restarts() -> None:
    """The other three go on; the fourth counts from zero, though its counters never fell."""
    start = [Engine(engine=str(i), drafts=10, tokens=100, created=1.0) for i in range(4)]
    after = [replace(engine, drafts=15, tokens=130) for engine in start]
    after[2] = replace(after[2], drafts=40, tokens=170, created=9.0)
    watched = watch(write_page(*start), write_page(*after))
    assert watched.ledger.restarts == {("target", "2"): 1}
    assert total(watched) == 3 * 30 + 170
    assert total(watched, Quantity.DRAFTS) == 3 * 5 + 40


def test_unknown_counter_tells_a_restart() -> None:
    """A counter that means nothing to us falls: its engine restarted."""
    types = "# TYPE vllm:lora_loads_total counter"
    pages = [
        write_page(
            replace(ONE, tokens=spent),
            extra=[
                types,
                sample("vllm:lora_loads_total", {"model_name": "target", "engine": "0"}, loads),
            ],
        )
        for spent, loads in ((400.0, 7.0), (450.0, 1.0))
    ]
    assert total(watch(*pages)) == 450


def test_process_start_restarts_every_engine() -> None:
    """A server process that began anew took all its engines along."""
    engines = [Engine(engine=str(i), tokens=10.0 * i) for i in range(3)]
    pages = [write_page(*engines, extra=[f"process_start_time_seconds {t}"]) for t in (1, 2)]
    watched = watch(*pages)
    assert total(watched) == 30
    assert {engine for _, engine in watched.ledger.restarts if engine} == {"0", "1", "2"}


def test_process_start_of_one_of_two_servers() -> None:
    """On a page that holds two servers, told apart by a label, only one of them restarted."""

    def page(spent: float, start: float) -> bytes:
        servers = [Engine(tokens=spent, labels={"instance": name}) for name in ("a", "b")]
        starts = [
            sample("process_start_time_seconds", {"instance": "a"}, start),
            sample("process_start_time_seconds", {"instance": "b"}, 1.0),
        ]
        return write_page(*servers, extra=starts)

    assert total(watch(page(100, 1.0), page(130, 2.0))) == 130 + 30


def test_replicas_restart_on_their_own() -> None:
    """Two replicas of one engine under Ray, told apart by ReplicaId: one falls, one goes on."""
    first = [as_ray(page, name) for page in tokens(100) for name in ("a", "b")]
    later = [as_ray(tokens(20)[0], "a"), as_ray(tokens(150)[0], "b")]
    watched = watch(b"".join(first), b"".join(later))
    assert total(watched) == 20 + 50
    assert watched.ledger.restarts == {("target", "0"): 1}


def test_replica_that_is_replaced() -> None:
    """A replica vanishes and one of another name appears: it counts from zero."""
    first = as_ray(tokens(100)[0], "a") + as_ray(tokens(100)[0], "b")
    later = as_ray(tokens(7)[0], "c") + as_ray(tokens(110)[0], "b")
    assert total(watch(first, later)) == 7 + 10


def test_restart_without_creation_times() -> None:
    """Several server processes export no creation times; the counters' fall is enough."""
    before, during, after = (
        load_page(f"vllm/0.32.0-draft-api2/{at}.prom") for at in ("before", "during", "after")
    )
    watched = watch(before, after, during)
    assert watched.ledger.restarts == {("tiny", "0"): 1}
    assert total(watched, Quantity.DRAFTS) == 531 + 193


def test_scale_up_that_zeroes_the_counters() -> None:
    """Two engines become four and all begin at zero: what they count then is counted."""
    two = [Engine(engine=str(i), tokens=500.0) for i in range(2)]
    four = [Engine(engine=str(i), tokens=10.0) for i in range(4)]
    assert total(watch(write_page(*two), write_page(*four))) == 40


def test_page_of_another_server_behind_the_same_address() -> None:
    """Another server's counters are its own: lower ones restart, unknown ones begin at zero."""
    watched = watch(*tokens(500), write_page(Engine(model="other", tokens=80)), *tokens(300))
    assert total(watched) == 80 + 300
    assert watched.ledger.restarts == {("target", "0"): 1}


def test_series_born_later_counts_from_zero() -> None:
    """A reason or an engine that shows up later did all it shows since then."""
    assert total(watch(*tokens(100), write_page(ONE, Engine(engine="1", tokens=9)))) == 309


def test_series_that_vanishes_and_returns() -> None:
    """It is compared with its last value, neither lost nor counted twice."""
    gone = write_page(Engine(engine="1", tokens=1.0))
    watched = watch(*tokens(100), gone, gone, *tokens(130))
    assert total(watched) == 30 + 1


def test_series_that_vanishes_and_restarts_meanwhile() -> None:
    """An engine restarts while one of its series is away: that one begins at zero too."""
    engine = Engine(tokens=100, drafts=50)
    watched = watch(
        write_page(engine),
        write_page(replace(engine, tokens=5, drafts=None)),
        write_page(replace(engine, tokens=6, drafts=60)),
    )
    assert total(watched, Quantity.DRAFTS) == 60


def test_replica_away_while_another_restarts() -> None:
    """A replica that is not on the page keeps its last value when another one restarts."""
    both = as_ray(tokens(100)[0], "a") + as_ray(tokens(100)[0], "b")
    watched = watch(both, as_ray(tokens(20)[0], "a"), as_ray(tokens(130)[0], "b"))
    assert total(watched) == 20 + 30


UNTRUSTED = {
    "NaN": "NaN",
    "infinite": "+Inf",
    "below zero": "-5",
}


@pytest.mark.parametrize("value", UNTRUSTED.values(), ids=UNTRUSTED)
def test_untrusted_reference_counts_nothing_later(value: str) -> None:
    """A value that could not be read on the first page is not growth on the second."""
    first = tokens(400)[0].replace(b"400", value.encode())
    watched = watch(first, *tokens(450, 460))
    assert total(watched) == 10


def test_duplicate_reference_counts_nothing_later() -> None:
    """Neither is one that stood there twice."""
    watched = watch(b"".join(tokens(400, 401)), *tokens(450, 460))
    assert total(watched) == 10


def test_untrusted_creation_time_is_no_restart() -> None:
    """A creation time that comes back from NaN has not moved."""
    pages = [write_page(replace(ONE, created=c)) for c in (math.nan, 1.0, 1.0)]
    assert watch(*pages).ledger.restarts == {}


def test_page_with_a_fault_in_the_middle() -> None:
    """A value that is bad once is made up for by the next good one."""
    bad = tokens(430)[0].replace(b"430", b"NaN")
    assert total(watch(*tokens(400), bad, *tokens(460))) == 60


def test_untrusted_series_after_a_restart() -> None:
    """A series at fault on the page that tells a restart begins at zero all the same."""
    bad = write_page(Engine(tokens=math.nan, drafts=5))
    watched = watch(write_page(Engine(tokens=400, drafts=50)), bad, *tokens(30))
    assert total(watched) == 30


def test_two_processes_of_one_gauge() -> None:
    """Counters of several processes add up; gauges take the most of an engine, then the sum."""
    pages = [
        write_page(
            *(
                Engine(engine=engine, running=running, usage=usage, tokens=t, labels={"pid": pid})
                for engine, pid, running, usage, t in (
                    ("0", "1", 3.0, 0.25, 10.0 * n),
                    ("0", "2", 0.0, 0.0, 20.0 * n),
                    ("1", "1", 2.0, 0.75, 30.0 * n),
                )
            )
        )
        for n in (1, 2)
    ]
    found = only(watch(*pages).derive()).values
    assert found["generation_tokens"] == 60
    assert found["requests_running"] == 5
    assert found["kv_cache_usage_ratio"] == 0.5


def test_memory_of_vanished_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels that change all the time do not fill the ledger."""
    monkeypatch.setattr(accumulate, "_SPARE", 10)
    pages = [write_page(Engine(tokens=1.0, labels={"pid": str(i)})) for i in range(50)]
    watched = watch(*pages)
    assert len(watched.ledger.last) < 20
    assert total(watched) == 49


def test_totals_of_models_long_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that change all the time do not fill the totals; those that are there stay."""
    monkeypatch.setattr(accumulate, "_SPARE", 10)
    always = Engine(model="always", tokens=1.0)
    pages = [
        write_page(replace(always, tokens=float(i)), Engine(model=f"m{i}", tokens=1.0))
        for i in range(50)
    ]
    watched = watch(*pages)
    assert len(watched.ledger.totals) < 25
    kept = {c.model: v for c, v in watched.ledger.totals.items() if c.model == "always"}
    assert kept == {"always": 49.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an engine does between two pages: it may restart, and then it works."""

    restarts: bool
    work: int
    shown: bool


steps = st.builds(Step, restarts=st.booleans(), work=st.integers(0, 50), shown=st.booleans())
lives = st.lists(st.tuples(steps, steps, steps, steps), min_size=1, max_size=8)


def live(life: list[tuple[Step, ...]]) -> tuple[list[bytes], float]:
    """Play a life of four engines: the pages, and the tokens that watching can know of."""
    counted = [100.0] * 4
    born = [1.0] * 4
    lost = [0.0] * 4
    known = 0.0
    pages = [write_page(*(Engine(engine=str(e), tokens=100, created=1.0) for e in range(4)))]
    for place, doings in enumerate(life):
        shown = []
        for e, step in enumerate(doings):
            if step.restarts:
                counted[e], born[e], lost[e] = 0.0, 2.0 + place, 0.0
            counted[e] += step.work
            lost[e] += step.work
            if step.shown:
                shown.append(Engine(engine=str(e), tokens=counted[e], created=born[e]))
                known += lost[e]
                lost[e] = 0.0
        always = Engine(model="always", engine="0", tokens=1.0)
        pages.append(write_page(*shown, always))
    return pages, known


@given(lives)
def test_totals_are_what_was_done(life: list[tuple[Step, ...]]) -> None:
    """Restarts, absences and returns in any order: totals are exact, growth is never negative."""
    pages, known = live(life)
    watched = Watched(pages[0])
    for place, page in enumerate(pages[1:], 1):
        interval = watched.see(page, float(place))
        assert min(interval.deltas.values(), default=0.0) >= 0.0
    worked = sum(
        value
        for cell, value in watched.ledger.totals.items()
        if cell.model == "target" and cell.measure[0] is Quantity.GENERATION_TOKENS
    )
    assert worked == known


@given(lives, st.sets(st.integers(1, 7)))
def test_splitting_an_interval_changes_no_total(
    life: list[tuple[Step, ...]], left_out: set[int]
) -> None:
    """Without restarts, any choice of pages between the first and the last gives the same."""
    calm = [tuple(replace(s, restarts=False, shown=True) for s in doings) for doings in life]
    pages, _ = live(calm)
    kept = [p for place, p in enumerate(pages) if place not in left_out or p is pages[-1]]
    assert totals(watch(*kept).ledger) == totals(watch(*pages).ledger)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=10))
def test_growth_is_never_negative(values: list[int]) -> None:
    """Whatever a counter does, and with nothing else to go by, totals only grow."""
    watched = Watched(tokens(values[0])[0])
    before = 0.0
    for place, value in enumerate(values[1:], 1):
        watched.see(tokens(value)[0], float(place))
        assert total(watched) >= before
        before = total(watched)
    expected = [b - a if b >= a else b for a, b in pairwise(values)]
    assert total(watched) == sum(expected)


def test_warm_and_cold_readers_add_up_alike() -> None:
    """The totals do not depend on what a reader had read before."""
    pages = [load_page(f"vllm/0.32.0-draft/{at}.prom") for at in ("before", "during", "after")]
    warm = Watched(pages[0])
    warm.reader.read(pages[2])
    warm.see(pages[1], 1.0)
    warm.see(pages[2], 2.0)
    assert totals(warm.ledger) == totals(watch(*pages).ledger)
    assert samples(warm.page) == samples(Reader().read(pages[2]))


def test_fault_is_told_with_its_reason() -> None:
    """What the last page leaves in doubt is absent from the window."""
    bad = tokens(430)[0].replace(b"430", b"NaN")
    found = only(measure([*tokens(400), bad]))
    assert found.absent["generation_tokens"] == Reason.NOT_FINITE
