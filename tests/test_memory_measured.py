"""Memory measured: the caches of two servers from their pages, and folders that are amiss."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.memory_folders import LLAMA, SMALL, header, make_folder
from tests.recorded import PAGES
from tests.servers import answer, serving
from tests.small_pages import v1_page

from specgauge.cli.main import main

Capture = pytest.CaptureFixture[str]
RECORDED = PAGES / "vllm"
INFO = 'vllm:cache_config_info{{block_size="16",engine="{engine}",{more}}} 1.0\n'


def page(*, blocks: str = "27000", waiting: int = 0, preempted: int = 0, use: float = 0.5) -> bytes:
    """Write the page of one server."""
    labels = 'engine="0",model_name="acme/chat"'
    return (
        INFO.format(engine="0", more=f'num_gpu_blocks="{blocks}"')
        + f"vllm:num_requests_waiting{{{labels}}} {waiting}\n"
        f"vllm:num_preemptions_total{{{labels}}} {preempted}\n"
        f"vllm:kv_cache_usage_perc{{{labels}}} {use}\n"
    ).encode()


def compare(tmp_path: Path, capsys: Capture, before: bytes, after: bytes) -> tuple[int, Any]:
    """Hold two pages against each other."""
    for name, data in (("before", before), ("after", after)):
        (tmp_path / name).write_bytes(data)
    files = ("--before", str(tmp_path / "before"), "--after", str(tmp_path / "after"))
    code = main(["memory", "--json", *files])
    told = capsys.readouterr()
    assert told.err == ""
    assert main(["memory", *files]) == code
    assert "GiB" not in capsys.readouterr().out
    return code, json.loads(told.out, parse_constant=pytest.fail)


def codes(document: Any) -> list[str]:
    """List the codes of a document's findings."""
    return [one["code"] for one in document["findings"]]


def test_a_draft_that_eats_the_cache(tmp_path: Path, capsys: Capture) -> None:
    """432000 tokens become 304000, requests wait, and none of it is told in gigabytes."""
    code, document = compare(
        tmp_path,
        capsys,
        page(),
        page(blocks="19000", waiting=25, preempted=40, use=0.97),
    )
    assert code == 0
    assert document["before"]["tokens"] == 432000
    assert document["after"]["tokens"] == 304000
    assert document["change_percent"] == pytest.approx(-29.63, abs=0.005)
    assert document["after"]["requests_waiting"] == 25
    assert document["after"]["preemptions"] == 40
    assert codes(document) == [
        *("kv_cache_above_95", "kv_cache_smaller", "more_waiting", "more_preemptions")
    ]
    assert "GB" not in json.dumps(document)


@pytest.mark.parametrize(
    ("told", "reason"),
    [("None", "none_told"), ("", "none_told"), ("many", "no_number"), ("9" * 99, "no_number")],
)
def test_blocks_that_are_not_told(tmp_path: Path, capsys: Capture, told: str, reason: str) -> None:
    """Some releases write the word None: that is no value, with its reason."""
    code, document = compare(tmp_path, capsys, page(), page(blocks=told))
    assert code == 4
    assert "blocks" not in document["after"]
    assert document["after"]["absent"]["blocks"] == reason
    assert document["change_percent"] is None
    assert codes(document) == ["blocks_unknown"]


def test_pages_without_their_cache(tmp_path: Path, capsys: Capture) -> None:
    """A page without a cache's configuration has no capacity, and other figures all the same."""
    code, document = compare(tmp_path, capsys, v1_page(25), v1_page(25, model="other"))
    assert code == 4
    assert document["before"]["absent"]["blocks"] == "not_exposed_by_engine"
    assert codes(document) == ["blocks_unknown", "blocks_unknown", "models_differ"]


def test_servers_that_differ_otherwise(tmp_path: Path, capsys: Capture) -> None:
    """Other settings than speculation are named, as the change is not all the draft's."""
    other = page().replace(b'block_size="16"', b'block_size="32"')
    code, document = compare(tmp_path, capsys, page(), other)
    assert code == 0
    assert document["change_percent"] == 100.0
    assert "block_size 16 and 32" in document["findings"][0]["text"]


