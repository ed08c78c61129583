"""The routes: what each answers, to whom, and as what."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import aiohttp
import pytest
from tests.servers import answer, serving, silent
from tests.sidecars import Running, quick, read_samples, sidecar
from tests.small_pages import v1_page

from specgauge.errors import ConfigError
from specgauge.model.settings import Settings, TargetSettings
from specgauge.model.view import View
from specgauge.serve.app import Sidecar
from specgauge.serve.web import WebServer

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    """Run a sidecar before an engine that works."""
    async with (
        serving(answer(v1_page(1000)), answer(v1_page(2000))) as engine,
        sidecar(TargetSettings(name="spec", url=engine.page)) as made,
    ):
        await made.result("ok")
        yield made


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param("/metrics", PLAIN, id="metrics"),
        pytest.param("/api/v1/status", "application/json; charset=utf-8", id="status"),
        pytest.param("/-/healthy", "text/plain; charset=utf-8", id="healthy"),
        pytest.param("/-/ready", "text/plain; charset=utf-8", id="ready"),
        pytest.param("/", "text/html; charset=utf-8", id="page"),
        pytest.param("/page.js", "text/javascript; charset=utf-8", id="script"),
        pytest.param("/page.css", "text/css; charset=utf-8", id="style"),
    ],
)
async def test_get_and_head(running: Running, path: str, kind: str) -> None:
    """Every route to be read answers GET, and HEAD with the same header and no body."""
    async with running.client.get(path) as response:
        assert (response.status, response.headers["Content-Type"]) == (200, kind)
        assert await response.read()
    async with running.client.head(path) as response:
        assert (response.status, response.headers["Content-Type"]) == (200, kind)
        assert await response.read() == b""


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/nothing", 404, id="unknown"),
        pytest.param("GET", "/metrics/", 404, id="slash at the end"),
        pytest.param("GET", "/../specgauge/serve/web.py", 404, id="upwards"),
        pytest.param("GET", "/%2e%2e/web.py", 404, id="upwards in code"),
        pytest.param("POST", "/metrics", 405, id="post to metrics"),
        pytest.param("DELETE", "/api/v1/status", 405, id="delete status"),
        pytest.param("GET", "/-/reload", 405, id="get reload"),
    ],
)
async def test_what_is_not_there(running: Running, method: str, path: str, status: int) -> None:
    """Unknown paths are 404, wrong methods 405."""
    async with running.client.request(method, path) as response:
        assert response.status == status


@pytest.mark.parametrize(
    ("headers", "kind", "encoding"),
    [
        pytest.param({"Accept-Encoding": "identity"}, PLAIN, None, id="plain"),
        pytest.param({"Accept-Encoding": "gzip"}, PLAIN, "gzip", id="plain gzip"),
        pytest.param(
            {"Accept": "application/openmetrics-text", "Accept-Encoding": "identity"},
            OPENMETRICS,
            None,
            id="openmetrics",
        ),
        pytest.param(
            {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"},
            OPENMETRICS,
            "gzip",
            id="openmetrics gzip",
        ),
    ],
)
async def test_metrics_as_asked_for(
    running: Running, headers: Mapping[str, str], kind: str, encoding: str | None
) -> None:
    """The body is what the header calls it, and caches are told what it depends on."""
    async with (
        aiohttp.ClientSession(running.sidecar.url, auto_decompress=False) as client,
        client.get("/metrics", headers=headers) as response,
    ):
        body = await response.read()
        assert response.headers["Content-Type"] == kind
        assert response.headers.get("Content-Encoding") == encoding
        assert response.headers["Vary"] == "Accept, Accept-Encoding"
        assert response.headers["Content-Length"] == str(len(body))
    page = (gzip.decompress(body) if encoding else body).decode()
    assert page.endswith("# EOF\n") is (kind == OPENMETRICS)
    assert 'specgauge_target_up{target="spec"} 1.0' in page
    assert "process_cpu_seconds_total" in page


async def test_status_is_never_kept(running: Running) -> None:
    """The status is of now; it is JSON without NaN."""
    async with running.client.get("/api/v1/status") as response:
        assert response.headers["Cache-Control"] == "no-store"
        document = json.loads(await response.text(), parse_constant=pytest.fail)
    assert document["schema"] == "specgauge.status/v1"
    assert [target["name"] for target in document["targets"]] == ["spec"]


async def test_page_loads_nothing_from_elsewhere(running: Running) -> None:
    """The page for a person works without the internet, and no page of others may frame it."""
    async with running.client.get("/") as response:
        policy = response.headers["Content-Security-Policy"]
        page = await response.text()
    assert "default-src 'none'" in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "http://" not in page
    assert "https://" not in page
    for name in ("page.js", "words.js", "tables.js", "charts.js", "page.css"):
        assert f'"{name}"' in page


@pytest.mark.parametrize(
    ("token", "header", "status"),
    [
        pytest.param(None, None, 403, id="no token configured"),
        pytest.param(None, "Bearer anything", 403, id="no token configured but one sent"),
        pytest.param("open sesame", None, 401, id="none sent"),
        pytest.param("open sesame", "Bearer ", 401, id="empty"),
        pytest.param("open sesame", "Bearer open", 401, id="part of it"),
        pytest.param("open sesame", "Basic open sesame", 401, id="other scheme"),
        pytest.param("open sesame", "open sesame", 401, id="no scheme"),
        pytest.param("open sesame", "Bearer \udcff", 401, id="not UTF-8"),
        pytest.param("open sesame", "Bearer open sesame", 200, id="right"),
    ],
)
async def test_reload_is_for_who_has_the_token(
    token: str | None, header: str | None, status: int
) -> None:
    """Without a token file nobody may reload; with one, who sends its token."""
    asked: list[Settings] = []

    def read_settings() -> Settings:
        asked.append(settings)
        return settings

    async with serving(answer(v1_page(1000))) as engine:
        settings = quick(TargetSettings(name="spec", url=engine.page), token=token)
        async with sidecar(settings=settings, read_settings=read_settings) as running:
            sent = [] if header is None else [f"Authorization: {header}"]
            got = await post(running.sidecar, "/-/reload", *sent)
    assert got.split(" ")[1] == str(status)
    assert ("WWW-Authenticate: Bearer" in got) is (status == 401)
    assert len(asked) == (status == 200)
    assert "sesame" not in got


async def post(made: Sidecar, path: str, *headers: str) -> str:
    """Send a request whose headers may hold any byte; gives the whole answer."""
    host, port = made.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Connection: close", "Content-Length: 0", *headers]
    writer.write("\r\n".join([*lines, "", ""]).encode(errors="surrogateescape"))
    whole = await reader.read()
    writer.close()
    return whole.decode()


async def test_refused_configuration_is_named_and_the_old_one_stays() -> None:
    """A bad configuration answers 400 with every problem, counts, and changes nothing."""
    faults = ["window: too short", "targets[0].url: missing"]

    def read_settings() -> Settings:
        if faults:
            raise ConfigError(faults)
        return settings

    async with serving(answer(v1_page(1000))) as engine:
        settings = quick(TargetSettings(name="spec", url=engine.page), token="t")
        bearer = {"Authorization": "Bearer t"}
        async with sidecar(settings=settings, read_settings=read_settings) as running:
            async with running.client.post("/-/reload", headers=bearer) as response:
                assert (response.status, await response.text()) == (
                    400,
                    "window: too short\ntargets[0].url: missing\n",
                )
            assert running.events("config_refused") == [
                f'warning config_refused problem="{fault}"' for fault in faults
            ]
            await running.scrapes()
            assert (await running.samples())["specgauge_config_last_reload_success"] == 0
            faults.clear()
            async with running.client.post("/-/reload", headers=bearer) as response:
                assert (response.status, await response.text()) == (200, "reloaded\n")
            assert (await running.samples())["specgauge_config_last_reload_success"] == 1


async def test_health_is_of_the_sidecar_alone() -> None:
    """A sick engine leaves it ready and healthy; a loop of ours that died does not."""
    async with (
        serving(answer(status=500)) as engine,
        sidecar(TargetSettings(name="spec", url=engine.page)) as running,
    ):
        await running.result("http_status")
        for path in ("/-/ready", "/-/healthy"):
            async with running.client.get(path) as response:
                assert (response.status, await response.text()) == (200, "ok\n")
        ((_, task),) = running.sidecar._loops.values()
        task.cancel()
        await asyncio.wait([task])
        async with running.client.get("/-/healthy") as response:
            assert response.status == 503
        async with running.client.get("/-/ready") as response:
            assert response.status == 200


async def test_many_scrapers_while_a_target_hangs() -> None:
    """A target that does not answer keeps nobody waiting."""
    loop = asyncio.get_running_loop()

    async def scrape(client: aiohttp.ClientSession) -> float:
        began = loop.time()
        async with client.get("/metrics") as response:
            read_samples(await response.text())
        return loop.time() - began

    async with serving(silent) as hanging, serving(answer(v1_page(1000))) as engine:
        targets = [
            TargetSettings(name="hanging", url=hanging.page),
            TargetSettings(name="spec", url=engine.page),
        ]
        async with sidecar(settings=quick(*targets, timeout=60)) as running:
            await running.result("ok", target=1)
            times = await asyncio.gather(*(scrape(running.client) for _ in range(20)))
            assert (await running.samples())['specgauge_target_up{target="hanging"}'] == 0
    assert max(times) < 2


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        pytest.param("127.0.0.1", "http://127.0.0.1:", id="one address"),
        pytest.param("0.0.0.0", "http://127.0.0.1:", id="every address"),
        pytest.param("::1", "http://[::1]:", id="IPv6"),
        pytest.param("::", "http://[::1]:", id="every IPv6 address"),
    ],
)
async def test_url_can_be_opened(running: Running, host: str, shown: str) -> None:
    """The URL that is told can be opened on the same machine."""
    site = running.sidecar._server
    assert site is not None
    server = WebServer(site._site, host=host, port=0, log=running.sidecar._log)
    try:
        await server.start()
    except OSError as problem:
        pytest.skip(f"no such address here: {problem}")
    try:
        assert server.url.startswith(shown)
        async with aiohttp.ClientSession() as client, client.get(f"{server.url}/-/ready") as got:
            assert got.status == 200
    finally:
        await server.stop()
        await server.stop()  # a second time does nothing


async def test_port_in_use(running: Running) -> None:
    """A port that cannot be had is an OSError, and nothing is left open."""
    port = int(running.sidecar.url.rpartition(":")[2])
    site = running.sidecar._server
    assert site is not None
    server = WebServer(site._site, host="127.0.0.1", port=port, log=running.sidecar._log)
    with pytest.raises(OSError, match="in use"):
        await server.start()


MALFORMED = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    "odd version": b"GET /metrics HTTP/x\r\n\r\n",
    "unknown method": b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n",
    "bad header": b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    "bad length": b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    "long line": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_request_is_nobodys_news(running: Running, sent: bytes) -> None:
    """A request that is no HTTP is refused, and the log does not tell."""
    host, port = running.sidecar.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    answered = await reader.read()
    writer.close()
    assert b" 400 " in answered.partition(b"\r\n")[0]
    assert {line.split()[1] for line in running.events()} <= {
        "listening",
        "target_up",
        "speculation",
    }


async def test_fault_of_a_handler_is_told_once(running: Running) -> None:
    """A fault of our own is one line for each kind, however often it is met."""
    site = running.sidecar._server
    assert site is not None
    faults = [KeyError("gone"), KeyError("gone"), ValueError("odd\nvalue")]

    def view() -> View:
        raise faults.pop(0)

    log = running.sidecar._log
    server = WebServer(replace(site._site, view=view), host="127.0.0.1", port=0, log=log)
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as client:
            for _ in range(3):
                async with client.get("/api/v1/status") as response:
                    assert response.status == 500
    finally:
        await server.stop()
    assert running.events("request_fault") == [
        "warning request_fault error=\"KeyError: 'gone'\"",
        'warning request_fault error="ValueError: odd\\nvalue"',
    ]
