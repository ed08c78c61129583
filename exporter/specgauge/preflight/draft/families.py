"""Drafts that well-known families are known to have, as one table; none of it was checked.

Sizes are the `vocab_size` of the published config.json, which is what the engine compares.
"""

import re
from dataclasses import dataclass

from specgauge.preflight.draft.config import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One published draft: its name on the hub, how it is used, and its vocabulary."""

    name: str
    method: str
    vocab_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family: what its members look like, what drafts for them, and what to mind."""

    name: str
    model_types: tuple[str, ...]
    vocab_sizes: tuple[int, ...]
    drafts: tuple[Known, ...]
    note: str
    named: str = ""


def _drafts(vocab_size: int, *names: str, method: str = "draft_model") -> tuple[Known, ...]:
    return tuple(Known(name=one, method=method, vocab_size=vocab_size) for one in names)


FAMILIES = (
    Family(
        name="Llama 3",
        model_types=("llama",),
        vocab_sizes=(128256,),
        drafts=(
            *_drafts(
                128256,
                "meta-llama/Llama-3.2-1B-Instruct",
                "meta-llama/Llama-3.2-3B-Instruct",
                "meta-llama/Llama-3.1-8B-Instruct",
            ),
            *_drafts(
                128256,
                "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
                "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B",
                method="eagle3",
            ),
        ),
        note="one vocabulary from 1B to 405B; an EAGLE-3 head fits the one target it names",
    ),
    Family(
        name="Llama 2",
        model_types=("llama",),
        vocab_sizes=(32000,),
        drafts=_drafts(32000, "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "JackFram/llama-160m"),
        note="other models have 32000 tokens too and are not of this family: check before use",
        named="llama-?2|vicuna|tinyllama",
    ),
    Family(
        name="Qwen2.5, large",
        model_types=("qwen2",),
        vocab_sizes=(152064,),
        drafts=_drafts(152064, "Qwen/Qwen2.5-7B-Instruct"),
        note="0.5B, 1.5B and 3B have 151936 rows, only padding differs: they need "
        "use_heterogeneous_vocab or padded embeddings",
    ),
    Family(
        name="Qwen2.5, small",
        model_types=("qwen2",),
        vocab_sizes=(151936,),
        drafts=_drafts(151936, "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct"),
        note="7B and larger have 152064 rows and are no match",
    ),
    Family(
        name="Qwen3",
        model_types=("qwen3", "qwen3_moe"),
        vocab_sizes=(151936,),
        drafts=_drafts(151936, "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"),
        note="one vocabulary from 0.6B to 235B",
    ),
    Family(
        name="Mistral",
        model_types=("mistral",),
        vocab_sizes=(32768,),
        drafts=_drafts(32768, "mistralai/Mistral-7B-Instruct-v0.3"),
        note="for Mistral Large; older 7B releases have 32000 tokens and are no match",
    ),
    Family(
        name="Gemma 2",
        model_types=("gemma2",),
        vocab_sizes=(256000,),
        drafts=_drafts(256000, "google/gemma-2-2b-it"),
        note="one vocabulary for 2B, 9B and 27B",
    ),
    Family(
        name="Gemma 3",
        model_types=("gemma3", "gemma3_text"),
        vocab_sizes=(262208, 262144),
        drafts=_drafts(262144, "google/gemma-3-270m-it", "google/gemma-3-1b-it"),
        note="the text-only sizes have 262144 rows, those with images 262208",
    ),
    Family(
        name="DeepSeek V3 and R1",
        model_types=("deepseek_v3",),
        vocab_sizes=(129280,),
        drafts=(),
        note="the checkpoint brings its own MTP module: method mtp, no draft",
    ),
)


def family_of(config: Config, source: str) -> Family | None:
    """Find the family of a model by its type, its vocabulary and, where these are shared, name."""
    for one in FAMILIES:
        if config.model_type not in one.model_types or config.vocab_size not in one.vocab_sizes:
            continue
        if not one.named or re.search(one.named, source.lower()):
            return one
    return None
