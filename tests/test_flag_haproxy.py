"""The haproxy backend against a real HAProxy: what it says, and where requests really go."""

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.servers import serving, silent

from specgauge.errors import ConfigError
from specgauge.guard.flags.haproxy import Haproxy, HaproxyMode, HaproxyTerms, faults
from specgauge.guard.flags.protocol import FlagError, WriteResult

DEADLINE = 30.0
CONFIG = """
global
  stats socket {folder}/admin.sock mode 600 level admin
  stats socket {folder}/operator.sock mode 600 level operator
  stats socket fd@{admin} level admin
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend front
  bind fd@{front}
  default_backend pool
backend pool
  server spec 127.0.0.1:{spec} weight 100
  server standard 127.0.0.1:{standard} backup
  server asleep 127.0.0.1:9 weight 0
"""


def program(name: str) -> str:
    """Find a program of Debian's; without it the test fails."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    return found or pytest.fail(f"{name} is missing: `make packages` as root installs it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A HAProxy that runs, its process, and how it is spoken to."""

    folder: Path
    front: str
    admin: str
    process: subprocess.Popen[bytes]

    @property
    def terms(self) -> HaproxyTerms:
        """Terms for the speculative server over the socket with all rights."""
        return HaproxyTerms(socket=f"{self.folder}/admin.sock", backend="pool", server="spec")

    async def answered(self) -> str:
        """Say which server answers a request now."""
        async with aiohttp.ClientSession() as client, client.get(self.front) as response:
            return await response.text()

    def tell(self, command: str) -> str:
        """Speak to HAProxy past our code."""
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(DEADLINE)
            one.connect(f"{self.folder}/admin.sock")
            one.sendall(f"{command}\n".encode())
            taken = b""
            while piece := one.recv(65536):
                taken += piece
        return taken.decode().strip()


@contextmanager
def running(folder: Path, spec: int, standard: int) -> Iterator[Running]:
    """Run HAProxy until the end, on listening sockets that we give it."""
    with ExitStack() as stack:
        front, admin = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in "12")
        config = CONFIG.format(
            folder=folder, front=front.fileno(), admin=admin.fileno(), spec=spec, standard=standard
        )
        (folder / "haproxy.cfg").write_text(config)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")],
                pass_fds=(front.fileno(), admin.fileno()),
                stdout=log,
                stderr=log,
            )
        made = Running(
            folder=folder,
            front=f"http://127.0.0.1:{front.getsockname()[1]}/",
            admin=f"127.0.0.1:{admin.getsockname()[1]}",
            process=process,
        )
        try:
            await_ready(made)
            yield made
        finally:
            process.kill()
            process.wait(DEADLINE)


def await_ready(made: Running) -> None:
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until and made.process.poll() is None:
        try:
            if made.tell("show servers state pool"):
                return
        except OSError:
            time.sleep(0.02)
    pytest.fail(f"haproxy did not start: {(made.folder / 'log').read_text()}")


@pytest.fixture
async def haproxy(tmp_path: Path) -> AsyncIterator[Running]:
    """Run HAProxy before two servers that say their names."""
    runners = []
    ports = []
    for name in ("spec", "standard"):
        runners.append(await serve_name(name))
        ports.append(runners[-1].addresses[0][1])
    try:
        with running(tmp_path, *ports) as made:
            yield made
    finally:
        for runner in runners:
            await runner.cleanup()


async def serve_name(name: str) -> web.AppRunner:
    """Run a server that answers everything with its name."""

    async def say(_request: web.Request) -> web.Response:
        return web.Response(text=name)

    app = web.Application()
    app.router.add_get("/", say)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner


async def failure(flag: Haproxy, *, write: bool | None = None) -> FlagError:
    """Read or write what must fail."""
    with pytest.raises(FlagError) as found:
        await (flag.read() if write is None else flag.write(on=write))
    return found.value


@pytest.mark.parametrize("mode", HaproxyMode)
async def test_both_values_there_and_back(haproxy: Running, mode: HaproxyMode) -> None:
    """Off sends every request to the backup, on brings them back; twice the same is the same."""
    flag = Haproxy(replace(haproxy.terms, mode=mode))
    assert await flag.read() is True
    for value in (False, True, True, False, False, True):
        await flag.write(on=value)
        assert await flag.read() is value
        assert await haproxy.answered() == ("spec" if value else "standard")
    assert haproxy.tell("get weight pool/spec") == "100 (initial 100)"
    assert flag.place == f"server pool/spec of haproxy at {haproxy.folder}/admin.sock"
    assert (flag.name, flag.can_read) == ("haproxy", True)
    await flag.close()


async def test_the_socket_may_be_a_port(haproxy: Running) -> None:
    """HOST:PORT works as the path does."""
    flag = Haproxy(replace(haproxy.terms, socket=haproxy.admin))
    await flag.write(on=False)
    assert await flag.read() is False
    assert await haproxy.answered() == "standard"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"server": "nope"}, "no such server; the backend has spec, standard, asleep"),
        ({"backend": "nope"}, "Can't find backend."),
    ],
    ids=["server", "backend"],
)
async def test_a_wrong_name_is_refused(
    haproxy: Running, changes: dict[str, str], words: str
) -> None:
    """A name that HAProxy does not know is told in its words or with the names that it has."""
    terms = haproxy.terms
    flag = Haproxy(
        replace(
            terms,
            server=changes.get("server", terms.server),
            backend=changes.get("backend", terms.backend),
        )
    )
    for error in (await failure(flag), await failure(flag, write=False)):
        assert error.result is WriteResult.REFUSED
        assert words in error.detail
    assert await Haproxy(terms).read() is True


