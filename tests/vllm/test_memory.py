"""The blocks that a real server has are those that `specgauge memory` reckons from its folders.

Servers with and without a draft model are those of the other tests; one with an EAGLE head, made
here of zeros, is started for its page alone.
"""

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.vllm.engine import MODELS, Engine
from tests.vllm.episode import DRAFT, NONE, Episode, Mode
from tests.vllm.pages import Page, get, read

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

CLOSE = 0.03
TARGET = MODELS / "target"
FLAGS = ("--kv-space", "1GiB", "--max-model-len", "1024", "--max-num-seqs", "16")


def blocks(page: Page) -> int:
    """Read the number of blocks off an engine's own page."""
    told = [one for one in page.samples if one.name == "vllm:cache_config_info"]
    return int(told[0].labels["num_gpu_blocks"])


def reckoned(*flags: str | Path) -> dict[str, Any]:
    """Ask the command what a server of these folders would have."""
    command = [sys.executable, "-m", "specgauge", "memory", "--json", "--target", str(TARGET)]
    command += [*FLAGS, *map(str, flags)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def make_head(folder: Path) -> Path:
    """Write an EAGLE head for the tiny target: one layer of its shape, all zeros."""
    config = json.loads((TARGET / "config.json").read_text()) | {"num_hidden_layers": 1}
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    wide = config["num_attention_heads"] * config["head_dim"]
    narrow = config["num_key_value_heads"] * config["head_dim"]
    shapes = {
        "fc.weight": [hidden, 2 * hidden],
        "layers.0.self_attn.q_proj.weight": [wide, hidden],
        "layers.0.self_attn.k_proj.weight": [narrow, hidden],
        "layers.0.self_attn.v_proj.weight": [narrow, hidden],
        "layers.0.self_attn.o_proj.weight": [hidden, wide],
        "layers.0.mlp.gate_proj.weight": [inner, hidden],
        "layers.0.mlp.up_proj.weight": [inner, hidden],
        "layers.0.mlp.down_proj.weight": [hidden, inner],
        "layers.0.post_attention_layernorm.weight": [hidden],
    }
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    folder.mkdir()
    data = struct.pack("<Q", len(text)) + text + bytes(end)
    (folder / "model.safetensors").write_bytes(data)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((TARGET / name).read_bytes())
    return folder


@pytest.mark.parametrize(
    ("mode", "side", "flags"),
    [
        pytest.param(NONE, "before", (), id="none"),
        pytest.param(DRAFT, "after", ("--draft", MODELS / "draft"), id="draft_model"),
    ],
)
def test_the_blocks_are_the_engines(
    recorded: Callable[[Mode], Episode], mode: Mode, side: str, flags: tuple[str | Path, ...]
) -> None:
    """From two folders come the blocks that the engine tells on its page."""
    page = recorded(mode).after
    assert reckoned(*flags)[side]["blocks"] == pytest.approx(blocks(page), rel=CLOSE)


def test_the_blocks_with_a_head_are_the_engines(vllm_python: Path, tmp_path: Path) -> None:
    """A head takes a layer of the target's cache, and the engine says so too."""
    head = make_head(tmp_path / "head")
    speculative = {"method": "eagle", "model": str(head), "num_speculative_tokens": 3}
    engine = Engine(python=vllm_python, log=tmp_path / "engine.log", speculative=speculative)
    try:
        engine.start()
        page = read(get(engine.url, "/metrics")[1])
    finally:
        engine.kill()
    found = reckoned("--draft", head, "--method", "eagle")
    assert found["after"]["blocks"] == pytest.approx(blocks(page), rel=CLOSE)
