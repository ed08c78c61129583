"""The rendered router in a real nginx before two real pools: where requests go, and how."""

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.calm import Measured, calmly
from tests.routed import LENIENT, RULES, requests
from tests.routers import Front, Went, routing
from tests.servers import answer, serving, then_close
from tests.stub_engine import Engine, serving_engine

from specgauge.cli.route.settings import routes_of
from specgauge.cli.settings import guard_of, settings_of
from specgauge.config import load
from specgauge.routing.decide import Flag, Live, decide
from specgauge.routing.rules import Routes
from specgauge.routing.shape import shape_of
from specgauge.serve.app import Sidecar

PLAYBOOK = "  presets: [playbook]\n"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 500}
STREAM = CHAT | {"stream": True}
TOKEN = "sesame"
CHUNKED = b'{"max_tokens": 1}'.ljust(300_000)
CHUNKED_LARGE = CHUNKED.ljust(2 << 20)


async def test_a_thousand_requests_land_where_explain_says() -> None:
    """Over all rules, broken bodies included, nginx and the Python decision agree on everything."""
    async with routing(RULES) as front:
        routes = routes_of_file(front.folder / "specgauge.yaml")
        keys = [limit.key for limit in routes.limits()]
        asked = list(requests(11, 1000))
        expected: dict[str, tuple[str, str, str, str]] = {}
        kinds = set()
        for start in range(0, len(asked), 125):
            live = tell(front, start // 125, keys)
            batch = asked[start : start + 125]
            went = await gathered(front, batch)
            for one, found in zip(batch, went, strict=True):
                shape = shape_of(
                    one.body, path=one.path, headers=one.headers, max_body=routes.max_body
                )
                decision = decide(routes, shape, live)
                pool, name = str(decision.pool), decision.traffic_class
                assert (200, pool, name, pool, (name, pool)) == (
                    found.status, found.server, found.traffic_class, found.pool, found.got,
                ), one  # fmt: skip
                expected[found.id] = (name, pool, decision.reason, str(shape.body))
                kinds.add((name, pool, decision.reason))
        lines = {line["id"]: line for line in await front.log(1000)}
        assert expected == {
            key: (line["class"], line["pool"], line["reason"], line["body"])
            for key, line in lines.items()
        }
        assert len(kinds) >= 25
        # Connections to the pools are kept: a thousand requests need no thousand of them.
        assert len(front.speculative.connections | front.standard.connections) <= 80
        assert front.errors() == ""


def routes_of_file(file: Path) -> Routes:
    """Read the rules that nginx was rendered from."""
    keys = load(file, env={}, overrides={}).routing
    assert keys is not None
    return routes_of(keys)


def tell(front: Front, turn: int, keys: list[str]) -> Live:
    """Set another state of flag and load with every turn; gives what it means."""
    every: dict[str, bool | None] = dict.fromkeys(keys, True)
    none: dict[str, bool | None] = dict.fromkeys(keys, False)
    states: list[tuple[dict[str, Any] | None, Live]] = [
        ({"flag": True, "loads": every}, Live(loads=every)),
        ({"flag": False, "loads": every}, Live(flag=Flag.OFF, loads=every)),
        ({"flag": True, "loads": none}, Live(loads=none)),
        ({"flag": True, "loads": dict.fromkeys(keys)}, Live()),
        ({"flag": True, "loads": {keys[0]: False, keys[1]: True}},
         Live(loads={keys[0]: False, keys[1]: True})),
        (None, Live(flag=Flag.UNKNOWN)),
        ({"flag": None, "last_flag": True, "last_flag_age": 9, "loads": every}, Live(loads=every)),
        ({"flag": None, "last_flag": False, "last_flag_age": 9}, Live(flag=Flag.OFF)),
    ]  # fmt: skip
    state, live = states[turn % len(states)]
    if state is None:
        front.state.unlink(missing_ok=True)
    else:
        front.tell(**state)
    return live


async def gathered(front: Front, batch: Sequence[Any]) -> list[Went]:
    """Send requests, some at a time."""
    room = asyncio.Semaphore(16)

    async def one(asked: Any) -> Went:
        async with room:
            return await front.ask(asked.body, path=asked.path, headers=asked.headers)

    return await asyncio.gather(*map(one, batch))


async def test_streams_arrive_chunk_by_chunk() -> None:
    """Each chunk is with the client soon after the server sent it, the first like the last."""

    async def scenario() -> list[Measured]:
        lags = []
        for _ in range(3):
            arrived = []
            async with front.client.post(
                f"{front.url}/v1/chat/completions", data=json.dumps(STREAM)
            ) as response:
                async for chunk in response.content.iter_any():
                    arrived += [time.monotonic()] * chunk.count(b'"at"')
            assert len(arrived) == len(front.speculative.sent) == 8
            lags.append([b - a for a, b in zip(front.speculative.sent, arrived, strict=True)])
        return [
            Measured(name="first chunk", value=max(lag[0] for lag in lags), low=-0.001, high=0.05),
            Measured(name="any chunk", value=max(map(max, lags)), low=-0.001, high=0.05),
        ]

    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        front.speculative.chunks = 8
        await calmly(scenario)


async def test_figures_of_a_request() -> None:
    """The log has a request's time to the first byte and what its last chunk told, once each."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        front.speculative.pause = 0.1
        await front.ask(STREAM)
        await front.ask(CHAT)
        await front.ask(CHAT | {"max_tokens": 5, "stream": True})
        await front.client.get(f'{front.url}/v1/models?x="%22\\')
        streamed, whole, tiny, _ = await front.log(4)
    figures = {
        "completion_tokens": "5", "prompt_tokens": "7",
        "drafts": "2", "draft_tokens": "8", "accepted_tokens": "3",
    }  # fmt: skip
    for line in (streamed, whole, tiny):
        assert {key: line[key] for key in figures} == figures
    assert 0.09 < float(streamed["first_byte_seconds"]) < streamed["seconds"] - 0.3
    assert (streamed["stream"], whole["stream"], tiny["stream"]) == ("1", "0", "1")
    assert (tiny["class"], tiny["served_pool"]) == ("tiny", "standard")
    assert set(streamed) == {
        "time", "id", "class", "pool", "reason", "body", "status", "upstream", "upstream_status",
        "seconds", "first_byte_seconds", "bytes", "stream", "served_pool", "complete", *figures,
    }  # fmt: skip
    assert abs(streamed["time"] - time.time()) < 60


@pytest.mark.parametrize("mode", ["closed", "slam", "500", "503"])
async def test_the_speculative_pool_dies(mode: str) -> None:
    """Whatever way it dies, no request fails, and the log tells who answered."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        asking = asyncio.create_task(keep_asking(front, 150))
        while front.speculative.asked < 30:  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.001)
        if mode == "closed":
            await front.speculative.stop()
        else:
            front.speculative.mode = mode
        went = await asking
        assert {one.status for one in went} == {200}
        assert {one.server for one in went} == {"speculative", "standard"}
        assert all(one.server == one.pool == one.got[1] for one in went)
        lines = await front.log(150)
        moved = [line for line in lines if line["served_pool"] == "standard"]
        assert len(moved) == sum(one.server == "standard" for one in went) > 0
        assert all(line["pool"] == "speculative" for line in lines)
        assert all(line["upstream_status"].endswith(", 200") for line in moved)
        assert all(" : " not in line["upstream"] for line in lines)


