"""Old command lines of every flag and key of speculation, as guides and articles have them.

`{target}` and `{draft}` stand for models; it knows nothing of what becomes of the lines.
"""

from dataclasses import dataclass

PLAYBOOK_DRAFT = r"""# Enable speculative decoding in vLLM (Llama 3.1 70B + 8B)
python -m vllm.entrypoints.openai.api_server \
    --model {target} \
    --speculative-model {draft} \
    --num-speculative-tokens 5 \
    --speculative-disable-mqa-scorer \
    --tensor-parallel-size 4 \
    --gpu-memory-utilization 0.92 \
    --max-model-len 4096 \
    --port 8000
"""
PLAYBOOK_EAGLE = r"""# Use an EAGLE-3 draft head (higher accept ratio)
python -m vllm.entrypoints.openai.api_server \
    --model {target} \
    --speculative-model {eagle3} \
    --speculative-method eagle \
    --num-speculative-tokens 5 \
    --tensor-parallel-size 4 \
    --gpu-memory-utilization 0.92 \
    --max-model-len 4096 \
    --use-v2-block-manager \
    --port 8000
"""
PLAYBOOK_YAML = """# speculative_decoding_config.yaml
num_speculative_tokens: 5 # Starting value. Experiment in the 3-7 range
speculative_disable_by_batch_size: 8 # Disable at batch 8 or above
speculative_draft_tensor_parallel_size: 1 # TP=1 is enough for the draft
"""
ARTICLE_DRAFT = """# the backslashes were lost
vllm serve {target}
  --speculative-config '{{
    "method": "draft_model",
    "model": "{draft}",
    "num_speculative_tokens": 5,
    "draft_tensor_parallel_size": 1
  }}'
"""
ARTICLE_NGRAM = """vllm serve {target}
  --speculative-config '{{
    "method": "ngram",
    "num_speculative_tokens": 4,
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 5
  }}'
"""
_OLD = "--speculative-model {draft} --num-speculative-tokens 3"
_LOOKUP = '--speculative-model "[ngram]" --num-speculative-tokens 4'


@dataclass(frozen=True, slots=True, kw_only=True)
class OldLine:
    """An old command line, and what it says of speculation in keys of the newest release."""

    text: str
    config: dict[str, object]


def _flags(flags: str, **config: object) -> OldLine:
    said: dict[str, object] = {
        "method": "draft_model",
        "model": "{draft}",
        "num_speculative_tokens": 3,
    }
    text = f"vllm serve {{target}} {_OLD} {flags}"
    return OldLine(text=text, config=said | config)


def _lookup(flags: str, **config: object) -> OldLine:
    said: dict[str, object] = {"method": "ngram", "num_speculative_tokens": 4}
    return OldLine(text=f"vllm serve {{target}} {_LOOKUP} {flags}", config=said | config)


def _json(text: str, **config: object) -> OldLine:
    said: dict[str, object] = {
        "method": "draft_model",
        "model": "{draft}",
        "num_speculative_tokens": 3,
    }
    json = (
        f'{{{{"method": "draft_model", "model": "{{draft}}", "num_speculative_tokens": 3{text}}}}}'
    )
    line = f"vllm serve {{target}} --speculative-config '{json}'"
    return OldLine(text=line, config=said | config)


def _with(text: str, *, method: str, **config: object) -> OldLine:
    json = f'{{{{"method": "{method}", {text}}}}}'
    line = f"vllm serve {{target}} --speculative-config '{json}'"
    return OldLine(text=line, config={"method": method} | config)


_SCHEDULE = {"num_speculative_tokens_per_batch_size": [[1, 7, 3], [8, 1024, 0]]}
_DRAFT = {"model": "{draft}", "num_speculative_tokens": 3}
_EAGLE3 = '"model": "{eagle3}", "num_speculative_tokens": 3'

