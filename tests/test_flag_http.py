"""How a call to a flag's server ends: what counts as an answer, and what each failure is called."""

import gzip
import os
import shutil
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest
from tests.flag_servers import Reply, always, flag_server, trusted
from tests.servers import Script, answer, dripping, serving, silent, then_close
from yarl import URL

from specgauge.guard.flags.http import FlagHttp, HttpAnswer, HttpTerms
from specgauge.guard.flags.http_failures import clean, redirect_detail, retry_after
from specgauge.guard.flags.protocol import FlagError, WriteResult
from specgauge.guard.flags.urls import check_url, split

NOW = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


async def call(url: str, path: str = "", **terms: object) -> HttpAnswer:
    """Ask once with these terms."""
    given = HttpTerms(**{"url": url, "timeout": 5.0, **terms})  # type: ignore[arg-type]
    return await FlagHttp(given, now=lambda: NOW).call("GET", path)


async def failure(url: str, path: str = "", **terms: object) -> FlagError:
    """Ask once and give the failure."""
    with pytest.raises(FlagError) as caught:
        (await call(url, path, **terms)).json()
    assert "\n" not in str(caught.value)
    return caught.value


async def test_call() -> None:
    """A call carries its headers and its document, asks for no compression and takes JSON."""
    async with flag_server(always(Reply(document={"on": True}))) as server:
        http = FlagHttp(HttpTerms(url=f"{server.url}/team/", headers={"X-Tenant": "a"}))
        answered = await http.call("PUT", "/flags/a%2Fb?x=1", document={"on": True})
        await http.close()
        asked = server.asked[0]
    assert answered.json() == {"on": True}
    assert (asked.method, asked.path, asked.json()) == (
        "PUT",
        "/team/flags/a%2Fb?x=1",
        {"on": True},
    )
    assert asked.headers["X-Tenant"] == "a"
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["Accept-Encoding"] == "identity"
    assert http.place == f"{server.url}/team/"


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (405, "4xx"),
        (409, "409"),
        (422, "4xx"),
        (429, "429"),
        (500, "5xx"),
        (503, "5xx"),
        (599, "5xx"),
        (202, "unreadable"),
        (304, "unreadable"),
    ],
)
async def test_status(status: int, result: str) -> None:
    """A status that was not expected has a result of its own, and is named."""
    async with flag_server(always(Reply(status=status))) as server:
        error = await failure(server.url, "/flags")
    assert error.result == result
    assert error.detail.startswith(f"GET {server.url}/flags: answered {status}")
    assert error.retry_after is None


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param(" 0 ", 0.0, id="nothing"),
        pytest.param("9" * 400, 999_999_999.0, id="for ever"),
        pytest.param(
            format_datetime(datetime(2026, 3, 1, 0, 2, tzinfo=UTC), usegmt=True), 120.0, id="date"
        ),
        pytest.param("Sun, 01 Mar 2026 00:00:30 -0000", 30.0, id="date without zone"),
        pytest.param("Sat, 01 Jan 2000 00:00:00 GMT", 0.0, id="past"),
        pytest.param("Sat, 99 Jan 2000 00:00:00 GMT", None, id="no date"),
        pytest.param("-5", None, id="negative"),
        pytest.param("soon", None, id="words"),
        pytest.param("٣", None, id="other digits"),
        pytest.param(None, None, id="absent"),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    """Retry-After is read in both forms, and what cannot be read says nothing."""
    assert retry_after(header, NOW) == seconds


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_told(status: int) -> None:
    """Who answers that it is too much says when to come again."""
    reply = Reply(status=status, headers={"Retry-After": "Sun, 01 Mar 2026 00:01:00 GMT"})
    async with flag_server(always(reply)) as server:
        assert (await failure(server.url)).retry_after == 60.0


@pytest.mark.parametrize(
    ("location", "words"),
    [
        pytest.param(
            "https://else.invalid/x?token=s3cret", "a redirect to else.invalid;", id="other"
        ),
        pytest.param("//else.invalid/x", "a redirect to else.invalid;", id="other, same scheme"),
        pytest.param("/new?token=s3cret", "to /new on the same host", id="same host"),
        pytest.param("http://[", "unreadable Location", id="unreadable"),
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect(status: int, location: str, words: str) -> None:
    """A redirect is not followed, and where it leads is told without its query."""
    async with flag_server(always(Reply(status=status, headers={"Location": location}))) as server:
        error = await failure(server.url, "/flags?key=hidden-key")
        assert len(server.asked) == 1
    assert error.result is WriteResult.REDIRECT
    assert words in error.detail
    assert "s3cret" not in error.detail
    assert "hidden-key" not in error.detail


def test_redirect_without_location() -> None:
    """A redirect to nowhere is one to the same page."""
    assert "same host" in redirect_detail(URL("http://a/b"), 302, "")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(Reply(text="<html>ok</html>"), "HTML where JSON", id="html"),
        pytest.param(
            Reply(text="ok", headers={"Content-Type": "text/html"}),
            "HTML where JSON",
            id="called so",
        ),
        pytest.param(Reply(text="ok"), "not JSON", id="text"),
        pytest.param(Reply(), "not JSON", id="nothing"),
        pytest.param(Reply(text="NaN"), "not JSON", id="NaN"),
        pytest.param(Reply(text="[" * 60_000), "not JSON", id="nested"),
        pytest.param(Reply(text='"' + "a" * 70_000 + '"'), "larger than 65536", id="large"),
        pytest.param(
            Reply(text="{}", headers={"Content-Encoding": "br"}), "compressed", id="compressed"
        ),
    ],
)
async def test_unreadable(reply: Reply, words: str) -> None:
    """A good status with a body that is no JSON is no answer."""
    async with flag_server(always(reply)) as server:
        error = await failure(server.url)
    assert error.result is WriteResult.UNREADABLE
    assert words in error.detail


