"""What the guard makes of a Prometheus' answers, good and bad, and who may write the flag."""

import asyncio
import io
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from tests.flag_servers import Asked, FlagServer, Reply, always, flag_server, in_turn, trusted
from tests.sidecars import until

from specgauge.cli.main import main
from specgauge.errors import SourceError, UsageError
from specgauge.guard.lock import WriterLock
from specgauge.guard.policy import Policy
from specgauge.guard.settings import GuardSettings, PrometheusSettings
from specgauge.model.guard import Blind, Look, Outcome
from specgauge.serve.fleet import FleetLoop, FleetSource, make_fleet
from specgauge.serve.fleet_answer import FleetError, read_vector
from specgauge.serve.fleet_evidence import evidence_of
from specgauge.serve.fleet_history import Past, history, parse_past
from specgauge.serve.fleet_queries import (
    COUNTS,
    PIECE,
    QUANTITY,
    SERVED,
    Span,
    servers_alone,
    share_query,
    span_of,
    window_query,
)
from specgauge.serve.fleet_share import Census, FallbackShare, is_used_up
from specgauge.serve.log import Log
from specgauge.serve.loop import Pace
from specgauge.serve.timeline import Entry

NOW = 1_700_000_000.0
SPAN = Span(window=60.0, pieces=2)
NUMBERS: Mapping[str, float] = {
    "members": 2,
    "known": 2,
    "generated": 21000,
    "first_tokens": 1000,
    "requests": 900,
    "drafts": 8000,
    "draft_tokens": 24000,
    "accepted_tokens": 6000,
    "decode_seconds": 960,
    "restarts": 0,
    "baseline_seconds": 576,
    "covered_seconds": 960,
}
PARTS = ((0.58, 16.0), (0.62, 16.0), (0.61, 16.0), (0.59, 16.0))


def series(name: str, value: object, **labels: str) -> dict[str, object]:
    """Write one series of a vector as the API does."""
    return {"metric": {QUANTITY: name, **labels}, "value": [NOW, str(value)]}


def window(
    numbers: Mapping[str, float] = NUMBERS,
    parts: tuple[tuple[float, float], ...] = PARTS,
    levels: tuple[str, ...] = ("1", "64"),
    model: str = "m",
) -> list[object]:
    """Write a whole answer; a part is a speedup and the requests in decode at the time."""
    found = [series(name, value, model_name=model) for name, value in numbers.items()]
    found += [series("level", 0.02, model_name=model, concurrency=one) for one in levels]
    for at, (speedup, load) in enumerate(parts):
        member = {"model_name": model, "instance": f"i{at // 2}", PIECE: str(at % 2)}
        spent = load * SPAN.piece
        found.append(series("decode_seconds", spent, **member))
        found.append(series("covered_seconds", spent, **member))
        found.append(series("baseline_seconds", speedup * spent, **member))
    return [*found, series("served", 100), series("errors", 2)]


def whole(result: list[object], **more: object) -> dict[str, object]:
    """Write an answer around a result."""
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


def judged(result: list[object]) -> dict[str, object]:
    """Give the evidence of the one model in an answer."""
    (found,) = evidence_of(read_vector(whole(result)), SPAN, margin=0.05).values()
    return found


def without(*names: str, **changed: float) -> dict[str, float]:
    """Leave numbers out, and change others."""
    return {name: one for name, one in {**NUMBERS, **changed}.items() if name not in names}


def settings(url: str, **more: object) -> PrometheusSettings:
    """Ask often."""
    given = {"url": url, "interval": 0.05, "timeout": 5.0, **more}
    return PrometheusSettings(**given)  # type: ignore[arg-type]


def source(url: str, **more: object) -> FleetSource:
    """Make a source over a stub."""
    return FleetSource(settings(url, **more), decision_window=60.0, margin=0.05)


