"""A real Prometheus scrapes a real sidecar, and PromQL answers what the sidecar says itself."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.fleets import prometheus_at
from tests.sidecars import DEADLINE, Running, quick, sidecar

from specgauge.model import names
from specgauge.model.settings import TargetSettings
from specgauge.serve.demo.recording import RecordingName, load
from specgauge.serve.demo.stand_in import StandIn

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: specgauge
    static_configs: [{{targets: ["{address}"]}}]
"""
INTERVAL = 0.1
STEP = 1.5
STEPS = 20
RATES = {
    "acceptance_ratio": "{accepted_tokens_total} / {draft_tokens_total}",
    "acceptance_length": "1 + {accepted_tokens_total} / {drafts_total}",
    "draft_length": "{draft_tokens_total} / {drafts_total}",
    "tokens_per_step": "({generation_tokens_total} - {first_tokens_total}) / {decode_steps_total}",
    "draft_coverage_ratio": "{drafts_total} / {decode_steps_total}",
    "tpot_seconds": "{decode_seconds_total} / ({generation_tokens_total} - {first_tokens_total})",
    "step_seconds": "{step_latency_seconds_sum} / {step_latency_seconds_count}",
    "ttft_seconds": "{time_to_first_token_seconds_sum} / {time_to_first_token_seconds_count}",
    "e2e_seconds": "{e2e_request_latency_seconds_sum} / {e2e_request_latency_seconds_count}",
    "request_tpot_seconds": (
        "{request_time_per_output_token_seconds_sum}"
        " / {request_time_per_output_token_seconds_count}"
    ),
    "output_tokens_per_request": "{generation_tokens_total} / {first_tokens_total}",
}


class RecordedTime:
    """Wall seconds for a stand-in that only pass when they are told to."""

    def __init__(self) -> None:
        self.now = 40.0

    def __call__(self) -> float:
        return self.now


