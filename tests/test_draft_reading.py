"""What is read from a model's files, what drafting costs by them, and where a script misleads."""

from pathlib import Path
from typing import Any

import pytest
from tests.drafts import (
    LLAMA,
    Json,
    bpe,
    count,
    dense,
    save,
    swapped,
    with_token,
    write,
    write_weights,
)
from tokenizers import Tokenizer

from specgauge.errors import UsageError
from specgauge.preflight.draft.config import read_config
from specgauge.preflight.draft.cost import LENGTHS, estimate, per_token, size, table
from specgauge.preflight.draft.examine import examine, load
from specgauge.preflight.draft.finding import Area, Code, Fit
from specgauge.preflight.draft.folder import Model, read_model
from specgauge.preflight.draft.method import infer
from specgauge.preflight.draft.pair import Pair, Wish
from specgauge.preflight.draft.releases import NEWEST, parse, rules
from specgauge.preflight.draft.weights import gather, parse_header

BPE = bpe()
ROWS = count(BPE)


@pytest.mark.parametrize(
    ("document", "name", "value"),
    [
        ({"vocab_size": 7, "text_config": {"vocab_size": 9}}, "vocab_size", 9),
        ({"thinker_config": {"text_config": {"vocab_size": 9}}}, "vocab_size", 9),
        ({"vocab_size": 7, "text_config": {"hidden_size": 9}}, "vocab_size", 7),
        ({"num_attention_heads": 8}, "kv_heads", 8),
        ({"num_attention_heads": 8, "num_kv_heads": 2}, "kv_heads", 2),
        ({"max_position_embeddings": 100, "seq_length": 60}, "max_length", 60),
        ({"max_position_embeddings": 100, "rope_scaling": {"type": "dynamic", "factor": 2}},
         "max_length", 200),
        ({"max_position_embeddings": 100, "rope_scaling": {"rope_type": "llama3", "factor": 8}},
         "max_length", 100),
        ({"max_position_embeddings": 100, "rope_scaling": {"rope_type": "yarn", "factor": 4}},
         "max_length", 100),
        ({"max_position_embeddings": 100, "rope_scaling": {"type": "linear", "factor": "x"}},
         "max_length", 100),
        ({"model_type": "gemma3_text", "max_position_embeddings": 100,
          "rope_scaling": {"rope_type": "linear", "factor": 8}}, "max_length", 100),
        ({"text_config": {"max_position_embeddings": 100}}, "max_length", 100),
        ({"torch_dtype": "torch.float16"}, "dtype", "float16"),
        ({"quantization_config": {"quant_method": "Compressed_Tensors"}}, "quantisation",
         "compressed-tensors"),
        ({"quantization_config": {}}, "quantisation", "unnamed"),
        ({"compression_config": {"quant_method": "x", "bits": 4}}, "quantised_bits", 4),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2]}}, "auxiliary_layers",
         (1, 2)),
        ({"speculators_config": {"algorithm": "eagle3"}}, "speculator", "eagle3"),
        ({"speculators_config": {"verifier": 3}}, "verifier", None),
        ({"mtp_num_hidden_layers": 1}, "mtp_layers", 1),
        ({"num_nextn_predict_layers": 0}, "mtp_layers", None),
        ({"n_routed_experts": 64, "num_experts_per_tok": 6}, "experts", 64),
        ({"vocab_size": 3.0}, "faults", ("vocab_size is 3.0, not a whole number above 0",)),
        ({"hidden_size": 0}, "faults", ("hidden_size is 0, not a whole number above 0",)),
        ({"num_experts": 0}, "faults", ()),
        ({"quantization_config": None}, "faults", ()),
        ({"quantization_config": "awq"}, "faults",
         ('quantization_config is "awq", not an object',)),
        ({"model_type": "gemma3", "text_config": {"hidden_size": 2560}}, "vocab_size", 262208),
        ({"text_config": {"model_type": "gemma3_text"}}, "max_length", 131072),
        ({"text_config": {"model_type": "gemma3_text", "num_attention_heads": 16}}, "heads", 16),
        ({"model_type": "gemma3_text"}, "vocab_size", None),
    ],
)  # fmt: skip
def test_a_configuration_is_read_as_the_engine_does(
    document: dict[str, Any], name: str, value: object
) -> None:
    """Nested parts, old and new keys, and what rope scaling adds."""
    assert getattr(read_config(document), name) == value


