"""What the rendered nginx router adds to a request, beside nginx that only proxies, in one run.

    python benchmarks/router_latency.py                 # a minute; --requests for more or fewer

The same clients ask, in turn, the server itself, an nginx that only proxies, and the router, so
that whatever disturbs the machine disturbs all three. Tables go to standard output, progress to
standard error. Nothing here fails on a slow machine.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from specgauge.render.nginx import nginx
from specgauge.render.options import Options
from specgauge.render.router import Router
from specgauge.routing.presets import PRESETS
from specgauge.routing.rules import Routes

_SIZES = {"1 KB": 1_000, "16 KB": 16_000, "256 KB": 256_000, "1 MB": 1_000_000}
_WAYS = ("server itself", "nginx", "router")
_WARM_UP = 20
_A_CONNECTION = 500
PLAIN = """
daemon off; worker_processes 2; pid plain.pid; error_log plain.log error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path p1; proxy_temp_path p2; fastcgi_temp_path p3; uwsgi_temp_path p4;
  scgi_temp_path p5;
  client_max_body_size 8m; client_body_buffer_size 2m;
  upstream pool {{ server 127.0.0.1:{server}; keepalive 32; }}
  server {{ listen 127.0.0.1:{server}; keepalive_requests 1000000;
    location / {{ return 200 '{{"usage":{{"completion_tokens":1}}}}'; }} }}
  server {{ listen 127.0.0.1:{plain}; keepalive_requests 1000000;
    location / {{ proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_pass http://pool; }} }}
}}
"""


def main() -> None:
    """Measure every size of body and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3_000, help="of each way and size")
    parser.add_argument("--connections", type=int, default=4, help="clients at once")
    given = parser.parse_args()
    print("| body | way | p50 ms | p99 ms | p99 over plain nginx, ms |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="router-") as name, _running(Path(name)) as ports:
        for size, length in _SIZES.items():
            count = max(300, given.requests * 1_000 // max(1_000, length // 16))
            print(f"{size}: {count} requests of each way", file=sys.stderr)
            asked = _measure(ports, _body(length), count, Path(name), clients=given.connections)
            times = asyncio.run(asked)
            plain = _quantile(times[1], 0.99)
            for way, found in zip(_WAYS, times, strict=True):
                middle, high = _quantile(found, 0.5), _quantile(found, 0.99)
                over = "" if way != "router" else f"{high - plain:+.2f}"
                print(f"| {size} | {way} | {middle:.2f} | {high:.2f} | {over} |", flush=True)


def _body(length: int) -> bytes:
    words = "word " * (length // 5)
    chat = {"messages": [{"role": "user", "content": words}], "max_tokens": 500, "stream": False}
    return json.dumps(chat).encode()


async def _measure(
    ports: Sequence[int], body: bytes, count: int, folder: Path, *, clients: int
) -> tuple[list[float], ...]:
    """Ask all ways in turn over a few connections at once; gives milliseconds."""
    times: tuple[list[float], ...] = tuple([] for _ in ports)
    alive = asyncio.create_task(_heartbeat(folder))

    async def client(share: int) -> None:
        """Ask over fresh connections now and then: servers end those of a thousand requests."""
        for start in range(0, share, _A_CONNECTION):
            links = [await asyncio.open_connection("127.0.0.1", port) for port in ports]
            for turn in range(min(_A_CONNECTION, share - start) + _WARM_UP):
                for found, (reader, writer) in zip(times, links, strict=True):
                    begun = time.perf_counter()
                    await _ask(reader, writer, body)
                    if turn >= _WARM_UP:
                        found.append((time.perf_counter() - begun) * 1000)
            for _, writer in links:
                writer.close()

    await asyncio.gather(*(client(count // clients) for _ in range(clients)))
    alive.cancel()
    return times


async def _heartbeat(folder: Path) -> None:
    """Write the state as the sidecar does."""
    while True:
        beside = folder / "state.new"
        beside.write_text(json.dumps({"flag": True, "loads": {"4:3": True}}))
        beside.replace(folder / "state.json")
        await asyncio.sleep(1.0)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    answered = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not answered.startswith(b"http/1.1 200"):
        raise SystemExit(f"not answered: {answered[:200]!r}")
    if b"chunked" in answered:
        await reader.readuntil(b"0\r\n\r\n")
    else:
        length = answered.split(b"content-length:")[1].split(b"\r\n")[0]
        await reader.readexactly(int(length))


def _quantile(found: list[float], share: float) -> float:
    return sorted(found)[min(len(found) - 1, int(share * len(found)))]


@contextmanager
def _running(folder: Path) -> Iterator[tuple[int, int, int]]:
    """Run the server, plain nginx and the router; gives their ports."""
    folder.chmod(0o755)
    server, plain, port = (_free_port() for _ in range(3))
    router = Router(
        routes=Routes(rules=(*PRESETS["playbook"], *PRESETS["production"])),
        host="127.0.0.1",
        port=port,
        speculative=(f"127.0.0.1:{server}",),
        standard=(f"localhost:{server}",),
        state_file=str(folder / "state.json"),
        access_log=str(folder / "access.log"),
        workers="2",
    )
    (folder / "plain.conf").write_text(PLAIN.format(server=server, plain=plain))
    for one in nginx(Options(router=router)):
        (folder / one.path).parent.mkdir(exist_ok=True)
        (folder / one.path).write_text(one.text)
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"
    commands = (
        [program, "-p", str(folder), "-c", "plain.conf"],
        [program, "-p", str(folder / "nginx"), "-c", "nginx.conf", "-g", "daemon off;"],
    )
    processes = [subprocess.Popen(command) for command in commands]
    try:
        for listening in (server, plain, port):
            _wait_for(listening)
        yield server, plain, port
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(500):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"nothing listens on port {port}")


if __name__ == "__main__":
    main()