async def keep_asking(front: Front, count: int) -> list[Went]:
    """Ask one after the other, eight at a time, with and without streams."""

    async def some(turn: int) -> list[Went]:
        kinds = (CHAT, STREAM | {"n": turn})
        return [await front.ask(kinds[index % 2]) for index in range(turn, count, 10)]

    front.speculative.pause = front.standard.pause = 0.001
    found = await asyncio.gather(*(some(turn) for turn in range(10)))
    return [one for part in found for one in part]


async def test_fail_over_takes_everything_along() -> None:
    """The standard pool gets the same method, path, query, headers and body, large ones too."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        await front.speculative.stop()
        path = "/v1/a%2Fb%20c/completions?x=%22&y=a+b"
        headers = {
            "X-Request-Id": "mine",
            "X-Specgauge-Class": "forged",
            "Authorization": "Bearer t",
        }
        for length in (1000, 2_000_000):
            went = await front.ask(b"x" * length, path=path, headers=headers)
            assert (went.status, went.server, went.id) == (200, "standard", "mine")
            assert went.got == ("other", "standard")
            assert front.standard.lengths[-1] == length
            assert front.standard.last == ("POST", path, "Bearer t")
        assert [line["id"] for line in await front.log(2)] == ["mine", "mine"]


async def test_a_dead_pool_is_left_alone_and_comes_back() -> None:
    """After a failure a pool of one server is not asked by every request, and soon it serves."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        front.speculative.mode = "slam"
        await front.ask(CHAT)
        before = front.speculative.asked
        assert {(await front.ask(CHAT)).server for _ in range(20)} == {"standard"}
        assert front.speculative.asked - before <= 2
        front.speculative.mode = "well"
        async with asyncio.timeout(10):
            while (await front.ask(CHAT)).server != "speculative":  # noqa: ASYNC110 - asking tells
                await asyncio.sleep(0.1)


