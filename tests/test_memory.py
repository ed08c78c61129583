"""Memory from folders: shapes, weights, the pool of blocks, what is kept, what does not fit."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.memory_folders import HEAD, LATENT, LLAMA, MIXTURE, SMALL, make_folder
from tests.recorded import load_page

from specgauge.cli.main import main
from specgauge.engines.reader import Reader
from specgauge.model.quantity import Quantity
from specgauge.preflight.memory.model import role_of
from specgauge.preflight.memory.pool import Group, Layer, layers_of, make_pool
from specgauge.preflight.memory.reserve import Limits, graph_sizes, reserve
from specgauge.preflight.memory.shape import read_shape
from specgauge.preflight.memory.weights import Role, count, estimate, read_header

Capture = pytest.CaptureFixture[str]
TINY = Path(__file__).parent / "vllm" / "models"
GIB = 1 << 30
H200 = ("--gpu", "H200", "--utilization", "0.8", "--max-model-len", "4096", "--max-num-seqs", "256")
DRAFTED = ("--num-speculative-tokens", "4")


def ask(capsys: Capture, *arguments: object) -> tuple[int, dict[str, Any]]:
    """Run the command for its document."""
    code = main(["memory", "--json", *map(str, arguments)])
    told = capsys.readouterr()
    assert told.err == ""
    document = json.loads(told.out, parse_constant=pytest.fail)
    assert document["schema"] == "specgauge.memory/v1"
    return code, document


def codes(document: dict[str, Any]) -> list[str]:
    """List the codes of a document's findings."""
    return [one["code"] for one in document["findings"]]


def h200_blocks(mode: str) -> int:
    """Read the blocks off a recorded page of a server on an H200."""
    page = Reader().read(load_page(f"h200/{mode}/c8-after.prom"))
    info = next(one for one in page.values if one.quantity is Quantity.CACHE_CONFIG)
    return int(dict(info.origin)["num_gpu_blocks"])


@pytest.mark.parametrize(
    ("mode", "draft", "flags", "residual"),
    [
        pytest.param("none", None, (), 0.002, id="none"),
        pytest.param("draft", SMALL, (), 0.01, id="draft_model"),
        pytest.param("eagle", HEAD, ("--method", "eagle"), 0.005, id="eagle"),
    ],
)
def test_the_blocks_on_an_h200(
    tmp_path: Path,
    capsys: Capture,
    mode: str,
    draft: dict[str, Any] | None,
    flags: tuple[str, ...],
    residual: float,
) -> None:
    """The blocks of three recorded servers come out of their shapes, nothing fitted to them."""
    asked: list[object] = ["--target", make_folder(tmp_path / "target", LLAMA), *H200, *DRAFTED]
    if draft is not None:
        asked += ["--draft", make_folder(tmp_path / "draft", draft), *flags]
    code, document = ask(capsys, *asked)
    side = document["before" if draft is None else "after"]
    assert side["blocks"] == pytest.approx(h200_blocks(mode), rel=residual)
    assert code == 0


@pytest.mark.parametrize(
    ("flags", "blocks"),
    [
        pytest.param((), 4096, id="none"),
        pytest.param(("--draft", TINY / "draft"), 3276, id="draft_model"),
        pytest.param(("--method", "ngram"), 4096, id="ngram"),
    ],
)
def test_the_blocks_of_the_tiny_models(
    capsys: Capture, flags: tuple[object, ...], blocks: int
) -> None:
    """On the CPU engine the blocks are exactly those that recorded servers told."""
    code, document = ask(capsys, "--target", TINY / "target", "--kv-space", "1GiB", *flags)
    assert document["after" if flags else "before"]["blocks"] == blocks
    assert code == 0