LINES: dict[str, OldLine] = {
    "playbook-draft": OldLine(
        text=PLAYBOOK_DRAFT,
        config={"method": "draft_model", "model": "{draft}", "num_speculative_tokens": 5},
    ),
    "playbook-eagle": OldLine(
        text=PLAYBOOK_EAGLE,
        config={"method": "eagle3", "model": "{eagle3}", "num_speculative_tokens": 5},
    ),
    "article-draft": OldLine(
        text=ARTICLE_DRAFT,
        config={
            "method": "draft_model",
            "model": "{draft}",
            "num_speculative_tokens": 5,
            "draft_tensor_parallel_size": 1,
        },
    ),
    "article-ngram": OldLine(
        text=ARTICLE_NGRAM,
        config={
            "method": "ngram",
            "num_speculative_tokens": 4,
            "prompt_lookup_min": 2,
            "prompt_lookup_max": 5,
        },
    ),
    "--speculative-max-model-len": _flags("--speculative-max-model-len 32", max_model_len=32),
    "--ngram-prompt-lookup-max": _lookup(
        "--ngram-prompt-lookup-max 4", prompt_lookup_max=4, prompt_lookup_min=1
    ),
    "--ngram-prompt-lookup-min": _lookup(
        "--ngram-prompt-lookup-max=4 --ngram_prompt_lookup_min=2",
        prompt_lookup_max=4,
        prompt_lookup_min=2,
    ),
    "--speculative-disable-by-batch-size": _flags(
        "--speculative-disable-by-batch-size 8", **_SCHEDULE
    ),
    "--speculative-draft-tensor-parallel-size": _flags(
        "--speculative-draft-tensor-parallel-size 1", draft_tensor_parallel_size=1
    ),
    "--spec-decoding-acceptance-method": _flags(
        "--spec-decoding-acceptance-method rejection_sampler"
    ),
    "--typical-acceptance-sampler-posterior-threshold": _flags(
        "--spec-decoding-acceptance-method typical_acceptance_sampler "
        "--typical-acceptance-sampler-posterior-threshold 0.1"
    ),
    "--typical-acceptance-sampler-posterior-alpha": _flags(
        "--spec-decoding-acceptance-method=typical_acceptance_sampler "
        "--typical-acceptance-sampler-posterior-alpha=0.3"
    ),
    "--disable-logprobs-during-spec-decoding": _flags(
        "--disable-logprobs-during-spec-decoding false"
    ),
    "--speculative-model-quantization": _flags(
        "--speculative-model-quantization fp8", quantization="fp8"
    ),
    "--speculative-disable-mqa-scorer": _flags("--speculative-disable-mqa-scorer --port 8001"),
    "--use-v2-block-manager": _flags("--use-v2-block-manager --num-scheduler-steps 1"),
    "-sc": OldLine(
        text="vllm serve {target} -sc.method ngram -sc.num_speculative_tokens 4 "
        "-sc.prompt_lookup_max=4 -sc.prompt_lookup_min=2",
        config={
            "method": "ngram",
            "num_speculative_tokens": 4,
            "prompt_lookup_max": 4,
            "prompt_lookup_min": 2,
        },
    ),
    "--speculative-config.dotted": OldLine(
        text="vllm serve {target} --speculative-config.method draft_model "
        "--speculative_config.model={draft} --speculative-config.num_speculative_tokens 3",
        config={"method": "draft_model", **_DRAFT},
    ),
    "--spec-tokens": OldLine(
        text="vllm serve {target} --spec-method draft_model --spec-model {draft} --spec-tokens 3",
        config={"method": "draft_model", **_DRAFT},
    ),
    "max_model_len": _json(', "max_model_len": 32', max_model_len=32),
    "revision": _json(
        ', "revision": "main", "code_revision": "main"', revision="main", code_revision="main"
    ),
    "acceptance_method": _json(
        ', "acceptance_method": "typical_acceptance_sampler", "posterior_threshold": 0.1, '
        '"posterior_alpha": 0.3'
    ),
    "disable_mqa_scorer": _json(', "disable_mqa_scorer": true, "disable_logprobs": true'),
    "disable_by_batch_size": _json(', "disable_by_batch_size": 8', **_SCHEDULE),
    "enforce_eager": _json(', "enforce_eager": true', enforce_eager=True),
    "tensor_parallel_size": _json(', "tensor_parallel_size": 1', draft_tensor_parallel_size=1),
    "strict": _json(', "rejection_sample_method": "strict"', rejection_sample_method="standard"),
    "probabilistic": _json(
        ', "rejection_sample_method": "probabilistic"',
        rejection_sample_method="standard",
        draft_sample_method="probabilistic",
    ),
    "gumbel": _json(', "draft_sample_method": "gumbel"', draft_sample_method="probabilistic"),
    "block": _json(', "rejection_sample_method": "block"', rejection_sample_method="block"),
    "use_heterogeneous_vocab": _json(
        ', "use_heterogeneous_vocab": true', use_heterogeneous_vocab=True
    ),
    "use_local_argmax_reduction": _json(
        ', "use_local_argmax_reduction": true', use_local_argmax_reduction=True
    ),
    "parallel_drafting": _json(', "parallel_drafting": true', parallel_drafting=True),
    "draft_load_config": _json(
        ', "draft_load_config": {{"load_format": "dummy"}}',
        draft_load_config={"load_format": "dummy"},
    ),
    "moe_backend": _json(', "moe_backend": "auto"', moe_backend="auto"),
    "kv_cache_dtype": _json(', "kv_cache_dtype": "auto"', kv_cache_dtype="auto"),
    "synthetic": _json(
        ', "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.8, 0.6, 0.4]',
        rejection_sample_method="synthetic",
        synthetic_acceptance_rates=[0.8, 0.6, 0.4],
    ),
    "synthetic-length": _json(
        ', "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5',
        rejection_sample_method="synthetic",
        synthetic_acceptance_length=2.5,
    ),
    "schedule": _json(
        ', "num_speculative_tokens_per_batch_size": [[1, 4, 3], [5, 16, 1], [17, 64, 0]]',
        num_speculative_tokens_per_batch_size=[[1, 4, 3], [5, 16, 1], [17, 64, 0]],
    ),
    "speculative_token_tree": _with(
        f'{_EAGLE3}, "speculative_token_tree": "[(0,), (0, 0)]"',
        method="eagle3",
        model="{eagle3}",
        num_speculative_tokens=3,
    ),
    "attention_backend": _with(
        f'{_EAGLE3}, "attention_backend": "FLASH_ATTN", "disable_padded_drafter_batch": true',
        method="eagle3",
        model="{eagle3}",
        num_speculative_tokens=3,
        attention_backend="FLASH_ATTN",
        disable_padded_drafter_batch=True,
    ),
    "ngram-without-lookup": _with(
        '"num_speculative_tokens": 4',
        method="ngram",
        num_speculative_tokens=4,
        prompt_lookup_max=5,
        prompt_lookup_min=5,
    ),
    "deepseek_mtp": OldLine(
        text="vllm serve {target} -sc.method deepseek_mtp -sc.num_speculative_tokens 1",
        config={"method": "mtp", "num_speculative_tokens": 1},
    ),
    "suffix": _with(
        '"num_speculative_tokens": 8, "suffix_decoding_max_tree_depth": 16, '
        '"suffix_decoding_max_cached_requests": 100, "suffix_decoding_max_spec_factor": 2.0, '
        '"suffix_decoding_min_token_prob": 0.2',
        method="suffix",
        num_speculative_tokens=8,
        suffix_decoding_max_tree_depth=16,
        suffix_decoding_max_cached_requests=100,
        suffix_decoding_max_spec_factor=2.0,
        suffix_decoding_min_token_prob=0.2,
    ),
}
