"""Timelines with known right decisions, replayed through the code that guards a live server."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.judged import observed_on_cpu, recorded
from tests.recorded import load_series
from tests.timelines import (
    FLAT,
    Change,
    Pool,
    aside,
    changes,
    decide_all,
    during,
    failed,
    moved,
    paged,
    seen,
    steady,
)

from specgauge.guard.policy import Policy
from specgauge.model.guard import Decision, Outcome, Phase
from specgauge.serve.demo.recording import RecordingName, load
from specgauge.serve.replay import usual_spacing, usual_step
from specgauge.serve.timeline import Entry, outline

HOUR = 3600.0
PLAYBOOK = Policy(playbook=True, consecutive=3)
Timeline = Callable[[], Sequence[Entry]]

NOTHING: list[Change] = []
COST = "speedup_below_one"


def fell(at: float, reason: str = COST) -> Change:
    return (at, "fallback", reason)


def probed(at: float) -> Change:
    return (at, "probing", "probe_due")


def probe_lost(at: float) -> Change:
    return (at, "fallback", "probe_failed")


def back(at: float) -> Change:
    return (at, "active", "probe_succeeded")


EVIDENCE: dict[str, tuple[Timeline, list[Change]]] = {
    "collapse with a loss": (
        lambda: [*steady(0, 300), *steady(300, 595, 0.7, acceptance=0.1)],
        [fell(300)],
    ),
    "collapse without a loss": (
        lambda: [*steady(0, 300), *steady(300, 2000, 1.2, acceptance=0.1)],
        NOTHING,
    ),
    "collapse to a draw": (
        lambda: [*steady(0, 300), *steady(300, 2000, 1.0, acceptance=0.1)],
        NOTHING,
    ),
    "slow drift into a loss, of which 2220 s show 0.95": (
        lambda: list(during(0, 2500, lambda t: seen(1.3 - t / 6000))),
        [fell(2240)],
    ),
    "slow drift that stays above 1": (
        lambda: list(during(0, HOUR, lambda t: seen(1.3 - t / 12000))),
        NOTHING,
    ),
    "load spike without a loss": (
        lambda: [
            *steady(0, 300),
            *steady(300, 900, 1.02, decode_concurrency=100.0, requests_waiting=20.0),
            *steady(900, 1200),
        ],
        NOTHING,
    ),
    "load spike with a loss": (
        lambda: [*steady(0, 300), *steady(300, 600, 0.88, decode_concurrency=100.0)],
        [fell(315)],
    ),
    "loss of one window alone": (
        lambda: [*steady(0, 300), *steady(300, 315, 0.88), *steady(315, 900)],
        NOTHING,
    ),
    "acceptance 0.1 that pays": (lambda: steady(0, HOUR, 1.15, acceptance=0.1), NOTHING),
    "acceptance 0.55 that costs": (
        lambda: [*steady(0, 300), *steady(300, 600, 0.9, acceptance=0.55)],
        [fell(315)],
    ),
    "loss in doubt": (lambda: steady(0, HOUR, 0.9, spread=0.1), NOTHING),
    "loss of too few tokens": (lambda: steady(0, HOUR, 0.5, tokens=400.0), NOTHING),
    "loss of too few requests": (
        lambda: steady(
            0, HOUR, 0.5, requests=2.0, first_tokens=2.0, decode_concurrency=1.0
        ),
        NOTHING,
    ),
    "loss per token that is a gain per request": (
        lambda: steady(0, HOUR, 0.9, e2e_speedup_ratio=1.1),
        NOTHING,
    ),
    "missing pages": (lambda: [*steady(0, 300), *failed(300, 4 * HOUR)], NOTHING),
    "missing pages from the start": (lambda: failed(0, HOUR, "unreachable"), NOTHING),
    "missing pages within a loss neither count nor reset": (
        lambda: [
            *steady(0, 300),
            *steady(300, 305, 0.9),
            *failed(305, 900),
            *steady(900, 1000, 0.9),
        ],
        [fell(900)],
    ),
    "no baseline, acceptance below what a draft costs": (
        lambda: steady(0, 300, None, acceptance=0.02),
        [fell(15, "acceptance_below_floor")],
    ),
    "no baseline, acceptance that may pay": (
        lambda: steady(0, HOUR, None, acceptance=0.2),
        NOTHING,
    ),
    "no baseline, collapse": (
        lambda: [*steady(0, 300, None), *steady(300, 600, None, acceptance=0.1)],
        [fell(305, "acceptance_collapsed")],
    ),
    "no baseline, acceptance that drifts": (
        lambda: list(during(0, HOUR, lambda t: seen(None, acceptance=0.55 - t / 20000))),
        NOTHING,
    ),
    "recovery": (
        lambda: [*steady(0, 300), *steady(300, 590, 0.7), *steady(590, 900)],
        [fell(300), probed(600), back(660)],
    ),
    "recovery once the load has gone is not believed": (
        lambda: [
            *steady(0, 300, decode_concurrency=64.0),
            *steady(300, 590, 0.7, decode_concurrency=64.0),
            *steady(590, 900, decode_concurrency=4.0),
        ],
        [fell(300), probed(600)],
    ),
    "repeated failures of probes wait 5, 10, 20, 40, 60 and again 60 minutes": (
        lambda: [*steady(0, 300), *steady(300, 14000, 0.7)],
        [
            *(fell(300), probed(600), probe_lost(615)),
            *(probed(1215), probe_lost(1230), probed(2430), probe_lost(2445)),
            *(probed(4845), probe_lost(4860), probed(8460), probe_lost(8475)),
            *(probed(12075), probe_lost(12090)),
        ],
    ),
    "probe without evidence goes on": (
        lambda: [*steady(0, 300), *steady(300, 600, 0.7), *failed(600, 4000)],
        [fell(300), probed(600)],
    ),
    "clock back by an hour while it pays": (
        lambda: [*steady(0, HOUR), *steady(0, HOUR)],
        NOTHING,
    ),
    "clock ahead by an hour while it pays": (
        lambda: [*steady(0, 300), *steady(300 + HOUR, 600 + HOUR)],
        NOTHING,
    ),
    "clock back by an hour keeps the cool-down": (
        lambda: [*steady(0, 300), *steady(300, 400, 0.7), *moved(steady(400, 800), -HOUR)],
        [fell(300), probed(605 - HOUR), back(665 - HOUR)],
    ),
    "clock ahead by an hour makes a probe due": (
        lambda: [*steady(0, 300), *steady(300, 400, 0.7), *moved(steady(400, 800), HOUR)],
        [fell(300), probed(400 + HOUR), back(460 + HOUR)],
    ),
    "clock back and forth within a loss": (
        lambda: [
            *steady(0, 300),
            *steady(300, 305, 0.9),
            *moved(steady(305, 310, 0.9), -HOUR),
            *moved(steady(310, 320, 0.9), HOUR),
        ],
        [fell(310 + HOUR)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence(name: str) -> None:
    """Ready evidence is decided on as a team would want it, to the second."""
    made, wanted = EVIDENCE[name]
    assert changes(decide_all(made())) == wanted


def run(tpot: float, **more: Any) -> Callable[[Pool, float], None]:
    return lambda pool, seconds: pool.run(seconds, tpot, **more)


def idle(_pool: Pool, _seconds: float) -> None:
    """Serve nobody."""


GAIN, LOSS = run(0.0077), run(0.0143, acceptance=0.1)
"""1.3 times and 0.7 times as fast as without."""


def pages(*parts: tuple[float, Callable[[Pool, float], None]], engines: int = 1) -> list[Entry]:
    """Give a page a second of a pool that does one thing after the other for so many seconds."""
    pool, found, start = Pool(engines=engines), list[Entry](), 0.0
    for seconds, what in parts:
        found += paged(pool, start, start + seconds, what)
        start += seconds
    return found


def sick(pool: Pool, seconds: float) -> None:
    pool.run(seconds, 0.0077, load=32.0, engines=(0, 1, 2))
    pool.run(seconds, 0.035, load=32.0, engines=(3,))


def restarting(engine: int = 0) -> Callable[[Pool, float], None]:
    return lambda pool, _: pool.restart(engine)


GRACE = Policy()
PAGES: dict[str, tuple[Timeline, list[tuple[float, float, str, str]]]] = {
    "collapse with a loss": (
        lambda: pages((300, GAIN), (100, LOSS)),
        [(300, 315, "fallback", COST)],
    ),
    "collapse without a loss": (
        lambda: pages((300, GAIN), (300, run(0.0083, acceptance=0.1))),
        [],
    ),
    "acceptance 0.55 that costs": (
        lambda: pages((300, GAIN), (100, run(0.0111))),
        [(300, 345, "fallback", COST)],
    ),
    "loss within the grace of the start": (lambda: pages((58, LOSS), (300, GAIN)), []),
    "loss from the start": (lambda: pages((120, LOSS)), [(60, 62, "fallback", COST)]),
    "engine restart with a slow start": (
        lambda: pages((300, GAIN), (1, restarting()), (50, LOSS), (300, GAIN)),
        [],
    ),
    "loss that outlasts the grace of a restart": (
        lambda: pages((300, GAIN), (1, restarting()), (120, LOSS)),
        [(360, 376, "fallback", COST)],
    ),
    "one engine of four slow": (
        lambda: pages((200, run(0.0077, load=32.0)), (400, sick), engines=4),
        [],
    ),
    "one engine of four that crashes again and again": (
        lambda: pages(
            (200, run(0.0077, load=32.0)),
            *([(80, sick), (1, restarting(3))] * 5),
            (80, sick),
            engines=4,
        ),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_pages(name: str) -> None:
    """Pages are judged against the baseline under the default keys, within a window or two."""
    made, wanted = PAGES[name]
    found = changes(decide_all(made(), baseline=FLAT, policy=GRACE))
    assert [(state, why) for _, state, why in found] == [one[2:] for one in wanted]
    for (at, _, _), (earliest, latest, _, _) in zip(found, wanted, strict=True):
        assert earliest <= at <= latest


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        pytest.param(
            lambda: pages((120, run(0.0143, acceptance=0.02))),
            (61, 77, "acceptance_below_floor"),
            id="floor",
        ),
        pytest.param(
            lambda: pages((300, GAIN), (60, LOSS)), (300, 315, "acceptance_collapsed"), id="fall"
        ),
        pytest.param(lambda: pages((300, GAIN), (60, run(0.0143))), None, id="loss alone"),
    ],
)
def test_pages_without_a_baseline(made: Timeline, wanted: tuple[float, float, str] | None) -> None:
    """Where no baseline speaks, acceptance too low to pay or fallen off acts; nothing else does."""
    found = changes(decide_all(made(), policy=GRACE))
    if wanted is None:
        assert found == []
        return
    ((at, state, why),) = found
    assert (state, why) == ("fallback", wanted[2])
    assert wanted[0] <= at <= wanted[1]


NIGHT, DAY = {"requests": 2.0, "decode_concurrency": 0.5}, {"requests": 60.0, "tokens": 2e4}
SCATTERED = (0.05, -0.07, 0.02, 0.06, -0.04, -0.06, 0.08, 0.01, -0.05)


def scattered(mean: float, by: float, **more: float) -> Callable[[float], dict[str, Any]]:
    """Write windows that differ from one to the next, `by` times as much as `SCATTERED`."""

    def at(time: float) -> dict[str, Any]:
        off = SCATTERED[round(time / 15.0) % len(SCATTERED)]
        return seen(mean * (1.0 + by * off), first_tokens=more.get("requests", 40.0), **more)

    return at


@pytest.mark.parametrize(
    ("before", "after", "soon"),
    [
        pytest.param(scattered(1.2, 4.0, **NIGHT), scattered(0.8, 0.2, **DAY), 60.0, id="morning"),
        pytest.param(scattered(1.2, 4.0, **NIGHT), scattered(0.5, 0.2, **DAY), 60.0, id="worse"),
        pytest.param(scattered(1.3, 1.0), scattered(0.88, 0.5), 120.0, id="scattered gain"),
    ],
)
def test_a_loss_is_found_beside_a_restless_past(
    before: Callable[[float], dict[str, Any]],
    after: Callable[[float], dict[str, Any]],
    soon: float,
) -> None:
    """Neither a quiet night nor windows that differ much make a clear and lasting loss usual."""
    entries = [*during(0.0, HOUR, before, step=15.0), *during(HOUR, HOUR + 300.0, after, step=15.0)]
    ((at, state, _), *_) = changes(decide_all(entries))
    assert state == "fallback"
    assert HOUR < at <= HOUR + soon


def test_idle_night() -> None:
    """Nothing is decided on eight hours without a request, and afterwards the guard works."""
    pool = Pool()
    evening = paged(pool, 0.0, 300.0, GAIN)
    night = paged(pool, 300.0, 300.0 + 8 * HOUR, idle, step=10.0)
    dawn = 300.0 + 8 * HOUR
    morning = [*paged(pool, dawn, dawn + 60, GAIN), *paged(pool, dawn + 60, dawn + 120, LOSS)]
    decisions = decide_all([*evening, *night, *morning], baseline=FLAT, policy=GRACE)
    ((at, state, why),) = changes(decisions)
    assert (state, why) == ("fallback", COST)
    assert dawn + 60 <= at <= dawn + 75
    asleep = [one for one in decisions if 300 <= one.time < dawn]
    assert not any(one.outcome is Outcome.DEGRADED for one in asleep)
    assert {(one.outcome, one.reason) for one in asleep if one.time > 400} == {
        (Outcome.NO_DATA, "too_few_tokens")
    }


@pytest.mark.parametrize("by", [-HOUR, HOUR], ids=["back", "ahead"])
def test_clock_that_jumps_under_pages(by: float) -> None:
    """After a jump windows begin anew: no verdict spans it, and a loss is still found."""
    pool = Pool()
    timeline = [
        *paged(pool, 0.0, 100.0, GAIN),
        *paged(pool, 100.0 + by, 200.0 + by, GAIN),
        *paged(pool, 200.0, 300.0, GAIN),
        *paged(pool, 300.0, 360.0, LOSS),
    ]
    decisions = decide_all(timeline, baseline=FLAT, policy=GRACE)
    ((at, state, why),) = changes(decisions)
    assert (state, why) == ("fallback", COST)
    assert 300 <= at <= 315
    after = [one for one in decisions if one.time in {100.0 + by, 200.0}]
    assert [one.outcome for one in after] == [Outcome.NO_DATA] * 2


# Pages while the flag is off, and the pool that serves meanwhile


def off(decisions: Sequence[Decision]) -> list[Decision]:
    """Give the decisions made while the flag was off already."""
    return [one for one in decisions if one.before is Phase.FALLBACK and not one.changed]


def test_pages_while_the_flag_is_off() -> None:
    """They are recorded with speculation, so they say nothing, and not that it did not help."""
    decisions = decide_all([*steady(0, 300), *steady(300, 600, 0.7)])
    told = off(decisions)
    assert len(told) == 59
    assert {(one.outcome, one.reason) for one in told} == {(Outcome.NO_DATA, "cooling_down")}
    assert not any(one.warnings for one in decisions)


@pytest.mark.parametrize(
    ("tpot", "warned"),
    [
        pytest.param(0.010, [], id="faster than with speculation"),
        pytest.param(0.0142, ["fallback_ineffective"], id="no faster"),
    ],
)
@pytest.mark.parametrize("apart", [0.0, 2.0], ids=["at the same times", "between"])
@pytest.mark.parametrize("kind", ["pages", "evidence"])
def test_standard_pool(kind: str, apart: float, tpot: float, warned: list[str]) -> None:
    """Lines of the standard pool tell once whether the fallback helped, and disturb nothing."""
    pool = Pool(drafting=False)
    if kind == "pages":
        beside = paged(pool, 0.0, 600.0, run(tpot, load=10.0), step=5.0)
    else:
        beside = steady(0, 600, None, tpot_seconds=tpot, decode_concurrency=10.0)
    ours = [*steady(0, 300), *steady(300, 600, 0.7)]
    both = sorted([*ours, *moved(aside(beside), apart)], key=lambda one: one.time)
    decisions = decide_all(both)
    assert changes(decisions) == [fell(300)]
    assert [reason for one in decisions for reason in one.warnings] == warned
    before = [one for one in decisions[: 2 * 60 : 2] if apart]
    assert all(one.outcome is Outcome.HEALTHY for one in before)
    assert usual_spacing(both) == 5.0


def test_lines_of_the_standard_pool_alone() -> None:
    """While speculation is on they decide nothing, and say whose they are."""
    decisions = decide_all(aside(steady(0, 60, 0.5)))
    assert changes(decisions) == NOTHING
    assert {(one.outcome, one.reason) for one in decisions} == {(Outcome.NO_DATA, "standard_pool")}


@pytest.mark.parametrize(
    ("state", "held"),
    [
        pytest.param("down", True, id="down"),
        pytest.param("full", True, id="full"),
        pytest.param("free", False, id="free"),
        pytest.param("down long ago", False, id="long ago"),
    ],
)
def test_standard_pool_without_room(state: str, held: bool) -> None:
    """The flag stays on while the standard pool was just seen down or full."""
    pool = Pool(drafting=False)
    if state in {"free", "full"}:
        beside = paged(pool, 0.0, 320.0, run(0.010), step=5.0, waiting=9.0 * (state == "full"))
    else:
        beside = failed(0, 320 if state == "down" else 200)
    ours = [*steady(0, 300), *steady(300, 320, 0.7)]
    both = sorted([*ours, *aside(beside)], key=lambda one: one.time)
    decisions = decide_all(both)
    assert changes(decisions) == ([] if held else [fell(300)])
    reasons = {str(one.reason) for one in decisions if one.outcome is Outcome.DEGRADED}
    assert reasons == ({"no_fallback_capacity"} if held else {COST})


def test_refused_pages_are_missing_pages() -> None:
    """A page that cannot be read is told like a scrape that failed, and changes nothing."""
    timeline = pages((100, GAIN))
    timeline += [Entry(line=0, time=100.0 + one, data=b"<html></html>\n") for one in range(300)]
    decisions = decide_all(timeline, baseline=FLAT)
    assert changes(decisions) == []
    assert {str(one.outcome) for one in decisions[100:]} == {"no_data"}


def test_dry_run_is_replayed_as_if_it_acted() -> None:
    """Who tries a dry run out wants to see what it would have done."""
    policy = Policy(startup_grace=0.0, dry_run=True)
    found = decide_all([*steady(0, 300), *steady(300, 400, 0.7)], policy=policy)
    assert changes(found) == [fell(300)]


def test_too_many_fallbacks_latch() -> None:
    """After the day's last fallback the flag stays off."""
    policy = Policy(startup_grace=0.0, max_fallbacks_per_day=2, cooldown=60.0)
    cycle = [*steady(0, 60), *steady(60, 110, 0.7), *steady(110, 200)]
    timeline = [one for place in range(4) for one in moved(cycle, 200.0 * place)]
    found = changes(decide_all(timeline, policy=policy))
    assert found[-1] == (460.0, "latched", "too_many_fallbacks")


