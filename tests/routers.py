"""Two pools of real servers, a real nginx before them, and requests that look where they went."""

import asyncio
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from specgauge.cli.route.settings import router_of
from specgauge.config import load
from specgauge.render.nginx import nginx
from specgauge.render.options import Options

DEADLINE = 30.0
USAGE = {
    "choices": [],
    "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    "metrics": {
        "speculative_decoding": {
            "num_spec_steps": 2, "num_draft_tokens": 8, "num_accepted_draft_tokens": 3,
        }
    },
}  # fmt: skip


def program(name: str) -> str:
    """Find a program of Debian's; without it the test fails."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    return found or pytest.fail(f"{name} is missing: `make packages` as root installs it")


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@dataclass(slots=True, kw_only=True)
class Server:
    """A server of one pool: says what it was asked, and streams when told to.

    `mode` is how it serves: `well`, a status, `slam` (reads and closes), `cut` (ends a stream in
    its middle), `error` (ends it there with an event that says so), `elsewhere` (would
    have the router look elsewhere). `sent` is when it sent each chunk of its last stream. With
    `tls` it speaks nothing else; `keys` are those of `tls` by which a router knows it.
    """

    name: str
    port: int = field(default_factory=free_port)
    mode: str = "well"
    chunks: int = 5
    pause: float = 0.02
    asked: int = 0
    lengths: list[int] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    connections: set[int] = field(default_factory=set)
    versions: set[tuple[int, int]] = field(default_factory=set)
    last: tuple[str, str, str] = ("", "", "")
    runner: web.AppRunner | None = None
    tls: ssl.SSLContext | None = None
    keys: str = ""

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def pool(self) -> str:
        """A pool of it alone, as the configuration has it."""
        if not self.keys:
            return f"{{servers: ['{self.address}']}}"
        return f"{{servers: ['https://{self.address}'], tls: {{{self.keys}}}}}"

    async def start(self) -> None:
        """Listen on its port, the same one again after a stop."""
        app = web.Application(client_max_size=1 << 27)
        app.router.add_route("*", "/{path:.*}", self.answer)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port, ssl_context=self.tls).start()

    async def stop(self) -> None:
        """Die: the port closes, and with it every connection."""
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        self.asked += 1
        self.versions.add(request.version)
        self.connections.add(id(request.transport))
        self.last = request.method, request.raw_path, request.headers.get("Authorization", "")
        body = await request.read()
        self.lengths.append(len(body))
        if self.mode == "slam":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if self.mode.isdigit():
            return web.Response(status=int(self.mode), text="no")
        headers = {
            "X-Server": self.name,
            "X-Got-Class": request.headers.get("X-Specgauge-Class", ""),
            "X-Got-Pool": request.headers.get("X-Specgauge-Pool", ""),
            "X-Got-Id": request.headers.get("X-Request-Id", ""),
            "X-Got-Host": request.headers.get("Host", ""),
        }
        if self.mode == "elsewhere":
            headers |= {"X-Accel-Redirect": "/elsewhere", "X-Accel-Limit-Rate": "1"}
        if b'"stream": true' in body[:1000]:
            return await self._stream(request, headers)
        return web.json_response({"text": '"usage": {', **USAGE}, headers=headers)

    async def _stream(self, request: web.Request, headers: Mapping[str, str]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
        await response.prepare(request)
        self.sent = []
        for index in range(self.chunks):
            await asyncio.sleep(self.pause)
            if self.mode == "cut" and index == 2:
                assert request.transport is not None
                request.transport.close()
                return response
            if self.mode == "error" and index == 2:
                await response.write(b'data: {"error": {"code": 500}}\n\ndata: [DONE]\n\n')
                return response
            self.sent.append(time.monotonic())
            await response.write(f'data: {{"at": {index}, "x": "\u00e9"}}\n\n'.encode())
        await response.write(f"data: {json.dumps(USAGE)}\n\ndata: [DONE]\n\n".encode())
        return response


@dataclass(frozen=True, slots=True, kw_only=True)
class Went:
    """Where a request went, as its answer tells."""

    status: int
    server: str
    traffic_class: str
    pool: str
    got: tuple[str, str]
    id: str
    body: bytes


@dataclass(slots=True, kw_only=True)
class Front:
    """A running nginx before the two pools."""

    folder: Path
    port: int
    speculative: Server
    standard: Server
    client: aiohttp.ClientSession

    @property
    def url(self) -> str:
        """Its root."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def state(self) -> Path:
        """The file in which the sidecar says what holds."""
        return self.folder / "state.json"

    def tell(self, *, age: float = 0.0, **state: Any) -> None:
        """Say what holds, as the sidecar does, some seconds ago."""
        beside = self.folder / "state.new"
        beside.write_text(json.dumps({"schema": "specgauge.route_state/v1", **state}))
        beside.chmod(0o644)
        past = time.time() - age
        os.utime(beside, (past, past))
        beside.replace(self.state)

    async def ask(
        self,
        body: Any = None,
        *,
        path: str = "/v1/chat/completions",
        headers: Mapping[str, str] | None = None,
    ) -> Went:
        """Send a request, JSON or bytes, and see where it went."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        if isinstance(data, bytes) and len(data) > 1 << 20:
            data = io.BytesIO(data)
        url = URL(f"{self.url}{path}", encoded=True)
        async with self.client.post(url, data=data, headers=headers) as response:
            found = response.headers
            return Went(
                status=response.status,
                server=found.get("X-Server", ""),
                traffic_class=found.get("X-Specgauge-Class", ""),
                pool=found.get("X-Specgauge-Pool", ""),
                got=(found.get("X-Got-Class", ""), found.get("X-Got-Pool", "")),
                id=found.get("X-Got-Id", ""),
                body=await response.read(),
            )

    async def say(self, request: str) -> str:
        """Send a request as it is written, for one that no client would send; gives the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request.encode("latin-1"))
            return (await reader.read()).decode("latin-1")
        finally:
            writer.close()

    async def log(self, lines: int) -> list[dict[str, Any]]:
        """Read the access log once it has so many lines."""
        file = self.folder / "access.log"
        async with asyncio.timeout(DEADLINE):
            while file.read_bytes().count(b"\n") < lines:  # noqa: ASYNC110 - only looking tells
                await asyncio.sleep(0.01)
        return [json.loads(line) for line in file.read_text().splitlines()]

    def errors(self) -> str:
        """Read nginx's own complaints."""
        return (self.folder / "nginx" / "error.log").read_text()


