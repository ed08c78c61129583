"""A stub of an OpenAI-compatible engine on 127.0.0.1: it works in steps and counts its real work.

Every running request gets one token a step, and a step takes as long as `step_seconds` says for
so many requests. Its page speaks vLLM's V1 names, so what a client measures and what the page
says have one truth. It can be told to go wrong in the ways that servers do.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

MODEL = "stub"
_LABELS = f'engine="0",model_name="{MODEL}"'
_END = None


@dataclass(slots=True, kw_only=True)
class Histogram:
    """Sum and count of a latency, and the one bucket that a page cannot do without."""

    count: int = 0
    total: float = 0.0

    def observe(self, value: float) -> None:
        self.count += 1
        self.total += value

    def lines(self, name: str) -> list[str]:
        return [
            f"# TYPE vllm:{name} histogram",
            f'vllm:{name}_bucket{{{_LABELS},le="0.0001"}} 0.0',
            f'vllm:{name}_bucket{{{_LABELS},le="+Inf"}} {float(self.count)}',
            f"vllm:{name}_sum{{{_LABELS}}} {self.total!r}",
            f"vllm:{name}_count{{{_LABELS}}} {float(self.count)}",
        ]


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One request in the engine; what it yields goes to its queue."""

    asked: int
    prompt: int
    arrived: float
    chunks: "asyncio.Queue[int | None]" = field(default_factory=asyncio.Queue)
    tokens: int = 0
    last: float = 0.0


@dataclass(slots=True, kw_only=True)
class Faults:
    """What is wrong with the server; all off is a healthy one.

    `held_back` tokens come only with the one after them; at each step `foreign` tokens are
    generated for others, and `hidden` ones without being a step's. Its usage counts each token
    `counted_times`.
    """

    status: int = 0
    status_after: int = 0
    garbage: bool = False
    error_event: bool = False
    truncate: bool = False
    stall: bool = False
    no_usage: bool = False
    refuses_extras: bool = False
    page_gone: bool = False
    drafts: bool = False
    keyed: bool = False
    held_back: int = 0
    foreign: int = 0
    hidden: int = 0
    counted_times: int = 1


@dataclass(slots=True, kw_only=True)
class Engine:
    """The engine and its page, which counts what was really done, however slow the machine."""

    step_seconds: Callable[[int], float] = lambda running: 0.004 + 0.0005 * running
    max_running: int = 256
    kv_tokens: int = 1_000_000
    max_model_len: int = 4096
    faults: Faults = field(default_factory=Faults)
    url: str = ""
    began: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    ttft: Histogram = field(default_factory=Histogram)
    step: Histogram = field(default_factory=Histogram)
    e2e: Histogram = field(default_factory=Histogram)
    generated: int = 0
    prompted: int = 0
    finished: int = 0
    drafts: int = 0
    runner: web.AppRunner | None = None

    @property
    def pace(self) -> float:
        """Seconds that a token after a request's first really took, on the mean of all so far."""
        return self.step.total / self.step.count

    async def die(self) -> None:
        """Stop listening and cut every connection, as a killed process does."""
        assert self.runner is not None
        runner, self.runner = self.runner, None
        for site in list(runner.sites):
            await site.stop()
        server = runner.server
        assert server is not None
        for connection in list(server.connections):
            transport = connection.transport
            if transport is not None:
                transport.abort()

    async def work(self) -> None:
        """Run steps for ever."""
        due = time.monotonic()
        while True:
            while self.waiting and len(self.running) < self.max_running:
                self.running.append(self.waiting.pop(0))
            busy = max(1, len(self.running))
            due = max(due + self.step_seconds(busy), time.monotonic())
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if not self.faults.stall:
                self._step()

    def _step(self) -> None:
        self.count_foreign(self.faults.foreign)
        self.generated += self.faults.hidden
        for job in list(self.running):
            now = time.monotonic()
            if job.tokens:
                self.step.observe(now - job.last)
                self.drafts += self.faults.drafts
            else:
                self.ttft.observe(now - job.arrived)
                self.prompted += job.prompt
            job.tokens += 1
            job.last = now
            self.generated += 1
            if job.tokens > self.faults.held_back:
                job.chunks.put_nowait(job.tokens)
            if job.tokens >= job.asked:
                self.running.remove(job)
                self.finished += 1
                self.e2e.observe(now - job.arrived)
                job.chunks.put_nowait(_END)

    def count_foreign(self, tokens: int) -> None:
        """Count tokens of others, whose steps take long."""
        self.generated += tokens
        for _ in range(tokens):
            self.step.observe(0.02)

    def page(self) -> str:
        """Write the metrics page of this moment."""
        usage = sum(job.tokens + job.prompt for job in self.running) / self.kv_tokens
        lines = [
            "# TYPE vllm:cache_config_info gauge",
            'vllm:cache_config_info{enable_prefix_caching="False",num_gpu_blocks="4096"} 1.0',
            *self._gauge("num_requests_running", len(self.running)),
            *self._gauge("num_requests_waiting", len(self.waiting)),
            *self._gauge("kv_cache_usage_perc", usage),
            *self._counter("generation_tokens", self.generated),
            *self._counter("prompt_tokens", self.prompted),
            *self.ttft.lines("time_to_first_token_seconds"),
            *self.step.lines("inter_token_latency_seconds"),
            *self.e2e.lines("e2e_request_latency_seconds"),
        ]
        if self.faults.drafts:
            for name in ("drafts", "draft_tokens", "accepted_tokens"):
                lines += self._counter(f"spec_decode_num_{name}", self.drafts)
            name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            lines += [f"# TYPE {name} counter"]
            lines += [f'{name}{{{_LABELS},position="0"}} {float(self.drafts)!r}']
        return "\n".join([*lines, ""])

    @staticmethod
    def _gauge(name: str, value: float) -> list[str]:
        return [f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{_LABELS}}} {float(value)!r}"]

    @staticmethod
    def _counter(name: str, value: float) -> list[str]:
        return [
            f"# TYPE vllm:{name}_total counter",
            f"vllm:{name}_total{{{_LABELS}}} {float(value)!r}",
        ]