def test_weights_are_counted_from_headers(capsys: Capture) -> None:
    """Real files have the bytes that their headers say, and those are not estimated."""
    _, document = ask(
        capsys, "--target", TINY / "target", "--draft", TINY / "draft", "--kv-space", "1GiB"
    )
    assert document["after"]["target_weights_bytes"] == 6_853_120
    assert document["after"]["draft_weights_bytes"] == 920_320
    assert document["target"]["weights_estimated"] is False
    assert document["after"]["target_kv_bytes_per_token"] == 4 * 2 * 2 * 64 * 2
    assert document["after"]["draft_kv_bytes_per_token"] == 2 * 2 * 64 * 2
    assert document["change_percent"] == pytest.approx(-20.02, abs=0.01)


@pytest.mark.parametrize("folder", ["target", "draft"])
def test_estimates_are_what_files_weigh(folder: str) -> None:
    """A configuration alone tells the weights of a Llama to a thousandth."""
    shape = read_shape(json.loads((TINY / folder / "config.json").read_text()))
    size = (TINY / folder / "model.safetensors").stat().st_size
    found = estimate(shape, Role.TARGET).loaded(Role.TARGET, tied=shape.tied)
    assert found == pytest.approx(size, rel=0.006)


@pytest.mark.parametrize(
    ("config", "role", "billions"),
    [
        pytest.param(LLAMA, Role.TARGET, 7.11, id="untied"),
        pytest.param({**LLAMA, "tie_word_embeddings": True}, Role.TARGET, 7.045, id="tied"),
        pytest.param(MIXTURE, Role.TARGET, 46.57, id="experts"),
        pytest.param(
            {**LLAMA, "model_type": "gpt2", "intermediate_size": None}, Role.TARGET, 5.72, id="two"
        ),
        pytest.param(HEAD, Role.EAGLE, 0.252, id="eagle head"),
        pytest.param({**HEAD, "draft_vocab_size": 8000}, Role.EAGLE3, 0.326, id="eagle3 head"),
    ],
)
def test_estimates_by_shape(config: dict[str, Any], role: Role, billions: float) -> None:
    """Parameters follow from the shape: shared embeddings once, experts all, heads without them."""
    shape = read_shape(config)
    found = estimate(shape, role).loaded(role, tied=shape.tied)
    assert found / 2e9 == pytest.approx(billions, rel=0.01)


def test_a_large_mixture_with_latent_attention() -> None:
    """671 billion parameters of 8 bits, 11 billion more in the layer that drafts, 576 cached."""
    shape = read_shape(LATENT)
    weights = estimate(shape, Role.TARGET)
    assert weights.loaded(Role.TARGET, tied=False) / 1e9 == pytest.approx(671, rel=0.01)
    assert weights.loaded(Role.MTP, tied=False) / 1e9 == pytest.approx(11.6, rel=0.03)
    assert [layer.width for layer in layers_of(shape, parallel=8, value_bytes=1)] == [576] * 61
    assert len(layers_of(shape, parallel=8, value_bytes=1, mtp=True)) == 1


@pytest.mark.parametrize(
    ("change", "bits", "name"),
    [
        ({}, 16.0, None),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, 4.0, "awq"),
        ({"quantization_config": {"quant_method": "fp8"}}, 8.0, "fp8"),
        ({"quantization_config": {"quant_algo": "NVFP4"}}, 4.5, "NVFP4"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, 4.25, "mxfp4"),
        ({"quantization_config": {"quant_method": "mxfp8"}}, 8.25, "mxfp8"),
        ({"quantization_config": {"quant_method": "bnb", "load_in_4bit": True}}, 4.0, "bnb"),
        ({"quantization_config": {"quant_method": "bnb", "load_in_8bit": True}}, 8.0, "bnb"),
        (
            {
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"group_0": {"weights": {"num_bits": 8}}, "group_1": 3},
                }
            },
            8.0,
            "compressed-tensors",
        ),
        ({"quantization_config": {"bits": True}}, None, "unnamed"),
        ({"quantization_config": "no"}, 16.0, None),
    ],
)
def test_quantisation(change: dict[str, Any], bits: float | None, name: str | None) -> None:
    """The width of a quantised weight is read wherever a method writes it, and else unknown."""
    shape = read_shape({**LLAMA, **change})
    assert (shape.weight_bits, shape.quantisation) == (bits, name)


