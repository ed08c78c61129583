"""The nginx backend against a real nginx before two servers: reloads, refusals, interruptions."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from specgauge.errors import ConfigError
from specgauge.guard.flags.nginx import Nginx, NginxTerms, faults
from specgauge.guard.flags.protocol import FlagError, WriteResult

DEADLINE = 30.0
CONFIG = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/temp;
  proxy_temp_path {folder}/temp;
  fastcgi_temp_path {folder}/temp;
  uwsgi_temp_path {folder}/temp;
  scgi_temp_path {folder}/temp;
  upstream spec {{ server 127.0.0.1:{spec}; }}
  upstream standard {{ server 127.0.0.1:{standard}; }}
  include {folder}/flags/*;
  server {{
    listen unix:{folder}/front.sock;
    location / {{ proxy_pass http://$pool; }}
  }}
}}
"""
ON = "map $host $pool { default spec; }\n"
OFF = "map $host $pool { default standard; }\n"
BROKEN = "map $host $pool { default standard }\n"


def program(name: str) -> str:
    """Find a program of Debian's; without it the test fails."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    return found or pytest.fail(f"{name} is missing: `make packages` as root installs it")


@dataclass(slots=True, kw_only=True)
class Running:
    """An nginx in a folder of its own, and how it is spoken to."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def file(self) -> Path:
        """The include file."""
        return self.folder / "flags" / "pool.conf"

    @property
    def note(self) -> Path:
        """What lies beside the file while a reload is pending."""
        return self.folder / "flags" / ".pool.conf.reload-pending"

    @property
    def terms(self) -> NginxTerms:
        """Terms for this nginx."""
        nginx = (program("nginx"), "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"))
        return NginxTerms(
            file=str(self.file),
            on=ON,
            off=OFF,
            test=(*nginx, "-t"),
            reload=(*nginx, "-s", "reload"),
        )

    async def answered(self) -> str:
        """Say which server answers a request now."""
        connector = aiohttp.UnixConnector(f"{self.folder}/front.sock")
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.get("http://front/") as response,
        ):
            return await response.text()

    async def routes_to(self, name: str) -> None:
        """Wait until new requests go there: old workers end in their own time."""
        async with asyncio.timeout(DEADLINE):
            while await self.answered() != name:  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.01)

    def start(self) -> None:
        """Start it and wait until it listens."""
        command = [program("nginx"), "-p", str(self.folder), "-c", str(self.folder / "nginx.conf")]
        (self.folder / "front.sock").unlink(missing_ok=True)
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + DEADLINE
        while time.monotonic() < until and self.process.poll() is None:
            with socket.socket(socket.AF_UNIX) as one:
                if one.connect_ex(f"{self.folder}/front.sock") == 0:
                    return
            time.sleep(0.02)
        pytest.fail(f"nginx did not start: {(self.folder / 'log').read_text()}")

    def stop(self) -> None:
        """End it with its workers."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(DEADLINE)


@contextmanager
def running(folder: Path, spec: int, standard: int) -> Iterator[Running]:
    """Run nginx until the end, with the flag on."""
    made = Running(folder=folder)
    made.file.parent.mkdir()
    made.file.write_text(ON)
    config = CONFIG.format(folder=folder, spec=spec, standard=standard)
    (folder / "nginx.conf").write_text(config)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
async def nginx(tmp_path: Path) -> AsyncIterator[Running]:
    """Run nginx before two servers that say their names."""
    runners = [await serve_name(name) for name in ("spec", "standard")]
    try:
        with running(tmp_path, *(runner.addresses[0][1] for runner in runners)) as made:
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


async def failure(flag: Nginx, *, write: bool | None = None) -> FlagError:
    """Read or write what must fail."""
    with pytest.raises(FlagError) as found:
        await (flag.read() if write is None else flag.write(on=write))
    return found.value


async def test_both_values_there_and_back(nginx: Running) -> None:
    """Off routes to the standard pool after its reload, on back; twice the same is the same."""
    flag = Nginx(nginx.terms)
    assert await flag.read() is True
    assert await nginx.answered() == "spec"
    for value in (False, True, True, False, False, True):
        await flag.write(on=value)
        assert await flag.read() is value
        await nginx.routes_to("spec" if value else "standard")
        assert nginx.file.read_text() == (ON if value else OFF)
        assert [path.name for path in nginx.file.parent.iterdir()] == ["pool.conf"]
    assert flag.place == str(nginx.file)
    assert (flag.name, flag.can_read) == ("nginx", True)
    await flag.close()


async def test_a_text_that_nginx_refuses_is_taken_back(nginx: Running) -> None:
    """Its own complaint is told, the old file is back, and nginx was never told of the new one."""
    flag = Nginx(replace(nginx.terms, off=BROKEN))
    error = await failure(flag, write=False)
    assert error.result is WriteResult.REFUSED
    assert 'pool.conf: its test: nginx: [emerg] unexpected "}" in' in error.detail
    assert nginx.file.read_text() == ON
    assert [path.name for path in nginx.file.parent.iterdir()] == ["pool.conf"]
    assert await flag.read() is True
    assert await nginx.answered() == "spec"


async def test_a_first_file_that_is_refused_goes_again(nginx: Running) -> None:
    """Where there was no file there is none afterwards."""
    nginx.file.unlink()
    flag = Nginx(replace(nginx.terms, off=BROKEN))
    assert await flag.read() is None
    assert (await failure(flag, write=False)).result is WriteResult.REFUSED
    assert list(nginx.file.parent.iterdir()) == []


async def test_a_reload_that_fails_leaves_the_flag_unverified(nginx: Running) -> None:
    """Without a running nginx the old file is back and nothing is claimed; later it works."""
    nginx.stop()
    flag = Nginx(nginx.terms)
    error = await failure(flag, write=False)
    assert error.result is WriteResult.REFUSED
    assert "the reload: nginx: [error]" in error.detail
    assert nginx.file.read_text() == ON
    error = await failure(flag)
    assert error.result is WriteResult.UNVERIFIED
    assert "the next write reloads it" in error.detail
    nginx.start()
    await flag.write(on=False)
    assert await flag.read() is False
    await nginx.routes_to("standard")


async def test_a_write_cut_off_before_its_reload_is_made_good(nginx: Running) -> None:
    """After a crash the file holds what nginx has not loaded: not claimed, and reloaded next."""
    reload = ("sleep", "60")
    task = asyncio.create_task(Nginx(replace(nginx.terms, reload=reload)).write(on=False))
    async with asyncio.timeout(DEADLINE):
        while nginx.file.read_text() != OFF:  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (nginx.file.read_text(), await nginx.answered()) == (OFF, "spec")
    assert json.loads(nginx.note.read_text()) == {"before": ON}
    flag = Nginx(nginx.terms)
    assert (await failure(flag)).result is WriteResult.UNVERIFIED
    await flag.write(on=False)
    assert await flag.read() is False
    await nginx.routes_to("standard")
    assert not nginx.note.exists()


async def test_after_a_crash_the_text_from_before_it_is_put_back(nginx: Running) -> None:
    """A broken text that a crash left behind is not what a refused write goes back to."""
    nginx.file.write_text(BROKEN)
    nginx.note.write_text(json.dumps({"before": ON}))
    flag = Nginx(replace(nginx.terms, off=BROKEN))
    assert (await failure(flag, write=False)).result is WriteResult.REFUSED
    assert nginx.file.read_text() == ON
    assert (await failure(flag)).result is WriteResult.UNVERIFIED
    await flag.write(on=True)
    assert await flag.read() is True


async def test_a_damaged_note_is_no_obstacle(nginx: Running) -> None:
    """A note that says nothing still says that a reload is due, and the write goes on."""
    nginx.note.write_text("{")
    flag = Nginx(nginx.terms)
    assert (await failure(flag)).result is WriteResult.UNVERIFIED
    await flag.write(on=False)
    assert await flag.read() is False


@pytest.mark.parametrize("key", ["test", "reload"])
async def test_a_command_that_hangs_is_killed(nginx: Running, key: str) -> None:
    """A command is ended with its children within the timeout, and the old file is back."""
    pid = nginx.folder / "child"
    hang = ("sh", "-c", f"sleep 60 & echo $! > {pid}; wait")
    terms = replace(nginx.terms, test=hang) if key == "test" else replace(nginx.terms, reload=hang)
    error = await failure(Nginx(terms, timeout=4.0), write=False)
    assert error.result is WriteResult.TIMEOUT
    assert f"sh did not end its {key} within 4 s" in error.detail
    assert nginx.file.read_text() == ON
    assert nginx.note.exists() is (key == "reload")
    async with asyncio.timeout(DEADLINE):
        while alive(int(pid.read_text())):  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Tell whether a process still runs; one that nobody waited for has ended all the same."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("program_name", "words"),
    [("nginx-that-is-not-there", "No such file"), ("a\0b", "it cannot be run")],
    ids=["missing", "no name"],
)
async def test_a_program_that_cannot_be_run_is_named(
    nginx: Running, program_name: str, words: str
) -> None:
    """The error says what to give, and the old file is back."""
    error = await failure(Nginx(replace(nginx.terms, test=(program_name,))), write=False)
    assert error.result is WriteResult.IO
    assert words in error.detail
    assert "give the whole path of the program" in error.detail
    assert nginx.file.read_text() == ON


async def test_the_first_grave_line_is_told(nginx: Running) -> None:
    """Warnings before the fault are passed over; a silent failure has its exit code."""
    said = "echo 'nginx: [warn] old'; echo 'nginx: [emerg] bad' >&2; exit 1"
    error = await failure(Nginx(replace(nginx.terms, test=("sh", "-c", said))), write=False)
    assert error.detail.endswith("its test: nginx: [emerg] bad")
    error = await failure(Nginx(replace(nginx.terms, test=("false",))), write=False)
    assert error.detail.endswith("its test: exit code 1")


async def test_commands_see_no_secret_of_the_environment(
    nginx: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in our environment stays there, but for the path and the language."""
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    error = await failure(
        Nginx(replace(nginx.terms, test=("sh", "-c", "env; exit 1"))), write=False
    )
    assert "hidden" not in error.detail
    dump = nginx.folder / "env"
    test = ("sh", "-c", f"env > {dump}")
    await Nginx(replace(nginx.terms, test=test)).write(on=False)
    names = {line.partition("=")[0] for line in dump.read_text().splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "TZ", "PWD", "SHLVL", "_", "OLDPWD"}
    assert os.environ["SECRET_TOKEN"] == "hidden"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("map $host $pool { default third; }", "neither the text for on nor the one for off"),
        ("x" * (1024 * 1024 + 1), "is it the right file?"),
    ],
    ids=["foreign", "large"],
)
async def test_a_foreign_file_is_no_value(tmp_path: Path, text: str, words: str) -> None:
    """A file that somebody else wrote is neither on nor off."""
    file = tmp_path / "pool.conf"
    file.write_text(text)
    error = await failure(Nginx(NginxTerms(file=str(file), on=ON, off=OFF)))
    assert (error.result, words in error.detail) == (WriteResult.UNREADABLE, True)


