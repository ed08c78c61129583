"""The report without a Prometheus: what is asked, what figures say, what follows, how it reads."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import promql_parser
import pytest
from markdown_it import MarkdownIt

from specgauge.derive.statistics import Estimate
from specgauge.report import words
from specgauge.report.alerts import alerts
from specgauge.report.classes import classes, quotient
from specgauge.report.document import About, document, estimate
from specgauge.report.fallbacks import fallbacks
from specgauge.report.figures import Figures, figures
from specgauge.report.grid import MOST_POINTS, Answers, Line, Period
from specgauge.report.growth import gaps, stretches
from specgauge.report.latency import latency, median_of
from specgauge.report.plots import WIDTH, by_load, over_time
from specgauge.report.questions import Scope, questions
from specgauge.report.recommend import recommend
from specgauge.report.render import as_html, as_json, as_markdown, sentence
from specgauge.report.speed import LoadBin, concurrency
from specgauge.report.state import breakeven, cache_state, draft_length
from specgauge.report.terms import Limits, Terms

DAY = 86_400.0
START = 20_000 * DAY
PERIOD = Period(start=START, end=START + 12 * 3600.0, step=300.0)
SERVER = {"instance": "a:1", "target": "spec", "model_name": "m"}
GUARD = {"instance": "a:1", "target": "spec"}
ABOUT = About(source="http://p:9090", selector="", created=START)


def steady(value: float, count: int = 144) -> dict[int, float]:
    """Let a counter grow by as much in every cell."""
    return {at: value * at for at in range(count + 1)}


def line(labels: Mapping[str, str], points: Mapping[int, float]) -> Line:
    return Line(labels=labels, points=points)


def answers(
    *, server: Mapping[str, str] = SERVER, speedup: float = 1.5, ratio: float = 0.6, **more: Any
) -> Answers:
    """Answer about a server that runs evenly; more quantities by name."""
    lines: dict[str, Sequence[Line]] = {
        "drafts": [line(server, steady(100.0))],
        "draft_tokens": [line(server, steady(400.0))],
        "accepted_tokens": [line(server, steady(400.0 * ratio))],
        "generated": [line(server, steady(1000.0))],
        "requests": [line(server, steady(5.0))],
        "decode_seconds": [line(server, steady(900.0))],
        "baseline_seconds": [line(server, steady(900.0 * speedup))],
        "covered_seconds": [line(server, steady(900.0))],
    }
    return Answers(
        period=PERIOD, lines={key: tuple(value) for key, value in {**lines, **more}.items()}
    )


def reckoned(**more: Any) -> Figures:
    return figures(answers(**more), Terms())


def rules(found: Figures, limits: Limits | None = None) -> list[str]:
    (group,) = found.groups
    return [str(one.rule) for one in recommend(group, found, limits or Limits())]


def test_every_question_is_promql() -> None:
    """What is asked can be parsed, whatever selects among the series, and asks within bounds."""
    for scope in (
        Scope(),
        Scope(
            models='cluster="a",model_name=~"x|y",',
            servers='cluster="a"',
            alerts='cluster="a"',
            clusters='cluster="a"',
        ),
    ):
        for one in questions(scope, Period(start=0.0, end=400 * DAY, step=60.0)):
            promql_parser.parse(one.query)
            assert one.points <= MOST_POINTS
            stretched = list(one.grid.chunks(one.points))
            assert stretched[0][0] == one.grid.start
            assert stretched[-1][1] == one.grid.time(one.grid.count)
            asked = [round((end - start) / one.grid.step) + 1 for start, end in stretched]
            assert sum(asked) == one.grid.count + 1


@pytest.mark.parametrize(
    ("points", "grown", "reset"),
    [
        pytest.param({0: 1.0, 1: 3.0}, [(0, 1, 2.0)], False, id="grows"),
        pytest.param({0: 5.0}, [], False, id="one value is where counting starts"),
        pytest.param({0: 5.0, 1: 7.0, 2: 4.0}, [(0, 2, 6.0)], True, id="began anew"),
        pytest.param({0: 5.0, 1: 4.0}, [(0, 1, 4.0)], True, id="began anew at once"),
        pytest.param({0: 5.0, 3: 8.0}, [(0, 3, 3.0)], False, id="bridged"),
        pytest.param({0: 5.0, 4: 8.0, 5: 9.0}, [(4, 5, 1.0)], False, id="a gap"),
        pytest.param({0: 5.0, 1: 5.0 - 1e-12}, [(0, 1, 0.0)], False, id="rounding"),
    ],
)
def test_growth(points: dict[int, float], grown: list[Any], reset: bool) -> None:
    """A counter's growth is found whatever began anew, and none is made up across a gap."""
    found = stretches({"x": points})
    assert [(one.first, one.last, one.growth["x"]) for one in found] == grown
    assert any(one.reset for one in found) is reset