@pytest.mark.parametrize(
    ("change", "windows"),
    [
        pytest.param({}, [None] * 4, id="none"),
        pytest.param({"sliding_window": 512}, [512] * 4, id="all"),
        pytest.param({"sliding_window": 512, "use_sliding_window": False}, [None] * 4, id="off"),
        pytest.param(
            {"sliding_window": 512, "sliding_window_pattern": 2}, [512, None, 512, None], id="every"
        ),
        pytest.param(
            {"sliding_window": 8, "model_type": "gemma2"}, [8, None, 8, None], id="gemma2"
        ),
        pytest.param(
            {
                "sliding_window": 64,
                "layer_types": ["full_attention", "sliding_attention"] * 2,
                "num_kv_shared_layers": 2,
            },
            [None, 64],
            id="listed and shared",
        ),
        pytest.param({"text_config": {"sliding_window": 16}}, [16] * 4, id="nested"),
        pytest.param(
            {"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 3},
            [None, None, None, 512],
            id="from a layer on",
        ),
        pytest.param(
            {"sliding_window": 512, "use_sliding_window": True}, [512] * 4, id="on, from the first"
        ),
    ],
)
def test_windows(change: dict[str, Any], windows: list[int | None]) -> None:
    """Which layers slide is read in the ways that configurations say it."""
    assert list(read_shape({**SMALL, **change}).windows) == windows


def test_what_a_configuration_leaves_out() -> None:
    """A kind whose published configurations rest on defaults is read with these."""
    nested = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240}
    nested |= {"num_hidden_layers": 34, "sliding_window": 1024}
    shape = read_shape({"model_type": "gemma3", "text_config": nested})
    assert (shape.heads, shape.kv_heads, shape.head_dim) == (8, 4, 256)
    assert (shape.vocabulary, shape.max_length) == (262_208, 131_072)
    assert shape.windows.count(None) == 5
    weights = estimate(shape, Role.TARGET).loaded(Role.TARGET, tied=shape.tied)
    assert weights / 2e9 == pytest.approx(3.88, rel=0.01)
    untied = read_shape({"text_config": {**nested, "tie_word_embeddings": False}})
    assert shape.tied
    assert not untied.tied


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"layer_types": ["linear_attention", "full_attention"] * 2}, ("linear_attention",)),
        ({"mamba_d_state": 16}, ("mamba_d_state",)),
    ],
)
def test_layers_that_keep_something_else(change: dict[str, Any], named: tuple[str, ...]) -> None:
    """State spaces are named, since their caches are not reckoned."""
    assert read_shape({**SMALL, **change}).unmodelled == named


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_hidden_layers": None}, "no num_hidden_layers"),
        ({"hidden_size": -1}, "hidden_size is -1"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"num_attention_heads": True}, "num_attention_heads is True"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"hidden_size": "x" * 90}, "…"),
        ({"num_experts": 8, "intermediate_size": 0}, "no intermediate_size"),
    ],
)
def test_what_is_no_shape(change: dict[str, Any], told: str) -> None:
    """A key that is missing or no number is named."""
    with pytest.raises(ValueError, match=r"in it|not a whole number") as problem:
        read_shape({**LLAMA, **change})
    assert told in str(problem.value)


def test_multi_query_and_sparse_steps() -> None:
    """One KV head where queries share it, experts in every second layer, and their shared ones."""
    shape = read_shape({**LLAMA, "num_key_value_heads": None, "multi_query": True})
    assert shape.kv_heads == 1
    experts = read_shape(
        {**MIXTURE, "decoder_sparse_step": 2, "shared_expert_intermediate_size": 5632}
    ).experts
    assert experts is not None
    assert (experts.layers, experts.shared_inner, experts.active) == (16, 5632, 2)


