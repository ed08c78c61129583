"""A sweep over real servers: k = 1, 2, 4 and none, killed half-way and taken up again."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.swept import Noise, Truth, candidates
from tests.vllm.client import prompts
from tests.vllm.engine import MODEL_NAME, MODELS, SETTINGS

from specgauge.preflight.sweep.folder import Folder
from specgauge.preflight.sweep.processes import members
from specgauge.preflight.sweep.result import conclude

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

KS = (1, 2, 4)
LOADS = (1, 4)
LOOKUP = {"prompt_lookup_max": 4, "prompt_lookup_min": 2}


def words(python: Path, folder: Path) -> list[str]:
    """Write the command line of the sweep."""
    asked = folder / "prompts.jsonl"
    asked.write_text("".join(json.dumps({"text": one}) + "\n" for one in islice(prompts(), 40)))
    server = (
        f"{python} -m vllm.entrypoints.openai.api_server --host 127.0.0.1 --port <<port>> "
        f"--model {MODELS / 'target'} --served-model-name {MODEL_NAME} "
        "--max-model-len 1024 --max-num-seqs 16 --enforce-eager <<speculative>>"
    )
    return [
        *("sweep", "--server", server, "--method", "ngram", "--k", ",".join(map(str, KS))),
        *("--speculative-config", json.dumps(LOOKUP), "--measure-all", "--json"),
        *("--concurrency", ",".join(map(str, LOADS)), "--prompts", str(asked), "--expect", "2"),
        *("--window", "6", "--warmup", "1", "--output-tokens", "32-96"),
        *("-o", str(folder / "sweep")),
    ]


def until(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float) -> None:
    """Wait for something that the sweep does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the sweep ended too early"
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def runs_in(folder: Path) -> list[dict[str, Any]]:
    """Read the runs that the sweep has so far."""
    file = folder / "sweep" / "sweep.json"
    found = json.loads(file.read_text())["runs"] if file.exists() else []
    assert isinstance(found, list)
    return found


def begin(asked: list[str], log: Path) -> subprocess.Popen[str]:
    """Start the sweep in an environment in which vLLM runs on the processor."""
    with log.open("a") as told:
        return subprocess.Popen(
            [sys.executable, "-m", "specgauge", *asked],
            env={**os.environ, **SETTINGS},
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        )


def test_a_sweep_over_real_servers(vllm_python: Path, tmp_path: Path) -> None:
    """Killed with a server up, it stops that server, measures what is lacking, and chooses."""
    asked, log, folder = words(vllm_python, tmp_path), tmp_path / "log", Folder(tmp_path / "sweep")
    first = begin(asked, log)
    try:
        until(lambda: len(runs_in(tmp_path)) == len(LOADS) + 1, first, 400)
    finally:
        first.kill()
        first.communicate()
    before, left = runs_in(tmp_path), folder.left_server()
    assert left is not None
    assert members(left[0])
    second = begin(asked, log)
    try:
        out, _ = second.communicate(timeout=900)
    finally:
        second.terminate()
        second.communicate()
    told = log.read_text()
    assert f"stopped what the last run had left of {left[1]}" in told
    assert members(left[0]) == set()
    assert folder.left_server() is None
    document = json.loads(out)
    assert document["complete"] is True
    assert [one["status"] for one in document["states"]] == ["measured"] * 4, told
    assert document["runs"][: len(before)] == before
    assert [one["failure"] for one in document["runs"]] == [None] * 4 * len(LOADS)
    for cell in document["cells"]:
        k = cell["num_speculative_tokens"]
        assert cell["kv_blocks"] > 0
        if cell["rejected"] is None:
            assert cell["tpot_seconds"] > 0.0
            assert k == 0 or 1.0 <= cell["acceptance_length"] <= k + 1
        else:
            assert "noise" in cell["rejected"]
    for one in document["runs"]:
        name, _, k = one["candidate"].partition("-k")
        assert one["speculation"]["num_speculative_tokens"] == (int(k) if k else None), name
    assert_chosen(document, second.returncode)


def assert_chosen(document: dict[str, Any], code: int) -> None:
    """Hold the choice to what there is to choose from; a busy machine may leave none."""
    chosen, schedule = document["recommended"], document["schedule"]
    if chosen is None:
        assert code == 4
        return
    assert chosen["num_speculative_tokens"] in {0, *KS}
    alone = chosen["compared"] == ["none"]
    assert code == (4 if alone else int(chosen["num_speculative_tokens"] == 0))
    assert schedule["ranges"] or schedule["refusal"] in {
        "one_k_at_every_load",
        "no_speculation_pays",
    }


TAKE = """
import importlib.util, json, pathlib, runpy, sys
folder = pathlib.Path(importlib.util.find_spec("vllm").submodule_search_locations[0])
taken = runpy.run_path(str(folder / "v1" / "spec_decode" / "dynamic" / "utils.py"))
config = json.loads(sys.argv[1])
ranges = config["num_speculative_tokens_per_batch_size"]
most = config["num_speculative_tokens"]
print(json.dumps(taken["build_dynamic_sd_schedule_lookup"](ranges, 20, most)))
"""


def test_the_schedule_is_what_the_engine_takes(vllm_python: Path) -> None:
    """The engine's own reader makes of a schedule the k that was chosen for each batch."""
    tpots = {1: {0: 10.0, 2: 7.0, 4: 6.8}, 4: {0: 11.0, 2: 8.0, 4: 9.0}, 16: {0: 9.0, 2: 12, 4: 14}}
    runs = Truth(tpot=tpots).runs(Noise(spread=0.0005), 1)
    schedule = conclude(candidates((2, 4)), runs, [], ()).schedule
    assert schedule.argument is not None
    asked = [str(vllm_python), "-c", TAKE, schedule.argument]
    taken = subprocess.run(asked, capture_output=True, text=True, check=True)
    by_batch = json.loads(taken.stdout)
    expected = [0, *(k for first, last, k in schedule.ranges for _ in range(first, last + 1))]
    assert by_batch == [*expected, *[0] * (21 - len(expected))]
    assert (by_batch[1], by_batch[4], by_batch[16]) == (4, 2, 0)