async def test_a_stream_that_has_begun_is_not_asked_for_again() -> None:
    """A stream cut in its middle ends there: the standard pool does not generate it anew."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        front.speculative.mode = "cut"
        with pytest.raises(aiohttp.ClientError):
            await front.ask(STREAM)
        assert front.standard.asked == 0


async def test_a_stream_that_ends_with_an_error_did_not_end_well() -> None:
    """An engine that dies ends its streams in good form; the log does not take that for success."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        await front.ask(STREAM)
        front.speculative.mode = "error"
        assert b"[DONE]" in (await front.ask(STREAM)).body
        lines = await front.log(2)
        assert [line["complete"] for line in lines] == ["1", ""]
        assert {line["status"] for line in lines} == {200}


async def test_standard_does_not_go_to_the_speculative_pool() -> None:
    """While the flag is off nothing goes there, not even where the standard pool is gone."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=False)
        await front.standard.stop()
        assert (await front.ask(CHAT)).status == 502
        assert front.speculative.asked == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"x" * 20_000_000, "body_too_large", id="20 MB"),
        pytest.param(b" " * ((1 << 20) + 1), "body_too_large", id="one byte too many"),
        pytest.param(b'{"max_tokens": 1}'.ljust(1 << 20), "rule:tiny", id="exactly as much"),
        pytest.param(b'{"max_tokens": 1', "malformed", id="malformed"),
        pytest.param(
            b'{"a":' + b"[" * 30 + b"]" * 30 + b',"max_tokens":1}', "rule:tiny", id="deep"
        ),
        pytest.param(b'{"a":' + b"[" * 31 + b"]" * 31 + b"}", "malformed", id="too deep"),
        pytest.param(b"[" * 100_000, "malformed", id="far too deep"),
        pytest.param(None, "no_body", id="no body"),
        pytest.param(CHUNKED, "rule:tiny", id="chunked"),
        pytest.param(CHUNKED_LARGE, "body_too_large", id="chunked and large"),
    ],
)
async def test_bodies(body: bytes | None, reason: str) -> None:
    """Every body arrives whole, and is routed by what can be known of it, as explain says."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        went = await front.ask(pieces(body) if body in (CHUNKED, CHUNKED_LARGE) else body)
        (line,) = await front.log(1)
        assert (went.status, line["reason"]) == (200, reason)
        arrived = front.speculative.lengths + front.standard.lengths
        assert arrived == [len(body or b"")]
        routes = routes_of_file(front.folder / "specgauge.yaml")
        shape = shape_of(
            body or b"", path="/v1/chat/completions", headers={}, max_body=routes.max_body
        )
        assert decide(routes, shape, Live()).reason == reason


