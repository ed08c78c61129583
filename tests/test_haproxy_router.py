"""The rendered router in a real HAProxy before two real pools: where requests go, and how."""

import asyncio
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.calm import Measured, calmly
from tests.haproxies import Proxied, proxying, rendered, start
from tests.routed import RULES, Asked, requests
from tests.routers import DEADLINE, Server, Went, program
from tests.servers import answer, serving, then_close

from specgauge.cli.main import cli
from specgauge.cli.route.settings import router_of, routes_of
from specgauge.cli.route.switch import switch_of
from specgauge.config import load
from specgauge.errors import RenderError
from specgauge.render.haproxy import haproxy
from specgauge.render.haproxy_numbers import above, at_least, can_compare
from specgauge.render.haproxy_rules import ask
from specgauge.render.options import Options
from specgauge.render.router import Router, Trust
from specgauge.render.switch import Switch
from specgauge.routing.decide import Flag, Live, decide
from specgauge.routing.presets import PRESETS
from specgauge.routing.rules import Routes
from specgauge.routing.shape import shape_of
from specgauge.serve.classes.line import Record, read_line

ARTICLES = "  presets: [playbook, production]\n"
PATH = "/v1/chat/completions"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 500}
STREAM = CHAT | {"stream": True}


@asynccontextmanager
async def sidecar(*, loads: bool) -> AsyncIterator[str]:
    """Run what says how the load is, whatever the limit; gives the line of configuration."""
    told = b'{"loads": {"32:24": %b, "4:3": %b}}'.replace(b"%b", b"true" if loads else b"false")
    async with serving(answer(told)) as server:
        yield f"  state_url: {server.url}\n"


async def gathered(proxied: Proxied, batch: Sequence[Asked]) -> list[Went]:
    """Send requests, some at a time."""
    room = asyncio.Semaphore(16)

    async def one(asked: Asked) -> Went:
        async with room:
            return await proxied.front.ask(asked.body, path=asked.path, headers=asked.headers)

    return await asyncio.gather(*map(one, batch))


def expressible(folder: Path) -> Routes:
    """Read the rules of a folder's configuration, without those that HAProxy cannot ask."""
    keys = load(folder / "specgauge.yaml", env={}, overrides={}).routing
    assert keys is not None
    routes = routes_of(keys)
    return replace(routes, rules=tuple(rule for rule in routes.rules if not ask(rule).refused))


Explained = tuple[str, str, str, str]


def explained(routes: Routes, one: Asked, live: Live) -> Explained:
    """Say what the Python decision makes of a request: class, pool, reason, body."""
    shape = shape_of(one.body, path=one.path, headers=one.headers, max_body=routes.max_body)
    made = decide(routes, shape, live)
    return made.traffic_class, str(made.pool), made.reason, str(shape.body)