def test_counters_may_appear_and_miss() -> None:
    """A counter that comes later counts from its first value; one that misses a cell goes on."""
    found = stretches({"x": {0: 0.0, 1: 1.0, 2: 2.0}, "y": {1: 5.0, 2: 7.0}, "z": {2: 1.0}})
    assert [dict(one.growth) for one in found] == [{"x": 1.0}, {"x": 1.0, "y": 2.0}]
    assert gaps({2, 3, 6}, 7) == [(1, 1), (4, 5), (7, 7)]
    assert stretches({"x": {0: 1.0}, "y": {1: 1.0}}) == []


def test_not_a_number() -> None:
    """A point at which any counter is no number is left out of all of them, and told."""
    broken = {**steady(900.0), 7: math.nan}
    found = reckoned(covered_seconds=[line(SERVER, broken)])
    (group,) = found.groups
    (server,) = group.coverage.servers
    assert (server.not_numbers, server.share, group.coverage.missing) == (1, 1.0, ())
    assert group.acceptance.draft_tokens == pytest.approx(144 * 400.0)
    assert group.speed.speedup is not None
    assert group.speed.speedup.value == pytest.approx(1.5)


def test_half_of_a_pair() -> None:
    """Nor does a point count at which one of two is missing: some servers keep no NaN."""
    broken = {at: one for at, one in steady(900.0).items() if at != 7}
    found = reckoned(covered_seconds=[line(SERVER, broken)])
    assert found == reckoned(covered_seconds=[line(SERVER, {**broken, 7: math.nan})])
    assert found.groups[0].coverage.servers[0].not_numbers == 1


def test_nothing_at_all() -> None:
    """Nothing answered is an empty report, which can still be written."""
    found = figures(Answers(period=PERIOD), Terms())
    assert found.empty
    written = document(found, reckoned(), Terms(), ABOUT)
    assert written["gone"] == [{"cluster": "", "model_name": "m"}]
    for text in (as_markdown(written), as_html(written)):
        assert "Nothing is known of this period." in text
        assert "was there in the period before" in text


def test_idle_server() -> None:
    """A server that did nothing has no ratios, and none are made up."""
    still = {name: [line(SERVER, steady(0.0))] for name in ("draft_tokens", "drafts")}
    still |= {"accepted_tokens": still["drafts"], "covered_seconds": still["drafts"]}
    still |= {"baseline_seconds": still["drafts"], "decode_seconds": still["drafts"]}
    found = reckoned(**still)
    (group,) = found.groups
    assert (group.acceptance.ratio, group.acceptance.length) == (None, None)
    assert (group.acceptance.lowest, group.acceptance.highest) == (None, None)
    assert (group.speed.speedup, group.speed.covered) == (None, None)
    assert rules(found) == []
    written = document(found, None, Terms(), ABOUT)
    (told,) = written["groups"]
    assert (told["worth"]["gpu_hours"], told["worth"]["tokens_wasted"]) == (None, None)
    assert sentence(told).startswith("Nothing was drafted")
    assert "No hour holds 1\u202f000 drafted tokens" in as_markdown(written)
    assert "Speedup by hour" not in as_html(written)


def test_no_baseline() -> None:
    """Without a baseline nothing is said of speed, and one is asked for."""
    found = reckoned(baseline_seconds=(), covered_seconds=())
    assert rules(found) == ["no_baseline"]
    (told,) = document(found, None, Terms(), ABOUT)["groups"]
    assert told["speedup"]["ratio"] is None
    assert sentence(told).startswith("Whether speculation paid is not known")


