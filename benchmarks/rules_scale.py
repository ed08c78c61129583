"""What our rules cost a Prometheus of a large fleet, beside the same questions of vLLM's own pages.

    python benchmarks/rules_scale.py                     # 500 sidecars, 8 minutes, 6 GiB
    python benchmarks/rules_scale.py --sidecars 50 --minutes 4

One real sidecar watches a recorded server of 4 engines with 8 draft positions. Its page and the
server's are offered under as many addresses as the fleet has members, and two Prometheus servers
scrape them at the same time: one with the rendered rules and alerts, one that works out the same
ratios and quantiles straight from vLLM's counters and buckets, without any alert. Windows of an
hour and a day hold only what the run has lasted. The table goes to standard output, progress to
standard error.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import yaml
from aiohttp import ClientSession, web
from engine_process import Fleet, engines
from measure import Row, resident_mib, tell, write_table
from whole_process import free_port, running, wait_for

from specgauge.serve.demo.recording import recorded_baseline

_FLEET = Fleet(engines=4, models=1, positions=8)
_RULES = Path(__file__).parents[1] / "rules" / "specgauge.rules.yaml"
_SCRAPE_SECONDS = 15
_KINDS = ("sidecar", "engine")

_BY = {"instance": "instance, model_name", "model": "model_name", "fleet": "job"}
_RATIOS = {
    "acceptance": ("spec_decode_num_accepted_tokens_total", "spec_decode_num_draft_tokens_total"),
    "length": ("spec_decode_num_accepted_tokens_total", "spec_decode_num_drafts_total"),
    "steps": ("generation_tokens_total", "inter_token_latency_seconds_count"),
    "tpot": ("inter_token_latency_seconds_sum", "generation_tokens_total"),
    "outputs": ("generation_tokens_total", "request_success_total"),
    "preemptions": ("num_preemptions_total", "request_success_total"),
}
_QUANTILES = ("e2e_request_latency_seconds", "time_to_first_token_seconds")


def raw_rules() -> str:
    """Write the same questions to vLLM's own names: every level and window, from the buckets on."""
    groups = []
    for window, interval in (("5m", "30s"), ("1h", "1m"), ("1d", "2m")):
        rules = []
        for level, by in _BY.items():
            for name, (top, bottom) in _RATIOS.items():
                parts = (f"sum by ({by}) (rate(vllm:{one}[{window}]))" for one in (top, bottom))
                rules.append((f"{level}:{name}:{window}", " / ".join(parts)))
            accepted, drafts = (
                f"sum by ({key}) (rate(vllm:spec_decode_num_{one}_total[{window}]))"
                for one, key in (("accepted_tokens_per_pos", f"{by}, position"), ("drafts", by))
            )
            survival = f"{accepted} / on ({by}) group_left () {drafts}"
            rules.append((f"{level}:survival:{window}", survival))
            for name in _QUANTILES:
                buckets = f"sum by ({by}, le) (rate(vllm:{name}_bucket[{window}]))"
                rules.append((f"{level}:{name}:{window}", f"histogram_quantile(0.99, {buckets})"))
        groups.append(
            {
                "name": f"raw-{window}",
                "interval": interval,
                "rules": [{"record": name, "expr": expr} for name, expr in rules],
            }
        )
    return yaml.safe_dump({"groups": groups}, sort_keys=False)