def test_engines_of_several_block_sizes(tmp_path: Path, capsys: Capture) -> None:
    """Blocks of several sizes add up to no number of tokens."""
    second = INFO.format(engine="1", more='num_gpu_blocks="5"').replace("16", "8").encode()
    code, document = compare(tmp_path, capsys, page(), page() + second)
    assert code == 4
    assert document["after"]["absent"]["block_size"] == "not_told_or_differs"
    assert document["after"]["blocks"] == 27005


@pytest.mark.parametrize(
    ("folder", "blocks", "tokens"),
    [
        pytest.param("0.32.0-none", 4096, 524288, id="one"),
        pytest.param("0.32.0-draft", 3276, 419328, id="draft"),
        pytest.param("0.32.0-draft-dp2", 6552, 838656, id="two engines that tell the sum"),
    ],
)
def test_recorded_servers(capsys: Capture, folder: str, blocks: int, tokens: int) -> None:
    """Recorded pages give the blocks of all engines, once."""
    sources = ("--before", str(RECORDED / "0.32.0-none" / "after.prom"))
    main(["memory", "--json", *sources, "--after", str(RECORDED / folder / "after.prom")])
    after = json.loads(capsys.readouterr().out)["after"]
    assert (after["blocks"], after["tokens"]) == (blocks, tokens)


async def test_two_servers(capsys: Capture) -> None:
    """A URL is fetched once, like a page."""
    from asyncio import to_thread  # noqa: PLC0415 - of this test alone

    async with serving(answer(page())) as before, serving(answer(page(blocks="19000"))) as after:
        flags = ("--before", before.url, "--after", after.url)
        assert await to_thread(main, ["memory", *flags]) == 0
    assert "-29.63%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        (("--before", "x"), 2, "--before and --after go together"),
        (("--before", "x", "--after", "y", "--target", "z"), 2, "either --target"),
        (("--before", "/no/such", "--after", "y"), 3, "/no/such"),
        ((), 2, "--target FOLDER is needed"),
        (("--target", "T"), 2, "give one of --gpu"),
        (("--target", "T", "--gpu", "H200", "--kv-space", "1GiB"), 2, "give one of --gpu"),
        (("--target", "T", "--gpu", "H300"), 2, "--gpu H300: not among"),
        (("--target", "T", "--gpu-memory", "80"), 2, "too little"),
        (("--target", "T", "--gpu-memory", "lots"), 2, "is not a size"),
        (("--target", "T", "--gpu-memory", "80TiB"), 2, "no unit"),
        (("--target", "T", "--gpu", "H200", "--method", "eagle"), 2, "needs --draft"),
        (("--target", "T", "--gpu", "H200", "--method", "mtp"), 2, "no layers that draft"),
        (("--target", "T", "--draft", "T", "--method", "ngram"), 2, "takes no --draft"),
        (
            ("--target", "T", "--gpu", "H200", "--tensor-parallel", "4", "--count", "2"),
            2,
            "as many",
        ),
        (
            ("--target", "T", "--gpu", "H200", "--tensor-parallel", "4", "--count", "7"),
            2,
            "--count 7: engines of 4 GPUs leave some idle; give a multiple of 4",
        ),
        (("--target", "S", "--gpu", "H200"), 2, "--max-model-len is needed"),
        (("--target", "no/hub-name", "--gpu", "H200"), 3, "no folder here"),
        (("--target", "T", "--draft", "M", "--gpu", "H200"), 3, "no safetensors files"),
        (("--target", "L", "--draft", "T", "--gpu", "H200"), 2, "no engine lays this out"),
    ],
)
def test_what_cannot_be_asked(
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    """A command line that cannot be obeyed gets one line that says what to write."""
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "T", {**LLAMA, "sliding_window": 4096})
    make_folder(tmp_path / "S", {**SMALL, "max_position_embeddings": None})
    make_folder(tmp_path / "M", {"model_type": "medusa"})
    make_folder(tmp_path / "L", {**LLAMA, "kv_lora_rank": 500, "qk_rope_head_dim": 7})
    assert main(["memory", *flags]) == code
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        pytest.param("config.json", b"{", "no JSON in it", id="truncated configuration"),
        pytest.param("config.json", b"[1]", "no JSON object", id="a list"),
        pytest.param("config.json", b"\xff\xfe", "no JSON in it", id="binary"),
        pytest.param("config.json", b"{}", "no num_hidden_layers", id="empty"),
        pytest.param("config.json", b"[" * 200_000, "no JSON in it", id="deep"),
        pytest.param("a.safetensors", b"", "cut short or no safetensors", id="empty shard"),
        pytest.param("a.safetensors", b"\xff" * 30, "cut short", id="huge header"),
        pytest.param(
            "a.safetensors", struct.pack("<Q", 2) + b"{]", "no JSON in it", id="broken header"
        ),
        pytest.param("a.safetensors", header({"w": ("Q3", [1])}), "no dtype", id="strange dtype"),
        pytest.param("a.safetensors", header({"w": ("F16", [-1])}), "no shape", id="minus one"),
        pytest.param("a.safetensors", header({"w": ("F16", [9] * 99)}), "no shape", id="99 sizes"),
        pytest.param(
            "a.safetensors", header({"w": ("F16", [2**70] * 9)}), "larger than any", id="too large"
        ),
        pytest.param(
            "model.safetensors.index.json", b'{"weight_map": 3}', "weight_map", id="no map"
        ),
        pytest.param(
            "model.safetensors.index.json",
            b'{"weight_map": {"w": "../../etc/passwd"}}',
            "outside of its folder",
            id="out of the folder",
        ),
        pytest.param(
            "model.safetensors.index.json",
            b'{"weight_map": {"w": "b.safetensors", "v": "c.safetensors"}}',
            "No such file",
            id="a shard is missing",
        ),
    ],
)
def test_folders_that_are_amiss(
    tmp_path: Path, capsys: Capture, name: str, data: bytes, told: str
) -> None:
    """A file that cannot be used is named in one line, with exit code 3."""
    shard = {"w": ("F16", [2, 2])}
    folder = make_folder(tmp_path / "target", LLAMA, {"b.safetensors": shard})
    (folder / name).write_bytes(data)
    assert main(["memory", "--target", str(folder), "--gpu", "H200"]) == 3
    error = capsys.readouterr().err
    assert told in error
    assert str(folder) in error
    assert len(error.splitlines()) == 1