def test_a_standard_pool_is_no_speculation() -> None:
    """A server of the same model that drafts nothing counts for no figure of speed."""
    plain = {**SERVER, "instance": "b:1", "target": "plain"}
    more: dict[str, Any] = {
        name: (line(SERVER, steady(ours)), line(plain, steady(theirs)))
        for name, ours, theirs in (
            ("generated", 1000.0, 500.0),
            ("baseline_seconds", 1350.0, 500.0),
            ("covered_seconds", 900.0, 500.0),
            ("decode_seconds", 900.0, 500.0),
        )
    }
    more["bucket"] = tuple(
        line({**labels, "le": le}, steady(value, 12))
        for labels, counts in ((SERVER, (4.0, 8.0)), (plain, (0.0, 900.0)))
        for le, value in zip(("1.0", "+Inf"), counts, strict=True)
    )
    found = reckoned(**more)
    (group,) = found.groups
    assert group.speed.speedup is not None
    assert group.speed.speedup.value == pytest.approx(1.5)
    assert (group.latency.requests, group.latency.p50) == (96.0, 1.0)
    assert [one.drafted for one in group.coverage.servers] == [True, False]
    written = document(found, None, Terms(), ABOUT)
    for text in (as_markdown(written), as_html(written)):
        assert "b:1 plain: known for 100.0% of the period, drafted nothing" in text


@pytest.mark.parametrize(
    ("changes", "fired"),
    [
        pytest.param({}, [], id="all is well"),
        pytest.param({"ratio": 0.54}, ["acceptance_low"], id="acceptance"),
        pytest.param({"ratio": 0.55}, [], id="acceptance at the limit"),
        pytest.param({"speedup": 1.29}, ["speedup_low"], id="speedup"),
        pytest.param(
            {
                "k": [line(SERVER, dict.fromkeys(range(145), 4.0))],
                "suggested_k": [line(SERVER, dict.fromkeys(range(145), 2.0))],
            },
            ["other_k"],
            id="another k",
        ),
        pytest.param(
            {
                "k": [line(SERVER, dict.fromkeys(range(145), 4.0))],
                "suggested_k": [line(SERVER, dict.fromkeys(range(145), 4.0))],
            },
            [],
            id="the same k",
        ),
        pytest.param(
            {
                "baseline_created": [line(SERVER, {5: START - 31 * DAY, 3: START})],
                "mismatch": [line({**SERVER, "field": "model.name"}, {5: 1.0})],
            },
            ["baseline_mismatch", "baseline_stale"],
            id="a stale baseline of another",
        ),
        pytest.param(
            {
                "transitions": [
                    line(
                        {**GUARD, "from": "active", "to": "fallback", "reason": "r"},
                        {at: float(at) for at in range(7)},
                    )
                ],
                "watched": [line(GUARD, dict.fromkeys(range(145), 1.0))],
            },
            ["many_fallbacks"],
            id="six fallbacks",
        ),
    ],
)
def test_recommendations(changes: dict[str, Any], fired: list[str]) -> None:
    """Each recommendation names the rule that fired, and none fires at its limit."""
    assert rules(reckoned(**changes)) == fired


def test_k_schedule() -> None:
    """Where it pays at low load and costs from some load on, drafts end there."""
    (group,) = reckoned().groups

    def load(low: float, value: float, *, cells: int = 50, high: float | None = None) -> LoadBin:
        speedup = Estimate(value=value, low=value - 0.01, high=high or value + 0.01)
        return LoadBin(low=low, high=2.0 * low, cells=cells, decode_seconds=1.0, speedup=speedup)

    def fired(*bins: LoadBin) -> list[str]:
        changed = replace(group, speed=replace(group.speed, bins=bins))
        found = recommend(changed, reckoned(), Limits())
        return [one.text for one in found if one.rule == "k_schedule"]

    assert "from 8 requests on" in fired(load(4.0, 1.5), load(8.0, 0.9), load(16.0, 0.8))[0]
    assert not fired(load(4.0, 1.5), load(8.0, 0.995, high=1.005))
    assert not fired(load(4.0, 0.9), load(8.0, 0.8))
    assert not fired(load(4.0, 1.5), load(8.0, 0.9, cells=5))
    alone = replace(load(8.0, 0.9), speedup=Estimate(value=0.9, low=None, high=None))
    assert not fired(load(4.0, 1.5), alone)


