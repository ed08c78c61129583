"""The guard's routes as clients meet them: orders, answers and the flag that is served here."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason
from tests.guarding import KEY, TOKEN, Guarded, Machine, file_flag, guarded, machine, write_config
from tests.sidecars import until
from yarl import URL

OFREP = f"/ofrep/v1/evaluate/flags/{KEY}"
ORDER = {"mode": "off"}


@pytest.fixture
async def engine() -> AsyncIterator[Machine]:
    """Run an engine that is twice as fast as its baseline."""
    async with machine() as made:
        yield made


@pytest.fixture
async def made(engine: Machine, tmp_path: Path) -> AsyncIterator[Guarded]:
    """Run a guarded sidecar that serves its flag and takes orders."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    file = write_config(
        tmp_path,
        engine,
        guard=f"audit_file: {tmp_path / 'audit'}",
        more=f"token_file: {tmp_path / 'token'}\n",
    )
    async with guarded(file) as running:
        await running.confirmed(on=True)
        yield running


@pytest.fixture
def clean_sdk() -> Iterator[None]:
    """Leave no provider behind."""
    yield
    api.shutdown()


async def test_orders_need_a_token_file(engine: Machine, tmp_path: Path) -> None:
    """Without one nobody may change anything, whatever they send."""
    async with guarded(write_config(tmp_path, engine)) as running:
        for token in (None, "", TOKEN):
            status, text = await running.order(ORDER, token)
            assert (status, text) == (
                403,
                "no token_file is configured, so this route changes nothing\n",
            )
        await running.scrapes(2)
        assert running.view.phase == "active"


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("Bearer", id="no token"),
        pytest.param("Bearer ", id="empty token"),
        pytest.param(f"Bearer {TOKEN}x", id="longer"),
        pytest.param(f"Bearer {TOKEN[:-1]}", id="shorter"),
        pytest.param(f"Bearer\t{TOKEN}", id="tab"),
        pytest.param(f"Bearer{TOKEN}", id="no blank"),
        pytest.param(f"bearer {TOKEN.upper()}", id="large letters of the token"),
        pytest.param(f"bearer {TOKEN},", id="a list"),
        pytest.param(f"Basic {TOKEN}", id="another scheme"),
        pytest.param(TOKEN, id="no scheme"),
        pytest.param("Bearer \u00fc\u20ac", id="no ascii"),
    ],
)
async def test_orders_need_the_token(made: Guarded, header: str | None) -> None:
    """A wrong token is refused with what is needed, and nothing happens."""
    headers = {} if header is None else {"Authorization": header}
    async with made.client.post("/api/v1/guard/override", json=ORDER, headers=headers) as response:
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert await response.text() == (
            "Authorization: Bearer with the token of token_file is needed\n"
        )
    await made.scrapes(2)
    assert made.view.phase == "active"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR", "Bearer   "])
@pytest.mark.parametrize("path", ["/api/v1/guard/override", "/api/v1/guard/probe", "/-/reload"])
async def test_scheme_is_the_same_in_any_letters(made: Guarded, scheme: str, path: str) -> None:
    """HTTP knows no case of a scheme, and any number of blanks after it."""
    headers = {"Authorization": f"{scheme} {TOKEN}"}
    async with made.client.post(path, json=ORDER, headers=headers) as response:
        assert response.status in {200, 409}