def open_to_all(folder: Path) -> None:
    """Let everybody enter a folder, as nginx's workers must who are nobody."""
    folder.chmod(0o755)


@asynccontextmanager
async def routing(
    rules: str, *, state: str = "file", servers: tuple[Server, Server] | None = None
) -> AsyncIterator[Front]:
    """Run nginx by some rules; `state` is `file`, the URL of a sidecar, or nothing."""
    servers = servers or (Server(name="speculative"), Server(name="standard"))
    # Not pytest's own folder: where root starts nginx, its workers are nobody, who may not enter.
    with tempfile.TemporaryDirectory(prefix="router-") as name:
        folder = Path(name)
        open_to_all(folder)
        port = free_port()
        told = f"state_file: {folder}/state.json" if state == "file" else f"state_url: {state}"
        file = folder / "specgauge.yaml"
        file.write_text(
            f'targets: [{{url: "http://127.0.0.1:8000"}}]\nrouting:\n'
            f"  listen: 127.0.0.1:{port}\n"
            f"  pools: {{speculative: {servers[0].pool}, standard: {servers[1].pool}}}\n"
            f"  access_log: {folder}/access.log\n"
            f"  nginx: {{workers: 1}}\n" + (f"  {told}\n" if state else "") + rules
        )
        router = router_of(load(file, env={}, overrides={}))
        for one in nginx(Options(router=router)):
            (folder / one.path).parent.mkdir(exist_ok=True)
            (folder / one.path).write_text(one.text)
        for server in servers:
            await server.start()
        # Many connections on purpose: keep-alive towards the pools is the router's affair.
        connector = aiohttp.TCPConnector(limit=64)
        try:
            with nginx_in(folder / "nginx", port):
                async with aiohttp.ClientSession(connector=connector) as client:
                    yield Front(
                        folder=folder,
                        port=port,
                        speculative=servers[0],
                        standard=servers[1],
                        client=client,
                    )
        finally:
            for server in servers:
                await server.stop()


@contextmanager
def nginx_in(folder: Path, port: int) -> Iterator[None]:
    """Run nginx by the nginx.conf of a folder, which listens on a port."""
    command = [program("nginx"), "-p", str(folder), "-c", "nginx.conf", "-g", "daemon off;"]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        until = time.monotonic() + DEADLINE
        while True:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"nginx did not start: {(folder / 'output').read_text()}")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(DEADLINE)