def test_files_that_are_no_files(tmp_path: Path, capsys: Capture) -> None:
    """A pipe is not waited for, a loop of links not followed, a folder not read."""
    folder = make_folder(tmp_path / "target", LLAMA)
    os.mkfifo(folder / "a.safetensors")
    assert main(["memory", "--target", str(folder), "--gpu", "H200"]) == 3
    assert "not a regular file" in capsys.readouterr().err
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert main(["memory", "--target", str(loop), "--gpu", "H200"]) == 3
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").mkdir()
    assert main(["memory", "--target", str(tmp_path / "other"), "--gpu", "H200"]) == 3
    assert main(["memory", "--target", "x" * 5000, "--gpu", "H200"]) == 3
    assert "Traceback" not in capsys.readouterr().err


def test_shards_are_counted_once(tmp_path: Path, capsys: Capture) -> None:
    """An index says which files and tensors count; without its files the shape is estimated."""
    files = {
        "m-1.safetensors": {"model.layers.0.w": ("BF16", [1000, 10])},
        "m-2.safetensors": {"model.layers.1.w": ("BF16", [1000, 10]), "stray": ("BF16", [9])},
        "consolidated.safetensors": {"layers.0.w": ("BF16", [10**9, 10**3])},
    }
    index = {"model.layers.0.w": "m-1.safetensors", "model.layers.1.w": "m-2.safetensors"}
    whole = make_folder(tmp_path / "whole", LLAMA, files, index)
    bare = make_folder(tmp_path / "bare", LLAMA, {}, index)
    for folder, size in ((whole, 40_000), (bare, 14_221_320_192)):
        main(["memory", "--json", "--target", str(folder), "--gpu", "H200"])
        document = json.loads(capsys.readouterr().out)
        assert document["before"]["target_weights_bytes"] == pytest.approx(size, rel=1e-3)
