r"""`specgauge baseline record` and vLLM's own `vllm bench serve` on one server, in turns.

Each round measures every concurrency with both, the other one first each time. Output lengths
come evenly from the same range; the prompts of the bench are random, of the mean length that the
record's had. Since a machine may be slower in one run than in the next, each is also held against
the server's own histograms over its run. The server must be without speculation and other load.

    python benchmarks/peer_check.py --url http://127.0.0.1:8000 \
        --python ENV/bin/python --tokenizer MODEL_FOLDER
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import MILLI, Row, spread, tell, write_table

from specgauge.baseline.files import load_file
from specgauge.derive.accumulate import advance, open_ledger
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.engines.reader import Reader
from specgauge.model.derived import Hints
from specgauge.model.quantity import Page
from specgauge.serve.scrape import Endpoint, Scraper

# The `vllm` command asks for its own release by a name that builds for CPUs do not have.
_BENCH = (
    "import argparse; from vllm.benchmarks.serve import add_cli_args, main; "
    "parser = argparse.ArgumentParser(); add_cli_args(parser); main(parser.parse_args())"
)
_OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "false"}
_WANTED = "0.9 to 1.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one tool measured at one concurrency, and the server's own; means, times in seconds."""

    tpot: float
    e2e: float
    output: float
    prompt: float
    server_tpot: float
    server_e2e: float


def record(arguments: argparse.Namespace, concurrency: int, seed: int, folder: Path) -> Figures:
    """Measure a level with our recorder; the client's figures are those to compare."""
    output = folder / "baseline.json"
    command = [sys.executable, "-m", "specgauge", "baseline", "record", "--url", arguments.url]
    command += ["-o", str(output), "--concurrency", str(concurrency), "--seed", str(seed)]
    command += ["--output-tokens", f"{arguments.shortest}-{arguments.longest}"]
    command += ["--window", f"{arguments.seconds:g}", "--warmup", "1"]
    _run(command)
    (level,) = load_file(output).levels
    client, server = level.client, level.server
    if client is None or server is None:
        raise SystemExit(f"peer_check: one side has no figures at concurrency {concurrency}")
    return Figures(
        tpot=client.tpot_seconds.mean or 0.0,
        e2e=client.e2e_seconds.mean or 0.0,
        output=level.output_tokens_per_request or 0.0,
        prompt=level.prompt_tokens_per_request or 0.0,
        server_tpot=server.tpot_seconds,
        server_e2e=server.e2e_seconds or 0.0,
    )


def bench(
    arguments: argparse.Namespace, concurrency: int, seed: int, folder: Path, like: Figures
) -> Figures:
    """Measure the same with vLLM's benchmark: as many requests as fill the same time."""
    middle = (arguments.shortest + arguments.longest) / 2
    ratio = (arguments.longest - arguments.shortest) / (arguments.longest + arguments.shortest)
    requests = max(4 * concurrency, round(arguments.seconds * concurrency / like.e2e))
    name = f"c{concurrency}-{seed}.json"
    command = [arguments.python, "-c", _BENCH, "--backend", "openai", "--base-url", arguments.url]
    command += ["--model", arguments.model, "--tokenizer", arguments.tokenizer]
    command += ["--dataset-name", "random", "--random-range-ratio", f"{ratio:.4f}"]
    command += ["--random-input-len", f"{like.prompt:.0f}", "--random-output-len", f"{middle:.0f}"]
    command += ["--max-concurrency", str(concurrency), "--num-prompts", str(requests)]
    command += ["--seed", str(seed), "--ignore-eos", "--temperature", "0"]
    command += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--disable-tqdm"]
    command += ["--save-result", "--result-dir", str(folder), "--result-filename", name]
    reader = Reader()
    before = asyncio.run(_page(arguments.url, reader))
    _run(command)
    server = _between(before, asyncio.run(_page(arguments.url, reader)), arguments.seconds)
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return Figures(
        tpot=found["mean_tpot_ms"] / MILLI,
        e2e=found["mean_e2el_ms"] / MILLI,
        output=found["total_output_tokens"] / found["completed"],
        prompt=found["total_input_tokens"] / found["completed"],
        server_tpot=server["tpot_seconds"],
        server_e2e=server["e2e_seconds"],
    )


