"""Unleash's real server on 127.0.0.1, with a PostgreSQL of its own; knows nothing of specgauge."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ADMIN = "*:*.aaaabbbbccccddddeeeeffff"
CLIENT = "default:production.0000111122223333"
DEADLINE = 60.0
POSTGRES = "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unleash:
    """A running server, as its own users see it."""

    url: str

    def ask(self, method: str, path: str, document: object = None) -> Any:
        """Ask as the administrator past our code; gives the answer as JSON, None for none."""
        request = urllib.request.Request(  # noqa: S310 - our own http server
            f"{self.url}/api/admin/projects/default/features{path}",
            method=method,
            data=None if document is None else json.dumps(document).encode(),
            headers={"Authorization": ADMIN, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=DEADLINE) as response:  # noqa: S310 - same
            return json.loads(response.read() or b"null")

    def create(self, flag: str) -> None:
        """Create a flag, which begins as off everywhere."""
        self.ask("POST", "", {"name": flag, "type": "kill-switch"})

    def enabled(self, flag: str, environment: str) -> bool:
        """Tell what the server says of the flag."""
        return self.ask("GET", f"/{flag}/environments/{environment}")["enabled"] is True


@contextmanager
def running(folder: Path) -> Iterator[Unleash]:
    """Run the server and its database until the end."""
    home = Path(os.environ.get("UNLEASH_TEST_ENV") or Path.home() / ".cache/specgauge/unleash")
    server = home / "node_modules" / "unleash-server" / "dist" / "server.js"
    if not server.is_file():
        pytest.fail(f"no {server}: tests/real/install-unleash.sh installs it", pytrace=False)
    port = free_port()
    with database() as url:
        env = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "DATABASE_URL": url,
            "DATABASE_SSL": "false",
            "HTTP_HOST": "127.0.0.1",
            "HTTP_PORT": str(port),
            "INIT_ADMIN_API_TOKENS": ADMIN,
            "INIT_CLIENT_API_TOKENS": CLIENT,
            "CHECK_VERSION": "false",
            "SEND_TELEMETRY": "false",
        }
        log = folder / "unleash.log"
        with log.open("wb") as said:
            command = [program("node"), str(server)]
            process = subprocess.Popen(command, stdout=said, stderr=said, env=env, cwd=folder)
        try:
            unleash = Unleash(url=f"http://127.0.0.1:{port}")
            await_ready(lambda: healthy(unleash.url), process, log)
            yield unleash
        finally:
            end(process, signal.SIGTERM)


@contextmanager
def database() -> Iterator[str]:
    """Run an empty PostgreSQL; gives the URL of a database in it. It refuses to run as root."""
    root = os.geteuid() == 0
    user = {"user": POSTGRES, "group": POSTGRES, "extra_groups": []} if root else {}
    folder = Path(tempfile.mkdtemp(prefix="specgauge-postgres-"))
    if root:
        shutil.chown(folder, POSTGRES, POSTGRES)
    log, data, port = folder / "postgres.log", folder / "data", free_port()
    try:
        command = [program("initdb"), "-A", "trust", "-U", POSTGRES, "-E", "UTF8", "--no-sync"]
        made: dict[str, Any] = {"cwd": folder, "stderr": subprocess.STDOUT, **user}
        with log.open("wb") as said:
            subprocess.run([*command, "-D", str(data)], stdout=said, check=True, **made)
            command = [program("postgres"), "-D", str(data), "-p", str(port), "-k", str(folder)]
            settings = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
            process = subprocess.Popen([*command, *settings], stdout=said, **made)
        try:
            asked = [program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
            await_ready(lambda: subprocess.run(asked, check=False).returncode == 0, process, log)
            yield f"postgres://{POSTGRES}:x@127.0.0.1:{port}/{POSTGRES}"
        finally:
            end(process, signal.SIGINT)
    finally:
        shutil.rmtree(folder)


def healthy(url: str) -> bool:
    """Tell whether the server answers."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1.0) as response:  # noqa: S310 - ours
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def await_ready(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server is ready; one that is not in time, or ends, fails with its last words."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until and process.poll() is None:
        if ready():
            return
        time.sleep(0.05)
    pytest.fail(f"{log.stem} did not start: {log.read_text()[-800:]}", pytrace=False)


def end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """Have a server end, and wait for it."""
    process.send_signal(how)
    try:
        process.wait(DEADLINE)
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """Name a port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def program(name: str) -> str:
    """Find a program, PostgreSQL's in the folder that Debian keeps off the path."""
    found = shutil.which(name)
    kept = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if found is None and not kept:
        pytest.fail(f"{name} is missing: Debian has it in postgresql or nodejs", pytrace=False)
    return found or str(kept[-1])