@contextmanager
def prometheus(folder: Path, kind: str, offered: str, members: int) -> Iterator[tuple[str, int]]:
    """Run a Prometheus that scrapes all members of one kind; gives its URL and its process id."""
    home = folder / kind
    home.mkdir()
    (home / "rules.yaml").write_text(
        _RULES.read_text() if kind == "sidecar" else raw_rules(), "utf-8"
    )
    job = {
        "job_name": "specgauge" if kind == "sidecar" else "vllm",
        "static_configs": [{"targets": [f"member-{number}" for number in range(members)]}],
        "relabel_configs": [
            {"source_labels": ["__address__"], "target_label": "instance"},
            {
                "source_labels": ["__address__"],
                "target_label": "__metrics_path__",
                "replacement": f"/{kind}/$1",
            },
            {"target_label": "__address__", "replacement": offered},
        ],
    }
    config = {
        "global": {"scrape_interval": f"{_SCRAPE_SECONDS}s", "evaluation_interval": "30s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [job],
    }
    (home / "prometheus.yaml").write_text(yaml.safe_dump(config), "utf-8")
    port = free_port()
    command = (
        "prometheus",
        f"--config.file={home / 'prometheus.yaml'}",
        f"--storage.tsdb.path={home / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with running(*command) as pid:
        url = f"http://127.0.0.1:{port}"
        wait_for(f"{url}/-/ready").close()
        yield url, pid


@contextmanager
def watching(folder: Path, engine: str) -> Iterator[str]:
    """Run a sidecar with a baseline and a guard beside the recorded fleet; gives its URL."""
    baseline = recorded_baseline().model_dump(mode="json", by_alias=True, exclude_none=True)
    baseline["model"] = {"name": "target-0"}
    baseline.pop("parallelism", None)
    (folder / "baseline.json").write_text(json.dumps(baseline), "utf-8")
    config = {
        "targets": [{"url": engine}],
        "baseline": {"file": "baseline.json"},
        "guard": {},
        "listen": f"127.0.0.1:{free_port()}",
    }
    (folder / "specgauge.yaml").write_text(yaml.safe_dump(config), "utf-8")
    command = (
        sys.executable,
        "-m",
        "specgauge",
        "serve",
        "--config",
        str(folder / "specgauge.yaml"),
    )
    with running(*command):
        url = f"http://{config['listen']}"
        wait_for(f"{url}/-/ready").close()
        yield url


async def offer(sources: dict[str, str], port: int) -> None:
    """Offer each source's page under any name below its kind, one fetch a second for all."""
    pages: dict[str, bytes] = {}

    async def answer(request: web.Request) -> web.Response:
        body = pages.get(request.match_info["kind"], b"")
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4"})

    app = web.Application()
    app.router.add_get("/{kind}/{member}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    async with ClientSession() as session:
        while True:
            for kind, url in sources.items():
                async with session.get(url) as found:
                    pages[kind] = await found.read()
            await asyncio.sleep(1.0)


def ask(url: str) -> dict[str, float]:
    """Read a Prometheus' own page: each series with its labels."""
    with urlopen(f"{url}/metrics", timeout=30) as answer:  # noqa: S310 - our own server
        text = answer.read().decode()
    found = re.finditer(r"^(\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {one[1]: float(one[2]) for one in found}


def rows(kind: str, start: dict[str, float], end: dict[str, float], seconds: float) -> list[Row]:
    """Say what a Prometheus did between two looks at itself."""

    def total(page: dict[str, float], name: str) -> float:
        return sum(value for key, value in page.items() if key.partition("{")[0] == name)

    def grown(name: str) -> float:
        return total(end, name) - total(start, name)

    what = "our rules" if kind == "sidecar" else "raw vLLM pages"
    last = "prometheus_rule_group_last_duration_seconds"
    durations = [value for key, value in end.items() if key.partition("{")[0] == last]
    made = total(end, "prometheus_rule_group_last_evaluation_samples")
    evaluated = grown("prometheus_rule_evaluation_duration_seconds_sum")
    missed = total(end, "prometheus_rule_group_iterations_missed_total")
    busy = grown("process_cpu_seconds_total") / seconds
    rate = grown("prometheus_tsdb_head_samples_appended_total") / seconds
    return [
        Row(what=f"{what}: series in the head", value=f"{end['prometheus_tsdb_head_series']:,.0f}"),
        Row(what=f"{what}: samples a second", value=f"{rate:,.0f}"),
        Row(what=f"{what}: one pass over all groups", value=f"{sum(durations):.2f} s"),
        Row(what=f"{what}: slowest group", value=f"{max(durations, default=0.0):.2f} s"),
        Row(what=f"{what}: seconds of rules a minute", value=f"{60 * evaluated / seconds:.1f} s"),
        Row(what=f"{what}: samples that the rules make", value=f"{made:,.0f}"),
        Row(what=f"{what}: evaluations missed", value=f"{missed:.0f}", target="0"),
        Row(what=f"{what}: CPU, of one core", value=f"{busy:.0%}"),
    ]


def measure(folder: Path, members: int, minutes: float) -> list[Row]:
    """Run everything, wait, and look."""
    with ExitStack() as opened:
        engine = opened.enter_context(engines()) + _FLEET.path
        sidecar = opened.enter_context(watching(folder, engine))
        port = free_port()
        sources = json.dumps({"sidecar": f"{sidecar}/metrics", "engine": engine})
        opened.enter_context(
            running(sys.executable, __file__, "--offer", sources, "--port", str(port))
        )
        wait_for(f"http://127.0.0.1:{port}/sidecar/0").close()
        time.sleep(20.0)  # the sidecar's own window begins to fill, and its verdict is there
        lines = {}
        for kind in _KINDS:
            with urlopen(f"http://127.0.0.1:{port}/{kind}/0", timeout=30) as answer:
                page = answer.read().decode()
            lines[kind] = sum(not line.startswith("#") for line in page.splitlines())
        servers = {
            kind: opened.enter_context(prometheus(folder, kind, f"127.0.0.1:{port}", members))
            for kind in _KINDS
        }
        # The first minutes create all series; what is measured is the steady state after them.
        settle = min(120.0, 30.0 * minutes)
        tell(f"  {members} members a kind; settling for {settle:.0f} s")
        time.sleep(settle)
        starts = {kind: ask(url) for kind, (url, _) in servers.items()}
        began = time.monotonic()
        while (left := began + 60.0 * minutes - settle - time.monotonic()) > 0:
            tell(f"  measuring: {left:.0f} s left")
            time.sleep(min(30.0, left))
        seconds = time.monotonic() - began
        found = [Row(what=f"series of one {kind}", value=f"{lines[kind]:,}") for kind in _KINDS]
        for kind, (url, pid) in servers.items():
            found += rows(kind, starts[kind], ask(url), seconds)
            name = "our rules" if kind == "sidecar" else "raw vLLM pages"
            found.append(Row(what=f"{name}: memory", value=f"{resident_mib(pid):,.0f} MiB"))
        return found


def main() -> None:
    """Run the benchmark, or the process of it that offers the pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sidecars", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--offer", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.offer:
        asyncio.run(offer(json.loads(arguments.offer), arguments.port))
        return
    with tempfile.TemporaryDirectory() as scratch:
        try:
            found = measure(Path(scratch), arguments.sidecars, arguments.minutes)
        except FileNotFoundError as error:
            raise SystemExit(f"rules_scale: {error.filename} is not installed") from None
        write_table(f"{arguments.sidecars} members, 4 engines, 8 draft positions", found)


if __name__ == "__main__":
    main()
