"""The etcd backend against a real etcd: values, conflicts, tokens, and an etcd that is gone."""

import asyncio
import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.servers import answer, serving, silent

from specgauge.errors import ConfigError
from specgauge.guard.flags.etcd import Etcd, EtcdTerms, faults
from specgauge.guard.flags.protocol import FlagError, WriteResult

KEY = "pool/speculative_decoding_enabled"
DEADLINE = 30.0
HEADER = b'"header":{"revision":"1"}'


def program(name: str) -> str:
    """Find a program of Debian's; without it the test fails."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    return found or pytest.fail(f"{name} is missing: `make packages` as root installs it")


def free_port() -> int:
    """Name a port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def post(url: str, document: object) -> Any:
    """Ask etcd past our code."""
    request = urllib.request.Request(url, data=json.dumps(document).encode())  # noqa: S310 - our own http server
    with urllib.request.urlopen(request, timeout=DEADLINE) as response:  # noqa: S310 - same
        return json.loads(response.read())


def put(url: str, text: str, key: str = KEY) -> None:
    """Write the key past our code."""
    post(f"{url}/v3/kv/put", {"key": encode(key), "value": encode(text)})


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def etcdctl(url: str, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run etcd's own client and give what it printed."""
    command = [program("etcdctl"), f"--endpoints={url}", *arguments]
    env = {"ETCDCTL_API": "3"}
    return subprocess.run(command, env=env, input=stdin, capture_output=True, check=True).stdout


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run etcd until the end; gives its URL once it says that it is healthy."""
    url, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = [
        *(program("etcd"), "--data-dir", str(folder / "data"), "--unsafe-no-fsync"),
        *("--listen-client-urls", url, "--advertise-client-urls", url),
        *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
        *("--initial-cluster", f"default={peers}"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        await_health(url, process, folder / "log")
        yield url
    finally:
        process.terminate()
        process.wait(DEADLINE)
        shutil.rmtree(folder / "data", ignore_errors=True)


def await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=1) as response:  # noqa: S310 - our own http server
                if b"true" in response.read():
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    pytest.fail(f"etcd did not start: {log.read_text()[-800:]}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one etcd for all tests of this file."""
    with running(tmp_path_factory.mktemp("etcd")) as url:
        yield url


@pytest.fixture
def etcd(server: str) -> str:
    """Give the etcd with the key deleted."""
    post(f"{server}/v3/kv/deleterange", {"key": encode(KEY)})
    return server


@asynccontextmanager
async def between(url: str, act: Callable[[], None]) -> AsyncIterator[str]:
    """Stand before etcd and let somebody act just before each transaction."""

    async def forward(request: web.Request) -> web.Response:
        if request.path.endswith("/txn"):
            await asyncio.to_thread(act)
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{url}{request.path}", data=await request.read()) as said,
        ):
            return web.Response(body=await said.read(), status=said.status)

    app = web.Application()
    app.router.add_post("/{path:.*}", forward)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://127.0.0.1:{}".format(*runner.addresses[0][1:2])
    finally:
        await runner.cleanup()


async def failure(flag: Etcd, *, write: bool | None = None) -> FlagError:
    """Read or write what must fail."""
    with pytest.raises(FlagError) as found:
        await (flag.read() if write is None else flag.write(write))
    return found.value


@pytest.mark.parametrize("texts", [("true", "false"), ("spéculer", "")], ids=["default", "odd"])
async def test_both_values_there_and_back(etcd: str, texts: Sequence[str]) -> None:
    """A key that was never set is unset; each value reads as what was written, twice the same."""
    on, off = texts
    flag = Etcd(EtcdTerms(url=etcd, key=KEY, on=on, off=off))
    assert await flag.read() is None
    for value in (False, True, True, False, False, True):
        assert await flag.write(value) is value
        assert await flag.read() is value
    found = post(f"{etcd}/v3/kv/range", {"key": encode(KEY)})["kvs"][0]
    assert found["value"] == encode(on)
    assert found["version"] == "4"
    assert flag.place == f"key {KEY} in etcd at {etcd}"
    assert (flag.name, flag.can_read) == ("etcd", True)
    await flag.close()


async def test_etcdctl_sees_the_flag_and_changes_it(etcd: str) -> None:
    """What etcdctl reads is what was written, and the other way round, final newline or not."""
    flag = Etcd(EtcdTerms(url=etcd, key=KEY))
    await flag.write(on=False)
    assert etcdctl(etcd, "get", "--print-value-only", KEY) == b"false\n"
    etcdctl(etcd, "put", KEY, stdin=b"true\n")
    assert await flag.read() is True


async def test_a_foreign_text_is_named_and_can_be_replaced(etcd: str) -> None:
    """A text that is neither value is no value, and a decision replaces it."""
    put(etcd, "perhaps")
    flag = Etcd(EtcdTerms(url=etcd, key=KEY))
    error = await failure(flag)
    assert error.result is WriteResult.UNREADABLE
    assert "holds 'perhaps', neither 'true' nor 'false'; correct flag.etcd.on" in error.detail
    await flag.write(on=False)
    assert await flag.read() is False


