"""`specgauge draft` as it is typed: what it prints, how it ends, and what it makes of rubbish."""

import json
import os
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.drafts import LLAMA, TEMPLATE, bpe, count, dense, eagle, save, write, write_weights
from tests.hub import Hub

from specgauge.cli.main import main
from specgauge.preflight.draft.cost import FORMULA
from specgauge.preflight.draft.families import FAMILIES, family_of
from specgauge.preflight.draft.finding import Code
from specgauge.preflight.draft.folder import read_model
from specgauge.preflight.draft.releases import NEWEST

BPE = bpe()
ROWS = count(BPE)
CONFIG = {**LLAMA, "vocab_size": ROWS}
SMALL = {**CONFIG, "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 88}
ENDS = {"eos_token": "<|endoftext|>"}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return a target's folder."""
    return write(
        tmp_path / "target",
        CONFIG,
        tokenizer=BPE,
        tokenizer_config=ENDS,
        template=TEMPLATE,
        tensors=dense(CONFIG),
    )


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    """Return the folder of a draft that fits."""
    return write(
        tmp_path / "models" / "draft",
        SMALL,
        tokenizer=BPE,
        tokenizer_config=ENDS,
        template=TEMPLATE,
        tensors=dense(SMALL),
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that is the hub's cache for the time of a test."""
    place = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(place))
    return place


Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], cache: Path) -> Say:
    """Return a function that runs a command; it gives the exit code and both outputs."""

    def run(*args: object) -> tuple[int, str, str]:
        code = main([str(one) for one in args])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def cached(cache: Path, name: str, config: dict[str, Any]) -> Path:
    """Put a model into the hub's cache as the hub's client does."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("a1b2")
    return write(repository / "snapshots" / "a1b2", config, tokenizer=BPE, tokenizer_config=ENDS)


def test_a_draft_that_fits_is_told_with_its_price(say: Say, target: Path, draft: Path) -> None:
    """The text names the verdict, both models, what was checked, and what has to be accepted."""
    code, out, err = say("draft", "check", target, draft)
    assert (code, err) == (0, "")
    assert out.startswith(f"compatible by draft_model; vLLM {NEWEST} starts\n")
    assert f"{ROWS} embedding rows, {ROWS} tokens and 0 added" in out
    assert FORMULA in out
    assert re.search(r"^   4 +1\.\d\d +\d+\.\d% +0\.\d{3} +\d\.\d\dx$", out, re.MULTILINE)


def test_a_refusal_is_told_with_the_engines_words(say: Say, target: Path, draft: Path) -> None:
    """The text quotes the engine and says what to do; the exit code is 1."""
    save(draft / "config.json", {**SMALL, "vocab_size": ROWS + 64})
    code, out, _ = say("draft", "check", target, draft)
    assert code == 1
    assert f"incompatible by draft_model; vLLM {NEWEST} refuses to start" in out
    assert "error: vocabulary_padding_differs" in out
    assert "the engine says: Target and draft model should have the same vocabulary size." in out
    assert f"Target model vocab_size={ROWS}. Draft model vocab_size={ROWS + 64}." in out
    assert 'fix: set "use_heterogeneous_vocab": true' in out


def test_what_cannot_be_told_ends_with_4(say: Say, target: Path, draft: Path) -> None:
    """A draft without a tokenizer has no verdict, and the reason is there."""
    (draft / "tokenizer.json").unlink()
    code, out, _ = say("draft", "check", target, draft)
    assert code == 4
    assert out.startswith("cannot be told by draft_model")
    assert f"not measured: token_texts (draft: {draft}: no tokenizer.json and no vocab.json)" in out


def test_the_document_holds_all_of_it(say: Say, target: Path, draft: Path) -> None:
    """`--json` is one document with its schema, every number, and what to start the engine with."""
    args = ("--release", "0.25.0", "--num-speculative-tokens", 2, "--json")
    code, out, _ = say("draft", "check", target, draft, *args)
    told = json.loads(out)
    assert (code, told["schema"]) == (0, "specgauge.draft-check/v1")
    assert (told["verdict"], told["engine"], told["release"]) == ("compatible", "starts", "0.25.0")
    assert told["target"]["tokenizer"] == {
        "vocab_size": ROWS, "added_tokens": 0, "highest_id": ROWS - 1,
    }  # fmt: skip
    assert told["draft"]["bytes_from"] == "headers"
    assert told["cost"]["break_even"][1]["acceptance_ratio"] == told["cost"]["draft_cost_ratio"]
    assert told["speculative_config"] == {
        "method": "draft_model", "model": str(draft), "num_speculative_tokens": 2,
    }  # fmt: skip
    assert "encodings" in told["checked"]
    assert told["not_measured"] == []


@pytest.mark.parametrize(
    ("method", "config"),
    [
        ("ngram", {"prompt_lookup_min": 2, "prompt_lookup_max": 5}),
        ("suffix", {}),
    ],
)
def test_copying_methods_need_no_draft(
    say: Say, target: Path, method: str, config: dict[str, int]
) -> None:
    """N-gram and suffix are checked without a draft, and cost nothing by bytes."""
    code, out, _ = say("draft", "check", target, "--method", method, "--json")
    told = json.loads(out)
    assert (code, told["draft"], told["cost"]["draft_cost_ratio"]) == (0, None, 0)
    assert told["speculative_config"] == {"method": method, "num_speculative_tokens": 3, **config}
    assert "break-even" not in say("draft", "check", target, "--method", method)[1]


def test_translation_is_written_into_the_configuration(say: Say, target: Path, draft: Path) -> None:
    """With translation the key stands in what the engine is started with."""
    save(draft / "config.json", {**SMALL, "vocab_size": ROWS + 64})
    code, out, _ = say("draft", "check", target, draft, "--heterogeneous-vocab", "--json")
    assert code == 0
    assert json.loads(out)["speculative_config"]["use_heterogeneous_vocab"] is True


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("T",), "no DRAFT is given; name one, or --method ngram, suffix or mtp"),
        (("T", "T", "--method", "ngram"), "--method ngram needs no draft; leave DRAFT out"),
        (("T", "T", "--release", "0.3.0"), "--release: 0.3.0 does not speculate; 0.4.1 is the"),
        (("T", "T", "--release", "new"), "--release: 'new' is no release of vLLM; write one as"),
        (("T", "T", "--tensor-parallel", "0"), "Invalid value for '--tensor-parallel'"),
        (("T", "T", "--method", "guess"), "Invalid value for '--method'"),
    ],
)
def test_what_cannot_be_obeyed_ends_with_2(
    say: Say, target: Path, args: tuple[str, ...], told: str
) -> None:
    """A command line that makes no sense gets one line that says why."""
    code, out, err = say("draft", "check", *(target if one == "T" else one for one in args))
    assert (code, out) == (2, "")
    assert told in err


def spoil(folder: Path, name: str, data: bytes | None) -> None:
    """Put rubbish in place of a file, or nothing."""
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(None, "no config.json; give a folder", id="missing"),
        pytest.param(b"", "not JSON, or cut off; fetch it again", id="empty"),
        pytest.param(b'{"vocab_size": 32', "not JSON, or cut off", id="cut"),
        pytest.param(b"[1, 2]", "not a JSON object", id="a list"),
        pytest.param(b"\x00\xff\xfe\x80", "not JSON, or cut off", id="binary"),
        pytest.param(b"[" * 200_000, "not JSON, or cut off", id="deep"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "not JSON, or cut off", id="huge number"),
    ],
)
def test_a_bad_configuration_ends_with_3(
    say: Say, target: Path, draft: Path, data: bytes | None, told: str
) -> None:
    """A config.json that is none is told in one line with its path."""
    spoil(draft, "config.json", data)
    code, out, err = say("draft", "check", target, draft)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith(f"specgauge: {draft}")
    assert told in err


def test_a_path_of_two_lines_is_told_in_one(say: Say, target: Path) -> None:
    """An error stays one line whatever the path holds."""
    _, _, err = say("draft", "check", target, "no\nwhere\u2028at all")
    assert err.startswith("specgauge: no\\nwhere\\u2028at all: No such file or directory")
    assert err.count("\n") == 1
    assert "null byte" in say("draft", "check", target, "no\0where")[2]


def test_modules_without_tensors_have_no_price(say: Say, tmp_path: Path) -> None:
    """Where the checkpoint holds no module's tensors, what one costs is not measured."""
    config = {**CONFIG, "model_type": "deepseek_v3", "num_nextn_predict_layers": 1}
    model = write(tmp_path / "target", config, tensors=dense(CONFIG))
    code, out, _ = say("draft", "check", model, "--method", "mtp")
    assert code == 0
    assert "not measured: weights (no safetensors file holds a tensor of the MTP modules)" in out