@pytest.mark.parametrize(
    ("document", "tensors", "source", "method", "told_by"),
    [
        ({}, {}, "org/small", "draft_model", "default"),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, {}, "x", "eagle3", "config"),
        ({"architectures": ["EagleLlamaForCausalLM"]}, {}, "x", "eagle", "config"),
        ({"model_type": "eagle", "draft_vocab_size": 5}, {}, "x", "eagle3", "config"),
        ({"draft_vocab_size": 5}, {}, "x", "eagle3", "config"),
        ({"medusa_num_heads": 3}, {}, "x", "medusa", "config"),
        ({"model_type": "deepseek_mtp"}, {}, "x", "mtp", "config"),
        ({"speculators_model_type": "eagle"}, {}, "x", "eagle", "config"),
        ({"speculators_model_type": "dflash"}, {}, "x", "dflash", "config"),
        ({}, {"fc.weight": (4, 8)}, "x", "eagle", "weights"),
        ({}, {"fc.weight": (4, 12)}, "x", "eagle3", "weights"),
        ({}, {"fc.weight": (4, 4)}, "x", "draft_model", "default"),
        ({}, {"fc.weight": (4,)}, "x", "draft_model", "default"),
        ({}, {"model.d2t": (4,)}, "x", "eagle3", "weights"),
        ({}, {}, "org/EAGLE-LLaMA3-Instruct-8B", "eagle", "name"),
        ({}, {}, "org/Qwen3-8B_eagle3", "eagle3", "name"),
    ],
)
def test_a_method_is_told_from_the_draft(
    document: dict[str, Any],
    tensors: dict[str, tuple[int, ...]],
    source: str,
    method: str,
    told_by: str,
) -> None:
    """The configuration goes before the tensors, and they before the name."""
    header = [
        one
        for name, shape in tensors.items()
        for one in parse_header(
            f'{{"{name}": {{"dtype": "U8", "shape": {list(shape)}, "data_offsets": [0, 48]}}}}'
            .encode(),
            48,
        )
    ]  # fmt: skip
    found = infer(read_config(document), gather(header), source)
    assert (found.name, found.told_by) == (method, told_by)


@pytest.mark.parametrize(
    ("release", "method", "has"),
    [
        ("0.4.1", "draft_model", True),
        ("0.9.2", "draft_model", True),
        ("0.10.0", "draft_model", False),
        ("0.14.1", "draft_model", False),
        ("v0.15.0", "draft_model", True),
        ("0.15.0rc1", "draft_model", True),
        ("0.11.0", "suffix", False),
        ("0.32.0", "medusa", True),
        ("0.33", "medusa", False),
        ("0.8.0", "medusa", None),
        ("0.5.0", "mtp", False),
    ],
)
def test_releases_have_their_methods(release: str, method: str, *, has: bool | None) -> None:
    """Which release has which method, and where nobody knows."""
    assert rules(release, method).has_method is has


@pytest.mark.parametrize("text", ["", "0", "0.33.0.0.0x!", "latest", "0.33.0\n", "-1.2", "0.4.0"])
def test_what_is_no_release_is_refused(text: str) -> None:
    """Nonsense and releases from before speculation are a usage error."""
    with pytest.raises(UsageError, match="--release"):
        parse(text)


def test_old_mtp_is_named_as_it_was() -> None:
    """Before 0.11.0 the method bears its model's name."""
    assert rules("0.10.2", "mtp").method_name == "deepseek_mtp"
    assert rules(NEWEST, "mtp").method_name == "mtp"


