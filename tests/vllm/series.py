"""Which series of ours stands for which of the engine's, and the ratios worked out by hand.

It may not import anything of specgauge: it is the second opinion.
"""

from collections.abc import Mapping

from tests.vllm.pages import Page

GENERAL = {
    "generation_tokens": "vllm:generation_tokens_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "decode_steps": "vllm:inter_token_latency_seconds_count",
    "decode_seconds": "vllm:inter_token_latency_seconds_sum",
    "first_tokens": "vllm:time_to_first_token_seconds_count",
    "requests_finished": "vllm:request_success_total",
    "preemptions": "vllm:num_preemptions_total",
}
SPECULATIVE = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "accepted_tokens_per_position": "vllm:spec_decode_num_accepted_tokens_per_pos_total",
}
THEIRS = GENERAL | SPECULATIVE
OURS = {name: f"specgauge_{name}_total" for name in THEIRS}


def counts(page: Page, series: Mapping[str, str]) -> dict[str, float]:
    """Read the counters off a page of either kind."""
    return {name: page.total(series[name]) for name in THEIRS}


def ratios(count: Mapping[str, float]) -> dict[str, float]:
    """Work out what should be shown, from counters or from how far they moved."""
    tokens = count["generation_tokens"] - count["first_tokens"]
    steps, drafts = count["decode_steps"], count["drafts"]
    found = {"tokens_per_step": tokens / steps, "tpot_seconds": count["decode_seconds"] / tokens}
    if drafts:
        found |= {
            "acceptance_ratio": count["accepted_tokens"] / count["draft_tokens"],
            "acceptance_length": 1 + count["accepted_tokens"] / drafts,
            "draft_length": count["draft_tokens"] / drafts,
            "draft_coverage_ratio": drafts / steps,
        }
    return found


def per_position(page: Page, series: Mapping[str, str]) -> list[float]:
    """List the accepted tokens of each drafted position, from the first on."""
    counted = page.by(series["accepted_tokens_per_position"], "position")
    return [counted[place] for place in sorted(counted, key=int)]
