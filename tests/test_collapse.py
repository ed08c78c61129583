"""A fall of acceptance against its own past: found in seconds, and not where there is none."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median

import pytest
from tests.drafted import K, Traffic, chance, looks
from tests.looking import look

from specgauge.guard.assess import Memory, assess
from specgauge.guard.collapse import GIVE_UP, RECENT, STALE, Watched, settle, watch
from specgauge.guard.policy import Policy
from specgauge.guard.stretch import last_step
from specgauge.model.guard import Look, Outcome

POLICY = Policy()


def run(
    traffic: Traffic, *, until: float, seed: int = 1, watched: Watched | None = None
) -> tuple[Watched, list[float]]:
    """Watch traffic; give what is remembered and the times at which it counts as fallen."""
    watched = watched or Watched()
    fallen = []
    for time, one in looks(traffic, chance(seed), until=until):
        watched = watch(watched, one, POLICY, time=time)
        if watched.collapse is not None:
            fallen.append(time)
    return watched, fallen


def steps(
    accepted: Iterable[float], *, k: float = K, seconds: float = 1.0, drafts: float = 400.0
) -> list[Look]:
    """Give looks whose last interval has so many tokens accepted a draft, for ten requests."""
    return [
        look(
            step={
                "drafts": drafts,
                "draft_tokens": k * drafts,
                "accepted_tokens": one * drafts,
                "first_tokens": 2.0,
            },
            step_seconds=seconds,
            numbers={"decode_concurrency": 10.0},
        )
        for one in accepted
    ]


def play(given: Iterable[Look], watched: Watched | None = None, *, start: float = 0.0) -> Watched:
    """Watch looks a second apart."""
    watched = watched or Watched()
    for at, one in enumerate(given, 1):
        watched = watch(watched, one, POLICY, time=start + at)
    return watched


def falls(at: float, share: float) -> Callable[[float], float]:
    """Give a course of acceptance that falls to a share of itself."""
    return lambda time: share if time > at else 1.0


# Detection


@pytest.mark.parametrize(
    ("rate", "share", "at", "within"),
    [
        pytest.param(60.0, 0.1, 180.0, 10.0, id="60 a second, to a tenth"),
        pytest.param(60.0, 0.5, 180.0, 12.0, id="60 a second, to half"),
        pytest.param(10.0, 0.1, 180.0, 10.0, id="10 a second, to a tenth"),
        pytest.param(10.0, 0.5, 180.0, 12.0, id="10 a second, to half"),
        pytest.param(1.0, 0.1, 300.0, 10.0, id="1 a second, to a tenth"),
        pytest.param(1.0, 0.5, 300.0, 20.0, id="1 a second, to half"),
        pytest.param(0.5, 0.1, 600.0, 20.0, id="one every 2 s, to a tenth"),
        pytest.param(0.1, 0.1, 2400.0, 120.0, id="one every 10 s, to a tenth"),
    ],
)
def test_detection_delay(rate: float, share: float, at: float, within: float) -> None:
    """The median delay is seconds of traffic, at any ordinary rate; and none comes early."""
    delays = []
    for seed in range(3 if rate > 20.0 or rate < 0.5 else 7):
        traffic = Traffic(rate=rate, drift=falls(at, share))
        _, fallen = run(traffic, until=at + 8.0 * within, seed=seed)
        assert all(time > at for time in fallen)
        delays.append(fallen[0] - at if fallen else math.inf)
    assert median(delays) <= within


def test_detection_after_idle() -> None:
    """The past outlives a night without traffic: the fall is found when traffic returns."""

    def night(time: float) -> float:
        return 0.0 if 600.0 < time < 20000.0 else 1.0

    steady = Traffic(rate=2.0, page=5.0, waves=night)
    assert run(steady, until=20400.0)[1] == []
    worse = replace(steady, drift=falls(20000.0, 0.2))
    assert 20000.0 < run(worse, until=20400.0)[1][0] <= 20030.0


# Two seconds each of a server with n-gram drafts: time, drafts, draft tokens, accepted tokens,
# first tokens, requests in decode. From 75 s on the temperature is 1 in place of 0.
RECORDED = [
    (10, 238, 906, 631, 11, 0.9), (12, 237, 891, 583, 10, 0.9), (14, 247, 927, 502, 9, 0.9),
    (16, 235, 878, 606, 10, 0.9), (18, 237, 891, 569, 10, 0.9), (20, 255, 958, 702, 11, 0.9),
    (22, 198, 742, 526, 10, 0.9), (24, 225, 835, 568, 10, 0.9), (56, 626, 2393, 1515, 26, 3.3),
    (58, 639, 2407, 1649, 30, 3.1), (60, 721, 2732, 1895, 32, 3.4), (62, 703, 2640, 1797, 32, 2.9),
    (64, 683, 2596, 1649, 28, 3.4), (66, 724, 2763, 1640, 30, 3.5), (68, 790, 2993, 1981, 35, 3.4),
    (70, 760, 2874, 2130, 32, 3.1), (72, 761, 2837, 2111, 36, 3.4), (74, 756, 2876, 1769, 28, 2.7),
    (76, 27, 105, 2, 12, 2.6), (78, 33, 130, 7, 16, 3.0), (80, 46, 182, 10, 12, 3.8),
    (82, 38, 152, 13, 12, 3.8), (84, 37, 148, 7, 12, 3.9), (86, 37, 148, 6, 12, 3.8),
]  # fmt: skip


def test_recorded_fall() -> None:
    """A real server whose drafts stop fitting is found within 10 s, and no sooner than it did."""
    watched, fallen = Watched(), []
    for time, drafts, proposed, accepted, first, present in RECORDED:
        one = look(
            step={
                "drafts": float(drafts),
                "draft_tokens": float(proposed),
                "accepted_tokens": float(accepted),
                "first_tokens": float(first),
            },
            step_seconds=2.0,
            numbers={"decode_concurrency": present},
        )
        watched = watch(watched, one, POLICY, time=float(time))
        if watched.collapse is not None:
            fallen.append(time)
    assert 75 < fallen[0] <= 85


# No false alarms


def day(time: float) -> float:
    """Load over a day, with a burst of three times as much every seven minutes."""
    level = max(0.02, 1.0 + math.sin(2.0 * math.pi * time / 86400.0))
    return level * (3.0 if time % 420.0 < 30.0 else 0.8)


def swing(time: float) -> float:
    """Let acceptance drift by a quarter up and down within two hours."""
    return 1.0 + 0.25 * math.sin(2.0 * math.pi * time / 7200.0)


def stumble(time: float) -> float:
    """Take a sixth of acceptance away for six seconds in every quarter of an hour."""
    return 0.85 if time % 900.0 < 6.0 else 1.0


@pytest.mark.parametrize(
    ("traffic", "days"),
    [
        pytest.param(Traffic(rate=0.5, page=5.0, waves=day, spread=0.2), 3.0, id="bursts"),
        pytest.param(Traffic(rate=0.5, page=5.0, waves=day, drift=swing), 2.0, id="slow drift"),
        pytest.param(
            Traffic(
                rate=0.5, page=5.0, waves=day, spread=0.2, batch_chance=1.0 / 3600.0, drift=stumble
            ),
            2.0,
            id="batches of twenty alike, short disturbances",
        ),
        pytest.param(
            Traffic(rate=0.1, page=5.0, waves=day, spread=0.2, seconds=30.0), 2.0, id="long streams"
        ),
    ],
)
def test_no_false_alarm(traffic: Traffic, days: float) -> None:
    """Nine simulated days of correlated traffic turn the flag off not once."""
    memory, flips, pending = Memory(), 0, math.inf
    for time, one in looks(traffic, chance(7), until=days * 86400.0):
        memory, found = assess(memory, one, POLICY, time=time)
        if found.outcome is Outcome.HEALTHY:
            pending = math.inf
        elif found.outcome is Outcome.DEGRADED:
            flips += found.severe or found.start >= pending
            pending = min(pending, found.end)
    assert flips == 0
    assert memory.acceptance.blocks > 100.0


def test_a_fall_that_is_small_is_no_collapse() -> None:
    """However sure, what costs less than a fifth of the tokens a step is left to the verdict."""
    watched = play(steps([2.2] * 120 + [1.7] * 60))
    assert watched.known
    assert watched.collapse is None


def test_a_short_fall_is_no_collapse() -> None:
    """A fall has to last some seconds."""
    watched = Watched()
    for at, one in enumerate(steps([2.2] * 120 + [0.2] * 3 + [2.2] * 60)):
        watched = watch(watched, one, POLICY, time=float(at))
        assert watched.collapse is None


# What is remembered


def test_nothing_is_known_without_a_past() -> None:
    """The first traffic has nothing to be compared with."""
    assert not play(steps([2.2] * 20)).known
    assert play(steps([2.2] * 60)).known


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"step": {}}, id="no traffic"),
        pytest.param({"step_seconds": 0.0}, id="no time"),
        pytest.param({"step_seconds": math.nan}, id="no number"),
        pytest.param({"step": {"drafts": 5.0, "draft_tokens": 20.0}}, id="accepted not known"),
        pytest.param(
            {"step": {"drafts": 5.0, "draft_tokens": 20.0, "accepted_tokens": 21.0}}, id="too many"
        ),
        pytest.param(
            {"step": {"drafts": 0.0, "draft_tokens": 20.0, "accepted_tokens": 1.0}}, id="no draft"
        ),
    ],
)
def test_steps_that_do_not_count(change: dict[str, object]) -> None:
    """Without traffic, or where counts do not add up, nothing moves."""
    before = play(steps([2.2] * 60))
    one = replace(steps([2.2])[0], **change)  # type: ignore[arg-type] # drawn from a table
    assert last_step(one) is None
    assert watch(before, one, POLICY, time=61.0) == before


def test_short_steps_are_gathered() -> None:
    """Scrapes several times a second do not make what is remembered longer."""
    watched = play(steps([2.2] * 400, seconds=0.25, drafts=100.0))
    assert len(watched.recent) <= RECENT + 1
    assert watched.total.seconds <= RECENT + 1.0


def test_other_draft_length_is_another_setting() -> None:
    """Fewer draft tokens by a schedule are no fall of acceptance: the past begins anew."""
    watched = play(steps([3.8] * 120))
    watched = play(steps([1.9] * 20, k=2.0), watched)
    assert watched.collapse is None
    assert watched.total.seconds == 20.0


def test_few_drafts_do_not_tell_of_another_setting() -> None:
    """The mean length of a handful of drafts is chance."""
    watched = play(steps([2.2] * 60))
    watched = play(steps([1.0], k=2.0, drafts=10.0), watched)
    assert watched.total.seconds > 20.0


def test_all_accepted_before_and_after() -> None:
    """Where nothing is ever rejected a shorter draft is no loss that could be sure."""
    watched = play(steps([20.0] * 80, k=20.0))
    watched = play(steps([15.5] * 15, k=15.5), watched)
    assert watched.known
    assert watched.collapse is None


def test_thin_traffic_is_gathered_into_blocks() -> None:
    """Steps that hold few drafts tell of spread and past together."""
    watched = play(steps([2.2] * 200, drafts=30.0))
    assert 0.0 < watched.past.drafts < 200.0 * 30.0
    assert play(steps([0.2] * 20, drafts=30.0), watched).collapse is not None


def test_yesterday_is_forgotten() -> None:
    """A past a day old is another day's traffic."""
    watched = play(steps([2.2] * 120))
    watched = play(steps([0.2] * 20), watched, start=STALE + 200.0)
    assert watched.collapse is None
    assert watched.total.seconds == 20.0