async def refusal(reply: Reply, **more: object) -> FleetError:
    """Look at a pool in vain."""
    async with flag_server(always(reply)) as server:
        with pytest.raises(FleetError) as caught:
            await source(server.url, **more).look(1.0)
    assert "\n" not in str(caught.value)
    return caught.value


def test_half_a_member() -> None:
    """A member one of whose two sums is missing would be divided by the others' time."""
    *before, _, baseline, served, errors = window()
    with pytest.raises(FleetError, match=r"baseline_seconds alone of .*'i1'") as caught:
        judged([*before, baseline, served, errors])
    assert caught.value.reason == "partial_answer"


def test_two_of_a_pair() -> None:
    """What two Prometheus of a pair both scraped is refused: every sum holds it twice."""
    assert judged(replicated(("replica", "a")))["verdict"] == "costs"
    with pytest.raises(FleetError, match=r'selector, as replica="[ab]", or merge them') as caught:
        judged(replicated(("replica", "a"), ("replica", "b")))
    assert caught.value.reason == "several_series"
    with pytest.raises(FleetError, match="two Prometheus of a pair"):
        judged(replicated(("thanos_replica", "a"), ("", "")))


def replicated(*labels: tuple[str, str]) -> list[object]:
    """Write a window whose members are told by so many Prometheus, each by its label."""
    found: list[object] = []
    for one in window():
        assert isinstance(one, dict)
        member = PIECE in one["metric"]
        told = labels if member else (("", ""),)
        found += [one | {"metric": one["metric"] | ({k: v} if k else {})} for k, v in told]
    return found


