"""Pairs that mirror real families, each with the verdict and what the engine does with it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.drafts import (
    LLAMA,
    TEMPLATE,
    Json,
    Shape,
    bpe,
    count,
    dense,
    eagle,
    eagle3,
    swapped,
    with_token,
    words,
    write,
)

from specgauge.preflight.draft.examine import examine, load
from specgauge.preflight.draft.finding import Code, Engine, Fit
from specgauge.preflight.draft.judge import Report
from specgauge.preflight.draft.pair import Wish
from specgauge.preflight.draft.releases import NEWEST

C = Code
YES, IF, NO, WHO = Fit.COMPATIBLE, Fit.WITH_CONDITIONS, Fit.INCOMPATIBLE, Fit.UNKNOWN
STARTS, REFUSES, FAILS, OPEN = Engine.STARTS, Engine.REFUSES, Engine.FAILS, Engine.UNKNOWN

BPE = bpe()
ROWS = count(BPE)
ENDS = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
LLAMA_2 = words(32000, mark="\u2581")
LLAMA_3 = words(128256, mark="\u0120", specials=("<|begin_of_text|>", "<|eot_id|>"))
CUT_OTHERWISE = {**BPE, "model": {**BPE["model"], "merges": BPE["model"]["merges"][::-1]}}
SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 88}
DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_nextn_predict_layers": 2,
}
SPECULATORS = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "draft_vocab_size": 128,
    "speculators_config": {
        "algorithm": "eagle3",
        "verifier": {"name_or_path": "org/target", "architectures": ["LlamaForCausalLM"]},
    },
    "transformer_layer_config": {**LLAMA, "num_hidden_layers": 1, "vocab_size": ROWS},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A model to be made: what differs from a small Llama with a trained tokenizer."""

    config: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Json | None = field(default_factory=lambda: BPE)
    tokenizer_config: Json = field(default_factory=lambda: ENDS)
    template: str | None = TEMPLATE
    tensors: Mapping[str, Shape] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    bare: bool = False