class Server:
    """A Prometheus that runs, asked over its API."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self._client = client

    async def ask(self, path: str, **parameters: str) -> Any:
        """Ask the API; gives what stands under `data`."""
        async with self._client.get(f"/api/v1/{path}", params=parameters) as response:
            document = await response.json()
        assert document["status"] == "success", document
        return document["data"]

    async def value(self, query: str) -> float | None:
        """Evaluate a query that has one answer now, or none."""
        found = (await self.ask("query", query=query))["result"]
        assert len(found) < 2, f"{query} has {len(found)} answers"
        return float(found[0]["value"][1]) if found else None

    async def wait(self, query: str, expected: float) -> None:
        """Wait until a query has the answer."""
        try:
            async with asyncio.timeout(2 * DEADLINE):
                while await self.value(query) != expected:  # noqa: ASYNC110 - only asking tells
                    await asyncio.sleep(0.1)
        except TimeoutError:
            found = await self.value(query)
            raise AssertionError(f"{query} is {found}, never {expected}") from None


@asynccontextmanager
async def scraping(program: str, folder: Path, address: str) -> AsyncIterator[Server]:
    """Run Prometheus on a free port until the end, scraping one address each second."""
    (folder / "prometheus.yml").write_text(CONFIG.format(address=address))
    command = (program, f"--config.file={folder / 'prometheus.yml'}")
    async with (
        prometheus_at(*command, f"--storage.tsdb.path={folder / 'data'}") as url,
        aiohttp.ClientSession(url) as client,
    ):
        yield Server(client)


def rates(formula: str) -> str:
    """Put the rate of each series into a formula."""
    return re.sub(r"\{(\w+)\}", r"sum(rate(specgauge_\1[5m]))", formula)


@asynccontextmanager
async def watched(clock: RecordedTime) -> AsyncIterator[Running]:
    """Run a sidecar before a recorded engine whose time is in our hands."""
    engine = StandIn(load(RecordingName.SPECULATIVE), clock=clock)
    async with engine:
        engine._started = 0.0
        settings = replace(
            quick(TargetSettings(name="demo", url=f"{engine.url}/metrics")), interval=INTERVAL
        )
        async with sidecar(settings=settings) as made:
            await made.result("ok")
            yield made


async def test_promql_and_status_agree(prometheus: str, tmp_path: Path) -> None:
    """Every ratio that PromQL makes of the counters is the one in the status, to the last digit.

    The engine stands still until Prometheus has the first sample of every series, then half a
    minute of load goes by, then it stands still again: so both look at exactly the same growth.
    """
    clock = RecordedTime()
    async with watched(clock) as made:
        address = made.sidecar.url.removeprefix("http://")
        async with scraping(prometheus, tmp_path, address) as server:
            await server.wait("specgauge_target_up", 1)
            for _ in range(STEPS):
                clock.now += STEP
                await made.scrapes(2)
            found = await made.samples()
            total = sum(v for k, v in found.items() if k.startswith("specgauge_drafts_total"))
            assert total > 1000
            await server.wait("sum(specgauge_drafts_total)", total)
            async with made.client.get("/api/v1/status") as response:
                (target,) = (await response.json())["targets"]
            (model,) = target["models"]
            for field, formula in RATES.items():
                assert await server.value(rates(formula)) == pytest.approx(model[field], rel=1e-9)
            for position, share in enumerate(model["position_acceptance_ratio"]):
                series = f'specgauge_accepted_tokens_per_position_total{{position="{position}"}}'
                query = f"sum(rate({series}[5m])) / sum(rate(specgauge_drafts_total[5m]))"
                assert await server.value(query) == pytest.approx(share, rel=1e-9)
            await check_gauges(server, model)
            await check_metadata(server)
            await server.wait('up{job="specgauge"}', 1)


async def check_gauges(server: Server, model: dict[str, Any]) -> None:
    """Hold the gauges that Prometheus has against the status."""
    for field in ("acceptance_ratio", "tpot_seconds", "tokens_per_step", "requests_running"):
        found = await server.value(f"last_over_time(specgauge_{field}[5m])")
        assert found == pytest.approx(model[field], rel=1e-9)
    state = "last_over_time(specgauge_speculation_state[5m])"
    assert await server.value(f"sum by (state) ({state}) == 1") == 1
    assert await server.value("sum(last_over_time(specgauge_engine_restarts_total[5m]))") == 0
    failed = 'sum(last_over_time(specgauge_scrapes_total{result!="ok"}[5m]))'
    assert await server.value(failed) == 0
    buckets = "sum by (le) (rate(specgauge_step_latency_seconds_bucket[5m]))"
    median = await server.value(f"histogram_quantile(0.5, {buckets})")
    assert median is not None
    assert 0 < median < 0.1


async def check_metadata(server: Server) -> None:
    """Prometheus knows every series that it has by its type and help."""
    metadata = await server.ask("metadata")
    known = {one.name.removesuffix("_total"): one for one in names.ALL}
    seen = {name for name in metadata if name.startswith("specgauge_")}
    assert len(seen) > 30
    for name in seen:
        (told,) = metadata[name]
        one = known[name.removesuffix("_total")]
        assert (told["type"], told["help"]) == (one.kind, one.help)


async def test_gauges_go_stale_at_once(prometheus: str, tmp_path: Path) -> None:
    """When the engine goes away its gauges end in Prometheus, too; counters go on."""
    clock = RecordedTime()
    engine = StandIn(load(RecordingName.SPECULATIVE), clock=clock)
    await engine.start()
    try:
        engine._started = 0.0
        async with sidecar(TargetSettings(name="demo", url=f"{engine.url}/metrics")) as made:
            await made.result("ok")
            clock.now += 10
            await made.scrapes(3)
            address = made.sidecar.url.removeprefix("http://")
            async with scraping(prometheus, tmp_path, address) as server:
                await server.wait("specgauge_target_up", 1)
                drafts = sum(
                    value
                    for key, value in (await made.samples()).items()
                    if key.startswith("specgauge_drafts_total")
                )
                await server.wait("sum(specgauge_drafts_total)", drafts)
                await server.wait("count(specgauge_acceptance_ratio)", 1)
                await engine.stop()
                await server.wait("specgauge_target_up", 0)
                # Both from the scrape that saw the target down, whatever became of later ones.
                gone = "(specgauge_target_up == 0) unless on (target) specgauge_acceptance_ratio"
                await server.wait(gone, 0)
                await server.wait("sum(specgauge_drafts_total)", drafts)
    finally:
        await engine.stop()