def test_evidence() -> None:
    """Ratios are of sums, the interval comes of members and parts of the window."""
    found = judged(window())
    assert found["verdict"] == "costs"
    assert found["speedup_ratio"] == pytest.approx(0.6)
    low, high = found["speedup_ratio_low"], found["speedup_ratio_high"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    # 4 parts of 480 s: residuals 9.6, 9.6, 4.8 and 4.8 s, t(3) = 3.182.
    half = 3.182446 * math.sqrt(4 / 3 * (2 * 9.6**2 + 2 * 4.8**2)) / 1920
    assert (high - low) / 2 == pytest.approx(half)
    assert found["tokens"] == 20000
    assert found["decode_concurrency"] == 16
    assert found["tpot_seconds"] == pytest.approx(0.048)
    assert found["acceptance_ratio"] == 0.25
    assert (found["served"], found["errors"]) == (100, 2)
    assert found["speculating"] is True


@pytest.mark.parametrize(
    ("result", "verdict", "reason"),
    [
        (window(levels=()), "unknown", "no_baseline"),
        (window(without("covered_seconds")), "unknown", "outside_baseline_range"),
        (window(without(covered_seconds=480)), "unknown", "outside_baseline_range"),
        (window(without(covered_seconds=0, mismatches=1)), "unknown", "baseline_mismatch"),
        (window(without(decode_seconds=0)), "unknown", "too_few_tokens"),
        (window(parts=()), "unknown", "interval_too_wide"),
        (window(parts=PARTS[:1]), "unknown", "interval_too_wide"),
        (window(without(baseline_seconds=950), parts=PARTS[:1]), "even", "within_margin"),
        (window(parts=((0.2, 16.0), (1.5, 16.0))), "unknown", "interval_too_wide"),
        (window(without(e2e_weighted=24, e2e_weight=16)), "even", "latency_tradeoff"),
        (window(without(e2e_weighted=8, e2e_weight=16)), "costs", "speedup_below_one"),
        (window(levels=("1", "8")), "unknown", "outside_baseline_range"),
        (window(levels=("1", "15")), "costs", "speedup_below_one"),
        (window(levels=("1", "all")), "unknown", "outside_baseline_range"),
        (
            window(without(baseline_seconds=1440), parts=tuple((1.5, 16.0) for _ in PARTS)),
            "pays",
            "speedup_above_one",
        ),
    ],
    ids=[
        "no baseline",
        "nothing covered",
        "half covered",
        "another server's baseline",
        "idle",
        "no part",
        "one part",
        "one part within the margin",
        "parts that differ",
        "whole requests gain",
        "whole requests lose",
        "far above the baseline",
        "a little above it",
        "a level that is no number",
        "pays",
    ],
)
def test_verdict(result: list[object], verdict: str, reason: str) -> None:
    """A pool is judged by the rules of a single server, and refused for the same reasons."""
    found = judged(result)
    assert (found["verdict"], found["verdict_reason"]) == (verdict, reason)


@pytest.mark.parametrize(
    ("numbers", "speculating", "restarted"),
    [
        (without(drafts=0), False, False),
        (without(drafts=0, generated=0), None, False),
        (without("drafts"), None, False),
        (without(restarts=1), True, False),
        (without(restarts=2), True, True),
    ],
    ids=["no draft", "no traffic", "drafts not counted", "one of two restarted", "both did"],
)
def test_state(numbers: dict[str, float], speculating: bool | None, restarted: bool) -> None:
    """What is not counted is not known, and the restart of one member is not the pool's."""
    found = judged(window(numbers))
    assert (found["speculating"], found["restarted"]) == (speculating, restarted)


BAD: Mapping[str, tuple[Reply, str, str]] = {
    "bad query": (
        Reply(status=400, document={"status": "error", "error": "parse error"}),
        "400",
        "parse error",
    ),
    "query failed": (Reply(status=422, document={"error": "too many samples"}), "4xx", "samples"),
    "overloaded": (Reply(status=503, document={"error": "timed out"}), "5xx", "timed out"),
    "no token": (Reply(status=401), "401", "check the token"),
    "error in a 200": (
        Reply(document={"status": "error", "errorType": "execution", "error": "boom"}),
        "query_failed",
        "execution: boom",
    ),
    "warnings": (
        Reply(document=whole(window(), warnings=["store a is away"])),
        "partial_answer",
        "store a is away",
    ),
    "partial": (Reply(document=whole(window(), isPartial=True)), "partial_answer", "partial"),
    "login page": (
        Reply(text="<html>", headers={"Content-Type": "text/html"}),
        "unreadable",
        "HTML",
    ),
    "no JSON": (Reply(text="up 1"), "unreadable", "not JSON"),
    "cut off": (Reply(text=json.dumps(whole(window()))[:-9]), "unreadable", "not JSON"),
    "too large": (Reply(text=" " * (17 << 20)), "unreadable", "larger than"),
    "a list": (Reply(document=[1]), "wrong_shape", "no JSON object"),
    "a matrix": (
        Reply(document={"status": "success", "data": {"resultType": "matrix", "result": []}}),
        "wrong_shape",
        "no vector",
    ),
    "no data": (Reply(document={"status": "success"}), "wrong_shape", "no vector"),
    "no list": (
        Reply(document={"status": "success", "data": {"resultType": "vector", "result": 1}}),
        "wrong_shape",
        "a list",
    ),
    "no labels": (Reply(document=whole([{"value": [1, "1"]}])), "wrong_shape", "labels"),
    "no pair": (Reply(document=whole([{"metric": {}, "value": [1]}])), "wrong_shape", "pair"),
    "number, not text": (
        Reply(document=whole([{"metric": {}, "value": [1, 2]}])),
        "wrong_shape",
        "no text",
    ),
    "no number": (
        Reply(document=whole([{"metric": {}, "value": [1, "much"]}])),
        "wrong_shape",
        "pair",
    ),
    "no time": (
        Reply(document=whole([{"metric": {}, "value": ["inf", "1"]}])),
        "wrong_shape",
        "time",
    ),
    "nothing": (Reply(document=whole([])), "no_series", "selector"),
    "one scrape": (
        Reply(document=whole(window({"members": 1, "known": 1}, parts=()))),
        "too_few_samples",
        "interval",
    ),
    "a member of two": (
        Reply(document=whole(window(without(members=1)))),
        "members_missing",
        "1 of 2",
    ),
    "NaN": (
        Reply(document=whole(window(without(accepted_tokens=math.nan)))),
        "not_finite",
        "accepted_tokens is nan",
    ),
    "infinity": (
        Reply(document=whole(window(without(covered_seconds=math.inf)))),
        "not_finite",
        "covered_seconds is inf",
    ),
    "several": (
        Reply(document=whole([*window(), series("generated", 1, model_name="m", job="x")])),
        "several_series",
        "more than one generated",
    ),
    "several of a part": (
        Reply(document=whole(window() + window({}, PARTS[:1]))),
        "several_series",
        "more than one decode_seconds",
    ),
    "redirect": (
        Reply(status=302, headers={"Location": "http://example.org/"}),
        "redirect",
        "example.org",
    ),
}


@pytest.mark.parametrize(("reply", "reason", "words"), BAD.values(), ids=BAD)
async def test_bad_answer(reply: Reply, reason: str, words: str) -> None:
    """What is not one whole answer of finite numbers is a reason, and never a number."""
    error = await refusal(reply)
    assert error.reason == reason
    assert words in error.detail


async def test_no_answer() -> None:
    """A server that hangs or is away is told as that."""
    assert (await refusal(Reply(hang=True), timeout=0.05)).reason == "timeout"
    with pytest.raises(FleetError) as caught:
        await source("http://127.0.0.1:1").look(1.0)
    assert caught.value.reason == "unreachable"


async def test_notes_do_no_harm() -> None:
    """Hints about the query, and gauges that are no numbers, leave the evidence alone."""
    result = [*window(), series("kv_cache_usage_ratio", "NaN", model_name="m")]
    reply = Reply(document=whole(result, infos=["metric might not be a counter"]))
    async with flag_server(always(reply)) as server:
        (found,) = (await source(server.url).look(1.0)).values()
    assert "kv_cache_usage_ratio" not in found.numbers
    assert found.verdict == "costs"


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"warnings": None, "infos": ["PromQL info: …"]}, id="Prometheus, a hint"),
        pytest.param({"warnings": [], "analysis": {"name": "[vectorSelector]"}}, id="Thanos"),
        pytest.param({"isPartial": False, "stats": {"seriesFetched": "9"}}, id="VictoriaMetrics"),
    ],
)
def test_whole_answers(more: dict[str, object]) -> None:
    """What servers tell beside an answer that is whole takes nothing from it."""
    (found,) = evidence_of(read_vector(whole(window(), **more)), SPAN, margin=0.05).values()
    assert found == judged(window())