def model(folder: Path, config: Json, **parts: Any) -> Model:
    """Make a model and read it."""
    return read_model(write(folder, config, **parts), str(folder))


def as_vocab(folder: Path, tokenizer: Json) -> Path:
    """Write a tokenizer the old way: a vocabulary, merges, and what was added."""
    (folder / "tokenizer.json").unlink()
    save(folder / "vocab.json", tokenizer["model"]["vocab"])
    merges = tokenizer["model"]["merges"]
    (folder / "merges.txt").write_text("\n".join(" ".join(one) for one in merges))
    added = {str(one["id"]): one for one in tokenizer["added_tokens"]}
    save(folder / "tokenizer_config.json", {"added_tokens_decoder": {**added, "x": 1, "7": 2}})
    return folder


def test_tokenizers_of_the_old_kind_are_compared(tmp_path: Path) -> None:
    """vocab.json and merges.txt tell the tokens; two alike need no encoding to be alike."""
    config = {**LLAMA, "vocab_size": ROWS}
    folders = [write(tmp_path / name, config, tokenizer=BPE) for name in "ab"]
    one, other = (as_vocab(folder, BPE) for folder in folders)
    report = examine(load(str(one)), load(str(other)), method=None, release=NEWEST, wish=Wish())
    assert report.pair.target.vocabulary is not None
    assert report.pair.target.vocabulary.size == ROWS
    assert "encodings" in report.checked
    (other / "merges.txt").write_text("a b\n")
    changed = examine(load(str(one)), load(str(other)), method=None, release=NEWEST, wish=Wish())
    assert [gap.reason for gap in changed.unmeasured if gap.area is Area.ENCODINGS] == [
        f"{one} has no tokenizer.json to encode with"
    ]


def test_a_unigram_vocabulary_is_read(tmp_path: Path) -> None:
    """A list of pieces with their scores is numbered from 0."""
    tokenizer = {"model": {"type": "Unigram", "vocab": [["<unk>", 0], ["\u2581a", -1.5]]}}
    found = model(tmp_path / "m", {"vocab_size": 2}, tokenizer=tokenizer).vocabulary
    assert found is not None
    assert found.texts == {0: "<unk>", 1: "\u2581a"}
    assert found.normalised() == {"<unk>": 0, " a": 1}


def test_roles_are_read_wherever_they_stand(tmp_path: Path) -> None:
    """The tokenizer's names go before the ids of the configurations."""
    folder = write(
        tmp_path / "m",
        {"vocab_size": ROWS, "bos_token_id": 5, "eos_token_id": [6, 7]},
        tokenizer=BPE,
        tokenizer_config={"pad_token": {"content": "<|im_end|>"}, "unk_token": 3},
    )
    save(folder / "generation_config.json", {"eos_token_id": [8, 9]})
    found = read_model(folder, "m").vocabulary
    assert found is not None
    assert found.roles == {"bos": (5,), "eos": (8, 9), "pad": (1,)}


@pytest.mark.parametrize(
    ("name", "document", "found"),
    [
        ("chat_template.json", {"chat_template": "a"}, "a"),
        ("tokenizer_config.json", {"chat_template": "a"}, "a"),
        ("tokenizer_config.json",
         {"chat_template": [{"name": "tools", "template": "b"},
                            {"name": "default", "template": "a"}]}, "a"),
        ("tokenizer_config.json", {"chat_template": [{"name": "tools"}]}, None),
        ("tokenizer_config.json", {"chat_template": 4}, None),
    ],
)  # fmt: skip
def test_templates_are_found(tmp_path: Path, name: str, document: Json, found: str | None) -> None:
    """A chat template may stand in any of three files."""
    folder = write(tmp_path / "m", {})
    save(folder / name, document)
    assert read_model(folder, "m").template == found