def test_tensors_are_counted_by_part() -> None:
    """Wide floats are held with 16 bits unless quantised; layers beyond the last are drafting."""
    tensors = read_header(
        {
            "__metadata__": {},
            "model.embed_tokens.weight": {"dtype": "F32", "shape": [10, 4]},
            "lm_head.weight": {"dtype": "BF16", "shape": [10, 4]},
            "model.layers.0.mlp.weight": {"dtype": "I32", "shape": [4]},
            "model.layers.61.eh_proj.weight": {"dtype": "F8_E4M3", "shape": [8]},
            "scale": {"dtype": "F32", "shape": []},
        }
    )
    plain = read_shape({**LATENT, "quantization_config": None})
    found = count(tensors, plain)
    assert (found.embedding, found.output, found.layers, found.mtp) == (80, 80, 18, 8)
    assert count(tensors, read_shape(LATENT)).embedding == 160


def test_one_pool_for_target_and_draft() -> None:
    """A block holds a page of every layer, and a draft's narrower ones make it larger."""
    layers = [Layer(width=4096)] * 32 + [Layer(width=2048)] * 4
    pool = make_pool(layers, 16)
    assert pool.block_bytes == 16 * (32 * 4096 + 4 * 2048)
    assert pool.groups == (Group(layers=36, block_size=16, window=0),)
    assert pool.needed(4096, in_flight=8192) == 256
    assert pool.blocks(-5) == 0


def test_a_window_for_all_layers() -> None:
    """A request holds its window and what is in flight, and one block more."""
    pool = make_pool([Layer(width=1024, window=128)] * 4, 16)
    assert not pool.hybrid
    assert pool.needed(100_000, in_flight=1) == 9
    assert pool.needed(32, in_flight=1) == 3


@pytest.mark.parametrize(
    ("full", "sliding", "groups"),
    [
        pytest.param(10, 20, 3, id="one to two"),
        pytest.param(13, 12, 2, id="nearly equal, padded"),
        pytest.param(1, 5, 6, id="one to five"),
    ],
)
def test_groups_of_full_and_sliding_layers(full: int, sliding: int, groups: int) -> None:
    """Layers are split into groups of one size, each of which draws its own blocks."""
    layers = [Layer(width=1024)] * full + [Layer(width=1024, window=64)] * sliding
    pool = make_pool(layers, 16)
    assert len(pool.groups) == groups
    assert pool.block_bytes == pool.groups[0].layers * 16 * 1024
    assert pool.hybrid


def test_narrow_layers_get_longer_blocks_in_groups() -> None:
    """Pages are as large as the largest: by more tokens where it divides, padded where not."""
    layers = [Layer(width=1024, window=64), Layer(width=512), Layer(width=768)]
    sizes = {group.block_size for group in make_pool(layers, 16).groups}
    assert sizes == {16, 32}
    with pytest.raises(ValueError, match="latent"):
        make_pool([Layer(width=1024, window=64), Layer(width=600, latent=True)], 16)


def test_the_reserve_follows_the_batch() -> None:
    """Half the batch keeps half the activations; without graphs nothing is kept for them."""
    shape = read_shape(LLAMA)
    whole = reserve(shape, Limits(batched_tokens=8192, requests=256), parallel=1, role=Role.TARGET)
    half = reserve(
        shape, Limits(batched_tokens=4096, requests=256, eager=True), parallel=1, role=Role.TARGET
    )
    assert whole.activations == 2 * half.activations == 8192 * (2 * 4096 + 3 * 14336) * 2
    assert half.graphs == 0 < whole.graphs