def test_same_input_same_decisions() -> None:
    """A replay leaves nothing behind."""
    timeline = pages((120, GAIN), (60, LOSS))
    first, second = (decide_all(timeline, baseline=FLAT) for _ in range(2))
    assert first == second


# The article's guard


@pytest.mark.parametrize(
    ("timeline", "wanted"),
    [
        pytest.param(
            lambda: steady(0, 300, 1.15, acceptance=0.1),
            [fell(120, "acceptance_below_floor")],
            id="wrong: acceptance 0.1 that pays",
        ),
        pytest.param(
            lambda: steady(0, HOUR, 0.85, acceptance=0.55),
            NOTHING,
            id="wrong: acceptance 0.55 that costs",
        ),
        pytest.param(lambda: steady(0, 300, 0.8, acceptance=0.55), [fell(120)], id="25 % slower"),
        pytest.param(lambda: failed(0, HOUR), NOTHING, id="missing pages"),
    ],
)
def test_playbook(timeline: Timeline, wanted: list[Change]) -> None:
    """The preset acts under the article's numbers: three windows of a minute in a row."""
    assert changes(decide_all(timeline(), policy=PLAYBOOK, decision_window=60.0)) == wanted


# Recorded servers


def recording(name: RecordingName) -> list[Entry]:
    return [Entry(line=0, time=one.at, data=one.text.encode()) for one in load(name).pages]