@pytest.mark.parametrize(
    ("raw", "result", "words"),
    [
        pytest.param(b"\x00\x01rubbish\r\n\r\n", "unreadable", "not HTTP", id="rubbish"),
        pytest.param(b"", "unreachable", "closed before an answer", id="nothing"),
        pytest.param(answer(b"{}", length=90), "unreadable", "before it was complete", id="cut"),
        pytest.param(
            answer(gzip.compress(b"{}"), "Content-Encoding: gzip"),
            "unreadable",
            "compressed",
            id="gz",
        ),
    ],
)
async def test_broken_answers(raw: bytes, result: str, words: str) -> None:
    """What is no whole HTTP answer is told apart from one that says no."""
    async with serving(then_close(raw)) as server:
        error = await failure(server.url)
    assert (error.result, words in error.detail) == (result, True)


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(silent, id="silent"),
        pytest.param(dripping(b" " * 400, first=answer(b"{", length=900)), id="dripping"),
    ],
)
async def test_slow_server(slow: Script) -> None:
    """The timeout covers the whole call: a server that drips its answer gains nothing."""
    async with serving(slow) as server:
        error = await failure(server.url, timeout=0.15)
    assert error.result is WriteResult.TIMEOUT
    assert "within 0.15 s" in error.detail


async def test_nobody_there(unused_tcp_port: int) -> None:
    """A closed port is unreachable."""
    error = await failure(f"http://127.0.0.1:{unused_tcp_port}")
    assert error.result is WriteResult.UNREACHABLE
    assert "cannot connect" in error.detail


async def test_unknown_host() -> None:
    """A name nobody knows is unreachable."""
    error = await failure("http://flags.invalid")
    assert error.result is WriteResult.UNREACHABLE
    assert "cannot be resolved" in error.detail


async def test_tls(tmp_path: Path) -> None:
    """A certificate that the CA file trusts is taken; one that it does not trust is not."""
    context, ca_file = trusted(tmp_path)
    async with flag_server(always(Reply(document={})), tls=context) as server:
        assert (await call(server.url, ca_file=ca_file)).json() == {}
        error = await failure(server.url)
    assert error.result is WriteResult.TLS
    assert "certificate not accepted" in error.detail


async def test_expired_certificate(tmp_path: Path) -> None:
    """A certificate that has expired is named as that."""
    context, ca_file = trusted(tmp_path, expired=True)
    async with flag_server(always(Reply(document={})), tls=context) as server:
        error = await failure(server.url, ca_file=ca_file)
    assert error.result is WriteResult.TLS
    assert "certificate has expired" in error.detail


async def test_wrong_scheme(tmp_path: Path) -> None:
    """TLS asked of a plain port is told apart from silence."""
    context, ca_file = trusted(tmp_path)
    async with flag_server(always(Reply(document={}))) as plain:
        error = await failure(plain.url.replace("http:", "https:"))
        assert error.result is WriteResult.TLS
        assert "is it http://?" in error.detail
    async with flag_server(always(Reply(document={})), tls=context) as secure:
        error = await failure(secure.url.replace("https:", "http:"), ca_file=ca_file)
        assert error.result in {WriteResult.TLS, WriteResult.UNREACHABLE}


@pytest.mark.parametrize("content", [None, "not a certificate"])
async def test_ca_file_that_cannot_be_loaded(tmp_path: Path, content: str | None) -> None:
    """A CA file that is missing or damaged is named, and mended it works at the next call."""
    context, good = trusted(tmp_path)
    file = tmp_path / "other.pem"
    if content is not None:
        file.write_text(content)
    async with flag_server(always(Reply(document={})), tls=context) as server:
        http = FlagHttp(HttpTerms(url=server.url, ca_file=str(file)))
        with pytest.raises(FlagError, match=r"tls: ca_file .*other.pem cannot be loaded"):
            await http.call("GET")
        shutil.copy(good, file)
        assert (await http.call("GET")).json() == {}


