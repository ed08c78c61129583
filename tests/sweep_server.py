"""The stub engine as a process with vLLM's flags: a server that drafts, or dies under load.

Each step yields a request one token and those of its draft that are accepted; which they are
follows a fixed pattern, so that the counters of the page have one truth.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.stub_engine import _LABELS, Engine, application

SURVIVAL = (0.8, 0.6, 0.2, 0.1)
"""Share of drafts whose position is accepted; k = 2 is the best at this cost of a token."""

STEP = 0.006
TOKEN = 0.15
"""A step without a draft takes so many seconds, and a drafted token adds this share of it."""


@dataclass(slots=True, kw_only=True)
class DraftingEngine(Engine):
    """An engine whose steps yield accepted tokens too."""

    k: int = 0
    made: int = 0

    def _step(self) -> None:
        for job in list(self.running):
            now = time.monotonic()
            drafted = self.k > 0 and job.tokens > 0
            if job.tokens:
                self.step.observe(now - job.last)
            else:
                self.ttft.observe(now - job.arrived)
                self.prompted += job.prompt
            accepted = self.accepted(self.made) if drafted else 0
            self.made += drafted
            job.last = now
            for _ in range(min(1 + accepted, job.asked - job.tokens)):
                job.tokens += 1
                self.generated += 1
                job.chunks.put_nowait(job.tokens)
            if job.tokens >= job.asked:
                self.running.remove(job)
                self.e2e.observe(now - job.arrived)
                job.chunks.put_nowait(None)

    def accepted(self, number: int) -> int:
        """Tell how many tokens of a draft are accepted."""
        return sum((10 * share) > (7 * number) % 10 for share in SURVIVAL[: self.k])

    def page(self) -> str:
        """Add the counters of speculation."""
        text = Engine.page(self)
        if not self.k:
            return text
        counts = [0] * self.k
        for number in range(self.made):
            for place in range(self.accepted(number)):
                counts[place] += 1
        told = {"drafts": self.made, "draft_tokens": self.made * self.k}
        told["accepted_tokens"] = sum(counts)
        lines = [line for name, n in told.items() for line in counter(f"num_{name}", n)]
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        lines.append(f"# TYPE {name} counter")
        lines += [f'{name}{{{_LABELS},position="{i}"}} {float(n)}' for i, n in enumerate(counts)]
        return "\n".join([text.rstrip("\n"), *lines, ""])


def counter(name: str, value: int) -> list[str]:
    full = f"vllm:spec_decode_{name}_total"
    return [f"# TYPE {full} counter", f"{full}{{{_LABELS}}} {float(value)}"]


def engine_of(config: dict[str, Any]) -> DraftingEngine:
    """Make the engine for a speculative configuration."""
    k = int(config.get("num_speculative_tokens", 0))
    return DraftingEngine(k=k, step_seconds=lambda running: STEP * (1.0 + TOKEN * k * running**0.5))


async def serve(port: int, engine: Engine) -> None:
    runner = web.AppRunner(application(engine), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await engine.work()


def main() -> None:
    """Do what the arguments say."""
    reader = argparse.ArgumentParser()
    reader.add_argument("--port", type=int, required=True)
    reader.add_argument("--speculative-config", type=json.loads, default={})
    reader.add_argument("--collapses", type=int, default=-1)
    reader.add_argument("--child", action="store_true")
    asked = reader.parse_args()
    engine = engine_of(asked.speculative_config)
    if asked.child:  # in a session of its own, as some engines' workers are
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    if engine.k == asked.collapses:
        plain = engine.step_seconds
        engine.step_seconds = lambda running: sys.exit(9) if engine.began > 3 else plain(running)
    asyncio.run(serve(asked.port, engine))


if __name__ == "__main__":
    main()