def test_growth_is_of_counters() -> None:
    """Prometheus from 2.48 on warns of `increase` of what is not named as counters are."""
    asked = {name for name, _ in (*COUNTS.values(), *SERVED.values())}
    assert {name.rpartition("_")[2] for name in asked} == {"total", "sum", "count"}


async def test_question(tmp_path: Path) -> None:
    """The query goes out in the body, over TLS that is checked, with the token of the file."""
    tls, ca_file = trusted(tmp_path)
    (tmp_path / "token").write_text("s3cret\n")
    async with flag_server(always(Reply(document=whole(window()))), tls=tls) as server:
        files = {"token_file": str(tmp_path / "token"), "ca_file": ca_file}
        made = source(f"{server.url}/prometheus", selector='job="a"', tenant="a|b", **files)
        await made.look(1.0)
        asked = server.asked[0]
    assert (asked.method, asked.path) == ("POST", "/prometheus/api/v1/query")
    assert asked.headers["Authorization"] == "Bearer s3cret"
    assert {asked.headers[one] for one in ("X-Scope-OrgID", "THANOS-TENANT")} == {"a|b"}
    form = parse_qs(asked.body.decode())
    assert (form["timeout"], form["nocache"]) == (["5000ms"], ["1"])
    assert 'specgauge_drafts_total{job="a"}[60000ms]' in form["query"][0]
    error = await refusal(Reply(status=403), token="s3cret")
    assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    ("decision_window", "interval", "seconds", "pieces"),
    [(15.0, 15.0, 60.0, 2), (15.0, 1.0, 15.0, 7), (300.0, 15.0, 300.0, 8), (60.0, 10.0, 60.0, 3)],
    ids=["too short for the scrapes", "long enough", "as many parts as may be", "three parts"],
)
def test_span(decision_window: float, interval: float, seconds: float, pieces: int) -> None:
    """A window holds four scrapes at least, and each of its parts two."""
    assert span_of(decision_window, interval) == Span(window=seconds, pieces=pieces)


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        ("", ""),
        ('job="a"', 'job="a"'),
        ('model_name="a"', ""),
        (' job = "a,model_name" , model_name=~"x|\\"y" ,', 'job="a,model_name"'),
        ("a!=`b`,model_name!='c',d!~'e'", "a!=`b`,d!~'e'"),
    ],
    ids=["none", "no model", "model alone", "quotes and commas", "other quotes"],
)
def test_selector_of_servers(selector: str, left: str) -> None:
    """Series of whole servers are not asked for by a model, which they do not carry."""
    assert servers_alone(selector) == left