async def test_what_every_engine_refuses() -> None:
    """Bodies that nginx's scripts read in part reach a pool whole; nothing fails in the script."""
    async with routing(RULES) as front:
        front.tell(flag=True, loads={})
        went = [await front.ask(body) for body in LENIENT]
        assert {one.status for one in went} == {200}
        lengths = front.speculative.lengths + front.standard.lengths
        assert sorted(lengths) == sorted(map(len, LENIENT))
        assert "router_error" not in {line["reason"] for line in await front.log(len(LENIENT))}
        assert front.errors() == ""


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    """Send a body without saying how long it is."""
    for start in range(0, len(data), 50_000):
        yield data[start : start + 50_000]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_old_clients(version: str) -> None:
    """A client of HTTP/1.0 gets the whole answer, without chunked framing, and the end of it."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        body = json.dumps(STREAM).encode()
        head = f"POST /v1/completions HTTP/{version}\r\nHost: x\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        got = await reader.read()
        writer.close()
        assert got.split(b"\r\n")[0].endswith(b"200 OK")
        assert (b"chunked" in got) == (version == "1.1")
        assert got.count(b'"at"') == 5
        assert b"[DONE]" in got


BATCH = (
    "  rules: [{name: batch, when: {header: {name: X-Traffic, values: [batch]}}, pool: standard}]\n"
)


async def test_odd_clients() -> None:
    """A header that is there twice, none where one belongs, an id that is no text."""
    async with routing(BATCH) as front:
        front.tell(flag=True)
        twice = "GET / HTTP/1.0\r\nHost: r\r\nX-Traffic: {}\r\nx-traffic: {}\r\n\r\n"
        assert "X-Specgauge-Class: batch" in await front.say(twice.format("a", " batch "))
        assert "X-Specgauge-Class: other" in await front.say(twice.format("batch", "a"))
        # What is sent on is HTTP/1.1, which needs a Host.
        assert f"X-Got-Host: 127.0.0.1:{front.port}" in await front.say("GET / HTTP/1.0\r\n\r\n")
        odd = await front.say('GET / HTTP/1.0\r\nHost: r\r\nX-Request-Id: \xff"a\r\n\r\n')
        assert re.search(r"X-Got-Id: [0-9a-f]{32}\r\n", odd)
        assert "X-Got-Host: r\r\n" in odd
        await front.log(4)


async def test_answers_do_not_steer_the_router() -> None:
    """What a server says to a proxy of nginx's kind is not done."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True)
        front.speculative.mode = "elsewhere"
        went = await front.ask(CHAT)
        assert (went.server, front.speculative.asked) == ("speculative", 1)


async def test_a_state_of_the_time_to_come_is_old() -> None:
    """After a clock that was set back, a sidecar that is gone does not rule for hours."""
    async with routing(PLAYBOOK) as front:
        front.tell(flag=True, age=-299.0)
        await front.ask(CHAT)
        front.tell(flag=True, age=-400.0)
        await front.ask(CHAT)
        assert [line["reason"] for line in await front.log(2)] == ["fallback", "flag_unknown"]


async def test_the_sidecar_dies() -> None:
    """The last flag holds for its time while the load counts as unknown; then the default does."""
    limited = PLAYBOOK + "  decode_concurrency: {at_most: 4, resume: 3}\n"
    loads = {"4:3": True}
    async with routing(limited) as front:
        seen = []
        states: tuple[dict[str, Any], ...] = (
            {"flag": True, "loads": loads},
            {"flag": True, "loads": loads, "age": 6.0},
            {"flag": False, "loads": loads, "age": 290.0},
            {"flag": True, "loads": loads, "age": 301.0},
            {"flag": None, "last_flag": False, "last_flag_age": 250.0, "loads": loads},
            {"flag": None, "last_flag": True, "last_flag_age": 299.0, "age": 3.0, "loads": loads},
            {"flag": "yes", "loads": loads},
            {"flag": True, "loads": {"4:3": "yes"}},
        )
        for state in states:
            front.tell(**state)
            seen.append((await front.ask(CHAT)).server)
        for text in ("", "[]", "nul", "\x00"):
            front.state.write_text(text)
            seen.append((await front.ask(CHAT)).server)
        front.state.unlink()
        seen.append((await front.ask(CHAT)).server)
        reasons = [line["reason"] for line in await front.log(len(seen))]
    assert reasons == [
        "fallback", "load_unknown", "flag_off", "flag_unknown", "flag_off", "flag_unknown",
        "flag_unknown", "load_unknown", *["flag_unknown"] * 5,
    ]  # fmt: skip
    assert seen == ["speculative", *["standard"] * 12]


async def test_without_the_sidecar_rules_may_decide_alone() -> None:
    """Where the default after its loss is the speculative pool, the rules hold as they are."""
    rules = PLAYBOOK + "  on_sidecar_loss: {hold: 1s, then: speculative}\n"
    async with routing(rules) as front:
        front.tell(flag=False, age=2.0)
        assert (await front.ask(CHAT)).server == "speculative"
        assert (await front.ask(CHAT | {"max_tokens": 3})).server == "standard"
    async with routing(PLAYBOOK, state="") as front:
        assert (await front.ask(CHAT)).server == "speculative"