def series(mode: str) -> list[Entry]:
    recorded_pages = load_series(mode)["pages"]
    return [Entry(line=0, time=one["at"], data=one["text"].encode()) for one in recorded_pages]


@pytest.mark.parametrize("grace", [0.0, 60.0])
@pytest.mark.parametrize("with_baseline", [True, False], ids=["baseline", "no baseline"])
@pytest.mark.parametrize("name", [RecordingName.SPECULATIVE, RecordingName.STANDARD])
def test_recorded_ramps(name: RecordingName, with_baseline: bool, grace: float) -> None:
    """Load up and down again moves nothing, for it pays at every load of the ramp."""
    policy = Policy(startup_grace=grace)
    baseline = recorded() if with_baseline else None
    decisions = decide_all(recording(name), baseline=baseline, policy=policy)
    assert changes(decisions) == []
    assert not any(one.outcome is Outcome.DEGRADED for one in decisions)


def test_recorded_ramp_says_what_it_rests_on() -> None:
    """Decisions on recorded pages carry the numbers that the contract names."""
    decisions = decide_all(recording(RecordingName.SPECULATIVE), baseline=recorded())
    named = {
        *("speedup_ratio", "speedup_ratio_low", "speedup_ratio_high", "decode_concurrency"),
        *("tokens", "requests", "drafts", "acceptance_ratio"),
    }
    assert all(named <= set(one.evidence) for one in decisions[2:])
    assert all(math.isfinite(value) for one in decisions for value in one.evidence.values())