def test_queries_take_any_selector() -> None:
    """No selector and one with a comma at its end make a query that can be read."""
    for selector in (None, 'job="a",'):
        for query in (window_query(selector, SPAN), share_query(selector)):
            assert ",}" not in query
            assert ",," not in query


class Heard:
    """Keeps what a loop hands on."""

    def __init__(self) -> None:
        self.looks: list[dict[str, Look]] = []
        self.errors: list[str | Blind] = []

    def __call__(self, looks: Mapping[str, Look], error: str | Blind) -> None:
        self.looks.append(dict(looks))
        self.errors.append(error)


async def heard(
    *replies: Reply, times: int, limit: float = 5.0, consider: Callable[..., None] | None = None
) -> tuple[Heard, str]:
    """Run a loop until it has handed on so much; gives that and the log."""
    found, stream = Heard(), io.StringIO()

    def take(looks: Mapping[str, Look], error: str | Blind) -> None:
        found(looks, error)
        if consider is not None:
            consider(looks, error)

    async with flag_server(in_turn(*replies)) as server:
        prometheus = settings(server.url, interval=0.1, timeout=limit)
        guard = GuardSettings(policy=Policy(), source="prometheus", prometheus=prometheus)
        loop: FleetLoop = make_fleet(guard, consider=take, pace=Pace(), log=Log(stream))
        running = asyncio.create_task(loop.run())
        try:
            await until(lambda: len(found.errors) >= times, "looks")
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
    return found, stream.getvalue()


async def test_loop() -> None:
    """The loop hands on looks and reasons, goes on after each, and logs what changed."""
    good = Reply(document=whole(window()))
    html = Reply(text="<html>", headers={"Content-Type": "text/html"})
    found, log = await heard(good, good, Reply(status=503), html, html, good, times=6)
    assert [bool(one) for one in found.looks[:6]] == [True, True, False, False, False, True]
    assert found.errors[:2] == ["", ""]
    blind = [one for one in found.errors[2:5] if isinstance(one, Blind)]
    assert [(one.reason, one.outcome) for one in blind] == [
        ("5xx", Outcome.NO_DATA),
        *[("unreadable", Outcome.ERROR)] * 2,
    ]
    assert all(one.detail for one in blind)
    first, second = found.looks[0]["m"], found.looks[1]["m"]
    assert first.step["tokens"] == 20000
    assert 0 < second.step["tokens"] < 10000
    events = [line.split()[2] for line in log.splitlines()]
    assert events[:4] == ["fleet_known", "fleet_unknown", "fleet_unknown", "fleet_known"]