MODE = "mode must be one of on, off, auto"
REASON = "reason must be a line of at most 500 characters"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param(b"", 'the body is not JSON; send {"mode": "off", "for": "30m"}', id="empty"),
        pytest.param(b"{mode: off}", "the body is not JSON", id="yaml"),
        pytest.param(b"\xff\xfe", "the body is not JSON", id="no text"),
        pytest.param(b"[" * 60_000, "the body is not JSON", id="nested"),
        pytest.param([], MODE, id="list"),
        pytest.param("off", MODE, id="text"),
        pytest.param({}, MODE, id="nothing"),
        pytest.param({"mode": "maybe"}, MODE, id="another mode"),
        pytest.param({"mode": False}, MODE, id="truth value"),
        pytest.param({"mode": ["off"]}, MODE, id="mode in a list"),
        pytest.param({**ORDER, "fro": "1h"}, "'fro' is not known here", id="misspelt"),
        pytest.param({**ORDER, "reason": 7}, REASON, id="number as a reason"),
        pytest.param({**ORDER, "reason": "x" * 501}, REASON, id="long reason"),
        pytest.param({**ORDER, "reason": "a\nb"}, REASON, id="two lines"),
        pytest.param({**ORDER, "for": 30}, 'for must be a duration such as "30m"', id="number"),
        pytest.param({**ORDER, "for": "30"}, "for: 30 has no unit", id="no unit"),
        pytest.param({**ORDER, "for": "soon"}, 'for: "soon" is not a duration', id="word"),
        pytest.param({**ORDER, "for": ""}, 'for: "" is not a duration', id="no duration"),
        pytest.param({**ORDER, "for": "0s"}, "for must be longer than 0s", id="zero"),
        pytest.param({**ORDER, "for": "999999999h"}, "for must be at most 366d", id="too long"),
        pytest.param({"mode": "auto", "for": "1h"}, "for goes with on and off", id="auto for"),
        pytest.param(
            b'{"mode": "off", "mode": "on"}',
            "the key 'mode' stands twice; write it once",
            id="twice",
        ),
        pytest.param(
            b'{"mode": "off", "for": "1h", "for": "1h"}', "the key 'for' stands twice", id="alike"
        ),
        pytest.param(
            b'{"mode": "off", "m\\u006fde": "on"}', "the key 'mode' stands twice", id="escaped"
        ),
        pytest.param(
            b'{"mode": "off", "reason": {"a": 1, "a": 2}}', "the key 'a' stands twice", id="inside"
        ),
        pytest.param(
            b'{"%s": 1, "%s": 2}' % (b"x" * 9000, b"x" * 9000), "the key 'xxxx", id="long key"
        ),
    ],
)
async def test_orders_that_are_none(made: Guarded, body: object, line: str) -> None:
    """What is wrong with an order is said in one line, and nothing happens."""
    status, text = await made.order(body)
    assert status == 400
    assert text.startswith(line)
    assert text.count("\n") == 1
    assert text.endswith("\n")
    await made.scrapes(1)
    assert made.view.phase == "active"


async def test_body_that_is_too_large(made: Guarded) -> None:
    """It is not read to its end."""
    assert (await made.order(b" " * 100_000))[0] == 413


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("span", [None, "1h"])
async def test_order(made: Guarded, tmp_path: Path, mode: str, span: str | None) -> None:
    """It is answered, obeyed with the next scrape, shown, and taken down with its reason."""
    status, text = await made.order({"mode": mode, "for": span, "reason": "as agreed"})
    assert (status, json.loads(text)) == (
        200,
        {"mode": mode, "for_seconds": None if span is None else 3600.0},
    )
    await made.phase("override")
    await made.confirmed(on=mode == "on")
    found = await made.document()
    assert (found["override"]["mode"], found["override"]["reason"]) == (mode, "as agreed")
    assert (found["override"]["until"] is None) is (span is None)
    assert (await made.samples())['specgauge_guard_override{target="spec"}'] == 1
    audit = tmp_path / "audit"
    await until(lambda: audit.exists() and audit.read_text().endswith("\n"), "the line")
    (line,) = map(json.loads, audit.read_text().splitlines())
    assert (line["operator"], line["reason"], line["flag"]) == (
        *("as agreed", f"override_{mode}"),
        mode == "on",
    )
    assert (await made.order({"mode": "auto", "reason": None}))[0] == 200
    await until(lambda: made.view.phase != "override", "the end of it")
    assert (await made.document())["override"] is None


async def test_order_to_no_guard(engine: Machine, tmp_path: Path) -> None:
    """Where no guard is configured there is nothing to order, and that is said."""
    (tmp_path / "token").write_text(TOKEN)
    more = f"token_file: {tmp_path / 'token'}\n"
    async with guarded(write_config(tmp_path, engine, guard=None, more=more)) as running:
        assert await running.order(ORDER) == (
            404,
            "no guard is configured; add guard: to the file\n",
        )
        assert (await running.document())["says"] == "no guard is configured"
        assert (await running.document("/api/v1/history"))["history"] == []