async def test_token_is_read_at_each_call(tmp_path: Path) -> None:
    """A token that was replaced is used at the next call, without a restart."""
    file = tmp_path / "token"
    async with flag_server(always(Reply(document={}))) as server:
        http = FlagHttp(HttpTerms(url=server.url, token_file=str(file)))
        for token in ("first", "second"):
            file.write_text(f"{token}\n")
            await http.call("GET")
        seen = [asked.headers["Authorization"] for asked in server.asked]
    assert seen == ["Bearer first", "Bearer second"]


async def test_token_header(tmp_path: Path) -> None:
    """The header and the word before the token are the store's own."""
    file = tmp_path / "token"
    file.write_text("abcd")
    async with flag_server(always(Reply(document={}))) as server:
        await call(server.url, token_file=str(file), token_header="X-Consul-Token", token_scheme="")
        assert server.asked[0].headers["X-Consul-Token"] == "abcd"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "No such file", id="missing"),
        pytest.param(b" \n", "is empty", id="empty"),
        pytest.param(b"one\ntwo", "more than one line", id="two lines"),
        pytest.param(b"\xff\xfe", "no file of text", id="binary"),
    ],
)
async def test_token_that_cannot_be_used(tmp_path: Path, content: bytes | None, words: str) -> None:
    """Without its token nothing is sent, and the file is named with what to mend."""
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    async with flag_server(always(Reply(document={}))) as server:
        error = await failure(server.url, token_file=str(file))
        assert server.asked == []
    assert error.result is WriteResult.IO
    assert words in error.detail
    assert str(file) in error.detail


async def test_token_in_a_pipe(tmp_path: Path) -> None:
    """A token file that is a pipe is refused instead of waited for."""
    os.mkfifo(tmp_path / "token")
    assert (
        "no file of text"
        in (await failure("http://127.0.0.1:1", token_file=str(tmp_path / "token"))).detail
    )


async def test_secrets_are_not_told(tmp_path: Path) -> None:
    """A server that repeats our secrets cannot make us repeat them."""
    token = tmp_path / "token"
    token.write_text("tok-4711")
    said = "no access: tok-4711 Bearer tok-4711 key-0815 hidden-query pass-word"
    async with flag_server(always(Reply(status=403, text=said))) as server:
        url = server.url.replace("://", "://user:pass-word@")
        error = await failure(
            url, "/x?k=hidden-query", headers={"X-Api-Key": "key-0815"}, token_file=str(token)
        )
    for secret in ("tok-4711", "key-0815", "hidden-query", "pass-word"):
        assert secret not in str(error)
        assert secret not in repr(error)
    assert "no access" in error.detail


def test_long_words_are_cut() -> None:
    """What a server says is one printable line of bounded length."""
    assert clean("a\nb\x1b[31m", ()) == "a?b?[31m"
    assert len(clean("x" * 9999, ())) == 400


async def test_proxies_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the configured server is asked, whatever proxy the environment names."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with flag_server(always(Reply(document={}))) as server:
        assert (await call(server.url)).json() == {}


async def test_credentials_of_the_url(tmp_path: Path) -> None:
    """Credentials in the URL are sent, unless there is a token, and are not shown."""
    file = tmp_path / "token"
    file.write_text("abcd")
    async with flag_server(always(Reply(document={}))) as server:
        url = server.url.replace("://", "://user:pw@")
        answered = await call(url)
        await call(url, token_file=str(file))
        sent = [asked.headers["Authorization"] for asked in server.asked]
    assert sent == ["Basic dXNlcjpwdw==", "Bearer abcd"]
    assert "pw" not in answered.place


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param("/a b", {}, id="blank"),
        pytest.param("/a\r\nX: y", {}, id="line break"),
        pytest.param("/a", {"X-Bad": "a\r\nX-Injected: b"}, id="header"),
    ],
)
async def test_what_is_not_sent(path: str, headers: dict[str, str]) -> None:
    """What would not arrive as it was meant is not sent."""
    async with flag_server(always(Reply(document={}))) as server:
        error = await failure(server.url, path, headers=headers)
        assert server.asked == []
    assert error.result is WriteResult.REFUSED


@pytest.mark.parametrize(
    "url",
    ["flags:1", "ftp://u:secret@h/?t=secret", "http://h:99999", "http://", "http://u:secret@h x/"],
)
def test_no_url(url: str) -> None:
    """What is no URL is refused in words without credentials."""
    with pytest.raises(ValueError, match="is no URL; write http://HOST:PORT/PATH") as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://u:p@h:1/a/b%2Fc?x=1#f", ("http://u:p@h:1", "/a/b%2Fc?x=1")),
        ("https://h", ("https://h", "/")),
        ("http://h?x=1", ("http://h", "/?x=1")),
    ],
)
def test_split(url: str, parts: tuple[str, str]) -> None:
    """A URL is cut into its server and what is asked of it, unchanged."""
    assert split(url) == parts