PHASES = {one["phase"]: one for one in load_series("ngram")["phases"]}


def test_recorded_loss_on_the_cpu() -> None:
    """Speculation that costs at temperature 1 is turned off within a window of its beginning."""
    policy = Policy(startup_grace=0.0)
    found = changes(decide_all(series("ngram"), baseline=observed_on_cpu(), policy=policy))
    ((at, state, why),) = found
    assert (state, why) == ("fallback", COST)
    assert PHASES["t1-c1"]["start"] <= at <= PHASES["t1-c1"]["start"] + 15.0


def test_recorded_recovery_on_the_cpu() -> None:
    """A probe during the idle time waits for traffic, and passes when it pays again."""
    policy = Policy(startup_grace=0.0, cooldown=10.0, probe_for=10.0)
    decisions = decide_all(series("ngram"), baseline=observed_on_cpu(), policy=policy)
    found = [(state, why) for _, state, why in changes(decisions)]
    assert found[:3] == [
        ("fallback", COST),
        ("probing", "probe_due"),
        ("active", "probe_succeeded"),
    ]
    passed = changes(decisions)[2][0]
    assert PHASES["t0-c4"]["start"] <= passed <= PHASES["t0-c4"]["end"]
    assert found[3][0] == "fallback"


def test_recorded_server_without_speculation() -> None:
    """It gives nothing to decide on."""
    decisions = decide_all(series("none"), baseline=observed_on_cpu())
    assert changes(decisions) == []
    assert {str(one.reason) for one in decisions[1:]} == {"not_speculating"}