def test_k_is_unknown_in_part() -> None:
    """Without suggestions nothing is said of another k; break-even needs its gauge."""
    (group,) = reckoned(k=[line(SERVER, {1: 4.0})]).groups
    assert (group.draft_length.used, group.draft_length.share) == (4, None)
    (group,) = reckoned(suggested_k=[line(SERVER, {1: 4.0})]).groups
    assert (group.draft_length.suggested, group.draft_length.share) == (4, None)
    (group,) = reckoned(breakeven_length=[line(SERVER, {1: 2.0, 2: 4.0, 999: 9.0})]).groups
    assert group.breakeven_length == pytest.approx(3.0)
    assert (breakeven([]), draft_length([]).used) == (None, None)


def pool(name: str, *, tokens: float = 100.0, tpot: float = 0.01, length: float = 3.0) -> Any:
    """Answer about a class in a pool."""
    labels = {**GUARD, "class": "chat", "pool": name}
    grown = {
        "class_requests": 2.0,
        "class_decode_tokens": tokens,
        "class_decode_seconds": tokens * tpot,
        "class_drafts": tokens,
        "class_accepted_tokens": tokens * (length - 1.0),
    }
    return {key: line(labels, steady(value)) for key, value in grown.items()}


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "fired"),
    [
        pytest.param({"tpot": 0.02}, {}, 0.5, ["class_off"], id="slower"),
        pytest.param({"tpot": 0.005}, {}, 2.0, [], id="faster"),
        pytest.param({"length": 1.5}, {}, 1.0, ["class_off"], id="too short"),
        pytest.param({"tokens": 0.0}, {}, None, [], id="nothing answered"),
        pytest.param(None, {}, None, [], id="one pool"),
    ],
)
def test_classes(
    ours: dict[str, float] | None, theirs: dict[str, float], ratio: float | None, fired: list[str]
) -> None:
    """A class is held against itself in the other pool, and against what it takes to pay."""
    pools = [pool("standard", **theirs), *([pool("speculative", **ours)] if ours else [])]
    given = {key: [one[key] for one in pools] for key in pools[0]}
    even = [line(SERVER, dict.fromkeys(range(145), 2.0))]
    found = reckoned(breakeven_length=even, **given)
    (told,) = found.classes
    assert (told.ratio.value if told.ratio else None) == pytest.approx(ratio)
    assert rules(found) == fired
    away = replace(found, classes=(replace(told, cluster="b"),))
    assert rules(away) == []
    assert "| chat | standard | 288 |" in as_markdown(document(found, None, Terms(), ABOUT))


def test_pools_of_a_class_add_up() -> None:
    """Several routers of one pool are one pool; without an interval there is none of a ratio."""
    lines: dict[str, Any] = {
        key: (one, line({**one.labels, "instance": "b:1"}, one.points))
        for key, one in pool("standard").items()
    }
    ((found,),) = (one.pools for one in classes(answers(**lines), "cluster"))
    assert (found.pool, found.requests, found.errors, found.e2e) == ("standard", 576.0, 0.0, None)
    assert found.length == pytest.approx(3.0)
    alone = Estimate(value=2.0, low=None, high=None)
    known = Estimate(value=4.0, low=3.0, high=5.0)
    assert quotient(known, alone) == Estimate(value=2.0, low=None, high=None)
    assert quotient(known, None) is None
    assert quotient(known, Estimate(value=0.0, low=0.0, high=0.0)) is None
    both = quotient(known, known)
    assert both is not None
    assert both.low == pytest.approx(math.exp(-math.hypot(0.25, 0.25)))