async def test_loop_outlives_a_hanging_server() -> None:
    """A server that hangs is no data, time after time."""
    found, _ = await heard(Reply(hang=True), times=3, limit=0.05)
    reasons = {(one.reason, one.outcome) for one in found.errors if isinstance(one, Blind)}
    assert reasons == {("timeout", Outcome.NO_DATA)}


async def test_loop_outlives_a_fault_of_ours() -> None:
    """A fault while an answer is considered is the outcome error, told once, and no end."""
    faults: list[str] = []

    def fail_on_looks(looks: Mapping[str, Look], error: str) -> None:
        if looks:
            faults.append(error)
            raise KeyError("x")

    good = Reply(document=whole(window()))
    found, log = await heard(good, times=4, consider=fail_on_looks)
    assert len(faults) == 2
    assert str(found.errors[1]).startswith("error: ")
    assert log.count("fleet_fault") == 1


@pytest.mark.parametrize(
    ("members", "fallen", "share", "used_up"),
    [
        (4, 0, 0.5, False),
        (4, 1, 0.5, False),
        (4, 2, 0.5, True),
        (3, 0, 0.1, False),
        (3, 1, 0.1, True),
        (10, 2, 0.3, False),
        (4, 0, 0.0, True),
        (4, 3, 1.0, False),
    ],
)
def test_share(members: int, fallen: int, share: float, used_up: bool) -> None:
    """One more member may fall back within the share; one may of any share above 0."""
    assert is_used_up(Census(members=members, fallen=fallen), share) is used_up


async def test_share_that_cannot_be_known() -> None:
    """Without a fresh and sure count nobody may fall back, where a share was set at all."""
    counted = Reply(document=whole([series("guards", 4), series("fallen", 0)]))
    now = [0.0]
    stream = io.StringIO()
    replies = (
        counted,
        Reply(status=503),
        Reply(document=whole([series("guards", 4)])),
        Reply(document=whole([series("guards", "NaN"), series("fallen", 0)])),
        Reply(document=whole([series("guards", 4), series("guards", 4), series("fallen", 0)])),
        counted,
    )
    async with flag_server(in_turn(*replies)) as server:
        pace = Pace(steady=lambda: now[0])
        share = FallbackShare(settings(server.url, interval=10.0), pace=pace, log=Log(stream))
        seen = [share.used_up(0.5)]
        for _ in replies:
            await share._once()
            seen.append(share.used_up(0.5))
            now[0] += 15.0
    assert seen == [True, False, False, False, True, True, False]
    assert not FallbackShare(settings("http://x"), pace=Pace(), log=Log(stream)).used_up(None)
    told = [line.split()[2] for line in stream.getvalue().splitlines()]
    assert told == ["fleet_share_known", *["fleet_share_unknown"] * 4, "fleet_share_known"]


def matrix(*steps: tuple[float, list[object]]) -> dict[str, object]:
    """Write a range's answer out of vectors by time."""
    found: dict[str, dict[str, object]] = {}
    for time, result in steps:
        for one in result:
            assert isinstance(one, dict)
            labels = one["metric"]
            kept = found.setdefault(json.dumps(labels), {"metric": labels, "values": []})
            values = kept["values"]
            assert isinstance(values, list)
            values.append([time, one["value"][1]])
    return {"status": "success", "data": {"resultType": "matrix", "result": list(found.values())}}


async def remembered(
    handler: Callable[[Asked], Reply], points: int
) -> tuple[list[Entry], FlagServer]:
    """Read five steps of a stub's past."""
    stretch = Past(start=NOW, end=NOW + 60.0, step=15.0)
    async with flag_server(handler) as server:
        terms = settings(server.url, interval=15.0)
        found = await asyncio.to_thread(
            lambda: list(history(terms, stretch, decision_window=15.0, margin=0.05, points=points))
        )
    return found, server