def test_what_is_no_folder_ends_with_3(say: Say, target: Path, tmp_path: Path) -> None:
    """A file, a loop of links and nothing at all are told apart."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for place, told in {
        target / "config.json": "not a folder",
        loop: "Too many levels of symbolic links",
        tmp_path / "nowhere": "No such file or directory",
    }.items():
        code, _, err = say("draft", "check", target, place)
        assert (code, err.count("\n")) == (3, 1)
        assert f"{place}: {told}; give a folder that holds a model's config.json" in err


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"vocab_size": True, "hidden_size": -1, "num_hidden_layers": 1e99},
        {"vocab_size": [1], "num_attention_heads": 0, "max_position_embeddings": "long"},
        {"vocab_size": ROWS, "text_config": [], "architectures": "Llama", "rope_scaling": 4},
        {"vocab_size": ROWS, "rope_scaling": {"rope_type": "linear", "factor": float("nan")}},
        {"vocab_size": ROWS, "quantization_config": {"bits": "many"}, "eos_token_id": {}},
        {"vocab_size": ROWS, "speculators_config": 1, "speculators_model_type": 2},
        {"speculators_model_type": "unheard-of", "transformer_layer_config": {"vocab_size": 7}},
        {"vocab_size": 1 << 60, "num_hidden_layers": 1 << 39, "hidden_size": 1 << 39},
        {"vocab_size": 1 << 39, "num_hidden_layers": 1 << 39, "hidden_size": 1 << 39,
         "num_attention_heads": 1 << 39, "num_experts": 1 << 39},
    ],
)  # fmt: skip
def test_any_configuration_is_judged(
    say: Say, target: Path, draft: Path, config: dict[str, Any]
) -> None:
    """Missing keys, wrong types and absurd numbers end in a verdict, never in a traceback."""
    save(draft / "config.json", config)
    spoil(draft, "model.safetensors", None)
    for args in ((target, draft), (draft, target)):
        code, out, err = say("draft", "check", *args, "--json")
        assert (code in {0, 1, 4}, err) == (True, "")
        assert json.loads(out)["schema"] == "specgauge.draft-check/v1"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "not JSON, or cut off"),
        (b"{}", "no vocabulary in model.vocab"),
        (b'{"model": {"vocab": {"a": -1}}}', 'gives "a" no id from 0 up'),
        (b'{"model": {"vocab": {"a": 1e400}}}', 'gives "a" no id from 0 up'),
        (b'{"model": {"vocab": [[]]}}', "no vocabulary in model.vocab"),
        (b'{"model": {"vocab": {}}}', "holds no token"),
        (b'{"model": {"vocab": {"a": 0}}, "added_tokens": [1]}', "added token without id"),
    ],
)
def test_a_bad_tokenizer_is_not_measured(
    say: Say, target: Path, draft: Path, data: bytes, told: str
) -> None:
    """A tokenizer that cannot be read leaves the verdict open, with the reason."""
    spoil(draft, "tokenizer.json", data)
    code, out, _ = say("draft", "check", target, draft)
    assert code == 4
    assert told in out


def test_a_tokenizer_that_only_the_library_refuses(say: Say, target: Path, draft: Path) -> None:
    """Tokens are compared all the same; the encodings are said not to be."""
    broken = {**BPE, "pre_tokenizer": {"type": "FromTheFuture"}}
    save(draft / "tokenizer.json", broken)
    code, out, _ = say("draft", "check", target, draft)
    assert code == 0
    assert re.search(r"^not measured: encodings \(.*tokenizer\.json: ", out, re.MULTILINE)


def test_without_the_library_encodings_are_not_measured(
    say: Say, target: Path, draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without tokenizers the check says so, and does not call the encodings equal."""
    other = {**BPE, "model": {**BPE["model"], "merges": BPE["model"]["merges"][::-1]}}
    save(draft / "tokenizer.json", other)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    code, out, _ = say("draft", "check", target, draft, "--json")
    told = json.loads(out)
    assert code == 0
    assert "encodings" not in told["checked"]
    assert told["not_measured"] == [
        {
            "check": "encodings",
            "reason": "tokenizers is not installed; pip install 'specgauge[preflight]'",
        }
    ]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not a safetensors file, or cut off"),
        (b"\xff" * 64, "not a safetensors file, or cut off"),
        (struct.pack("<Q", 4) + b"nope", "its header is not JSON"),
        (struct.pack("<Q", 2) + b"[]", "its header is not a JSON object"),
        (struct.pack("<Q", 7) + b'{"a":1}', "its header describes 'a' wrongly"),
        (
            struct.pack("<Q", 60)
            + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}'.ljust(64),
            "tensor 'a' has fewer bytes than its shape asks for",
        ),
        (b"version https://git-lfs.github.com/spec/v1\n", "not a safetensors file, or cut off"),
    ],
)
def test_bad_weights_are_told(say: Say, target: Path, draft: Path, data: bytes, told: str) -> None:
    """Weights that cannot be loaded make a pair incompatible, and their size an estimate."""
    spoil(draft, "model.safetensors", data)
    code, out, _ = say("draft", "check", target, draft, "--json")
    document = json.loads(out)
    first = document["findings"][0]
    assert (code, first["code"]) == (1, "weights_incomplete")
    assert told in first["message"]
    assert document["draft"]["bytes_from"] == "config"