async def test_an_empty_file_was_never_set(tmp_path: Path) -> None:
    """An empty include file, laid there so that nginx starts, is unset."""
    file = tmp_path / "pool.conf"
    file.write_text("\n")
    assert await Nginx(NginxTerms(file=str(file), on=ON, off=OFF)).read() is None


async def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    """Nothing is run where the file cannot be written."""
    file = tmp_path / "none" / "pool.conf"
    flag = Nginx(NginxTerms(file=str(file), on=ON, off=OFF, test=("false",)))
    error = await failure(flag, write=True)
    assert error.result is WriteResult.IO
    assert f"create the folder {file.parent}" in error.detail
    file.parent.write_text("a file in the folder's place")
    assert (await failure(flag)).result is WriteResult.IO


async def test_a_folder_in_the_files_place_is_io(tmp_path: Path) -> None:
    """What is no file fails in words, for reading and for writing."""
    (tmp_path / "pool.conf").mkdir()
    flag = Nginx(NginxTerms(file=f"{tmp_path}/pool.conf", on=ON, off=OFF))
    assert (await failure(flag)).result is WriteResult.IO
    assert (await failure(flag, write=True)).result is WriteResult.IO


def test_faults_are_named_with_their_path() -> None:
    """Commands without a program and texts that are the same are found before anything is run."""
    terms = NginxTerms(file="f", on=ON, off=f" {ON}", test=(), reload=())
    paths = [line.split(":")[0] for line in faults(terms)]
    assert paths == ["flag.nginx.test", "flag.nginx.reload", "flag.nginx.on"]
    with pytest.raises(ConfigError):
        Nginx(terms)