def test_a_size_is_that_of_the_tensors(tmp_path: Path) -> None:
    """Headers count every byte; a look-up table is not read, unless it is the output too."""
    config = {**LLAMA, "vocab_size": 1000}
    rows = 1000 * 64 * 2
    loose = size(model(tmp_path / "a", config, tensors=dense(config, tied=False)))
    tied_config = {**config, "tie_word_embeddings": True}
    tied = size(model(tmp_path / "b", tied_config, tensors=dense(config)))
    assert loose is not None
    assert tied is not None
    assert loose.total - tied.total == rows
    assert (loose.read, tied.read) == (loose.total - rows, tied.total)
    assert (loose.told_by, loose.head, tied.head) == ("headers", rows, rows)


@pytest.mark.parametrize("tied", [True, False])
def test_an_estimate_is_near_what_headers_tell(tmp_path: Path, *, tied: bool) -> None:
    """Without weights the configuration tells the size within one percent."""
    config = {**LLAMA, "vocab_size": 1000, "tie_word_embeddings": tied}
    told = size(model(tmp_path / "a", config))
    true = size(model(tmp_path / "b", config, tensors=dense(config, tied=tied)))
    assert told is not None
    assert true is not None
    assert (told.told_by, true.told_by) == ("config", "headers")
    assert told.total == pytest.approx(true.total, rel=0.01)
    assert told.read == pytest.approx(true.read, rel=0.01)


def test_of_experts_only_the_chosen_are_read(tmp_path: Path) -> None:
    """A mixture of experts costs by what it reads, measured and estimated alike."""
    config = {
        **LLAMA, "vocab_size": 100, "tie_word_embeddings": True, "num_experts": 8,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    }  # fmt: skip
    tensors = {"model.embed_tokens.weight": (100, 64)}
    tensors |= {f"model.layers.0.mlp.experts.{one}.up_proj.weight": (32, 64) for one in range(8)}
    measured = size(model(tmp_path / "a", config, tensors=tensors))
    assert measured is not None
    assert measured.total - measured.read == 6 * 32 * 64 * 2
    told = size(model(tmp_path / "b", config))
    assert told is not None
    assert told.total - told.read == 4 * 6 * 3 * 32 * 64 * 2


@pytest.mark.parametrize(
    ("quantised", "bits"),
    [({"quant_method": "awq"}, 4), ({"quant_method": "fp8"}, 8), ({"bits": 3}, 3), ({}, 8)],
)
def test_quantised_weights_are_smaller(tmp_path: Path, quantised: Json, bits: int) -> None:
    """An estimate counts the bits of the method; the two ends keep theirs."""
    config = {**LLAMA, "vocab_size": 1, "quantization_config": quantised}
    plain = size(model(tmp_path / "a", {**LLAMA, "vocab_size": 1}))
    small = size(model(tmp_path / "b", config))
    assert plain is not None
    assert small is not None
    ends = 2 * 64 * 2
    assert small.total - ends == pytest.approx((plain.total - ends) * bits / 16, rel=0.001)


