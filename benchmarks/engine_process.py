"""Recorded vLLM pages of any size behind HTTP, in a process whose work nobody counts.

Each request of a path sees its page one recorded second later, whoever asks and how fast.

    python benchmarks/engine_process.py            # prints the URL, serves until it is ended
    curl URL/metrics                               # the page as one H200 server sent it
    curl URL/fleet-16-2-16/metrics                 # 16 engines, 2 models, 16 draft positions
    curl URL/silent/metrics                        # never answers
    curl URL/fixed/metrics                         # always the same page
"""

import asyncio
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import web

from specgauge.serve.demo.recording import RecordingName, load
from specgauge.serve.demo.replay_page import Reel
from specgauge.serve.demo.stand_in import CONTENT_TYPE

_RECORDED = 'engine="0"', 'model_name="target"'
_POSITIONS = re.compile(r"(vllm:spec_decode_num_accepted_tokens_per_pos_\w+\{.*)\"(\d+)\"\} (\S+)")
_DRAFTS = re.compile(r"^vllm:spec_decode_num_drafts_total\{.* (\S+)$", re.MULTILINE)
_APART = 1.37
"""Recorded seconds from one engine of a fleet to the next, so that their numbers differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Engines behind one page, each serving the same models; `positions` is K."""

    engines: int
    models: int
    positions: int

    @property
    def size(self) -> int:
        """Pairs of an engine and a model: what the page's length grows with."""
        return self.engines * self.models

    @property
    def path(self) -> str:
        """Where `engine_process` serves it."""
        return f"/fleet-{self.engines}-{self.models}-{self.positions}/metrics"


def fleet_page(reel: Reel, fleet: Fleet, second: float) -> str:
    """Write the page of a fleet: families whole, one engine's lines below the other's."""
    families: list[list[str]] = []
    for member in range(fleet.size):
        engine, model = divmod(member, fleet.models)
        page = widen(reel.page_at(second + _APART * member), fleet.positions)
        page = page.replace(_RECORDED[0], f'engine="{engine}"')
        page = page.replace(_RECORDED[1], f'model_name="target-{model}"')
        for place, text in enumerate(page.split("# HELP ")[1:]):
            if not member:
                families.append([f"# HELP {text}"])
            elif text.startswith("vllm:") and (not model or 'model_name="' in text):
                families[place].append(text.split("\n", 2)[2])
    return "".join(part for family in families for part in family)


def widen(page: str, positions: int) -> str:
    """Give the drafts more positions than were recorded; a page's identities go on to hold."""
    rows = [found.groups() for found in _POSITIONS.finditer(page)]
    known = [int(float(value)) for head, _, value in rows if "_total{" in head]
    counts = list(known)
    while len(counts) < positions:
        counts.append(counts[-1] * 3 // 4)
    if counts == known:
        return page
    drafts = _DRAFTS.search(page)
    totals = {
        "vllm:spec_decode_num_draft_tokens_total{": positions * float(drafts[1]) if drafts else 0.0,
        "vllm:spec_decode_num_accepted_tokens_total{": float(sum(counts)),
    }
    lines: list[str] = []
    for line in page.splitlines():
        found = _POSITIONS.match(line)
        name = line[: line.find("{") + 1]
        if name in totals:
            lines.append(f"{line.rpartition(' ')[0]} {totals[name]}")
            continue
        lines.append(line)
        if found and int(found[2]) == len(known) - 1:
            is_count = "_total{" in found[1]
            lines += (
                f'{found[1]}"{i}"}} {float(counts[i]) if is_count else found[3]}'
                for i in range(len(known), positions)
            )
    return "\n".join([*lines, ""])


def application() -> web.Application:
    """Build the server: every path keeps its own second."""
    reel = Reel(load(RecordingName.SPECULATIVE))
    seconds: Counter[str] = Counter()

    def answer(text: str) -> web.Response:
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    async def one(request: web.Request) -> web.Response:
        seconds[request.path] += 1
        return answer(reel.page_at(seconds[request.path]))

    async def many(request: web.Request) -> web.Response:
        sizes = {name: int(value) for name, value in request.match_info.items()}
        seconds[request.path] += 1
        return answer(fleet_page(reel, Fleet(**sizes), seconds[request.path]))

    fixed_page = reel.page_at(0.0)

    async def fixed(_: web.Request) -> web.Response:
        return answer(fixed_page)

    async def silent(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/metrics", one)
    app.router.add_get(r"/fleet-{engines:\d+}-{models:\d+}-{positions:\d+}/metrics", many)
    app.router.add_get("/silent/metrics", silent)
    app.router.add_get("/fixed/metrics", fixed)
    return app


@contextmanager
def engines() -> Iterator[str]:
    """Run this module as a process of its own; gives its URL."""
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()


async def serve() -> None:
    """Serve on a free port until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await stop.wait()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve())