@pytest.mark.parametrize(
    ("rules", "count", "kinds"), [(RULES, 700, 8), (ARTICLES, 300, 8)], ids=["every", "articles"]
)
async def test_requests_land_where_explain_says(
    tmp_path: Path, rules: str, count: int, kinds: int
) -> None:
    """Over every rule that HAProxy can ask, broken bodies included, it and Python agree."""
    async with sidecar(loads=True) as told, proxying(tmp_path, rules + told) as proxied:
        routes = expressible(tmp_path)
        within: dict[str, bool | None] = {limit.key: True for limit in routes.limits()}
        every = list(requests(13, count))
        expected: dict[str, Explained] = {}
        for flag, batch in ((Flag.ON, every[: count // 2]), (Flag.OFF, every[count // 2 :])):
            await proxied.flag.write(on=flag is Flag.ON)
            for one, went in zip(batch, await gathered(proxied, batch), strict=True):
                said = explained(routes, one, Live(flag=flag, loads=within))
                assert (went.status, *went.got) == (200, *said[:2]), one
                assert (went.traffic_class, went.pool, went.server) == (*said[:2], said[1]), one
                expected[went.id] = said
        found = {
            line["id"]: tuple(line[key] for key in ("class", "pool", "reason", "body"))
            for line in await proxied.front.log(count)
        }
        assert found == expected
        assert len(set(expected.values())) >= kinds


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"host": "", "speculative": ("localhost:80", "[::1]:81"), "access_log": "/log"},
        {"host": "::1", "state_url": "http://127.0.0.1:9843"},
        {
            "speculative": ("localhost:80", "127.0.0.2:81"),
            "speculative_trust": Trust(name="engine.internal"),
            "standard_trust": Trust(name="engine.internal"),
            "state_url": "https://localhost:9843",
            "state_trust": Trust(),
            "sni": True,
        },
    ],
    ids=["plain", "names", "version six", "tls"],
)
@pytest.mark.parametrize(
    "switch",
    [None, Switch(socket="127.0.0.1:9", backend="b", server="s")],
    ids=["no flag", "port"],
)
def test_haproxy_takes_it_without_a_warning(
    tmp_path: Path, changes: dict[str, Any], switch: Switch | None
) -> None:
    """Whatever the addresses are, HAProxy's own check has nothing to say."""
    routes = Routes(rules=tuple(rule for rules in PRESETS.values() for rule in rules))
    (file,) = haproxy(Options(router=Router(routes=routes, **changes), switch=switch))
    text = file.text.replace("/var/lib/haproxy/", f"{tmp_path}/")
    (tmp_path / "specgauge.state").write_text("1\n")
    (tmp_path / "haproxy.cfg").write_text(text)
    assert checked(tmp_path) == (0, "Configuration file is valid")


