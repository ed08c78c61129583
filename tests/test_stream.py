"""What one streamed answer says: first and last chunk, tokens, time per token, and how it ended."""

import json
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgauge.baseline.stream import Outcome, Request, Take

SENT = 100.0
DONE = "[DONE]"


def chunk(**delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def text(piece: str, reason: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "text": piece, "finish_reason": reason}]}


def usage(tokens: object, prompt: object = 12) -> dict[str, object]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}}


def line(event: object) -> bytes:
    body = event if isinstance(event, str) else json.dumps(event, separators=(",", ":"))
    return f"data: {body}\n\n".encode()


def take(events: Iterable[tuple[float, object]], *, cut: bool = False) -> Request:
    """Feed events at seconds since sending."""
    taken, at = Take(SENT, asked=64), 0.0
    for at, event in events:
        data = event if isinstance(event, bytes) else line(event)
        taken.feed(data, SENT + at)
    return taken.close(SENT + at, cut=cut)


ONE_CHUNK_MANY_TOKENS = [
    (0.2 + 0.1 * place, chunk(content=piece))
    for place, piece in enumerate(
        ["Wel", "come", " to", " the", " test", " of", " a", " long", "."]
    )
]
NO_CONTENT = [
    (0.01, chunk(role="assistant", content="")),
    (0.15, chunk(reasoning_content="First")),
    (0.25, chunk(reasoning=" I look")),
    (0.55, chunk(tool_calls=[{"index": 0, "function": {"arguments": "{"}}])),
    (0.65, {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}),
    (0.66, usage(11)),
    (0.66, DONE),
]


@pytest.mark.parametrize("told", [65, 10**12, 10**400], ids=["one", "absurd", "endless"])
@pytest.mark.parametrize("first", [False, True], ids=["at the end", "from the first chunk on"])
def test_more_tokens_than_were_asked_for(told: int, *, first: bool) -> None:
    """Such a count is a failure with a name, and no figure is made of it."""
    said = {**text("a"), "usage": usage(told)["usage"]} if first else text("a")
    request = take([(0.1, said), (0.2, text("b", "length")), (0.3, usage(told)), (0.3, DONE)])
    assert request.outcome is Outcome.MORE_THAN_ASKED
    assert request.detail == "usage counts more tokens than were asked for"
    assert (request.tokens, request.first_tokens, request.prompt_tokens) == (None, None, None)
    assert (request.tpot, request.decode_tokens) == (None, None)
    exact = take([(0.1, text("a")), (0.2, text("b", "length")), (0.3, usage(64)), (0.3, DONE)])
    assert (exact.outcome, exact.tokens) == (Outcome.COMPLETE, 64)


def test_prompt_count_that_no_context_holds() -> None:
    """It is taken for not told."""
    request = take([(0.1, text("a", "length")), (0.3, usage(2, prompt=10**400)), (0.3, DONE)])
    assert (request.outcome, request.tokens, request.prompt_tokens) == (Outcome.COMPLETE, 2, None)


def test_a_servers_message_is_fit_to_be_told() -> None:
    """It goes to a terminal and into a file: no control characters, no half pairs, no end."""
    request = take([(0.1, {"error": {"message": "\x1b[31m\ud800" + "x" * 9999}})])
    assert request.outcome is Outcome.FAILED
    assert request.detail.startswith("error in the stream: \\x1b[31m\\ud800xxx")
    assert len(request.detail) < 400


@pytest.mark.parametrize("spaced", [False, True], ids=["compact", "spaced JSON"])
def test_chunks_are_not_tokens(spaced: bool) -> None:
    """Nine chunks that hold 27 tokens: the time per token counts the tokens of the usage."""
    events: list[tuple[float, object]] = [*ONE_CHUNK_MANY_TOKENS, (1.0, usage(27)), (1.01, DONE)]
    if spaced:
        events = [(at, e if e == DONE else json.dumps(e)) for at, e in events]
    request = take(events)
    assert request.outcome is Outcome.COMPLETE
    assert request.ttft == pytest.approx(0.20)
    assert request.e2e == pytest.approx(1.0)
    assert (request.tokens, request.prompt_tokens, len(request.arrivals)) == (27, 12, 9)
    assert request.tpot == pytest.approx(0.8 / 26)