# The spacing of a timeline


@pytest.mark.parametrize(
    ("times", "step"),
    [
        pytest.param([], 1.0, id="nothing"),
        pytest.param([5.0], 1.0, id="one line"),
        pytest.param([0.0, 5.0, 10.0, 100.0], 5.0, id="a gap"),
        pytest.param([0.0, 0.0, 5.0, 5.0, 10.0], 5.0, id="two lines at a time"),
        pytest.param([3600.0, 0.0, 2.0], 2.0, id="a clock that goes back"),
        pytest.param([2.0, 1.0], 1.0, id="nothing ahead"),
    ],
)
def test_usual_step(times: list[float], step: float) -> None:
    """The median of what goes ahead."""
    assert usual_step(times) == step
    lines = [Entry(line=0, time=one, error="x") for one in times]
    assert usual_spacing(lines) == step
    assert usual_spacing([replace(one, pool="standard") for one in lines]) == step


def test_outline_opens_no_page(tmp_path: Path) -> None:
    """When lines are and whose is known without the pages, which need not be there yet."""
    path = tmp_path / "run.jsonl"
    path.write_text(
        '{"t": 5, "page": "later.prom", "pool": "standard"}\n'
        '{"t": 5, "evidence": {"tokens": 9}}\n{"t": 1, "error": "timeout"}\n'
    )
    assert list(outline(path)) == [
        Entry(line=1, time=5.0, pool="standard"),
        Entry(line=2, time=5.0),
        Entry(line=3, time=1.0, error="timeout"),
    ]