async def test_every_sentence_is_a_failure(haproxy: Running) -> None:
    """A socket without the right to write answers with a sentence, which is no success."""
    flag = Haproxy(replace(haproxy.terms, socket=f"{haproxy.folder}/operator.sock"))
    error = await failure(flag, write=False)
    assert error.result is WriteResult.REFUSED
    assert "Permission denied" in error.detail
    assert await flag.read() is True


@pytest.mark.parametrize("mode", HaproxyMode)
async def test_maintenance_is_an_operators_word(haproxy: Running, mode: HaproxyMode) -> None:
    """A server in maintenance is off, off leaves it there, and on does not bring it back."""
    haproxy.tell("set server pool/spec state maint")
    flag = Haproxy(replace(haproxy.terms, mode=mode))
    assert await flag.read() is False
    await flag.write(on=False)
    error = await failure(flag, write=True)
    assert (error.result, "maintenance; set it ready" in error.detail) == (
        WriteResult.REFUSED,
        True,
    )
    row = haproxy.tell("show servers state pool").splitlines()[2].split()
    assert (row[3], row[6], row[7]) == ("spec", "1", "100")


@pytest.mark.parametrize(
    ("command", "server", "mode", "words"),
    [
        ("state drain", "spec", HaproxyMode.WEIGHT, "it is drained; set it ready by hand"),
        ("weight 0", "spec", HaproxyMode.DRAIN, "its weight is 0; set it by hand"),
        ("state ready", "asleep", HaproxyMode.WEIGHT, "its configured weight is 0"),
    ],
    ids=["drained", "no weight", "never a weight"],
)
async def test_on_is_refused_where_it_would_move_nothing(
    haproxy: Running, command: str, server: str, mode: HaproxyMode, words: str
) -> None:
    """What keeps traffic away and is not ours to change makes on fail with the fix."""
    haproxy.tell(f"set server pool/{server} {command}")
    flag = Haproxy(replace(haproxy.terms, server=server, mode=mode))
    assert await flag.read() is False
    error = await failure(flag, write=True)
    assert (error.result, words in error.detail) == (WriteResult.REFUSED, True)


async def test_a_socket_that_is_gone_is_named(haproxy: Running) -> None:
    """Without HAProxy the error names the path and how it comes about."""
    flag = Haproxy(haproxy.terms)
    assert await flag.read() is True
    haproxy.process.kill()
    haproxy.process.wait(DEADLINE)
    error = await failure(flag, write=False)
    assert error.result is WriteResult.UNREACHABLE
    (haproxy.folder / "admin.sock").unlink()
    error = await failure(flag)
    assert error.result is WriteResult.IO
    assert f"{haproxy.folder}/admin.sock: cannot connect: No such file" in error.detail
    assert "stats socket PATH level admin" in error.detail


async def test_a_port_nobody_listens_on_is_unreachable() -> None:
    """A refused connection names the address."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        address = f"127.0.0.1:{one.getsockname()[1]}"
    flag = Haproxy(HaproxyTerms(socket=address, backend="b", server="s"))
    error = await failure(flag)
    assert (error.result, address in error.detail) == (WriteResult.UNREACHABLE, True)


async def test_a_socket_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """Both calls end within the timeout."""
    async with serving(silent, path=tmp_path / "s") as hanging:
        terms = HaproxyTerms(socket=hanging.path, backend="b", server="s")
        flag = Haproxy(terms, timeout=0.2)
        assert (await failure(flag)).result is WriteResult.TIMEOUT
        assert (await failure(flag, write=True)).result is WriteResult.TIMEOUT


@pytest.mark.parametrize(
    ("said", "result"),
    [
        (b"", WriteResult.REFUSED),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", WriteResult.REFUSED),
        (b"1\n# srv_name srv_admin_state srv_uweight srv_iweight\ns x 1 1\n", "unreadable"),
        (b"x" * (1024 * 1024 + 1), WriteResult.UNREADABLE),
    ],
    ids=["nothing", "http", "no number", "endless"],
)
async def test_another_kind_of_answer_is_no_state(
    tmp_path: Path, said: bytes, result: WriteResult
) -> None:
    """What is no table of HAProxy's never reads as on or off."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(said)
        writer.close()

    listener = await asyncio.start_unix_server(say, tmp_path / "s")
    async with listener:
        flag = Haproxy(HaproxyTerms(socket=f"{tmp_path}/s", backend="b", server="s"))
        assert (await failure(flag)).result == result


@pytest.mark.parametrize(
    ("socket_name", "backend", "server", "path"),
    [
        ("/run/h.sock", "b; shutdown", "s", "flag.haproxy.backend"),
        ("/run/h.sock", "b", "s\nhelp", "flag.haproxy.server"),
        ("/run/h.sock", "b", "", "flag.haproxy.server"),
        ("h.sock", "b", "s", "flag.haproxy.socket"),
    ],
)
def test_faults_are_named_with_their_path(
    socket_name: str, backend: str, server: str, path: str
) -> None:
    """Nothing that could be another command gets into a command."""
    terms = HaproxyTerms(socket=socket_name, backend=backend, server=server)
    (line,) = faults(terms)
    assert line.startswith(f"{path}: ")
    with pytest.raises(ConfigError):
        Haproxy(terms)