@pytest.mark.parametrize(
    ("index", "told"),
    [
        pytest.param(None, ")", id="configuration alone"),
        pytest.param(["1", "2"], ", though its index names 2)", id="an index alone"),
    ],
)
def test_weights_that_are_not_there_were_not_looked_at(
    say: Say, target: Path, draft: Path, index: list[str] | None, told: str
) -> None:
    """A folder without weights is judged by its configuration; that they are whole is not said."""
    spoil(draft, "model.safetensors", None)
    if index is not None:
        save(draft / "model.safetensors.index.json", {"weight_map": {one: one for one in index}})
    code, out, _ = say("draft", "check", target, draft)
    assert code == 0
    assert (
        f"not measured: weights (whether the draft's are whole: no safetensors files{told}" in out
    )
    assert "weights" not in re.findall(r"^checked: (.*)$", out, re.MULTILINE)[0]


def test_heads_that_nobody_names_were_not_dealt_out(say: Say, target: Path, draft: Path) -> None:
    """In one part any number of heads can be served; in two it takes their number."""
    save(target / "config.json", {k: v for k, v in CONFIG.items() if "heads" not in k})
    for parts, seen in (("1", True), ("2", False)):
        _, out, _ = say("draft", "check", target, draft, "--tensor-parallel", parts, "--json")
        document = json.loads(out)
        assert ("tensor_parallel" in document["checked"]) is seen
        told = {one["check"]: one["reason"] for one in document["not_measured"]}
        assert ("target: config.json names no" in told.get("tensor_parallel", "")) is not seen