@pytest.mark.parametrize("cost", [0.0, 0.05, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("tokens", LENGTHS)
def test_the_break_even_is_where_nothing_is_gained(tokens: int, cost: float) -> None:
    """At the chance found, the expected tokens of a step are exactly what it costs."""
    chance = per_token(tokens, cost)
    assert chance is not None
    expected = sum(chance**one for one in range(tokens + 1))
    assert expected == pytest.approx(1 + tokens * cost, abs=1e-9)


def test_what_costs_more_than_a_step_cannot_pay() -> None:
    """With a draft dearer than the target even full acceptance is a loss."""
    rows = table(1.5)
    assert {row.per_token for row in rows} == {None}
    assert all(row.best_speedup < 1 for row in rows)


def test_weights_in_two_forms_count_once(tmp_path: Path) -> None:
    """Beside a whole file a copy in another form is not counted."""
    config = {**LLAMA, "vocab_size": 9}
    once = model(tmp_path / "a", config, tensors=dense(config))
    write_weights(once.folder / "consolidated.safetensors", {"tok_embeddings.weight": (9, 64)})
    assert size(read_model(once.folder, "a")) == size(once)


def test_a_size_nobody_tells_is_a_reason(tmp_path: Path) -> None:
    """Without weights and sizes in config.json there is no cost, and it says of which side."""
    target = model(tmp_path / "a", {**LLAMA, "vocab_size": 9})
    for one, other, side in ((target, {}, "draft"), ({}, target, "target")):
        pair = Pair(
            target=one if isinstance(one, Model) else model(tmp_path / "c", one),
            draft=other if isinstance(other, Model) else model(tmp_path / "b", other),
            method="draft_model",
            rules=rules(NEWEST, "draft_model"),
            wish=Wish(),
        )
        cost = estimate(pair)
        assert cost.ratio is None
        assert cost.reason.startswith(f"the {side} has neither")


TEXTS = [
    "Hello, how are you?",
    "서울의 날씨는 어떤가요?",
    "def add(a, b):\n    return a + b",
    "1 + 1 = 2",
]


def script_says(target: Model, draft: Model) -> bool:
    """Judge by what a tokenizer tells of itself, as scripts in guides do."""
    tokenizers = [
        Tokenizer.from_file(str(one.folder / "tokenizer.json")) for one in (target, draft)
    ]
    sizes = {one.get_vocab_size(with_added_tokens=False) for one in tokenizers}
    roles = [
        {role: one.vocabulary.roles.get(role) for role in ("bos", "eos", "pad")}
        for one in (target, draft)
        if one.vocabulary is not None
    ]
    cut = [[one.encode(text).ids for text in TEXTS] for one in tokenizers]
    return len(sizes) == 1 and roles[0] == roles[1] and cut[0] == cut[1]


@pytest.mark.parametrize(
    ("tokenizer", "differs", "script", "fit", "code"),
    [
        pytest.param(BPE, {"vocab_size": 384}, True, Fit.INCOMPATIBLE,
                     Code.VOCABULARY_PADDING_DIFFERS, id="rows are not tokens"),
        pytest.param(with_token(BPE, "<tool>"), {}, True, Fit.INCOMPATIBLE,
                     Code.VOCABULARY_SIZE_DIFFERS, id="added tokens are left out"),
        pytest.param(swapped(BPE, 300, 301), {}, True, Fit.WITH_CONDITIONS,
                     Code.FEW_TEXTS_DIFFER, id="four texts show few tokens"),
        pytest.param(BPE, {"num_attention_heads": 6}, True, Fit.INCOMPATIBLE,
                     Code.HEADS_NOT_DIVISIBLE, id="a tokenizer knows no tensors"),
        pytest.param(BPE, {"pad_token_id": 9}, False, Fit.WITH_CONDITIONS,
                     Code.SPECIAL_TOKENS_DIFFER, id="padding does not matter"),
    ],
)  # fmt: skip
def test_where_a_script_over_tokenizers_misleads(
    tmp_path: Path, tokenizer: Json, differs: Json, fit: Fit, code: Code, *, script: bool
) -> None:
    """A script that compares tokenizers passes pairs that the engine refuses, and the reverse."""
    config = {**LLAMA, "pad_token_id": 0}
    target = model(tmp_path / "target", {**config, "vocab_size": ROWS}, tokenizer=BPE)
    small = {**config, "hidden_size": 32, "num_hidden_layers": 1, "vocab_size": count(tokenizer)}
    draft = model(tmp_path / "draft", {**small, **differs}, tokenizer=tokenizer)
    report = examine(target, draft, method=None, release=NEWEST, wish=Wish(tensor_parallel=4))
    assert script_says(target, draft) is script
    assert report.fit is (Fit.COMPATIBLE if not script else fit)
    assert code in {one.code for one in report.findings}