def _text_of(body: dict[str, Any]) -> str:
    if "messages" in body:
        return "\n".join(message["content"] for message in body["messages"])
    return str(body["prompt"])


def _event(value: object) -> bytes:
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def _choice(*, chat: bool, text: str, reason: str | None) -> dict[str, Any]:
    said = {"delta": {"content": text}} if chat else {"text": text}
    return {"index": 0, **said, "logprobs": None, "finish_reason": reason}


def application(engine: Engine) -> web.Application:
    """Make the server around an engine."""

    async def generate(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        engine.began += 1
        engine.bodies.append(body)
        engine.headers.append(dict(request.headers))
        faults = engine.faults
        if faults.status and engine.began > faults.status_after:
            return web.json_response({"error": "too much to do"}, status=faults.status)
        if faults.refuses_extras and ("ignore_eos" in body or len(body["stream_options"]) > 1):
            return web.json_response({"message": "extra fields"}, status=400)
        prompt = len(_text_of(body)) // 4
        job = Job(asked=body["max_tokens"], prompt=prompt, arrived=time.monotonic())
        engine.waiting.append(job)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await _stream(engine, job, body, response)
        finally:
            for queue in (engine.running, engine.waiting):
                if job in queue:
                    queue.remove(job)
        return response

    async def models(_: web.Request) -> web.Response:
        listed = [{"id": MODEL, "object": "model", "max_model_len": engine.max_model_len}]
        status = 401 if engine.faults.keyed else 200
        return web.json_response({"object": "list", "data": listed}, status=status)

    async def version(_: web.Request) -> web.Response:
        return web.json_response({"version": "0.25.1"})

    async def metrics(_: web.Request) -> web.Response:
        if engine.faults.page_gone:
            return web.Response(status=404)
        return web.Response(
            body=engine.page().encode(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    app = web.Application()
    app.router.add_post("/v1/completions", generate)
    app.router.add_post("/v1/chat/completions", generate)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/version", version)
    app.router.add_get("/metrics", metrics)
    return app


async def _stream(
    engine: Engine, job: Job, body: dict[str, Any], response: web.StreamResponse
) -> None:
    faults, chat = engine.faults, "messages" in body
    each = body["stream_options"].get("continuous_usage_stats", False) and not faults.no_usage
    if chat:
        role = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        await response.write(_event({"choices": [role]}))
    while (tokens := await job.chunks.get()) is not _END:
        if faults.garbage and tokens > 3:
            await response.write(b"<html>not what you asked for</html>\n\n")
            return
        if faults.error_event and tokens > 3:
            await response.write(_event({"error": {"message": "out of memory", "code": 500}}))
            return
        if faults.truncate and tokens > 3:
            return
        ends = tokens >= job.asked
        choice = _choice(chat=chat, text=" word", reason="length" if ends else None)
        usage = {"prompt_tokens": job.prompt, "completion_tokens": faults.counted_times * tokens}
        await response.write(
            _event({"id": "x", "choices": [choice], "usage": usage if each else None})
        )
    if not faults.no_usage:
        told = faults.counted_times * job.tokens
        usage = {"prompt_tokens": job.prompt, "completion_tokens": told}
        await response.write(_event({"choices": [], "usage": usage}))
    await response.write(b"data: [DONE]\n\n")


@asynccontextmanager
async def serving_engine(engine: Engine) -> AsyncIterator[Engine]:
    """Run an engine behind a port of its own."""
    runner = web.AppRunner(application(engine), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    engine.runner = runner
    engine.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    working = asyncio.create_task(engine.work())
    try:
        yield engine
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await runner.cleanup()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in this event loop."""
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("it did not happen within a minute")
