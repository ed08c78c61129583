"""A real VictoriaMetrics of one node over a folder: filled with a past, or scraping a pool."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from pathlib import Path

import aiohttp
from tests.fleets import CONFIG, Member, scraped, serving
from tests.routers import free_port, nginx_in
from tests.sidecars import DEADLINE

PIECE = 1 << 19
"""About so many characters are sent at once."""

PROXY = """
worker_processes 1;
pid nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path body;
  client_body_buffer_size 64k;
  proxy_temp_path proxy;
  proxy_max_temp_file_size 0;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  server {{
    listen 127.0.0.1:{port};
    location /prometheus/ {{
      if ($http_x_scope_orgid != "{tenant}") {{ return 401 "no org id\\n"; }}
      proxy_pass {url}/;
    }}
  }}
}}
"""


@asynccontextmanager
async def victoria(program: str, folder: Path, *more: str, prefix: str = "") -> AsyncIterator[str]:
    """Run one on a free port, below a path where one is given; gives its URL."""
    address = f"127.0.0.1:{free_port()}"
    process = await asyncio.create_subprocess_exec(
        program,
        f"-httpListenAddr={address}",
        f"-http.pathPrefix={prefix}",
        f"-storageDataPath={folder / 'victoria'}",
        "-retentionPeriod=100y",
        "-loggerLevel=ERROR",
        "-memory.allowedBytes=256MB",
        *more,
    )
    try:
        url = f"http://{address}{prefix}"
        await asyncio.wait_for(_healthy(url, process), DEADLINE)
        yield url
    finally:
        if process.returncode is None:
            process.kill()  # its storage goes with it, so nothing has to be put away
        await process.wait()


@asynccontextmanager
async def victoria_pool(program: str, folder: Path, *members: Member) -> AsyncIterator[str]:
    """Serve the members and run one that scrapes them; gives its URL."""
    async with serving(list(members)) as servers:
        shown = ", ".join(f'"{one.url.removeprefix("http://")}"' for one in servers)
        file = folder / "scrape.yml"
        file.write_text(CONFIG.format(addresses=shown))
        async with victoria(program, folder, f"-promscrape.config={file}") as url:
            await scraped(*members, times=2)
            yield url


@contextmanager
def tenants_only(folder: Path, url: str, tenant: str) -> Iterator[str]:
    """Run a proxy before one that serves a tenant alone, below a path, as a Mimir is asked."""
    port = free_port()
    folder.mkdir()
    (folder / "nginx.conf").write_text(PROXY.format(port=port, tenant=tenant, url=url))
    with nginx_in(folder, port):
        yield f"http://127.0.0.1:{port}/prometheus"


async def fill(url: str, openmetrics: Iterable[str]) -> None:
    """Take in an OpenMetrics text, and let queries see all of it."""
    async with aiohttp.ClientSession() as client:
        for piece in _pieces(openmetrics):
            async with client.post(f"{url}/api/v1/import/prometheus", data=piece) as answer:
                assert answer.status == HTTPStatus.NO_CONTENT, await answer.text()
    await flush(url)


async def flush(url: str) -> None:
    """Let queries see what came in; by itself that takes up to a second."""
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"{url}/internal/force_flush") as answer,
    ):
        assert answer.status == HTTPStatus.OK


async def _healthy(url: str, process: asyncio.subprocess.Process) -> None:
    """Wait until it answers; no line of its log says that it does."""
    async with aiohttp.ClientSession() as client:
        while True:
            assert process.returncode is None, "victoria-metrics did not start"
            try:
                async with client.get(f"{url}/health"):
                    return
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.02)


def _pieces(openmetrics: Iterable[str]) -> Iterator[bytes]:
    """Write the samples as its import reads them: with times in milliseconds."""
    taken, size = list[str](), 0
    for text in openmetrics:
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            sample, _, time = line.rpartition(" ")
            taken.append(f"{sample} {round(float(time) * 1000.0)}\n")
            size += len(line)
            if size > PIECE:
                yield "".join(taken).encode()
                taken, size = [], 0
    yield "".join(taken).encode()