def states(*runs: tuple[int, int, str, float]) -> dict[str, Any]:
    """Answer that a guard was in a state from one minute to another, since a time."""
    since = {at: when for first, last, _, when in runs for at in range(first, last + 1)}
    shown: dict[str, dict[int, float]] = {}
    for first, last, state, _ in runs:
        shown.setdefault(state, {}).update(dict.fromkeys(range(first, last + 1), 1.0))
    return {
        "state": [line({**GUARD, "state": state}, points) for state, points in shown.items()],
        "since": [line(GUARD, since)],
        "watched": [line(GUARD, dict.fromkeys(range(145), 1.0))],
    }


def events(found: dict[str, Any]) -> list[tuple[float, float | None, float | None, Any]]:
    return [
        (
            one.began - START,
            None if one.ended is None else one.ended - START,
            one.seconds,
            "before" if one.before else one.reason,
        )
        for one in fallbacks(answers(**found))
    ]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        pytest.param([(0, 720, "active", -9.0)], [], id="none"),
        pytest.param(
            [(0, 9, "active", 0.0), (10, 19, "fallback", 570.0), (20, 30, "active", 1190.0)],
            [(570.0, 1190.0, 620.0, None)],
            id="one, to the second",
        ),
        pytest.param(
            [
                (0, 9, "active", 0.0), (10, 19, "fallback", 600.0), (20, 21, "probing", 1200.0),
                (22, 30, "fallback", 1320.0), (31, 33, "probing", 1860.0),
                (34, 40, "active", 2040.0),
            ],
            [(600.0, 2040.0, 1440.0, None)],
            id="a failed probe is of the same one",
        ),
        pytest.param(
            [(0, 9, "latched", -600.0), (10, 20, "override", 600.0)],
            [(-600.0, 600.0, 600.0, "before")],
            id="began before",
        ),
        pytest.param(
            [(0, 9, "active", 0.0), (700, 720, "fallback", 42_000.0)],
            [(42_000.0, None, 1200.0, None)],
            id="goes on",
        ),
        pytest.param(
            [(0, 9, "active", 0.0), (10, 12, "fallback", 600.0), (60, 70, "active", 3500.0)],
            [(600.0, None, 120.0, None)],
            id="nobody saw the end",
        ),
        pytest.param(
            [(0, 9, "fallback", 0.0), (60, 70, "fallback", 0.0), (71, 80, "active", 4260.0)],
            [(0.0, 4260.0, 4260.0, None)],
            id="the same after a gap",
        ),
        pytest.param([(0, 9, "probing", 0.0), (10, 20, "active", 600.0)], [], id="a probe alone"),
    ],
)  # fmt: skip
def test_fallbacks(runs: list[Any], expected: list[Any]) -> None:
    """A fallback is one event from the flag's going off until it is on for good."""
    placed = [(first, last, state, START + when) for first, last, state, when in runs]
    assert events(states(*placed)) == expected


@pytest.mark.parametrize(
    ("points", "watched", "count"),
    [
        pytest.param({0: 1.0, 1: 1.0}, range(145), 0, id="counted before the period"),
        pytest.param({3: 1.0, 4: 1.0}, range(145), 1, id="the first one"),
        pytest.param({3: 1.0, 4: 3.0}, range(145), 3, id="several at once"),
        pytest.param({3: 1.0, 4: 1.0}, range(3, 145), 0, id="nobody was there before"),
        pytest.param({3: 1.0, 9: 1.0}, range(145), 2, id="the same again after a restart"),
        pytest.param({3: 2.0, 4: 1.0}, range(145), 3, id="fewer after a restart"),
        pytest.param({3: 1.0, 9: 1.0}, (0, 1, 2, 3, 9), 1, id="a gap of everything"),
    ],
)
def test_counted_fallbacks(points: dict[int, float], watched: Sequence[int], count: int) -> None:
    """Transitions that no scrape saw are events too; a probe that fails is none."""
    labels = {**GUARD, "from": "active", "to": "fallback", "reason": "why"}
    failed = {**GUARD, "from": "probing", "to": "fallback", "reason": "probe_failed"}
    found = events(
        {
            "transitions": [line(labels, points), line(failed, {4: 9.0})],
            "watched": [line(GUARD, dict.fromkeys(watched, 1.0))],
        }
    )
    assert [one[2:] for one in found] == [(None, "why")] * count