def test_a_cut_off_body_is_told(say: Say, target: Path, draft: Path) -> None:
    """A download that stopped within the numbers is found by the header alone."""
    write_weights(draft / "model.safetensors", dense(SMALL), body=False)
    code, out, _ = say("draft", "check", target, draft)
    assert code == 1
    assert "reaches beyond the file: it was cut off" in out


def test_unreadable_files_are_told(say: Say, target: Path, draft: Path) -> None:
    """A folder where a file should be, and a pipe, are no files and never waited for."""
    spoil(draft, "chat_template.jinja", None)
    (draft / "chat_template.jinja").mkdir()
    os.mkfifo(draft / "generation_config.json")
    code, out, _ = say("draft", "check", target, draft)
    assert code == 0
    assert "chat_template_differs" in out


@pytest.mark.parametrize("name", ["config.json", "chat_template.jinja", "model.safetensors"])
def test_files_that_fail_to_be_read(say: Say, target: Path, draft: Path, name: str) -> None:
    """A file that opens and cannot be read is told with its path, or done without."""
    spoil(draft, name, None)
    (draft / name).symlink_to("/proc/self/mem")
    code, out, err = say("draft", "check", target, draft)
    assert code == {"config.json": 3, "chat_template.jinja": 0, "model.safetensors": 1}[name]
    assert "Traceback" not in out + err
    assert name == "chat_template.jinja" or f"{draft / name}: " in out + err