def test_reasoning_and_tool_calls_count() -> None:
    """A role is nothing; reasoning under either name, a tool call and the finish are something."""
    request = take(NO_CONTENT)
    assert request.outcome is Outcome.COMPLETE
    assert request.ttft == pytest.approx(0.15)
    assert request.last == pytest.approx(SENT + 0.65)
    assert request.tokens == 11
    assert request.tpot == pytest.approx(0.05)


def test_first_chunk_of_several_tokens_is_corrected_where_told() -> None:
    """With a usage on every chunk, the tokens of the first chunk are not counted as decoded."""
    events = [
        (at, {**text(" x"), "usage": {"prompt_tokens": 3, "completion_tokens": tokens}})
        for at, tokens in [(0.1, 4), (0.2, 6), (0.3, 8)]
    ]
    request = take([*events, (0.3, DONE)])
    assert (request.first_tokens, request.tokens, request.decode_tokens) == (4, 8, 4)
    assert request.tpot == pytest.approx(0.2 / 4)


def test_usage_of_the_last_chunk_is_kept_when_the_stream_is_cut() -> None:
    """A stream that ends early has the tokens that its last chunk told."""
    events = [
        (at, {**text(" x"), "usage": {"prompt_tokens": 3, "completion_tokens": tokens}})
        for at, tokens in [(0.1, 1), (0.2, 2), (0.3, 3)]
    ]
    request = take(events, cut=True)
    assert (request.outcome, request.tokens, request.tpot) == (Outcome.CUT, 3, None)


GOOD = [(0.1, text("a")), (0.2, text("b", "stop"))]


@pytest.mark.parametrize(
    ("events", "outcome", "detail"),
    [
        pytest.param([*GOOD, (0.2, usage(2)), (0.2, DONE)], "complete", "", id="complete"),
        pytest.param([*GOOD, (0.2, usage(2))], "complete", "", id="no [DONE]"),
        pytest.param(
            [(0.1, text("a")), (0.2, text("b")), (0.2, usage(2)), (0.2, DONE)],
            "complete",
            "",
            id="no finish_reason",
        ),
        pytest.param([*GOOD, (0.2, b"data: [DONE]")], "no_usage", "usage", id="no usage"),
        pytest.param([*GOOD, (0.2, usage(None))], "no_usage", "usage", id="usage is null"),
        pytest.param([*GOOD, (0.2, usage("9"))], "no_usage", "usage", id="usage is no number"),
        pytest.param([*GOOD, (0.2, usage(-1))], "no_usage", "usage", id="usage below 0"),
        pytest.param([*GOOD, (0.2, {"usage": 3})], "no_usage", "usage", id="usage no object"),
        pytest.param([(0.1, text("a"))], "truncated", "without", id="truncated"),
        pytest.param(
            [(0.1, text("a")), (0.2, b'data: {"choices":[{"te')], "truncated", "without", id="torn"
        ),
        pytest.param([], "truncated", "without", id="nothing came"),
        pytest.param([(0.1, usage(0)), (0.1, DONE)], "empty", "nothing", id="empty"),
        pytest.param([(0.1, text("", "stop")), (0.1, DONE)], "empty", "nothing", id="no text"),
        pytest.param(
            [(0.1, {"error": {"message": "out of memory"}}), (0.1, DONE)],
            "failed",
            "out of memory",
            id="error event",
        ),
        pytest.param([(0.1, {"error": "no"})], "failed", "stream: no", id="error as text"),
        pytest.param([(0.1, {"error": {"code": 5}})], "failed", "'code': 5", id="error as object"),
        pytest.param([(0.1, b"<html>\n")], "failed", "<html>", id="no event stream"),
        pytest.param([(0.1, b"data: {]\n")], "failed", "no JSON object", id="no JSON"),
        pytest.param([(0.1, b"data: 5\n")], "failed", "no JSON object", id="no object"),
        pytest.param([(0.1, b"data: \xff\n")], "failed", "no JSON object", id="no UTF-8"),
        pytest.param(
            [(0.1, b"data: " + b"[" * 100_000 + b"\n")], "failed", "no JSON object", id="deep"
        ),
        pytest.param([(0.1, b"x" * (5 << 20))], "failed", "without end", id="endless line"),
    ],
)
def test_every_end_has_a_name(
    events: Sequence[tuple[float, object]], outcome: str, detail: str
) -> None:
    """However a stream ends, its record says so, and only a complete one has a time per token."""
    request = take(events)
    assert request.outcome == outcome
    assert detail in request.detail
    assert (request.tpot is not None) == (outcome == "complete")