def checked(folder: Path) -> tuple[int, str]:
    """Let HAProxy check a configuration; gives its exit code and all that it says."""
    command = [program("haproxy"), "-c", "-f", str(folder / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_what_it_cannot_ask_is_said(tmp_path: Path) -> None:
    """A rule that needs the prompt, or other numbers, is left out and named; nothing is guessed."""
    rules = """
  decode_concurrency: {at_most: 8}
  max_body: 5MiB
  rules:
    - {name: code, when: {patterns: [code_fence], contains: [x]}, pool: speculative}
    - {name: long, when: {prompt_characters: {above: 9}}, pool: standard}
    - {name: huge, when: {max_tokens: {below: 1234567}}, pool: standard}
    - {name: tiny, when: {temperature: {above: 0.00001, at_most: 1}}, pool: standard}
    - {name: lines, when: {header: {name: X-App, values: ["a\\nb"]}}, pool: standard}
    - {name: foreign, when: {models: ["größer"]}, pool: standard}
    - {name: plain, when: {models: ["it's"], header: {name: X-App, values: [-i]}}, pool: standard}
"""
    file = rendered(
        tmp_path, 1, "{servers: ['127.0.0.1:8001']}", "{servers: ['127.0.0.1:8002']}", rules
    )
    digits = "it knows numbers of six digits, 0.0001 to 999999"
    assert file.notes == (
        "rule code is left out, when.patterns: it cannot look into the texts of a prompt",
        "rule code is left out, when.contains: it cannot look into the texts of a prompt",
        "rule long is left out, when.prompt_characters: it cannot look into the texts of a prompt",
        f"rule huge is left out, when.max_tokens.below: {digits}",
        f"rule tiny is left out, when.temperature.above: {digits}",
        "rule lines is left out, when: a line break cannot stand in its configuration",
        "rule foreign is left out, when.models: it reads names in ASCII alone",
        "without the sidecar the last flag holds for good, whatever on_sidecar_loss says",
        "it knows no load, so other go to the standard pool; set routing.state_url",
        "reading a body of routing.max_body may take it too long; set 4MiB at most",
    )
    assert all(f"# Not as configured: {note}\n" in file.text for note in file.notes)
    assert checked(tmp_path) == (0, "Configuration file is valid")
    done = CliRunner().invoke(
        cli,
        ["render", "haproxy", "--config", f"{tmp_path}/specgauge.yaml", "--output", str(tmp_path)],
        standalone_mode=False,
    )
    assert done.stdout == "haproxy/haproxy.cfg\n"
    assert done.stderr.splitlines() == [f"haproxy/haproxy.cfg: {note}" for note in file.notes]
    assert (tmp_path / "haproxy" / "haproxy.cfg").read_text() == file.text


def test_the_example_of_the_documentation_is_rendered(tmp_path: Path) -> None:
    """What the page shows loads, and all of its rules can be asked."""
    page = Path(__file__).parents[1] / "docs" / "routing-haproxy.md"
    (text,) = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "specgauge.yaml"
    file.write_text(re.sub(r"/run/haproxy|/var/log/specgauge", str(tmp_path), text))
    config = load(file, env={}, overrides={})
    (made,) = haproxy(Options(router=router_of(config), switch=switch_of(config)))
    assert [note.partition(",")[0] for note in made.notes] == [
        "without the sidecar the last flag holds for good"
    ]


def test_another_flag_is_no_switch(tmp_path: Path) -> None:
    """Where the flag lies elsewhere the router obeys none, and says so."""
    file = tmp_path / "specgauge.yaml"
    file.write_text("targets: [{url: 'http://127.0.0.1:8000'}]\nrouting: {}\n")
    config = load(file, env={}, overrides={})
    (made,) = haproxy(Options(router=router_of(config), switch=switch_of(config)))
    assert made.notes[2:] == ("it obeys no flag; set flag.backend: haproxy, and flag.haproxy",)
    assert "stats socket" not in made.text


@pytest.mark.parametrize("name", ["specgauge_standard", "specgauge", "system", "a b", "x\nglobal"])
def test_a_name_that_would_be_another_is_refused(name: str) -> None:
    """The flag's backend can be none of the router's, and no other directive."""
    switch = Switch(socket="/run/s", backend=name, server="s")
    with pytest.raises(RenderError, match=r"flag\.haproxy: "):
        tuple(haproxy(Options(router=Router(), switch=switch)))
    assert tuple(haproxy(Options(switch=switch))) == ()


@given(
    bound=st.decimals(0, 999999, places=4).map(lambda one: float(f"{one:.6g}")),
    value=st.floats(allow_nan=False),
    near=st.sampled_from([-1e-3, -1e-5, 0.0, 1e-5, 1e-3, 1.0]),
)
def test_numbers_compare_as_text(bound: float, value: float, near: float) -> None:
    """As HAProxy writes them, to six digits, numbers compare by text as they do by value."""
    if not can_compare(bound):
        return
    for one in (value, bound + near, bound * (1.0 + near)):
        text = f"{one:g}"
        assert (re.match(above(bound), text) is not None) is (float(text) > bound)
        assert (re.match(at_least(bound), text) is not None) is (float(text) >= bound)


async def test_streams_arrive_chunk_by_chunk(tmp_path: Path) -> None:
    """Each chunk is with the client soon after the server sent it, the first like the last."""
    async with proxying(tmp_path, "") as proxied:

        async def scenario() -> list[Measured]:
            here = await arrivals(proxied)
            there = proxied.front.speculative.sent
            assert len(here) == len(there) == proxied.front.speculative.chunks
            lags = [late - early for late, early in zip(here, there, strict=True)]
            return [
                Measured(name="first", value=lags[0], low=-0.001, high=0.05),
                Measured(name="any", value=max(lags), low=-0.001, high=0.05),
            ]

        await calmly(scenario)


async def arrivals(proxied: Proxied) -> list[float]:
    """Ask for a stream; gives when each of its numbered events came."""
    data, url = json.dumps(STREAM), f"{proxied.front.url}{PATH}"
    async with proxied.front.client.post(url, data=data) as response:
        return [time.monotonic() async for line in response.content if b'"at"' in line]


@pytest.mark.parametrize("mode", ["dead", "slam", "500", "503"])
async def test_what_the_standard_pool_can_serve_does_not_fail(tmp_path: Path, mode: str) -> None:
    """However the speculative pool fails, every request is answered, by the standard pool."""
    async with proxying(tmp_path, "") as proxied:
        front = proxied.front
        assert (await front.ask(CHAT)).server == "speculative"
        if mode == "dead":
            await front.speculative.stop()
        else:
            front.speculative.mode = mode
        batch = [Asked(body=json.dumps(CHAT).encode(), path=PATH, headers={})] * 60
        went = await gathered(proxied, batch)
        assert {(one.status, one.server, one.pool) for one in went} == {
            (200, "standard", "standard")
        }
        lines = (await front.log(61))[1:]
        assert {(line["class"], line["pool"], line["served_pool"]) for line in lines} == {
            ("other", "speculative", "standard")
        }
        assert any(line["retries"] != "0" for line in lines)
        if mode == "dead":
            await front.speculative.start()
        front.speculative.mode = "well"
        async with asyncio.timeout(DEADLINE):
            while (await front.ask(CHAT)).server != "speculative":
                pass  # a check has yet to pass


async def test_each_pool_serves_without_the_other(tmp_path: Path) -> None:
    """What is for the speculative pool is served by it once the standard pool is gone; no else."""
    rules = "  rules: [{name: hot, when: {temperature: {above: 1}}, pool: standard}]\n"
    async with proxying(tmp_path, rules) as proxied:
        front = proxied.front
        await front.standard.stop()
        async with asyncio.timeout(DEADLINE):
            while b" DOWN" not in (tmp_path / "errors").read_bytes():
                assert (await front.ask(CHAT)).server == "speculative"
        for _ in range(5):
            assert (await front.ask(CHAT)).server == "speculative"
        went = await front.ask(CHAT | {"temperature": 2})
        assert (went.status, went.traffic_class, went.pool) == (503, "hot", "")


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":' + b"[" * 1_000_000,
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 200_000,
        b'{"temperature":1.' + b"1" * 1_000_000 + b"}",
        b"{" + b",".join([b'"guided_json":null'] * 50_000) + b"}",
        b'"' * 1_000_000,
    ],
    ids=["lists", "closed", "mappings", "digits", "keys", "quotes"],
)
async def test_hostile_bodies_are_served(tmp_path: Path, body: bytes) -> None:
    """No body takes HAProxy down or for long, whatever it is read as."""
    async with proxying(tmp_path, ARTICLES) as proxied:
        assert (await proxied.front.ask(body)).status == 200
        (line,) = await proxied.front.log(1)
        assert line["seconds"] < 2.0
        assert proxied.process.poll() is None


async def test_servers_of_a_pool_share_it(tmp_path: Path) -> None:
    """Each gets its part of the first attempts; where one is gone the others take it over."""
    servers = [Server(name=f"spec-{number}") for number in range(3)]
    for server in servers:
        await server.start()
    places = '", "'.join(server.address for server in servers)
    try:
        async with proxying(tmp_path, "", spec=places) as proxied:
            batch = [Asked(body=json.dumps(CHAT).encode(), path=PATH, headers={})] * 150
            went = Counter(one.server for one in await gathered(proxied, batch))
            assert set(went) == {"spec-0", "spec-1", "spec-2"}
            assert min(went.values()) >= 20
            await servers[2].stop()
            assert {one.status for one in await gathered(proxied, batch[:30])} == {200}
            went = Counter(one.server for one in await gathered(proxied, batch[:60]))
            assert set(went) == {"spec-0", "spec-1"}
            await proxied.flag.write(on=False)
            assert {one.server for one in await gathered(proxied, batch[:20])} == {"standard"}
    finally:
        for server in servers:
            await server.stop()


async def test_a_stream_that_has_begun_is_not_asked_for_again(tmp_path: Path) -> None:
    """What breaks off in the middle breaks off for the client, and nobody generates it again."""
    async with proxying(tmp_path, "") as proxied:
        front = proxied.front
        front.speculative.mode = "cut"
        with pytest.raises(aiohttp.ClientError):
            await front.ask(STREAM)
        assert all(length == 0 for length in front.standard.lengths)  # health checks alone


async def test_the_flag_is_obeyed_and_no_stream_is_dropped(tmp_path: Path) -> None:
    """From the guard's write on every new request is standard; streams that run end whole."""
    async with proxying(tmp_path, "") as proxied:
        front = proxied.front
        front.speculative.chunks = 50
        streams = [asyncio.create_task(front.ask(STREAM)) for _ in range(8)]
        await asyncio.sleep(0.3)
        await proxied.flag.write(on=False)
        assert await proxied.flag.read() is False
        batch = [Asked(body=json.dumps(CHAT).encode(), path=PATH, headers={})] * 40
        went = await gathered(proxied, batch)
        assert {one.server for one in went} == {"standard"}
        assert not any(stream.done() for stream in streams)
        for one in await asyncio.gather(*streams):
            assert (one.status, one.server, b"[DONE]" in one.body) == (200, "speculative", True)
        assert {line["reason"] for line in (await front.log(48))[:40]} == {"flag_off"}
        await proxied.flag.write(on=True)
        assert (await front.ask(CHAT)).server == "speculative"


async def test_the_flag_outlives_a_reload(tmp_path: Path) -> None:
    """With the state written before, the new process has the flag that the old one had."""
    async with proxying(tmp_path, "") as proxied:
        front = proxied.front
        await proxied.flag.write(on=False)
        (tmp_path / "specgauge.state").write_text(await proxied.told("show servers state"))
        following = start(tmp_path, "-sf", str(proxied.process.pid))
        try:
            await asyncio.to_thread(proxied.process.wait, DEADLINE)
            assert await proxied.flag.read() is False
            assert (await front.ask(CHAT)).server == "standard"
        finally:
            following.kill()
            following.wait(DEADLINE)


async def test_the_load_moves_classes(tmp_path: Path) -> None:
    """Within a second the load sends a class away and back; a dead sidecar's load is unknown."""
    rules = "  decode_concurrency: {at_most: 4, resume: 3}\n"
    low, high = (answer(b'{"loads": {"4:3": %b}}' % one) for one in (b"true", b"false"))
    async with (
        serving(low) as server,
        proxying(tmp_path, f"{rules}  state_url: {server.url}\n") as proxied,
    ):
        front = proxied.front
        assert (await front.ask(CHAT)).server == "speculative"
        server.script(high)
        await settled(proxied, "load")
        server.script(low)
        await settled(proxied, "fallback")
        server.script(answer(b"{}", status=503))
        await settled(proxied, "load_unknown")
        assert (await front.ask(CHAT)).server == "standard"


async def settled(proxied: Proxied, reason: str) -> None:
    """Ask until requests go where they go for this reason."""
    file, found = proxied.front.folder / "access.log", ""
    async with asyncio.timeout(DEADLINE):
        while found != reason:
            lines = len(file.read_text().splitlines())
            await proxied.front.ask(CHAT)
            found = (await proxied.front.log(lines + 1))[-1]["reason"]


async def test_bodies_of_every_size_arrive_whole(tmp_path: Path) -> None:
    """Up to the limit they are looked into; larger ones go by path and header, and arrive whole."""
    rules = """
  max_request: 32MiB
  rules:
    - {name: hot, when: {temperature: {above: 1}}, pool: standard}
    - {name: batch, when: {header: {name: X-Traffic, values: [batch]}}, pool: standard}
"""
    async with proxying(tmp_path, rules) as proxied:
        front = proxied.front
        hot = b'{"temperature": 1.5, "prompt": "%b"}'
        room = (1 << 20) - len(hot) + 2
        cases = [
            (hot % (b"x" * room), {}, ("hot", "rule:hot", "read")),
            (hot % (b"x" * (room + 1)), {}, ("other", "body_too_large", "body_too_large")),
            (hot % (b"x" * 20_000_000), {}, ("other", "body_too_large", "body_too_large")),
            (
                hot % (b"x" * 20_000_000),
                {"X-Traffic": "batch"},
                ("batch", "rule:batch", "body_too_large"),
            ),
            (b"", {}, ("other", "no_body", "no_body")),
            (b'{"temperature": 1.5', {}, ("other", "malformed", "malformed")),
        ]
        for count, (body, headers, (name, reason, state)) in enumerate(cases, start=1):
            went = await front.ask(body, headers=headers)
            assert (went.status, went.traffic_class) == (200, name)
            line = (await front.log(count))[-1]
            assert (line["class"], line["reason"], line["body"]) == (name, reason, state)
            server = front.standard if line["pool"] == "standard" else front.speculative
            assert len(body) in server.lengths
        # The answer comes before the body is sent whole, which a client may take for an error.
        head = f"POST {PATH} HTTP/1.1\r\nHost: h\r\nContent-Length: {33 << 20}\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(head.encode() + b"x" * (2 << 20))
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_a_body_in_chunks_is_known_to_be_large(tmp_path: Path) -> None:
    """Without a length a body that does not fit is told by what of it is there."""

    async def pieces(count: int) -> AsyncIterator[bytes]:
        yield b'{"temperature": 1.5, "prompt": "'
        for _ in range(count):
            yield b"x" * 100_000
        yield b'"}'

    rules = "  rules: [{name: hot, when: {temperature: {above: 1}}, pool: standard}]\n"
    async with proxying(tmp_path, rules) as proxied:
        front = proxied.front
        for count, name in ((5, "hot"), (11, "other"), (60, "other")):
            async with front.client.post(f"{front.url}{PATH}", data=pieces(count)) as response:
                assert (response.status, response.headers["X-Specgauge-Class"]) == (200, name)
        assert 6_000_034 in front.speculative.lengths


async def test_a_quoted_path_is_the_same_path(tmp_path: Path) -> None:
    """A path that is written otherwise, or a header that is there twice, evades no rule."""
    rules = (
        "  rules:\n    - {name: emb, when: {routes: [embeddings]}, pool: standard}\n"
        "    - {name: admin, when: {paths: [/v1/admin]}, pool: standard}\n"
    )
    async with proxying(tmp_path, rules) as proxied:
        paths = {"/v1/%65mbeddings?x=1": "emb", "/v1/%61dmin/a": "admin", "/v1/other": "other"}
        for path, name in paths.items():
            went = await proxied.front.ask(CHAT, path=path)
            assert (went.status, went.traffic_class) == (200, name), path


async def test_old_clients_are_served(tmp_path: Path) -> None:
    """HTTP/1.0 gets its answer, and a stream until the connection ends, without chunks."""
    streamed = then_close(answer(b"data: 1\n\ndata: [DONE]\n\n", length=-1))
    async with (
        serving(streamed) as engine,
        proxying(tmp_path, "", spec=engine.address) as proxied,
    ):
        for body, end in ((STREAM, b"\r\n\r\ndata: 1\n\ndata: [DONE]\n\n"), (None, b"}")):
            if not body:
                await proxied.flag.write(on=False)  # now another server answers, with a length
            data = json.dumps(body or CHAT).encode()
            head = f"POST {PATH} HTTP/1.0\r\nContent-Length: {len(data)}\r\n\r\n"
            reader, writer = await asyncio.open_connection("127.0.0.1", proxied.front.port)
            writer.write(head.encode() + data)
            async with asyncio.timeout(DEADLINE):
                found = await reader.read()
            writer.close()
            assert re.match(rb"HTTP/1\.. 200 ", found)
            assert b"chunked" not in found.lower()
            assert found.endswith(end)


async def test_the_access_log_is_what_the_sidecar_reads(tmp_path: Path) -> None:
    """Every line has the router's keys, and the reader of classes takes its figures."""
    async with proxying(tmp_path, "") as proxied:
        began = time.time()
        await proxied.front.ask(STREAM, headers={"X-Request-Id": '"} "'})
        await proxied.front.ask(b"", path="/v1/models", headers={"X-Request-Id": "app-1:2.3"})
        streamed, other = await proxied.front.log(2)
        assert (len(streamed["id"]), other["id"]) == (36, "app-1:2.3")
        record = read_line(json.dumps(streamed).encode())
        assert isinstance(record, Record)
        assert (record.traffic_class, record.pool, record.failed, record.whole) == (
            "other", "speculative", False, True,
        )  # fmt: skip
        assert record.e2e is not None
        assert 0.09 <= record.e2e <= DEADLINE
        assert began - 1.0 <= streamed["time"] <= time.time() + 1.0
        assert (streamed["stream"], other["stream"]) == ("1", "-")
        assert streamed["upstream"] == proxied.front.speculative.address
        assert streamed["upstream_status"] == "200"