@pytest.mark.parametrize("before", [None, "true"], ids=["absent", "present"])
async def test_another_who_is_faster_is_a_conflict(etcd: str, before: str | None) -> None:
    """What another wrote after we looked is not written over; the next attempt sees it."""
    if before is not None:
        put(etcd, before)
    async with between(etcd, lambda: put(etcd, "true")) as url:
        error = await failure(Etcd(EtcdTerms(url=url, key=KEY)), write=False)
    assert error.result is WriteResult.CONFLICT
    assert error.detail.endswith("was changed by another at the same time: now it holds 'true'")
    flag = Etcd(EtcdTerms(url=etcd, key=KEY))
    assert await flag.read() is True
    assert await flag.write(on=False) is False
    assert await flag.read() is False


async def test_another_who_wrote_the_same_is_no_conflict(etcd: str) -> None:
    """Two who want the same both get it."""
    put(etcd, "true")
    async with between(etcd, lambda: put(etcd, "false")) as url:
        assert await Etcd(EtcdTerms(url=url, key=KEY)).write(on=False) is False


async def test_a_key_that_was_deleted_meanwhile_is_a_conflict(etcd: str) -> None:
    """A deleted key is told as gone."""
    put(etcd, "true")
    delete = lambda: post(f"{etcd}/v3/kv/deleterange", {"key": encode(KEY)})  # noqa: E731 - one expression
    async with between(etcd, delete) as url:
        error = await failure(Etcd(EtcdTerms(url=url, key=KEY)), write=False)
    assert (error.result, "now it is gone" in error.detail) == (WriteResult.CONFLICT, True)


async def test_the_token_comes_from_its_file(tmp_path: Path) -> None:
    """An etcd with accounts takes the token without a scheme, anew from the file at each call."""
    tmp_path.joinpath("etcd").mkdir()
    file = tmp_path / "token"
    with running(tmp_path / "etcd") as url:
        terms = EtcdTerms(url=url, key=KEY, token_file=str(file))
        account = {"name": "root", "password": "pw"}
        post(f"{url}/v3/auth/user/add", account)
        post(f"{url}/v3/auth/user/grant", {"user": "root", "role": "root"})
        post(f"{url}/v3/auth/enable", {})
        assert (await failure(Etcd(replace(terms, token_file=None)))).result in {
            WriteResult.BAD_REQUEST,
            WriteResult.UNAUTHORIZED,
        }
        file.write_text("wrong-token-of-mine\n")
        flag = Etcd(terms)
        error = await failure(flag, write=True)
        assert error.result is WriteResult.UNAUTHORIZED
        assert "wrong-token-of-mine" not in str(error)
        file.write_text(post(f"{url}/v3/auth/authenticate", account)["token"])
        assert await flag.write(on=True) is True
        assert await flag.read() is True


async def test_an_etcd_that_is_down_is_unreachable() -> None:
    """Nothing listens: both calls say so and name the server."""
    url = f"http://127.0.0.1:{free_port()}"
    flag = Etcd(EtcdTerms(url=url, key=KEY))
    for error in (await failure(flag), await failure(flag, write=True)):
        assert error.result is WriteResult.UNREACHABLE
        assert url in error.detail


async def test_an_etcd_that_never_answers_is_given_up() -> None:
    """Reading and writing end within the timeout."""
    async with serving(silent) as hanging:
        flag = Etcd(EtcdTerms(url=hanging.url, key=KEY), timeout=0.2)
        assert (await failure(flag)).result is WriteResult.TIMEOUT
        assert (await failure(flag, write=True)).result is WriteResult.TIMEOUT


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b"{" + HEADER + b',"kvs":[{"value":"not base64","mod_revision":"2"}]}',
        b"{" + HEADER + b',"kvs":[{"value":""}]}',
        b"{" + HEADER + b',"kvs":[7]}',
        b"{" + HEADER + b',"kvs":7}',
        b"<html>welcome</html>",
    ],
    ids=["list", "empty", "no base64", "no revision", "number", "no list", "html"],
)
async def test_an_answer_of_another_kind_is_unreadable(body: bytes) -> None:
    """What is no answer of etcd's is never taken for an unset key."""
    async with serving(answer(body, content_type="application/json")) as odd:
        error = await failure(Etcd(EtcdTerms(url=odd.url, key=KEY)))
    assert error.result is WriteResult.UNREADABLE


@pytest.mark.parametrize("body", [b"{}", b'{"responses":[{}]}', b'{"succeeded":"true"}'])
async def test_a_transaction_must_say_that_it_succeeded(body: bytes) -> None:
    """An answer without succeeded is no success."""
    empty = answer(b"{" + HEADER + b"}", content_type="application/json")
    async with serving(empty, answer(body, content_type="application/json")) as odd:
        error = await failure(Etcd(EtcdTerms(url=odd.url, key=KEY)), write=True)
    assert error.result is WriteResult.UNREADABLE


def test_faults_are_named_with_their_path() -> None:
    """An empty key and two texts that are the same are found before anything is asked."""
    terms = EtcdTerms(url="http://etcd:2379", key="", on="x", off=" x")
    assert [line.split(":")[0] for line in faults(terms)] == ["flag.etcd.key", "flag.etcd.on"]
    with pytest.raises(ConfigError):
        Etcd(terms)
