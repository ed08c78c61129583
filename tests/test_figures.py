"""A level's sums and notes, and what pulls the brake: pure arithmetic on written records."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from specgauge.baseline.brake import Brake, Guard, Why
from specgauge.baseline.figures import Measured, Piece, level_record, quantile, settled
from specgauge.baseline.plan import Load, Plan
from specgauge.baseline.stream import Outcome, Request
from specgauge.baseline.twin import Between, Look, Twin
from specgauge.derive.accumulate import advance, open_ledger
from specgauge.engines.reader import Reader
from specgauge.errors import BaselineError

PLAN = Plan(levels=(Load(concurrency=1),), repeats=3)
PIECES = tuple(Piece(start=float(n), end=n + 1.0) for n in range(3))


def request(end: float, **changes: object) -> Request:
    """Make a request of 11 tokens, 10 ms each, that ended then."""
    first = end - 0.1
    made = Request(
        sent=first - 0.05,
        ended=end,
        outcome=Outcome.COMPLETE,
        asked=11,
        first=first,
        last=end,
        arrivals=[first + 0.01 * n for n in range(11)],
        tokens=11,
        first_tokens=1,
        prompt_tokens=7,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


STEADY = tuple(request(0.3 * n + 0.2) for n in range(10))


def page(
    tokens: int, spent: float, *, requests: int = 1, waiting: int = 0, kv: float = 0.0
) -> bytes:
    labels = '{engine="0",model_name="m"}'
    return (
        f"vllm:generation_tokens_total{labels} {tokens}\n"
        f"vllm:time_to_first_token_seconds_sum{labels} {requests * 0.05}\n"
        f"vllm:time_to_first_token_seconds_count{labels} {requests}\n"
        f"vllm:inter_token_latency_seconds_sum{labels} {spent}\n"
        f"vllm:inter_token_latency_seconds_count{labels} {tokens - requests}\n"
        f"vllm:num_requests_waiting{labels} {waiting}\n"
        f"vllm:kv_cache_usage_perc{labels} {kv}\n"
    ).encode()


def between(before: bytes, after: bytes, seconds: float = 1.0) -> Between:
    reader = Reader()
    first = reader.read(before)
    ledger = open_ledger(first, 0.0)
    start = Look(time=0.0, page=first, ledger=ledger)
    last = reader.read(after)
    end = Look(time=seconds, page=last, ledger=advance(ledger, last, seconds)[0])
    found = Twin(pages=None, model="m", clock=float).between(start, end)  # type: ignore[arg-type]
    assert found is not None
    return found


def measured(requests: Sequence[Request] = STEADY, **changes: object) -> Measured:
    made = Measured(load=PLAN.levels[0], pieces=PIECES, requests=requests)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_client_figures_without_a_page() -> None:
    """Means, quantiles and load come from the requests that ended within the window."""
    level = level_record(measured(), PLAN)
    assert level is not None
    assert level.server is None
    assert level.client is not None
    assert level.client.tpot_seconds.mean == pytest.approx(0.01)
    assert level.client.tpot_seconds.p99 == pytest.approx(0.01)
    assert level.client.ttft_seconds.p50 == pytest.approx(0.05)
    assert level.client.chunk_gap_seconds.mean == pytest.approx(0.01)
    assert level.decode_concurrency == pytest.approx(1.0 / 3.0, rel=0.01)
    assert (level.requests, level.output_tokens, level.prompt_tokens_per_request) == (10, 110, 7)
    assert level.notes == ()


def test_requests_outside_the_window_do_not_count() -> None:
    """What ended during warm-up or afterwards is no part of the figures."""
    level = level_record(measured([*STEADY, request(-0.5), request(3.0)]), PLAN)
    assert level is not None
    assert level.requests == 10


@pytest.mark.parametrize(
    ("made", "told"),
    [
        pytest.param(
            measured([replace(one, last=(one.first or 0.0) + 1e-12) for one in STEADY]),
            "concurrency 1: client.mean: must be at least 1e-09",
            id="client",
        ),
        pytest.param(
            measured(whole=between(page(10, 0.0), page(110, 1e14)).derived),
            "concurrency 1: server.tpot_seconds: must be at most 1e+09",
            id="server",
        ),
    ],
)
def test_figures_that_no_server_has(made: Measured, told: str) -> None:
    """They are refused by name, whichever side they are from."""
    with pytest.raises(BaselineError) as caught:
        level_record(made, PLAN)
    assert any(line.startswith(told) for line in caught.value.problems), caught.value.problems


def test_nothing_measured_is_no_level() -> None:
    """Without a time per token on either side there is no record."""
    assert level_record(measured([]), PLAN) is None
    assert level_record(measured([request(0.5, tokens=None)]), PLAN) is None


SERVER = between(page(10, 0.0), page(110, 1.98))
NEAR = between(page(10, 0.0), page(110, 1.1))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        pytest.param(
            measured([*STEADY, request(0.5, outcome=Outcome.FAILED, detail="http 500")]),
            ["failed: 1", "http 500"],
            id="failed",
        ),
        pytest.param(
            measured([*STEADY, request(0.5, outcome=Outcome.NO_USAGE, tokens=None)]),
            ["no_usage: 1"],
            id="no usage",
        ),
        pytest.param(
            measured([*STEADY, request(0.5, first=0.5)]),
            ["answers that came in one piece, and so have no TPOT: 1; does something on"],
            id="in one piece",
        ),
        pytest.param(
            measured(late=[0.0001] * 90 + [0.004] * 10),
            ["the load generator was the bottleneck: it took chunks 4.0 ms late at p99"],
            id="late",
        ),
        pytest.param(measured(late=[0.0001] * 100), [], id="not late"),
        pytest.param(
            measured(whole=between(page(10, 0.0), page(110, 1.02)).derived), [], id="two alike"
        ),
        pytest.param(
            measured(whole=SERVER.derived, late=[0.1]),
            ["was the bottleneck", "client TPOT is -49.5% off the server's, explained by the load"],
            id="differs since late",
        ),
        pytest.param(
            measured(whole=SERVER.derived, late=[0.004]),
            ["was the bottleneck", "client TPOT is -49.5% off the server's, not explained"],
            id="differs by more than lateness explains",
        ),
        pytest.param(
            measured(whole=SERVER.derived),
            ["client TPOT is -49.5% off the server's, not explained"],
            id="differs",
        ),
        pytest.param(
            measured(
                [replace(one, arrivals=one.arrivals[::2]) for one in STEADY], whole=NEAR.derived
            ),
            ["client TPOT is -9.1% off the server's, explained by the stream, which holds 1.83"],
            id="differs since chunks hold several tokens",
        ),
        pytest.param(
            measured(
                [replace(one, arrivals=one.arrivals[::2]) for one in STEADY], whole=SERVER.derived
            ),
            ["client TPOT is -49.5% off the server's, not explained"],
            id="differs by more than chunks explain",
        ),
        pytest.param(
            measured(
                [*STEADY, request(0.5, outcome=Outcome.MORE_THAN_ASKED, tokens=None, detail="more")]
            ),
            ["more_than_asked: 1", "more"],
            id="more than asked",
        ),
        pytest.param(
            measured(
                [request(0.3 * n + 0.2, first=0.3 * n + 0.2 - 0.03 * (1 + n)) for n in range(10)]
            ),
            ["interval of mean TPOT is +-"],
            id="wide",
        ),
        pytest.param(
            measured([request(0.5)]),
            ["interval of mean TPOT not known"],
            id="one request",
        ),
    ],
)
def test_what_is_odd_is_noted(made: Measured, told: list[str]) -> None:
    """Each oddity has a note of its own, and a sound level has none."""
    level = level_record(made, PLAN)
    assert level is not None
    assert len(level.notes) == len(told)
    assert all(part in note for part, note in zip(told, level.notes, strict=True)), level.notes


def test_the_page_alone_is_enough() -> None:
    """With the server's figures a level needs none of the client's."""
    level = level_record(measured([], whole=SERVER.derived, kv_max=1.2), PLAN)
    assert level is not None
    assert level.server is not None
    assert level.server.tpot_seconds == pytest.approx(0.0198)
    assert level.server.kv_cache_usage_ratio_max == 1.0
    assert (level.output_tokens, level.requests) == (100, 0)
    idle = between(page(10, 0.0), page(10, 0.0))
    assert level_record(measured([], whole=idle.derived), PLAN) is None


def test_a_piece_without_a_page_gives_the_client_the_word() -> None:
    """The server's interval needs the page at every piece; else it is the client's."""
    piece = replace(PIECES[0], window=SERVER.window, derived=SERVER.derived)
    assert piece.decode is not None
    assert piece.decode == pytest.approx((1.98, 100.0))
    idle = between(page(10, 0.0), page(10, 0.0))
    assert replace(piece, window=idle.window, derived=idle.derived).decode is None
    full = [replace(piece, start=float(n), end=n + 1.0) for n in range(3)]
    width, reached = settled(full, [], PLAN)
    assert (round(width or 0.0, 9), reached) == (0.0, True)
    assert settled([*full[:2], PIECES[2]], [], PLAN) == (None, False)
    assert settled([*full[:2], PIECES[2]], STEADY, PLAN)[1]


@pytest.mark.parametrize(
    ("q", "expected"),
    [pytest.param(0.0, 1.0, id="least"), pytest.param(1.0, 4.0, id="most"), (0.5, 2.5)],
)
def test_quantiles_are_interpolated(q: float, expected: float) -> None:
    """Between two values lies a straight line."""
    assert quantile([1.0, 2.0, 3.0, 4.0], q) == expected


def guard(*, shared: bool = False) -> tuple[Guard, Brake]:
    brake = Brake()
    return Guard(brake, shared=shared, poll=1.0), brake


@pytest.mark.parametrize(
    ("outcomes", "pulled"),
    [
        pytest.param(["failed"] * 2 + ["complete"] + ["truncated"] * 2, False, id="two in a row"),
        pytest.param(["failed", "truncated", "failed"], True, id="three in a row"),
        pytest.param(["more_than_asked"] * 3, True, id="counts that cannot be"),
        pytest.param(["failed", "cut", "failed", "cut"], False, id="ours do not count"),
        pytest.param((["complete"] * 7 + ["failed"]) * 7, True, id="one in eight of many"),
        pytest.param((["complete"] * 12 + ["failed"]) * 9, False, id="one in thirteen of many"),
        pytest.param(["empty", "no_usage"] * 9, False, id="odd answers are answers"),
    ],
)
async def test_a_failing_server_ends_the_recording(outcomes: list[str], pulled: bool) -> None:
    """Failures in a row, or too many of many, pull the brake with what the last one said."""
    watching, brake = guard()
    for outcome in outcomes:
        watching.take_request(request(1.0, outcome=Outcome(outcome), detail="http 500"))
    assert brake.pulled is pulled
    if pulled:
        assert (brake.why, brake.reason) == (Why.FAILING, "the server fails: http 500")


@pytest.mark.parametrize(
    ("looks", "pulled"),
    [
        pytest.param([(0.0, 1), (1.0, 2), (3.0, 1)], True, id="over three polls"),
        pytest.param([(0.0, 1), (0.1, 1), (0.2, 1), (0.3, 1)], False, id="many looks, no time"),
        pytest.param([(0.0, 1), (1.0, 0), (2.0, 1), (4.0, 1)], False, id="with a pause"),
        pytest.param([(0.0, 1), (4.0, 1)], False, id="two looks"),
    ],
)
async def test_only_a_lasting_queue_ends_a_level(
    looks: list[tuple[float, int]], pulled: bool
) -> None:
    """Requests that wait for a moment are no queue."""
    watching, brake = guard()
    for at, waiting in looks:
        watching.take_look(between(page(10, 0.0), page(10, 0.0, waiting=waiting)), at)
    assert brake.pulled is pulled


async def test_a_full_cache_ends_a_level() -> None:
    """Nine tenths of the KV cache are the limit, and the most that was seen is remembered."""
    watching, brake = guard()
    for usage in (0.5, 0.85, 0.2):
        watching.take_look(between(page(10, 0.0), page(10, 0.0, kv=usage)), 1.0)
    assert (watching.kv_max, brake.pulled) == (0.85, False)
    watching.take_look(between(page(10, 0.0), page(10, 0.0, kv=0.93)), 2.0)
    assert (brake.why, brake.reason) == (Why.LIMIT, "the KV cache is 93% full")


async def test_a_page_without_a_cache_has_no_limit() -> None:
    """Where the page does not tell the KV usage, nothing is concluded from it."""
    watching, brake = guard()
    bare = page(10, 0.0).rpartition(b"vllm:kv")[0]
    watching.take_look(between(bare, bare), 1.0)
    assert (watching.kv_max, brake.pulled) == (None, False)


async def test_several_tokens_a_step_end_the_recording() -> None:
    """Whatever yields more than a token a step is no baseline."""
    watching, brake = guard()
    found = between(page(10, 0.0), page(110, 1.0).replace(b"} 109\n", b"} 59\n"))
    watching.take_look(found, 1.0)
    assert brake.why is Why.SPECULATION
    assert "its steps yield 2.00 tokens" in brake.reason


async def test_a_restart_ends_the_recording() -> None:
    """Counters that fell are another server's."""
    watching, brake = guard()
    watching.take_look(between(page(100, 1.0), page(50, 0.5)), 1.0)
    assert (brake.why, brake.reason) == (Why.RESTARTED, "the server restarted under load")
    brake.pull(Why.LIMIT, "later")
    assert brake.why is Why.RESTARTED


@pytest.mark.parametrize(
    ("generated", "shared", "notes", "pulled"),
    [
        pytest.param(1000.0, False, 0, False, id="equal"),
        pytest.param(1020.0, False, 0, False, id="within the slack"),
        pytest.param(1500.0, False, 1, True, id="more"),
        pytest.param(1500.0, True, 1, False, id="more, shared"),
        pytest.param(500.0, False, 1, False, id="fewer"),
    ],
)
async def test_tokens_are_held_against_each_other(
    generated: float, shared: bool, notes: int, pulled: bool
) -> None:
    """Tokens that the server counts and nobody here asked for are other traffic."""
    watching, brake = guard(shared=shared)
    assert len(watching.take_count(generated, 900, 100)) == notes
    assert brake.pulled is pulled