def test_first_failure_stays() -> None:
    """What went wrong first is what is told."""
    taken = Take(SENT)
    assert not taken.failed
    taken.fail("http 503")
    taken.fail("connection lost")
    assert taken.failed
    assert taken.close(SENT).detail == "http 503"


def test_comments_and_other_fields_are_no_events() -> None:
    """Keep-alive comments, event names, ids and carriage returns are passed over."""
    noise = b": ping\r\n\r\nevent: message\r\nid: 7\r\nretry: 10\r\n\r\n"
    request = take([(0.0, noise), *GOOD, (0.2, usage(2)), (0.2, DONE)])
    assert request.outcome is Outcome.COMPLETE
    assert request.ttft == pytest.approx(0.1)


def test_odd_choices_are_passed_over() -> None:
    """Choices that are no list of objects generate nothing."""
    odd = [{"choices": 5}, {"choices": [7, None]}, {}]
    request = take([(0.1, one) for one in odd] + [(0.3, text("a")), (0.3, DONE)])
    assert request.ttft == pytest.approx(0.3)


def test_one_token_has_no_time_per_token() -> None:
    """Between one token and nothing there is no time."""
    request = take([(0.1, text("a")), (0.2, text("", "stop")), (0.2, usage(1)), (0.2, DONE)])
    assert (request.outcome, request.tpot) == (Outcome.COMPLETE, None)
    assert not request.in_one_piece


def test_an_answer_in_one_piece_is_told() -> None:
    """Many tokens at one moment take no time, so their time is not known."""
    request = take([(0.1, text("a")), (0.1, text("b", "stop")), (0.1, usage(9)), (0.1, DONE)])
    assert (request.outcome, request.tpot) == (Outcome.COMPLETE, None)
    assert request.in_one_piece


def test_chunks_are_counted_as_they_come() -> None:
    """While a stream runs, it says how many chunks it has brought."""
    taken = Take(SENT)
    taken.feed(line(text("a")) + line(text("b")) + line(text("")), SENT)
    assert taken.chunks == 2


def test_nothing_known_is_nothing_derived() -> None:
    """A request of which nothing came has no latency at all."""
    request = take([])
    figures = (request.ttft, request.e2e, request.decode_tokens, request.decode_seconds)
    assert figures == (None, None, None, None)
    assert not request.in_one_piece


PIECES = st.lists(
    st.sampled_from(
        [
            text(" word"),
            text(""),
            chunk(content='quote " and usage":{'),
            chunk(reasoning="hm"),
            chunk(role="assistant"),
            {**text("\n"), "usage": None},
            {**text(" x"), "usage": {"prompt_tokens": 1, "completion_tokens": 5}},
            usage(40),
        ]
    ),
    max_size=20,
)


@given(events=PIECES, cuts=st.lists(st.integers(0, 4000), max_size=10))
def test_reads_do_not_matter(events: list[dict[str, object]], cuts: list[int]) -> None:
    """However the bytes are cut into reads, the record is the same."""
    data = b"".join(line(event) for event in [*events, text("", "stop"), usage(50), DONE])
    whole = take([(0.5, data)])
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    starts = [0, *ends[:-1]]
    parts = take([(0.5, data[a:b]) for a, b in zip(starts, ends, strict=True)])
    assert parts == whole
    assert len(whole.arrivals) == sum(generates(event) for event in events)


def generates(event: dict[str, object]) -> bool:
    """Tell the same in another way: whether any string of the choice is the model's."""
    choices = event["choices"]
    assert isinstance(choices, list)
    return any(
        bool(choice.get("text"))
        or any(v for k, v in choice.get("delta", {}).items() if k != "role")
        for choice in choices
    )