def test_files_that_are_too_large_are_not_read(say: Say, target: Path, draft: Path) -> None:
    """What is far too large for a tokenizer is none."""
    spoil(draft, "tokenizer.json", b"")
    os.truncate(draft / "tokenizer.json", (256 << 20) + 1)
    code, out, _ = say("draft", "check", target, draft)
    assert code == 4
    assert "tokenizer.json: larger than 256 MiB; is it a model's?" in out


def test_what_a_folder_says_cannot_command_the_terminal(
    say: Say, target: Path, draft: Path
) -> None:
    """Control characters from a model's files are written out."""
    save(draft / "config.json", {**SMALL, "architectures": ["\x1b[2Jboo"]})
    _, out, _ = say("draft", "check", target, draft)
    assert "\x1b" not in out
    assert "\\x1b[2Jboo" in out


def test_hub_names_come_from_the_cache(say: Say, target: Path, cache: Path) -> None:
    """A name that is cached is read there; one that is not gets one line that says what to do."""
    cached(cache, "org/draft", SMALL)
    code, out, _ = say("draft", "check", target, "org/draft", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["draft"]["folder"].endswith("snapshots/a1b2")
    assert told["draft"]["bytes_from"] == "config"
    code, out, err = say("draft", "check", target, "org/other")
    assert (code, out) == (3, "")
    assert err == (
        "specgauge: org/other: no such folder, and not in the local hub cache; give the model's "
        "folder, or --online to fetch its configuration and tokenizer\n"
    )


def test_hub_names_need_the_extra(
    say: Say, target: Path, draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without huggingface-hub a name cannot be looked up, and suggestions do without its cache."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, _, err = say("draft", "check", target, "org/other")
    assert (code, err) == (
        2,
        "specgauge: huggingface-hub is not installed; pip install 'specgauge[preflight]'\n",
    )
    code, out, _ = say("draft", "suggest", target, "--among", draft)
    assert (code, f"{draft} (draft_model, compatible)" in out) == (0, True)


@pytest.fixture
def hub_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that says where the hub is for the time of a test."""

    def at(url: str) -> None:
        template = url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    return at


def test_online_fetches_small_files_alone(
    say: Say, target: Path, draft: Path, hub_at: Callable[[str], None]
) -> None:
    """`--online` asks the hub for the configuration and the tokenizer, and never for weights."""
    with Hub({one.name: one.read_bytes() for one in draft.iterdir()}) as hub:
        hub_at(hub.url)
        code, out, _ = say("draft", "check", target, "org/draft", "--online", "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "compatible")
    assert any(one.endswith("/config.json") for one in hub.asked)
    assert [one for one in hub.asked if "safetensors" in one] == []


def test_online_without_a_network_is_one_line(
    say: Say, target: Path, hub_at: Callable[[str], None]
) -> None:
    """A hub that cannot be reached is told in one line that says what to do instead."""
    hub_at("http://127.0.0.1:1")
    code, out, err = say("draft", "check", target, "org/draft", "--online")
    assert (code, out, err.count("\n")) == (3, "", 1), err
    assert err.startswith("specgauge: org/draft: the hub cannot be reached, and it is not in the")


def test_online_a_name_that_the_hub_has_not(
    say: Say, target: Path, hub_at: Callable[[str], None]
) -> None:
    """What the hub answers is told in one line."""
    with Hub({}, status=404) as hub:
        hub_at(hub.url)
        code, out, err = say("draft", "check", target, "org/draft", "--online")
    assert (code, out, err.count("\n")) == (3, "", 1), err
    assert err.startswith("specgauge: org/draft: could not be fetched (")
    assert err.endswith("give the model's folder instead\n")


def test_a_name_that_overrules_the_method_is_told(say: Say, target: Path, draft: Path) -> None:
    """The engine takes a whole model for a head if its path says so, whatever it is told."""
    other = draft.rename(draft.with_name("not-eagle-at-all"))
    code, out, _ = say("draft", "check", target, other, "--method", "draft_model")
    assert code == 1
    assert "error: name_overrules_method" in out
    assert "the engine says: There is no module or parameter named 'model'" in out
    other = other.rename(draft.with_name("my_dspark"))
    _, out, _ = say("draft", "check", target, other, "--method", "draft_model")
    assert out.startswith(f"incompatible by draft_model; vLLM {NEWEST} may or may not start")
    old = ("--method", "draft_model", "--release", "0.7.3")
    assert say("draft", "check", target, other, *old)[0] == 0


def test_suggestions_begin_with_the_least_clever(
    say: Say, target: Path, draft: Path, cache: Path
) -> None:
    """No draft comes first, then what fits by its cost; what was not checked is marked."""
    write(draft.parent / "eagle", {**CONFIG, "num_hidden_layers": 1}, tensors=eagle(CONFIG))
    write(draft.parent / "other", {**SMALL, "vocab_size": 900}, tokenizer=BPE)
    (draft.parent / "broken").mkdir()
    (draft.parent / "broken" / "config.json").write_text("{")
    cached(cache, "org/draft", SMALL)
    code, out, err = say("draft", "suggest", target, "--among", draft.parent, "--json")
    told = json.loads(out)
    assert (code, err, told["schema"]) == (0, "", "specgauge.draft-suggest/v1")
    assert [(one["name"].split("/")[-1], one["method"]) for one in told["suggestions"]] == [
        ("ngram", "ngram"),
        ("suffix", "suffix"),
        ("draft", "draft_model"),
        ("draft", "draft_model"),
        ("eagle", "eagle"),
        ("other", "draft_model"),
    ]
    assert "least clever" in told["suggestions"][0]["why"]
    assert told["suggestions"][-1]["why"].startswith("vocabulary_padding_differs: ")
    assert told["suggestions"][2]["report"]["verdict"] == "compatible"


def test_a_known_family_is_named_and_marked(say: Say, tmp_path: Path) -> None:
    """What is only known by name is marked as not checked, and its size is held to the target's."""
    model = write(
        tmp_path / "Qwen2.5-72B-Instruct", {**LLAMA, "model_type": "qwen2", "vocab_size": 152064}
    )
    code, out, _ = say("draft", "suggest", model)
    assert code == 0
    assert "3. Qwen/Qwen2.5-7B-Instruct (draft_model, not checked)" in out
    assert "Qwen2.5, large: 0.5B, 1.5B and 3B have 151936 rows, only padding differs" in out


@pytest.mark.parametrize("name", ["model.layers.4.mlp.up_proj.weight", "mtp.fc.weight"])
def test_own_modules_are_suggested(say: Say, tmp_path: Path, name: str) -> None:
    """A target with MTP modules of its own drafts for itself."""
    config = {
        **LLAMA, "model_type": "deepseek_v3", "vocab_size": 129280, "num_nextn_predict_layers": 1,
    }  # fmt: skip
    tensors = {**dense(config), name: (172, 64)}
    model = write(tmp_path / "target", config, tensors=tensors)
    _, out, _ = say("draft", "suggest", model)
    assert "3. mtp (mtp, compatible)\n   a drafted token costs about" in out


def test_a_known_draft_of_another_size_is_told(say: Say, tmp_path: Path) -> None:
    """A draft of the family with other rows than the target's stands last."""
    text = {**LLAMA, "vocab_size": 262208}
    model = write(tmp_path / "target", {"model_type": "gemma3", "text_config": text})
    _, out, _ = say("draft", "suggest", model)
    assert "not checked: known by name; its 262144 rows are not the target's 262208" in out


def test_a_folder_named_twice_is_checked_once(say: Say, target: Path, draft: Path) -> None:
    """A model that is found in two ways is one candidate, and the target is none."""
    (draft.parent / "again").symlink_to(draft)
    among = ("--among", draft.parent, "--among", draft, "--among", target.parent)
    _, out, _ = say("draft", "suggest", target, *among)
    assert len(re.findall(r"^\d+\. ", out, re.MULTILINE)) == 3


def test_suggestions_mind_the_release(say: Say, tmp_path: Path) -> None:
    """Where a release cannot draft by a model, no model stands before what it can do."""
    model = write(tmp_path / "target", {**LLAMA, "vocab_size": 128256})
    _, out, _ = say("draft", "suggest", model, "--release", "0.10.2")
    assert "meta-llama/Llama-3.2-1B-Instruct (draft_model, not checked)" in out
    assert "not checked: 0.10.2 has no method draft_model" in out
    assert out.index("EAGLE3-LLaMA3.3") < out.index("Llama-3.2-1B")


@pytest.mark.parametrize(
    ("place", "told"),
    [("config.json", "not a folder"), ("empty", "no model in it"), ("none", "No such file")],
)
def test_a_place_without_models_is_told(say: Say, target: Path, place: str, told: str) -> None:
    """A folder that was named and holds no model is told, not passed over."""
    (target / "empty").mkdir()
    code, _, err = say("draft", "suggest", target, "--among", target / place)
    assert (code, err.count("\n")) == (3, 1)
    assert told in err


def test_the_table_of_families_is_sound(tmp_path: Path) -> None:
    """Every family is found by its own entry, and its drafts have one of its sizes."""
    for family in FAMILIES:
        name = family.named.split("|")[-1]
        config = {"model_type": family.model_types[0], "vocab_size": family.vocab_sizes[0]}
        model = read_model(write(tmp_path / family.name / name, config), name)
        assert family_of(model.config, name) is family
        assert {one.vocab_size for one in family.drafts} <= set(family.vocab_sizes)
    stranger = write(tmp_path / "solar", {"model_type": "llama", "vocab_size": 32000})
    assert family_of(read_model(stranger, "solar").config, "solar") is None


_OPEN = {"numbers", "speculative_config"}  # whose keys are a finding's or the engine's


def keys(document: object) -> set[str]:
    """Name every key of a document, at every depth, except those that are not ours."""
    if isinstance(document, list):
        return {key for one in document for key in keys(one)}
    if not isinstance(document, dict):
        return set()
    below = {key for name, one in document.items() if name not in _OPEN for key in keys(one)}
    return below | document.keys()


def test_every_key_is_documented(say: Say, target: Path, draft: Path) -> None:
    """Whatever stands in the documents stands in docs/draft.md."""
    text = (Path(__file__).parents[1] / "docs" / "draft.md").read_text()
    save(draft / "config.json", {**SMALL, "vocab_size": ROWS + 64})
    (target / "tokenizer.json").unlink()
    told = [
        json.loads(say("draft", *args, "--json")[1])
        for args in (("check", target, draft), ("suggest", target, "--among", draft))
    ]
    assert [one for one in sorted(keys(told) - {"schema"}) if f"`{one}`" not in text] == []


def test_every_code_is_documented_with_its_weight() -> None:
    """The table of codes in docs/draft.md has every code once, and no other."""
    text = (Path(__file__).parents[1] / "docs" / "draft.md").read_text()
    told = re.findall(r"^\| `(\w+)` \| (?:error|unknown|condition|note) \|", text, re.MULTILINE)
    assert sorted(told) == sorted(Code)