SMALLER = Made(config=SMALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pair, how it is started, and what is to be said of it."""

    name: str
    fit: Fit
    engine: Engine
    codes: tuple[Code, ...] = ()
    says: str | None = None
    target: Made = field(default_factory=lambda: Made(tensors=dense({**LLAMA, "vocab_size": ROWS})))
    draft: Made | None = field(default_factory=lambda: SMALLER)
    method: str | None = None
    release: str = NEWEST
    wish: Wish = field(default_factory=Wish)


def draft(**differs: Any) -> Made:
    """Describe a draft a good deal smaller than the target."""
    config = {**SMALL, **differs.pop("config", {})}
    return Made(config=config, **differs)


def head(config: Mapping[str, Any], tensors: Mapping[str, Shape] | None) -> Made:
    """Describe a head: a configuration and tensors, without a tokenizer."""
    return Made(
        config={"num_hidden_layers": 1, **config}, tokenizer=None, template=None, tensors=tensors
    )


def padded(tokenizer: Json) -> Made:
    """Describe a target of more rows than its tokenizer has tokens."""
    return Made(config={"vocab_size": 384}, tokenizer=tokenizer)


def make(folder: Path, made: Made) -> Path:
    """Write a model of a pair."""
    rows = {} if made.tokenizer is None else {"vocab_size": count(made.tokenizer)}
    config = made.config if made.bare else {**LLAMA, "vocab_size": ROWS, **rows, **made.config}
    write(
        folder,
        {key: value for key, value in config.items() if value is not None},
        tokenizer=made.tokenizer,
        tokenizer_config=made.tokenizer_config,
        template=made.template,
        tensors=made.tensors,
    )
    for name, text in made.files.items():
        (folder / name).write_text(text)
    return folder


def report_on(case: Case, folder: Path) -> Report:
    """Make a pair and have it judged."""
    target = load(str(make(folder / "target", case.target)))
    other = None if case.draft is None else load(str(make(folder / "draft", case.draft)))
    return examine(
        dataclasses.replace(target, source="org/target"),
        other,
        method=case.method,
        release=case.release,
        wish=case.wish,
    )


H = {**LLAMA, "vocab_size": ROWS}
NARROW = {**H, "hidden_size": 32, "num_hidden_layers": 1}
E3 = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 128}
NAMED = C.METHOD_MUST_BE_NAMED
TRANSLATE = Wish(heterogeneous=True)
SAYS_SIZES = "Target and draft model should have the same vocabulary size."

WHOLE_MODELS = [
    Case(name="same tokenizer, as Qwen3", fit=YES, engine=STARTS),
    Case(name="padded vocabulary, as Qwen2.5 7B and 0.5B", fit=NO, engine=REFUSES, says=SAYS_SIZES,
         codes=(C.VOCABULARY_PADDING_DIFFERS,), target=padded(BPE)),
    Case(name="padded vocabulary before 0.9.3", fit=NO, engine=REFUSES, says="AssertionError",
         codes=(C.VOCABULARY_PADDING_DIFFERS,), target=padded(BPE), release="0.9.2"),
    Case(name="padded vocabulary, translated", fit=IF, engine=STARTS, wish=TRANSLATE,
         codes=(C.HETEROGENEOUS_VOCABULARY, C.VOCABULARY_PADDING_DIFFERS), target=padded(BPE)),
    Case(name="translation before 0.25.0", fit=NO, engine=REFUSES, wish=TRANSLATE,
         codes=(C.HETEROGENEOUS_NOT_IN_RELEASE, C.VOCABULARY_PADDING_DIFFERS), target=padded(BPE),
         release="0.24.0"),
    Case(name="both padded alike", fit=YES, engine=STARTS, target=padded(BPE),
         draft=draft(config={"vocab_size": 384})),
    Case(name="draft_model where no V1 release has it", fit=NO, engine=REFUSES, release="0.13.0",
         codes=(C.METHOD_NOT_IN_RELEASE,),
         says="Speculative decoding with draft model is not supported yet."),
    Case(name="one added token with a row", fit=NO, engine=REFUSES, says=SAYS_SIZES,
         codes=(C.VOCABULARY_SIZE_DIFFERS, C.FEW_TEXTS_DIFFER),
         draft=draft(tokenizer=with_token(BPE, "<tool>"))),
    Case(name="one added token within the padding", fit=IF, engine=STARTS,
         codes=(C.FEW_TEXTS_DIFFER,), target=padded(BPE),
         draft=draft(tokenizer=with_token(BPE, "<tool>"), config={"vocab_size": 384})),
    Case(name="two words swapped", fit=IF, engine=STARTS, codes=(C.FEW_TEXTS_DIFFER,),
         draft=draft(tokenizer=swapped(BPE, 300, 301))),
    Case(name="end tokens swapped", fit=IF, engine=STARTS,
         codes=(C.FEW_TEXTS_DIFFER, *[C.SPECIAL_TOKENS_DIFFER] * 4),
         draft=draft(tokenizer=swapped(BPE, 0, 1))),
    Case(name="same rows, other words", fit=NO, engine=STARTS,
         codes=(C.TEXTS_DIFFER, C.SPECIAL_TOKENS_DIFFER, C.SPECIAL_TOKENS_DIFFER,
                C.ENCODINGS_DIFFER),
         draft=draft(tokenizer=words(ROWS, mark="\u2581", specials=("<s>", "<e>")))),
    Case(name="same tokens, cut otherwise", fit=IF, engine=STARTS, codes=(C.ENCODINGS_DIFFER,),
         draft=draft(tokenizer=CUT_OTHERWISE)),
    Case(name="another chat template", fit=IF, engine=STARTS, codes=(C.CHAT_TEMPLATE_DIFFERS,),
         draft=draft(template="{{ messages }}")),
    Case(name="a base model without template", fit=IF, engine=STARTS,
         codes=(C.CHAT_TEMPLATE_DIFFERS,), draft=draft(template=None)),
    Case(name="Llama 2 for Llama 3", fit=NO, engine=REFUSES,
         codes=(C.VOCABULARY_SIZE_DIFFERS, C.TEXTS_DIFFER, C.SPECIAL_TOKENS_DIFFER,
                C.SPECIAL_TOKENS_DIFFER, C.CHAT_TEMPLATE_DIFFERS),
         says="Target model vocab_size=128256. Draft model vocab_size=32000.",
         target=Made(tokenizer=LLAMA_3, tokenizer_config={"eos_token": "<|eot_id|>"}),
         draft=draft(tokenizer=LLAMA_2, tokenizer_config={}, template=None)),
    Case(name="Llama 2 for Llama 3, translated", fit=IF, engine=STARTS, wish=TRANSLATE,
         codes=(C.HETEROGENEOUS_VOCABULARY, C.VOCABULARY_SIZE_DIFFERS),
         target=Made(tokenizer=LLAMA_3, tokenizer_config={"eos_token": "<|eot_id|>"}),
         draft=draft(tokenizer=LLAMA_2, tokenizer_config={"eos_token": "</s>"})),
    Case(name="hardly a token in common, translated", fit=IF, engine=STARTS, wish=TRANSLATE,
         codes=(C.SHARED_VOCABULARY_SMALL, C.VOCABULARY_SIZE_DIFFERS),
         says="Very small vocabulary intersection (0 tokens).",
         draft=draft(tokenizer=words(200, mark="\u2581"), tokenizer_config={"eos_token": "</s>"})),
    Case(name="translated without an end token", fit=NO, engine=REFUSES, wish=TRANSLATE,
         codes=(C.HETEROGENEOUS_NEEDS_UNKNOWN,), draft=draft(tokenizer_config={}),
         says="VocabMapping: draft tokenizer has neither unk_token_id nor eos_token_id"),
    Case(name="translated without a tokenizer", fit=WHO, engine=OPEN, wish=TRANSLATE,
         codes=(C.HETEROGENEOUS_NEEDS_TOKENIZER,), draft=draft(tokenizer=None)),
    Case(name="translated without a target's tokenizer", fit=WHO, engine=OPEN, wish=TRANSLATE,
         codes=(C.HETEROGENEOUS_NEEDS_TOKENIZER,), target=Made(tokenizer=None)),
    Case(name="text and image models, as Gemma 3", fit=NO, engine=REFUSES, says=SAYS_SIZES,
         codes=(C.VOCABULARY_PADDING_DIFFERS,),
         target=Made(config={"architectures": ["Gemma3ForConditionalGeneration"],
                             "model_type": "gemma3", "text_config": {**H, "vocab_size": 336}},
                     bare=True)),
    Case(name="no tokenizer for the draft", fit=WHO, engine=STARTS, codes=(C.TOKENIZER_UNKNOWN,),
         draft=draft(tokenizer=None)),
    Case(name="a sentencepiece model alone", fit=WHO, engine=STARTS, codes=(C.TOKENIZER_UNKNOWN,),
         draft=draft(tokenizer=None, files={"tokenizer.model": "\n\x0b"})),
    Case(name="no vocab_size", fit=WHO, engine=OPEN, codes=(C.VOCABULARY_SIZE_UNKNOWN,),
         draft=draft(config={"vocab_size": None})),
    Case(name="a vocab_size that is none", fit=WHO, engine=OPEN,
         codes=(C.CONFIG_UNUSABLE, C.VOCABULARY_SIZE_UNKNOWN),
         draft=draft(config={"vocab_size": "32000"})),
    Case(name="more tokens than rows", fit=IF, engine=STARTS,
         codes=(C.TOKENS_BEYOND_EMBEDDING, C.TOKENS_BEYOND_EMBEDDING),
         target=Made(config={"vocab_size": 310}), draft=draft(config={"vocab_size": 310})),
]  # fmt: skip

STARTING = [
    Case(name="shorter draft", fit=IF, engine=STARTS, codes=(C.DRAFT_SHORTER,),
         draft=draft(config={"max_position_embeddings": 2048})),
    Case(name="shorter draft, served as short", fit=YES, engine=STARTS,
         draft=draft(config={"max_position_embeddings": 2048}), wish=Wish(max_model_len=2048)),
    Case(name="shorter draft, stretched", fit=YES, engine=STARTS,
         draft=draft(config={"max_position_embeddings": 1024,
                             "rope_scaling": {"rope_type": "linear", "factor": 4.0}})),
    Case(name="longer draft", fit=YES, engine=STARTS, codes=(C.DRAFT_LENGTH_LIMITED,),
         says="Overriding draft model max model len from 8192 to 4096",
         draft=draft(config={"max_position_embeddings": 8192})),
    Case(name="served longer than the target", fit=NO, engine=REFUSES,
         codes=(C.MAX_LENGTH_TOO_LARGE, C.DRAFT_SHORTER), wish=Wish(max_model_len=8192),
         says="User-specified max_model_len (8192) is greater than the derived max_model_len"),
    Case(name="a draft without a length", fit=YES, engine=STARTS,
         draft=draft(config={"max_position_embeddings": None})),
    Case(name="heads that do not divide", fit=NO, engine=REFUSES, codes=(C.HEADS_NOT_DIVISIBLE,),
         says="Total number of attention heads (6) must be divisible by tensor parallel size (4).",
         draft=draft(config={"num_attention_heads": 6, "num_key_value_heads": 2}),
         wish=Wish(tensor_parallel=4)),
    Case(name="key-value heads that do not divide", fit=NO, engine=REFUSES,
         codes=(C.KV_HEADS_NOT_DIVISIBLE,), wish=Wish(tensor_parallel=4),
         draft=draft(config={"num_attention_heads": 12, "num_key_value_heads": 6})),
    Case(name="a draft in other parts", fit=NO, engine=REFUSES, codes=(C.DRAFT_TENSOR_PARALLEL,),
         says="speculative_draft_tensor_parallel_size=2 cannot be other value than 1 or target",
         wish=Wish(tensor_parallel=4, draft_tensor_parallel=2)),
    Case(name="a draft in one part", fit=NO, engine=REFUSES, codes=(C.DRAFT_TENSOR_PARALLEL,),
         says="'draft_tensor_parallel_size' and 'tensor_parallel_size' must be the same. Got 1 an",
         wish=Wish(tensor_parallel=4, draft_tensor_parallel=1)),
    Case(name="a draft in one part on V0", fit=YES, engine=STARTS, release="0.9.2",
         wish=Wish(tensor_parallel=4, draft_tensor_parallel=1)),
    Case(name="a quantised draft", fit=IF, engine=OPEN, codes=(C.QUANTISATION_DIFFERS,),
         draft=draft(config={"quantization_config": {"quant_method": "awq", "bits": 4}})),
    Case(name="a quantised target", fit=YES, engine=STARTS, codes=(C.QUANTISATION_DIFFERS,),
         target=Made(config={"quantization_config": {"quant_method": "fp8"}})),
    Case(name="another number type", fit=YES, engine=STARTS, codes=(C.DTYPE_DIFFERS,),
         draft=draft(config={"torch_dtype": "float16"})),
    Case(name="a draft as large as the target", fit=IF, engine=STARTS,
         codes=(C.DRAFT_TOO_EXPENSIVE,), draft=Made()),
    Case(name="a target's shard is missing", fit=NO, engine=REFUSES, codes=(C.WEIGHTS_INCOMPLETE,),
         target=Made(tensors=dense(H), files={"model.safetensors.index.json":
             '{"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}'})),
    Case(name="a draft that was cut off", fit=NO, engine=REFUSES, codes=(C.WEIGHTS_INCOMPLETE,),
         draft=draft(files={"model.safetensors": "\x10"})),
    Case(name="a release to come", fit=YES, engine=STARTS, codes=(C.RELEASE_NOT_KNOWN,),
         release="0.40.0"),
    Case(name="n-gram", fit=YES, engine=STARTS, codes=(C.NEEDS_NO_DRAFT,), draft=None,
         method="ngram"),
    Case(name="n-gram and a target in too many parts", fit=NO, engine=REFUSES, draft=None,
         codes=(C.HEADS_NOT_DIVISIBLE, C.NEEDS_NO_DRAFT), method="ngram",
         wish=Wish(tensor_parallel=3)),
    Case(name="n-gram, translated", fit=NO, engine=REFUSES, draft=None, method="ngram",
         codes=(C.HETEROGENEOUS_NEEDS_DRAFT_MODEL, C.NEEDS_NO_DRAFT), wish=TRANSLATE,
         says="use_heterogeneous_vocab only works with method='draft_model'"),
    Case(name="suffix", fit=IF, engine=STARTS, codes=(C.NEEDS_NO_DRAFT,), draft=None,
         method="suffix", says="Arctic Inference is required for suffix decoding."),
    Case(name="suffix before it was there", fit=NO, engine=REFUSES, draft=None, method="suffix",
         codes=(C.METHOD_NOT_IN_RELEASE, C.NEEDS_NO_DRAFT), release="0.10.2"),
]  # fmt: skip

HEADS = [
    Case(name="EAGLE head", fit=IF, engine=STARTS, codes=(NAMED,), draft=head({}, eagle(H))),
    Case(name="EAGLE head of another width", fit=NO, engine=FAILS,
         says="The expanded size of the tensor (32) must match the existing size (64)",
         codes=(C.HEAD_HIDDEN_SIZE, C.HEAD_LACKS_EMBEDDING, NAMED),
         draft=head(NARROW, eagle(NARROW))),
    Case(name="EAGLE tensors of another head", fit=NO, engine=REFUSES,
         codes=(C.HEAD_TENSOR_SHAPE, NAMED), draft=head({}, eagle(NARROW)),
         says="weights of size torch.Size([32, 64])to a parameter of size torch.Size([64, 128])"),
    Case(name="EAGLE head of another vocabulary", fit=IF, engine=STARTS,
         codes=(NAMED, C.HEAD_VOCABULARY_SIZE), draft=head({"vocab_size": 900}, eagle(H))),
    Case(name="EAGLE head short of a layer", fit=NO, engine=STARTS, codes=(C.HEAD_LAYERS, NAMED),
         draft=head({"num_hidden_layers": 2}, eagle(H))),
    Case(name="EAGLE head with another model's tokenizer", fit=NO, engine=STARTS,
         codes=(C.TEXTS_DIFFER, NAMED),
         draft=Made(config={"num_hidden_layers": 1}, tensors=eagle(H),
                    tokenizer=words(ROWS, mark="\u2581", specials=("<s>", "<e>")))),
    Case(name="EAGLE head of short positions", fit=IF, engine=STARTS,
         codes=(NAMED, C.DRAFT_SHORTER), draft=head({"max_position_embeddings": 512}, eagle(H)),
         release="0.20.0"),
    Case(name="EAGLE head without tensors", fit=IF, engine=STARTS, codes=(NAMED,), method="eagle",
         draft=head({}, None)),
    Case(name="EAGLE before it is known of", fit=WHO, engine=OPEN, codes=(C.METHOD_NOT_KNOWN,),
         draft=head({}, eagle(H)), release="0.7.3"),
    Case(name="EAGLE-3 head", fit=IF, engine=STARTS, codes=(NAMED,),
         draft=head(E3, eagle3(H, 128))),
    Case(name="EAGLE-3 head of all tokens", fit=IF, engine=STARTS, codes=(NAMED,),
         draft=head({**E3, "draft_vocab_size": None},
                    {key: one for key, one in eagle3(H, ROWS).items() if key != "d2t"})),
    Case(name="EAGLE-3 head without its map", fit=NO, engine=STARTS,
         codes=(C.HEAD_MAP_MISSING, NAMED),
         draft=head(E3, {key: one for key, one in eagle3(H, 128).items() if key != "d2t"})),
    Case(name="EAGLE-3 head with a short map", fit=NO, engine=REFUSES,
         codes=(C.HEAD_MAP_SHAPE, NAMED), draft=head(E3, {**eagle3(H, 128), "d2t": (64,)}),
         says="load weight (torch.Size([64])) into parameter (torch.Size([128]))"),
    Case(name="EAGLE-3 head of all tokens with a map", fit=NO, engine=REFUSES,
         codes=(C.HEAD_MAP_NEEDLESS, NAMED),
         draft=head({**E3, "draft_vocab_size": ROWS}, eagle3(H, ROWS)),
         says="There is no module or parameter named 'draft_id_to_target_id'"),
    Case(name="EAGLE-3 head of all tokens with a map, to 0.28.0", fit=IF, engine=STARTS,
         codes=(NAMED, C.HEAD_MAP_NEEDLESS), release="0.28.0",
         draft=head({**E3, "draft_vocab_size": ROWS}, eagle3(H, ROWS))),
    Case(name="EAGLE-3 head of all tokens with a map, in between", fit=WHO, engine=OPEN,
         codes=(C.HEAD_MAP_NEEDLESS, NAMED), release="0.30.0",
         draft=head({**E3, "draft_vocab_size": ROWS}, eagle3(H, ROWS))),
    Case(name="EAGLE-3 head of another target's width", fit=NO, engine=FAILS,
         codes=(C.HEAD_HIDDEN_SIZE, C.HEAD_LACKS_EMBEDDING, NAMED),
         draft=head({**NARROW, **E3}, eagle3(NARROW, 128))),
    Case(name="narrow EAGLE-3 head for this target", fit=IF, engine=STARTS, codes=(NAMED,),
         draft=head({**NARROW, **E3, "target_hidden_size": 64},
                    {**eagle3(NARROW, 128, target=64), "embed_tokens.weight": (ROWS, 32)})),
    Case(name="EAGLE-3 head that listens too deep", fit=NO, engine=FAILS,
         codes=(C.HEAD_AUXILIARY_LAYERS, NAMED), says="shape '[-1, 192]' is invalid for input of",
         draft=head({**E3, "eagle_aux_hidden_state_layer_ids": [1, 2, 9]}, eagle3(H, 128))),
    Case(name="a speculators checkpoint", fit=IF, engine=STARTS, codes=(NAMED,),
         draft=dataclasses.replace(head({}, eagle3(H, 128)), config=SPECULATORS, bare=True)),
    Case(name="a speculators checkpoint for another target", fit=IF, engine=STARTS,
         codes=(NAMED, C.HEAD_OTHER_TARGET),
         draft=dataclasses.replace(
             head({}, eagle3(H, 128)), bare=True,
             config={**SPECULATORS, "speculators_config": {
                 "verifier": {"name_or_path": "org/other-8b"}}})),
    Case(name="Medusa heads", fit=YES, engine=STARTS, release="0.32.0",
         draft=Made(config={"model_type": "medusa", "medusa_num_heads": 3, "hidden_size": 64},
                    tokenizer=None, template=None, bare=True,
                    tensors={f"{one}.0.linear.weight": (64, 64) for one in range(3)})),
    Case(name="fewer Medusa heads than tokens", fit=NO, engine=REFUSES, release="0.32.0",
         codes=(C.MEDUSA_HEADS,), wish=Wish(tokens=4),
         says="Following weights were not initialized from checkpoint",
         draft=Made(config={"medusa_num_heads": 3, "hidden_size": 64}, tokenizer=None,
                    template=None, bare=True)),
    Case(name="Medusa heads of another width", fit=NO, engine=FAILS, release="0.32.0",
         codes=(C.HEAD_HIDDEN_SIZE,), says="mat1 and mat2 shapes cannot be multiplied",
         draft=Made(config={"architectures": ["MedusaModel"], "hidden_size": 32}, tokenizer=None,
                    template=None, bare=True)),
    Case(name="Medusa after its last release", fit=NO, engine=REFUSES,
         codes=(C.METHOD_NOT_IN_RELEASE,),
         draft=Made(config={"model_type": "medusa", "hidden_size": 64}, tokenizer=None,
                    template=None, bare=True)),
    Case(name="MTP modules of the target, as DeepSeek V3", fit=YES, engine=STARTS, draft=None,
         method="mtp", target=Made(config=DEEPSEEK), wish=Wish(tokens=2)),
    Case(name="MTP modules run again", fit=IF, engine=STARTS, draft=None, method="mtp",
         codes=(C.MTP_REUSES_MODULE,), target=Made(config=DEEPSEEK), wish=Wish(tokens=4)),
    Case(name="tokens that no MTP modules divide", fit=NO, engine=REFUSES, draft=None,
         method="mtp", codes=(C.MTP_NOT_DIVISIBLE,), target=Made(config=DEEPSEEK),
         wish=Wish(tokens=3),
         says="num_speculative_tokens:3 must be divisible by n_predict=2"),
    Case(name="a target without MTP modules", fit=NO, engine=REFUSES, draft=None, method="mtp",
         codes=(C.TARGET_HAS_NO_MTP,), says="Unsupported speculative method: 'mtp'"),
    Case(name="MTP modules of an unknown family", fit=WHO, engine=OPEN, draft=None, method="mtp",
         codes=(C.MTP_NOT_KNOWN,), target=Made(config={"num_nextn_predict_layers": 1})),
    Case(name="an assistant with one module unsaid, as Gemma 4", fit=YES, engine=STARTS,
         method="mtp", draft=head({"model_type": "gemma4_assistant"}, None)),
    Case(name="a whole model as an EAGLE head", fit=NO, engine=REFUSES, method="eagle",
         codes=(C.HEAD_IS_WHOLE_MODEL, NAMED), draft=head({}, dense({**H, "num_hidden_layers": 1})),
         says="There is no module or parameter named 'model'"),
    Case(name="an EAGLE head as a whole model", fit=NO, engine=REFUSES, method="draft_model",
         codes=(C.DRAFT_IS_HEAD,), says="There is no module or parameter named 'fc'",
         draft=Made(config={"num_hidden_layers": 1}, tensors=eagle(H))),
    Case(name="an MLP speculator", fit=WHO, engine=OPEN, codes=(C.HEAD_NOT_CHECKED,),
         draft=head({"model_type": "mlp_speculator"}, None), release="0.32.0"),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [*WHOLE_MODELS, *STARTING, *HEADS], ids=lambda one: one.name.replace(" ", "-")
)
def test_a_pair_is_judged_as_the_engine_does(case: Case, tmp_path: Path) -> None:
    """The verdict, what the engine does and says, and every finding are those of the family."""
    report = report_on(case, tmp_path)
    assert tuple(one.code for one in report.findings) == case.codes
    assert (report.fit, report.engine) == (case.fit, case.engine)
    said = [one.engine_says for one in report.findings if one.engine_says]
    assert case.says is None or any(case.says in one for one in said), said