def test_guards_of_whole_pools() -> None:
    """A guard that watches no server of a group is told of by itself."""
    labels = {"target": "pool", "from": "active", "to": "latched", "reason": "why"}
    found = reckoned(
        transitions=[line(labels, {3: 1.0})], watched=[line({"target": "pool"}, {1: 1.0, 3: 1.0})]
    )
    assert [one.guard for one in found.strays] == [{"target": "pool"}]
    written = document(found, None, Terms(), ABOUT)
    assert "Fallbacks of guards of whole pools" in as_markdown(written)
    assert "Fallbacks of guards of whole pools" in as_html(written)
    assert written["groups"][0]["fallbacks"]["count"] == 0


def test_alerts_are_occurrences() -> None:
    """A minute without it ends an occurrence; what fires at the end is open."""
    labels = {"alertname": "SpecgaugeX", "severity": "warning", "instance": "a:1"}
    points = dict.fromkeys((3, 4, 5, 8, 719, 720), 1.0)
    found = alerts(Answers(period=PERIOD, lines={"alert": (line(labels, points),)}))
    assert [(one.start - START, one.end - START, one.firing) for one in found] == [
        (180.0, 300.0, False),
        (480.0, 480.0, False),
        (43_140.0, 43_200.0, True),
    ]
    assert found[0].labels == {"instance": "a:1"}


@pytest.mark.parametrize(
    ("ladder", "expected"),
    [
        pytest.param({}, (None, False), id="nothing"),
        pytest.param({math.inf: 4.0}, (None, False), id="no bounds"),
        pytest.param({1.0: 0.0, math.inf: 0.0}, (None, False), id="no requests"),
        pytest.param({1.0: 2.0, 2.0: 4.0, math.inf: 4.0}, (1.0, False), id="at a bound"),
        pytest.param({1.0: 1.0, 2.0: 3.0, math.inf: 4.0}, (1.5, False), id="within"),
        pytest.param({1.0: 1.0, math.inf: 4.0}, (1.0, True), id="above all bounds"),
    ],
)
def test_median(ladder: dict[float, float], expected: Any) -> None:
    """The median lies evenly within its bucket, and above the last bound it is said to."""
    assert median_of(ladder) == expected


def test_histograms_of_servers() -> None:
    """Histograms add up at the bounds that all share, and never fall with their bound."""

    def buckets(instance: str, **counts: float) -> list[Line]:
        return [
            line(
                {"instance": instance, "le": le.removeprefix("le").replace("_", ".")},
                {0: 0.0, 1: count},
            )
            for le, count in counts.items()
        ]

    lines = [
        *buckets("a", le1_0=2.0, le2_0=1.0, leInf=4.0),
        *buckets("b", le1_0=2.0, le5_0=3.0, leInf=4.0),
        line({"instance": "c", "le": "1.0"}, {0: 1.0}),
    ]
    found = latency([], lines)
    assert (found.requests, found.p50, found.matched) == (8.0, 1.0, None)
    assert not found.at_least


@pytest.mark.parametrize(
    ("told", "baseline", "expected"),
    [
        pytest.param([], 10, (None, None, "the engine's own"), id="not scraped"),
        pytest.param(["None"], 10, (None, None, "the engines do not"), id="not told"),
        pytest.param(["9", "8"], 10, (None, None, "engines differ"), id="differ"),
        pytest.param(["9"], None, (9, None, "the baseline file"), id="no baseline"),
        pytest.param(["9", "9"], 10, (9, 1, ""), id="known"),
    ],
)
def test_cache(told: list[str], baseline: int | None, expected: Any) -> None:
    """Blocks lost are told where both sides are known, else why not."""
    infos = [line({"num_gpu_blocks": one, "n": str(n)}, {0: 1.0}) for n, one in enumerate(told)]
    found = cache_state(infos, baseline)
    assert (found.blocks, found.lost) == expected[:2]
    assert (found.reason or "").startswith(expected[2])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0.0123, "12.3 ms"), (-3.0, "-3 s"), (90.0, "1.5 min"),
        (7200.0, "2.0 h"), (10 * DAY, "10.0 d"),
    ],
)  # fmt: skip
def test_times_read_well(value: float | None, text: str) -> None:
    """A time is written in a unit that fits it."""
    assert words.seconds(value) == text