def test_the_reserve_of_many_logits_and_experts() -> None:
    """With few tokens and many requests the logits are the peak; experts widen a layer."""
    shape = read_shape({**SMALL, "vocab_size": 200_000})
    few = Limits(batched_tokens=1024, requests=1024)
    kept = reserve(shape, few, parallel=1, draft=shape, role=Role.EAGLE)
    assert kept.activations == 1024 * 1024 * 2 + 2 * 1024 * 200_000 * 22
    assert kept.buffers == 1024 * 1024 * 2
    limits = Limits(batched_tokens=8192, requests=256)
    mixed = reserve(read_shape(MIXTURE), limits, parallel=2, role=Role.TARGET)
    assert mixed.activations == 8192 * (2 * 4096 + 2 * 3 * 7168) * 2


def test_the_sizes_of_graphs() -> None:
    """51 of pieces and 35 of the whole for 256 requests; drafts reach the ceiling sooner."""
    pieces, whole = graph_sizes(Limits(batched_tokens=8192, requests=256))
    assert (len(pieces), len(whole), pieces[-1]) == (51, 35, 512)
    pieces, whole = graph_sizes(Limits(batched_tokens=8192, requests=16, draft_tokens=3))
    assert (pieces[-1], whole[-1]) == (128, 64)


@pytest.mark.parametrize(
    ("config", "role"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, Role.DRAFT),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, Role.EAGLE3),
        ({"draft_vocab_size": 32000}, Role.EAGLE3),
        ({"model_type": "eagle"}, Role.EAGLE),
        ({"architectures": "EAGLEModel", "model_type": "medusa"}, Role.OTHER),
        ({"speculators_model_type": "eagle3"}, Role.EAGLE3),
    ],
)
def test_what_a_folder_drafts_as(config: dict[str, Any], role: Role) -> None:
    """A head is told from a model by what its configuration calls it."""
    assert role_of(config) is role


def test_room_is_told_for_the_load(tmp_path: Path, capsys: Capture) -> None:
    """The expected load is held against the blocks; above 95 % fewer drafts are advised."""
    folders: list[object] = ["--target", make_folder(tmp_path / "t", LLAMA)]
    folders += ["--draft", make_folder(tmp_path / "d", SMALL)]
    load = ("--mean-tokens", 1500, "--concurrency", 490)
    code, document = ask(capsys, *folders, *H200, *DRAFTED, *load)
    assert document["after"]["kv_cache_use_ratio"] == pytest.approx(490 * 94 / 46854, rel=1e-3)
    assert document["after"]["mean_concurrency"] == pytest.approx(46854 / 94, rel=1e-3)
    assert codes(document)[0] == "kv_cache_above_95"
    assert document["findings"][0]["fix"].startswith("num_speculative_tokens 3")
    assert code == 0
    _, document = ask(capsys, *folders, *H200, "--concurrency", 200)
    assert "a smaller draft" in document["findings"][0]["fix"]
    _, document = ask(capsys, *folders[:2], *H200, "--concurrency", 200)
    assert "lower the load" in document["findings"][0]["fix"]
    _, document = ask(capsys, *folders, *H200, *DRAFTED, "--concurrency", 10)
    assert codes(document) == ["kv_cache_smaller", "weights_estimated", "weights_estimated"]


@pytest.mark.parametrize(
    ("change", "flags", "code", "first"),
    [
        pytest.param(
            {}, ("--gpu-memory", "12GiB"), 1, "weights_exceed_memory", id="weights too large"
        ),
        pytest.param(
            {"max_position_embeddings": 131072},
            ("--gpu-memory", "24GiB"),
            1,
            "max_length_does_not_fit",
            id="no room for one request",
        ),
        pytest.param(
            {},
            ("--gpu", "H100", "--tensor-parallel", "3"),
            1,
            "tensor_parallel_indivisible",
            id="heads do not divide",
        ),
        pytest.param(
            {"mamba_d_state": 16}, ("--gpu", "L40S"), 4, "layers_not_modelled", id="state space"
        ),
        pytest.param(
            {},
            ("--gpu", "rtx 4090", "--utilization", "0.99"),
            0,
            "utilisation_too_high",
            id="no room for the context",
        ),
        pytest.param(
            {"quantization_config": {"quant_method": "strange"}},
            ("--gpu", "L40S"),
            0,
            "quantisation_unknown",
            id="width not told",
        ),
        pytest.param(
            {"sliding_window": 4096}, ("--gpu", "NVIDIA L40S"), 0, "weights_estimated", id="window"
        ),
    ],
)
def test_findings(
    tmp_path: Path,
    capsys: Capture,
    change: dict[str, Any],
    flags: tuple[str, ...],
    code: int,
    first: str,
) -> None:
    """The gravest finding comes first, and decides the exit code."""
    target = make_folder(tmp_path / "target", {**LLAMA, **change})
    got, document = ask(capsys, "--target", target, *flags)
    assert (got, codes(document)[0]) == (code, first)