async def test_history() -> None:
    """Every step is a line: evidence, or why there is none; answers are asked for in chunks."""

    def answer(asked: Asked) -> Reply:
        form = parse_qs(asked.body.decode())
        start, end = float(form["start"][0]), float(form["end"][0])
        steps = [NOW + at * 15.0 for at in range(5) if start <= NOW + at * 15.0 <= end]
        return Reply(document=matrix(*((t, window()) for t in steps if t != NOW + 15.0)))

    found, server = await remembered(answer, points=2)
    assert [one.time - NOW for one in found] == [0.0, 15.0, 30.0, 45.0, 60.0]
    assert [one.line for one in found] == [1, 2, 3, 4, 5]
    assert [one.evidence is not None for one in found] == [True, False, True, True, True]
    assert isinstance(found[1].error, Blind)
    assert found[1].error.reason == "no_series"
    asked = [parse_qs(one.body.decode()) for one in server.asked]
    assert [one["start"][0] for one in asked] == [f"{NOW + at:.3f}" for at in (0.0, 30.0, 60.0)]
    assert {one.path for one in server.asked} == {"/api/v1/query_range"}
    assert asked[0]["step"] == ["15.000"]


@pytest.mark.parametrize(
    ("reply", "result", "words"),
    [
        (Reply(status=422, document={"error": "too long"}), "http_status", "too long"),
        (Reply(document=matrix((NOW, window())) | {"isPartial": True}), "not_metrics", "partial"),
        (
            Reply(document=matrix((NOW, window() + window(model="n")[:-2]))),
            "not_metrics",
            "the pool serves m, n; pick one",
        ),
        (Reply(document=whole([])), "not_metrics", "no matrix"),
    ],
    ids=["refused", "partial", "two models", "a vector"],
)
async def test_history_that_cannot_be_had(reply: Reply, result: str, words: str) -> None:
    """A past that is not whole ends the reading, with the reason."""
    with pytest.raises(SourceError) as caught:
        await remembered(always(reply), points=500)
    assert caught.value.result == result
    assert words in caught.value.detail


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("-7d", "now", (NOW - 604800.0, NOW)),
        ("2023-11-14T22:13:20Z", "2023-11-14T23:13:20+00:00", (NOW, NOW + 3600.0)),
        ("2023-11-14T23:13:20.5+01:00", "-0s", (NOW + 0.5 - 0.5, NOW)),
        ("1600000000.5", "1600000100", (1600000000.5, 1600000100.0)),
        ("-1h30m", "-30m", (NOW - 5400.0, NOW - 1800.0)),
    ],
    ids=["ago", "RFC 3339", "another zone", "Unix", "both ago"],
)
def test_times(start: str, end: str, expected: tuple[float, float]) -> None:
    """Ends of a stretch are written in any of the usual ways."""
    if start == "2023-11-14T23:13:20.5+01:00":
        with pytest.raises(UsageError, match="is not after"):
            parse_past(start, end, 15.0, now=NOW)
        return
    found = parse_past(start, end, 15.0, now=NOW)
    assert (found.start, found.end) == expected


@pytest.mark.parametrize(
    "text",
    ["yesterday", "2023-11-14T22:13:20", "-7", "-d", "", "1e9", "nan", "9999-12-31T23:59:59Z"],
)
def test_times_that_are_none(text: str) -> None:
    """A time without a zone, and what is no time, is refused with what may be written."""
    with pytest.raises(UsageError, match="is no time; write "):
        parse_past(text, "now", 15.0, now=NOW)


