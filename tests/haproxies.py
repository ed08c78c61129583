"""A real HAProxy, as it is rendered, before two pools of real servers."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from tests.routers import DEADLINE, Front, Server, free_port, program

from specgauge.cli.route.settings import router_of
from specgauge.cli.route.switch import switch_of
from specgauge.config import load
from specgauge.guard.flags.haproxy import Haproxy, HaproxyTerms
from specgauge.render.files import RenderedFile
from specgauge.render.haproxy import haproxy
from specgauge.render.options import Options

CONFIG = """
targets:
  - {{name: spec, url: "http://127.0.0.1:8000"}}
  - {{name: plain, url: "http://127.0.0.1:8001", role: standard}}
baseline: {{target: plain}}
guard: {{}}
flag:
  backend: haproxy
  haproxy: {{socket: {folder}/admin.sock, backend: flag, server: speculation}}
routing:
  listen: 127.0.0.1:{port}
  pools: {{speculative: {spec}, standard: {standard}}}
  access_log: {folder}/access.log
  timeouts: {{connect: 200ms}}
"""


@dataclass(slots=True, kw_only=True)
class Proxied:
    """A running HAProxy, and the flag as the guard moves it."""

    front: Front
    flag: Haproxy
    file: RenderedFile
    process: subprocess.Popen[bytes]

    @property
    def configuration(self) -> Path:
        """Where its configuration is."""
        return self.front.folder / "haproxy.cfg"

    async def told(self, command: str) -> str:
        """Speak to it past our code."""
        reader, writer = await asyncio.open_unix_connection(self.front.folder / "admin.sock")
        writer.write(f"{command}\n".encode())
        try:
            return (await reader.read()).decode()
        finally:
            writer.close()


def rendered(folder: Path, port: int, spec: str, standard: str, rules: str) -> RenderedFile:
    """Write the configuration of specgauge, and render the one of HAProxy from it."""
    text = CONFIG.format(folder=folder, port=port, spec=spec, standard=standard) + rules
    (folder / "specgauge.yaml").write_text(text)
    config = load(folder / "specgauge.yaml", env={}, overrides={})
    (file,) = haproxy(Options(router=router_of(config), switch=switch_of(config)))
    (folder / "haproxy.cfg").write_text(file.text)
    (folder / "specgauge.state").write_text("1\n")
    return file


@asynccontextmanager
async def proxying(
    folder: Path, rules: str, *, spec: str = "", servers: tuple[Server, Server] | None = None
) -> AsyncIterator[Proxied]:
    """Run HAProxy by some rules, before servers of its own beside those that are named."""
    servers = servers or (Server(name="speculative"), Server(name="standard"))
    port = free_port()
    places = (f'{{servers: ["{spec}"]}}' if spec else servers[0].pool, servers[1].pool)
    file = rendered(folder, port, *places, rules)
    for server in servers:
        await server.start()
    process = start(folder)
    terms = HaproxyTerms(socket=f"{folder}/admin.sock", backend="flag", server="speculation")
    try:
        await listening(folder, port, process)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as client:
            front = Front(
                folder=folder,
                port=port,
                speculative=servers[0],
                standard=servers[1],
                client=client,
            )
            yield Proxied(front=front, flag=Haproxy(terms), file=file, process=process)
    finally:
        process.kill()
        process.wait(DEADLINE)
        for server in servers:
            await server.stop()


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start it as its own process, whose output is the access log."""
    with (folder / "access.log").open("ab") as log, (folder / "errors").open("ab") as errors:
        return subprocess.Popen(
            [program("haproxy"), "-db", "-f", str(folder / "haproxy.cfg"), *more],
            stdout=log,
            stderr=errors,
        )


async def listening(folder: Path, port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until it takes connections."""
    async with asyncio.timeout(DEADLINE):
        while process.poll() is None:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    return
            await asyncio.sleep(0.02)
    pytest.fail(f"haproxy did not start: {(folder / 'errors').read_text()}")