def test_words() -> None:
    """Absent figures are a dash, signs are told, and foreign text has no marks of its own."""
    assert (words.ratio(None), words.share(None), words.count(None)) == ("-", "-", "-")
    assert (words.hours(None), words.hours(-0.01)) == ("-", "0.0")
    assert (words.change("fallbacks", 2.0), words.change("fallbacks", -2.0)) == ("+2", "-2")
    assert words.change("gpu_hours", None) == "-"
    assert words.interval(estimate(None)) == "-"
    assert words.interval({"ratio": 1.0, "low": None, "high": None}) == "1.000"
    assert words.plain("a|b\n<i>*x*") == "a\\|b \\<i\\>\\*x\\*"
    assert words.headline("data_share", 0.5) == "50.0%"


def test_sentence() -> None:
    """The verdict follows the interval."""
    said = [
        sentence(
            {
                "acceptance": {"draft_tokens": drafted},
                "speedup": {"ratio": ratio, "low": ratio - 0.1, "high": ratio + 0.1},
            }
        )
        for ratio, drafted in ((1.5, 1.0), (0.5, 1.0), (1.0, 1.0), (1.5, 0.0))
    ]
    assert [one.partition(":")[0] for one in said] == [
        "Speculation paid", "Speculation cost", "Speculation made no clear difference",
        "Nothing was drafted",
    ]  # fmt: skip


def test_lines_break_where_nothing_is_known() -> None:
    """A plot draws nothing across a gap, and a lone hour as a point."""
    lacking = {at: value for at, value in steady(400.0).items() if not 37 <= at <= 59 and at < 100}
    lacking |= {at: 400.0 * at for at in range(108, 121)}
    found = reckoned(
        **{name: [line(SERVER, lacking)] for name in ("draft_tokens", "accepted_tokens")}
    )
    written = document(found, found, Terms(), ABOUT)
    (group,) = written["groups"]
    plot = over_time(
        "x", group["acceptance"]["hours"], group, written["period"], limit=0.5, top=1.0
    )
    assert len(plot.lines) + len(plot.dots) >= 2
    bins = [
        {"concurrency_from": low, "concurrency_below": high, **estimate(one)}
        for low, high, one in (
            (1.0, 2.0, Estimate(value=1.2, low=None, high=None)),
            (512.0, None, Estimate(value=900.0, low=1.0, high=9000.0)),
        )
    ]
    assert [tick.text for tick in by_load("x", bins).across] == ["1 to 2", "from 512"]
    widest = 18.0  # of half a date, as browsers draw it
    assert all(tick.at + widest <= WIDTH for tick in plot.across)
    assert by_load("x", []).whiskers == ()


def test_forms_agree() -> None:
    """JSON is plain JSON, Markdown's tables are even, HTML asks for nothing from anywhere."""
    hostile = {**SERVER, "model_name": "</h2><script>|`m`", "cluster": "a*b"}
    found = figures(answers(server=hostile), Terms())
    written = document(found, found, Terms(), replace(ABOUT, selector='cluster="a"'))
    assert json.loads(as_json(written)) == json.loads(json.dumps(written))
    text = as_markdown(written)
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}) == 1
    parsed = MarkdownIt().enable("table").parse(text)
    kinds = [one.type for one in parsed]
    heads = [one.content for one in parsed if one.type == "inline"]
    inner = {child.type for one in parsed for child in one.children or ()}
    assert kinds.count("table_open") == 4
    assert "html_block" not in kinds
    assert inner <= {
        "text",
        "text_special",
        "code_inline",
        "softbreak",
        "strong_open",
        "strong_close",
    }
    assert any("script" in one for one in heads)
    page = as_html(written)
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!data:,|#)', page) == []


def test_load_of_a_cell() -> None:
    """Load is never less than what was compared."""
    (one,) = stretches(
        {"covered_seconds": {0: 0.0, 1: 600.0}, "decode_seconds": {0: 0.0, 1: 300.0}}
    )
    assert concurrency(one, 300.0) == 2.0
