"""HTTP/1.1 answers in any framing and in any pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgauge.baseline.framing import Answer, FramingError

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "body", "reusable"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", True, id="length"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", True, id="no content"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True, id="empty"),
        pytest.param(CHUNKED + b"2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n", b"abc", True, id="chunked"),
        pytest.param(
            CHUNKED + b"A\r\n0123456789\r\n0\r\nX: y\r\n\r\n", b"0123456789", True, id="tail"
        ),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
            b"a",
            True,
            id="continue first",
        ),
        pytest.param(
            b"HTTP/1.1 200\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
            b"a",
            False,
            id="close",
        ),
    ],
)
@pytest.mark.parametrize("step", [1, 1000], ids=["byte by byte", "at once"])
def test_body_is_taken_out_of_its_framing(
    data: bytes, body: bytes, reusable: bool, step: int
) -> None:
    """The body arrives whole, and the answer knows that it is over."""
    answer = Answer()
    taken = b"".join(answer.feed(data[at : at + step]) for at in range(0, len(data), step))
    assert (taken, answer.done, answer.reusable) == (body, True, reusable)


def test_closing_ends_an_answer_without_a_length() -> None:
    """Without a length the end of the connection is the end of the answer."""
    answer = Answer()
    assert answer.feed(b"HTTP/1.0 200 OK\r\n\r\nab") + answer.feed(b"c") == b"abc"
    assert not answer.done
    answer.close()
    assert (answer.done, answer.reusable) == (True, False)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", CHUNKED])
def test_closing_early_ends_nothing(head: bytes) -> None:
    """An answer whose framing promised more is not over."""
    answer = Answer()
    answer.feed(head)
    answer.close()
    assert not answer.done


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"SSH-2.0-x\r\n\r\n", id="not HTTP"),
        pytest.param(b"x" * 70_000, id="endless head"),
        pytest.param(CHUNKED + b"xyz\r\n", id="no size"),
        pytest.param(CHUNKED + b"-3\r\n", id="size below 0"),
        pytest.param(CHUNKED + b"F00000\r\n" + b"x" * (5 << 20), id="huge chunk"),
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    """Bytes that are no HTTP/1.1 raise a FramingError."""
    with pytest.raises(FramingError):
        Answer().feed(data)


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    cuts=st.lists(st.integers(0, 600), max_size=12),
)
def test_any_cut_gives_the_same_body(pieces: list[bytes], cuts: list[int]) -> None:
    """However a chunked answer is cut into reads, its body is the pieces joined."""
    framed = b"".join(b"%X\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    data = CHUNKED + framed + b"0\r\n\r\n"
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    answer = Answer()
    taken = b"".join(answer.feed(data[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True))
    assert (taken, answer.done) == (b"".join(pieces), True)