def test_latent_layers_on_several_gpus(tmp_path: Path, capsys: Capture) -> None:
    """Latent caches are kept whole on each GPU; layers that draft come from the target itself."""
    target = make_folder(tmp_path / "target", LATENT)
    flags = ("--gpu", "H200", "--count", 16, "--tensor-parallel", 8, "--method", "mtp")
    code, document = ask(capsys, "--target", target, *flags, "--kv-dtype", "fp8")
    assert code == 0
    assert document["before"]["target_kv_bytes_per_token"] == 61 * 576
    assert document["after"]["draft_kv_bytes_per_token"] == 576
    assert document["after"]["draft_weights_bytes"] == pytest.approx(11.6e9 / 8, rel=0.03)
    assert document["before"]["max_concurrency"] == pytest.approx(
        2 * document["before"]["blocks"] / 256
    )
    _, document = ask(capsys, "--target", target, "--kv-space", "4GiB")
    assert document["setting"]["block_size"] == 16


def test_heads_of_medusa_weigh_and_keep_nothing(tmp_path: Path, capsys: Capture) -> None:
    """Heads without attention take their weights alone."""
    target = make_folder(tmp_path / "target", LLAMA)
    files: Mapping[str, Any] = {"model.safetensors": {"heads.0.weight": ("BF16", [4096, 4096])}}
    heads = make_folder(tmp_path / "heads", {"model_type": "medusa"}, files)
    _, document = ask(capsys, "--target", target, "--draft", heads, *H200)
    assert document["method"] == "other"
    assert document["after"]["draft_weights_bytes"] == 2 * 4096**2
    assert document["after"]["draft_kv_bytes_per_token"] == 0


def test_groups_tell_tokens_by_the_longest_request(tmp_path: Path, capsys: Capture) -> None:
    """Where a request holds blocks in several groups, tokens are those of the longest requests."""
    config = {**LLAMA, "sliding_window": 512, "sliding_window_pattern": 4}
    target = make_folder(tmp_path / "target", config)
    _, document = ask(capsys, "--target", target, *H200)
    side = document["before"]
    assert side["kv_groups"] == 4
    assert side["tokens"] == int(side["max_concurrency"] * 4096)


def test_the_text_for_people(tmp_path: Path, capsys: Capture) -> None:
    """A table of both sides comes before the findings with their fixes."""
    target = make_folder(tmp_path / "target", LLAMA)
    draft = make_folder(tmp_path / "draft", SMALL)
    load = ("--mean-tokens", "1500", "--concurrency", "500")
    main(["memory", "--target", str(target), "--draft", str(draft), *H200, *DRAFTED, *load])
    shown = capsys.readouterr().out
    assert "with draft_model" in shown
    assert "the KV cache changes by -6.1" in shown
    assert "warning: 500 requests of 1500 tokens" in shown
    assert "  try: num_speculative_tokens 3" in shown
    main(["memory", "--target", str(target), "--gpu-memory", "12GiB"])
    shown = capsys.readouterr().out
    assert "the engine says: No available memory" in shown
    main(["memory", "--target", str(TINY / "target"), "--method", "ngram", "--kv-space", "1GiB"])
    assert "on the CPU engine" in capsys.readouterr().out