def test_fall_stays_until_acceptance_returns() -> None:
    """What came after a fall does not become the past that it is held against."""
    watched = play(steps([2.2] * 120 + [0.2] * 300))
    assert watched.collapse is not None
    assert watched.collapse.before == pytest.approx(3.2)
    assert watched.collapse.after == pytest.approx(1.2)
    assert play(steps([2.2] * 3), watched).collapse is None


def test_lower_level_becomes_the_past_in_the_end() -> None:
    """After half an hour of traffic it is what is usual now."""
    watched = play(steps([2.2] * 120 + [0.2] * int(GIVE_UP + 30.0)))
    assert watched.collapse is None
    assert play(steps([0.2] * 60), watched).known


# Gaps


def test_settling_keeps_the_past_and_drops_the_fall() -> None:
    """After a fallback a probe is held against what was before the fall, by new traffic alone."""
    fell = play(steps([2.2] * 120 + [0.2] * 30))
    assert fell.collapse is not None
    settled = settle(fell, POLICY)
    assert (settled.recent, settled.collapse, settled.known) == ((), None, False)
    still = play(steps([0.2] * 15), settled)
    assert still.collapse is not None
    mended = play(steps([2.2] * 15), settled)
    assert (mended.collapse, mended.known) == (None, True)


def test_settling_without_a_fall() -> None:
    """All that is recent becomes the past, and settling again changes nothing."""
    settled = settle(play(steps([2.2] * 40)), POLICY)
    assert settled.past.accepted_per_draft == pytest.approx(2.2)
    assert settle(settled, POLICY) == settled