def test_chunks() -> None:
    """No more points are asked for at once than Prometheus gives."""
    stretch = Past(start=0.0, end=604800.0, step=15.0)
    chunks = list(stretch.chunks(10**9))
    assert stretch.count == 40321
    assert [len(one) for one in chunks] == [11000, 11000, 11000, 7321]
    assert chunks[-1][-1] == 604800.0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["t.jsonl", "--prometheus", "http://127.0.0.1:1", "--from", "-1h"], 2, "not both"),
        (["t.jsonl", "--to", "now"], 2, "not both"),
        ([], 2, "without a timeline"),
        (["--from", "-1h"], 2, "--from is of no use without --prometheus URL"),
        (["--prometheus", "http://127.0.0.1:1"], 2, "--prometheus needs --from TIME"),
        (["--prometheus", "nowhere", "--from", "-1h"], 2, "--prometheus: not a URL; write http"),
        (["--prometheus", "http://p/?x=1", "--from", "-1h"], 2, "remove the ? and what follows"),
        (["--prometheus", "http://p/#x", "--from", "-1h"], 2, "--prometheus: a URL to request has"),
        (["--prometheus", "http://p", "--from", "-367d"], 2, "--to now is longer than 366d"),
        (["--prometheus", "http://p", "--from", "-100000d"], 2, "-100000d is before 1970"),
        (
            ["--prometheus", "http://p", "--from", "-7d", "--step", "1ms"],
            2,
            "604800001 steps of 0.001 s, and at most 10000000 are replayed",
        ),
        (["--prometheus", "http://p", "--from", "-1d", "--step", "367d"], 2, "longer than 366d"),
        (["--prometheus", "http://127.0.0.1:1", "--from", "soon"], 2, "'soon' is no time"),
        (["--prometheus", "http://a", "--from", "-1h", "--step", "5"], 2, "--step: 5 has no unit"),
        (["--prometheus", "http://a", "--from", "-1h", "--step", "0s"], 2, "--step: 0s must be"),
        (["--prometheus", "http://127.0.0.1:1", "--from", "-1h"], 3, "unreachable: POST"),
    ],
    ids=[
        "both", "an end for a timeline", "neither", "no address", "no start", "no URL", "query",
        "fragment", "over a year", "before 1970", "too many", "a step of a year",
        "no time", "no unit", "no step", "nobody there",
    ],
)  # fmt: skip
def test_replay_options(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay has one source; what is missing or wrong is said in a line."""
    assert main(["guard", "replay", *words]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_lock(tmp_path: Path) -> None:
    """One holds the lock until it lets go; the other one asks in vain, and then has it."""
    first, second = (WriterLock(tmp_path / "lock") for _ in range(2))
    assert first.take()
    assert first.take()
    assert not second.take()
    assert (second.held, second.problem) == (False, "")
    assert second.holder() == f"pid {os.getpid()}"
    first.release()
    assert second.take()
    assert not first.take()
    second.release()


def test_lock_whose_file_goes(tmp_path: Path) -> None:
    """A lock on a file that was replaced is no lock: whoever holds the new file has it."""
    first, second = (WriterLock(tmp_path / "lock") for _ in range(2))
    assert first.take()
    (tmp_path / "lock").unlink()
    assert second.take()
    assert not first.take()
    second.release()


@pytest.mark.parametrize("kind", ["missing folder", "folder", "link"])
def test_lock_that_cannot_be(tmp_path: Path, kind: str) -> None:
    """Where the file cannot be locked nobody holds it, and it is said why."""
    file = tmp_path / ("away/lock" if kind == "missing folder" else "lock")
    if kind == "folder":
        file.mkdir()
    if kind == "link":
        file.symlink_to(tmp_path / "other")
    lock = WriterLock(file)
    assert not lock.take()
    assert str(file) in lock.problem
    assert lock.holder() == ""


async def test_lock_of_a_dead_process(tmp_path: Path) -> None:
    """The lock goes with its process, however that ends."""
    code = (
        "import sys,time; from pathlib import Path; from specgauge.guard.lock import WriterLock\n"
        "lock = WriterLock(Path(sys.argv[1])); print(lock.take(), flush=True); time.sleep(60)"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, str(tmp_path / "lock")), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"True\n"
    lock = WriterLock(tmp_path / "lock")
    assert not lock.take()
    assert lock.holder() == f"pid {process.pid}"
    process.kill()
    await process.communicate()
    assert lock.take()
    lock.release()