async def test_documents_are_of_now(made: Guarded) -> None:
    """Neither document may be kept by a cache."""
    for path in ("/api/v1/guard", "/api/v1/history"):
        async with made.client.get(path) as response:
            assert response.headers["Cache-Control"] == "no-store"
            json.loads(await response.text(), parse_constant=pytest.fail)


# The flag that is served here


async def details(url: str, key: str = KEY, *, default: bool) -> FlagEvaluationDetails[bool]:
    """Ask as an application does: through the SDK and its OFREP provider."""

    def ask() -> FlagEvaluationDetails[bool]:
        api.set_provider(OFREPProvider(url))
        return api.get_client().get_boolean_details(key, default)

    return await asyncio.to_thread(ask)


@pytest.mark.usefixtures("clean_sdk")
async def test_openfeature_sdk(made: Guarded, engine: Machine) -> None:
    """The real SDK sees the guard's flag move."""
    url = made.sidecar.url
    on = await details(url, default=False)
    assert (on.value, on.reason, on.variant) == (True, Reason.STATIC, "on")
    await until(lambda: made.view.assessments["healthy"], "health")  # type: ignore[index]
    await made.order({"mode": "off"})
    await made.confirmed(on=False)
    off = await details(url, default=True)
    assert (off.value, off.reason, off.variant) == (False, Reason.STATIC, "off")
    other = await details(url, "other", default=True)
    assert (other.value, other.error_code) == (True, ErrorCode.FLAG_NOT_FOUND)


@pytest.mark.usefixtures("clean_sdk")
@pytest.mark.parametrize("kept", ["elsewhere", "nowhere"])
async def test_flag_that_is_not_served_here(engine: Machine, tmp_path: Path, kept: str) -> None:
    """With another backend, or no guard, both routes say so, and the SDK gives its default."""
    guard = "" if kept == "elsewhere" else None
    flag = file_flag(tmp_path) if kept == "elsewhere" else ""
    async with guarded(write_config(tmp_path, engine, guard=guard, flag=flag)) as running:
        for method, path in (("POST", OFREP), ("GET", "/flags.json")):
            async with running.client.request(method, path) as response:
                assert response.status == 404
                assert await response.text() == (
                    "no flag is served here; it needs flag.backend: embedded\n"
                )
        for default in (True, False):
            found = await details(running.sidecar.url, default=default)
            assert found.value is default
            assert found.error_code is not None


async def test_ofrep_is_never_429(made: Guarded) -> None:
    """However often it is asked, it answers; a 429 would silence a client for all flags."""

    async def ask(body: bytes) -> tuple[int, Any]:
        async with made.client.post(OFREP, data=body) as response:
            assert response.headers["Content-Type"].startswith("application/json")
            assert response.headers["Cache-Control"] == "no-store"
            return response.status, await response.json()

    bodies = [b"", b"{}", b'{"context": {"targetingKey": "u"}}', b"{", b"[]"]
    found = await asyncio.gather(*(ask(bodies[turn % 5]) for turn in range(400)))
    assert {status for status, _ in found} == {200, 400}
    for status, document in found:
        assert document["key"] == KEY
        expected = {"value", "reason", "variant", "metadata"}
        assert (set(document) >= expected) is (status == 200)


@pytest.mark.parametrize(
    "body",
    [b'{"context": {}, "context": {}}', b'{"context": {"targetingKey": "u", "targetingKey": "v"}}'],
    ids=["outside", "inside"],
)
async def test_ofrep_question_with_a_key_twice(made: Guarded, body: bytes) -> None:
    """Nobody can tell which was meant, so it is refused in OFREP's own words."""
    async with made.client.post(OFREP, data=body) as response:
        found = await response.json()
    assert (response.status, found["errorCode"]) == (400, "PARSE_ERROR")
    assert found["errorDetails"].endswith("stands twice; write it once")