# A fall lasts


@pytest.mark.parametrize("seconds", [1, 2, 3, 5, 7, 9])
@pytest.mark.parametrize("low", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("drafts", [400.0, 40.0], ids=["as many drafts", "few drafts before"])
def test_a_dip_is_no_collapse_however_deep(seconds: int, low: float, drafts: float) -> None:
    """Fewer than ten low seconds turn no look degraded, whatever they do to the mean."""
    memory = Memory()
    healthy = steps([2.2] * 150, drafts=drafts)
    dip = steps([low] * seconds)
    for at, one in enumerate([*healthy, *dip, *steps([2.2] * 60, drafts=drafts)], 1):
        memory, found = assess(memory, one, POLICY, time=float(at))
        assert memory.acceptance.collapse is None
        assert found.outcome is not Outcome.DEGRADED


def test_dips_that_come_again_are_no_collapse() -> None:
    """Deep dips with recoveries between them never lie low for long enough."""
    watched = play(steps([2.2] * 150))
    for at, one in enumerate(steps(([0.0] * 3 + [2.2] * 4) * 20), 151):
        watched = watch(watched, one, POLICY, time=float(at))
        assert watched.collapse is None


@pytest.mark.parametrize("page", [0.5, 1.0, 2.0, 5.0])
def test_a_collapse_is_found_when_ten_seconds_were_low(page: float) -> None:
    """A real one is found as soon as that, and is severe, for all of it lies low."""
    watched = play(steps([2.2] * int(150 / page), seconds=page, drafts=400.0 * page))
    low = 0.0
    for one in steps([0.2] * 20, seconds=page, drafts=400.0 * page):
        watched = watch(watched, one, POLICY, time=watched.last + page)
        low += page
        assert (watched.collapse is not None) is (low >= 10.0)
        if low >= 10.0:
            break
    assert watched.collapse is not None
    assert watched.collapse.steady
    assert watched.collapse.high < POLICY.severe


def test_only_what_is_low_throughout_is_severe() -> None:
    """A fall with better pieces in it counts as one window and no more."""
    watched = play(steps([3.0] * 150 + ([0.0] * 3 + [2.5] * 3) * 4 + [0.0] * 3))
    assert watched.collapse is not None
    assert watched.collapse.high < POLICY.severe
    assert not watched.collapse.steady