@pytest.mark.parametrize(("way", "bound"), [("file", 2.0), ("url", 3.0)])
async def test_the_guard_is_obeyed(way: str, bound: float, tmp_path: Path) -> None:
    """Soon after the flag goes off all new traffic is on the standard pool; no stream is cut."""

    async def scenario() -> list[Measured]:
        async with serving_engine(Engine()) as engine:
            sidecar = sidecar_of(engine.url, tmp_path / "state.json")
            await sidecar.start()
            try:
                state = sidecar.url if way == "url" else "file"
                async with routing(PLAYBOOK, state=state) as front:
                    if way == "file":
                        linked(front, tmp_path / "state.json")
                    return [await obeyed(front, sidecar.url, bound)]
            finally:
                await sidecar.stop()

    await calmly(scenario)


def sidecar_of(url: str, state: Path) -> Sidecar:
    """Make a sidecar with a guard over an engine, that tells routers what holds."""
    file = state.with_name("sidecar.yaml")
    file.write_text(
        f'targets: [{{url: "{url}", name: spec}}]\nlisten: "127.0.0.1:0"\n'
        f"guard: {{require_standard_capacity: false}}\nrouting: {{state_file: {state}}}\n"
    )
    config = load(file, env={"SPECGAUGE_TOKEN": TOKEN}, overrides={})
    return Sidecar(settings_of(config), guard=guard_of(config))


def linked(front: Front, file: Path) -> None:
    """Have nginx, whose workers may be nobody, find the sidecar's file."""
    for folder in file.parents:
        if folder.stat().st_uid == os.getuid() and str(folder).startswith("/tmp/"):  # noqa: S108 - pytest's own
            folder.chmod(0o755)
    front.state.symlink_to(file)


async def obeyed(front: Front, sidecar: str, bound: float) -> Measured:
    """Order the flag off while a stream runs; tell how long until nothing new went there."""
    async with asyncio.timeout(20):
        while (await front.ask(CHAT)).server != "speculative":  # noqa: ASYNC110 - asking tells
            await asyncio.sleep(0.1)
    front.speculative.chunks, front.speculative.pause = 40, 0.1
    stream = asyncio.create_task(front.ask(STREAM))
    while not front.speculative.sent:  # noqa: ASYNC110 - only looking tells
        await asyncio.sleep(0.01)
    asked = front.client.post(
        f"{sidecar}/api/v1/guard/override",
        json={"mode": "off"},
        headers={"Authorization": f"Bearer {TOKEN}"},
    )
    async with asked as response:
        assert response.status == 200
    start = last = time.monotonic()
    while time.monotonic() < start + bound + 0.5:
        begun = time.monotonic()
        if (await front.ask(CHAT)).server == "speculative":
            last = begun
        await asyncio.sleep(0.02)
    whole = await stream
    assert (whole.status, whole.server, whole.body.count(b'"at"')) == (200, "speculative", 40)
    assert b"[DONE]" in whole.body
    return Measured(name="last request", value=last - start, low=0.0, high=bound)


async def test_a_sidecar_on_another_host_dies() -> None:
    """Its last answer holds for as long as it said, without its load; then the default holds."""
    state = {"flag": True, "loads": {"4:3": True}, "age": 0.0}
    body = json.dumps(state).encode()
    good = answer(
        body, "Cache-Control: max-age=1, stale-if-error=5", content_type="application/json"
    )
    rules = (
        PLAYBOOK + "  rules:\n    - {name: busy, when: {models: [m], decode_concurrency: "
        "{at_most: 4, resume: 3}}, pool: speculative}\n"
    )
    async with serving(good) as sidecar, routing(rules, state=sidecar.url) as front:
        reasons: list[str] = []
        for _ in range(20):
            await front.ask(CHAT)
            await front.ask(CHAT | {"model": "m"})
        assert len(sidecar.requests) <= 2
        sidecar.script(then_close(b""))
        begun = time.monotonic()
        while time.monotonic() < begun + 12 and "flag_unknown" not in reasons[-1:]:
            await front.ask(CHAT)
            await front.ask(CHAT | {"model": "m"})
            reasons = [line["reason"] for line in await front.log(40)]
            await asyncio.sleep(0.1)
        assert list(dict.fromkeys(reasons)) == [
            "fallback", "rule:busy", "load_unknown", "flag_unknown",
        ]  # fmt: skip
        assert 4.0 < time.monotonic() - begun < 8.0