def _run(command: list[str]) -> None:
    ran = subprocess.run(
        command, env={**os.environ, **_OFFLINE}, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise SystemExit(f"peer_check: {' '.join(command[:4])} … failed:\n{ran.stderr[-2000:]}")


async def _page(url: str, reader: Reader) -> Page:
    scraper = Scraper(Endpoint(url=f"{url}/metrics", timeout=30.0))
    try:
        body = await scraper.fetch()
    finally:
        await scraper.close()
    return reader.read(body.data, complete=body.complete)


def _between(before: Page, after: Page, seconds: float) -> dict[str, Any]:
    """Give what the only model did between two pages; rates are not of interest here."""
    start = open_ledger(before, 0.0)
    end, _ = advance(start, after, seconds)
    (window,) = windows(start.totals, end, after, seconds).values()
    return dict(summarise(window, Hints()).values)


def rows(concurrency: int, pairs: Sequence[tuple[Figures, Figures]]) -> list[Row]:
    """Set both tools side by side: medians over the rounds, and the spread of their quotient."""

    def row(name: str, figure: Callable[[Figures], float], unit: str, target: str) -> Row:
        ours, theirs = (
            statistics.median(figure(pair[which]) for pair in pairs) for which in (0, 1)
        )
        quotient = spread([figure(one) / figure(other) for one, other in pairs])
        told = f"{ours:.3g}{unit}, bench {theirs:.3g}{unit}, quotient {quotient}"
        return Row(what=f"concurrency {concurrency}: {name}", value=told, target=target)

    return [
        row("TPOT", lambda one: one.tpot * MILLI, " ms", _WANTED),
        row("TPOT over the server's", lambda one: one.tpot / one.server_tpot, "", _WANTED),
        row("E2E", lambda one: one.e2e * MILLI, " ms", _WANTED),
        row("E2E over the server's", lambda one: one.e2e / one.server_e2e, "", _WANTED),
        row("server's TPOT", lambda one: one.server_tpot * MILLI, " ms", ""),
        row("output tokens", lambda one: one.output, "", ""),
        row("prompt tokens", lambda one: one.prompt, "", ""),
    ]


def measure(arguments: argparse.Namespace, folder: Path) -> list[Row]:
    """Run the rounds, interleaved."""
    levels = [int(part) for part in arguments.concurrency.split(",")]
    found: dict[int, list[tuple[Figures, Figures]]] = {level: [] for level in levels}
    like = {level: record(arguments, level, 0, folder) for level in levels}  # also warms up
    for turn in range(arguments.rounds):
        for level in levels:
            tell(f"  round {turn + 1} of {arguments.rounds}: concurrency {level}")
            if turn % 2:
                theirs = bench(arguments, level, turn + 1, folder, like[level])
                ours = record(arguments, level, turn + 1, folder)
            else:
                ours = record(arguments, level, turn + 1, folder)
                theirs = bench(arguments, level, turn + 1, folder, like[level])
            found[level].append((ours, theirs))
    return [row for level in levels for row in rows(level, found[level])]


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", required=True, help="root of a vLLM server")
    parser.add_argument("--python", required=True, help="interpreter that can import vllm")
    parser.add_argument("--tokenizer", required=True, help="of the model, a folder or a name")
    parser.add_argument("--model", default="tiny", help="name that the server gives it")
    parser.add_argument("--concurrency", default="1,2,4")
    parser.add_argument("--shortest", type=int, default=32, help="output tokens")
    parser.add_argument("--longest", type=int, default=160, help="output tokens")
    parser.add_argument("--seconds", type=float, default=12.0, help="length of a measurement")
    parser.add_argument("--rounds", type=int, default=5, help="at least 2")
    parser.add_argument("--keep", type=Path, help="folder for the files that both write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        title = f"record and vllm bench serve, {arguments.rounds} rounds of {arguments.seconds:g} s"
        write_table(title, measure(arguments, folder))


if __name__ == "__main__":
    main()