async def test_flagd_source(made: Guarded) -> None:
    """The document for flagd has an ETag, is sent once while it is the same, follows the flag."""
    async with made.client.get("/flags.json") as response:
        assert response.headers["Cache-Control"] == "no-cache"
        tag = response.headers["ETag"]
        first = await response.json()
    assert first["flags"][KEY]["defaultVariant"] == "on"
    for header in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        async with made.client.get("/flags.json", headers={"If-None-Match": header}) as response:
            assert (response.status, await response.read()) == (304, b"")
            assert response.headers["ETag"] == tag
    await made.order({"mode": "off"})
    await made.confirmed(on=False)
    async with made.client.get("/flags.json", headers={"If-None-Match": tag}) as response:
        assert response.status == 200
        assert response.headers["ETag"] != tag
        assert (await response.json())["flags"][KEY]["defaultVariant"] == "off"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", OFREP, 405, id="get ofrep"),
        pytest.param("POST", "/ofrep/v1/evaluate/flags/", 404, id="no key"),
        pytest.param("POST", "/ofrep/v1/evaluate/flags/a/b", 404, id="key with a slash"),
        pytest.param("POST", "/flags.json", 405, id="post flags"),
        pytest.param("GET", "/api/v1/guard/override", 405, id="get override"),
        pytest.param("POST", "/api/v1/guard", 405, id="post guard"),
    ],
)
async def test_what_is_not_there(made: Guarded, method: str, path: str, status: int) -> None:
    """Wrong methods and keys are answered as such."""
    async with made.client.request(method, path) as response:
        assert response.status == status


def framed(body: bytes, *headers: str) -> bytes:
    """Write a request by hand, for what no client sends."""
    auth = f"Authorization: Bearer {TOKEN}"
    lines = ["Host: h", "Connection: close", f"Content-Length: {len(body)}", auth, *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def sent(made: Guarded, path: str, body: bytes, *headers: str) -> tuple[int, bytes]:
    """Send bytes to a route; give the status and what was answered."""
    url = URL(made.sidecar.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"POST {path} HTTP/1.1\r\n".encode() + framed(body, *headers))
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), text


ZIPPED = gzip.compress(b'{"mode": "off"}')


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        pytest.param(b"{}", "gzip", 400, id="no gzip"),
        pytest.param(b"{}", "GZIP", 400, id="no gzip, shouted"),
        pytest.param(b"{}", "deflate", 400, id="no deflate"),
        pytest.param(b"{}", "br", 400, id="brotli"),
        pytest.param(b"{}", "zstd", 400, id="zstd"),
        pytest.param(b"{}", "gzip, deflate", 400, id="two"),
        pytest.param(b"{}", "rot13", 400, id="unknown"),
        pytest.param(ZIPPED[:-6], "gzip", 400, id="gzip cut short"),
        pytest.param(b"", "gzip", 400, id="nothing"),
        pytest.param(gzip.compress(b" " * 10_000_000), "gzip", 413, id="bomb"),
        pytest.param(b" " * 100_000, "identity", 413, id="too long"),
        pytest.param(ZIPPED, "gzip", 200, id="gzip"),
        pytest.param(zlib.compress(b'{"mode": "off"}'), "deflate", 200, id="deflate"),
        pytest.param(b'{"mode": "off"}', "identity", 200, id="identity"),
    ],
)
async def test_bodies_that_are_encoded(
    made: Guarded, body: bytes, encoding: str, status: int
) -> None:
    """A body that cannot be read is the asker's fault, told as each route tells it."""
    header = f"Content-Encoding: {encoding}"
    found, text = await sent(made, "/api/v1/guard/override", body, header)
    assert found == status
    assert text.count(b"\n") == (status != 200)
    found, text = await sent(made, OFREP, body, header)
    assert found == status
    document = json.loads(text)
    assert document["key"] == KEY
    codes = {200: None, 400: "PARSE_ERROR", 413: "GENERAL"}
    assert document.get("errorCode") == codes[status]
    assert made.events("request_fault") == []
