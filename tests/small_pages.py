"""Writes small vLLM pages whose numbers follow from one: how many decode steps there were.

A step drafts 4 tokens of which 2 are kept (0.8, 0.6, 0.4, 0.2 by position), puts 3 out and takes
10 ms; every 25 steps a request ends. So acceptance is 0.5, its length 3 and the true time per
token 10/3 ms, whatever the number, as long as it is a multiple of 25.
"""

from collections.abc import Iterable, Mapping, Sequence

K = 4
KEPT = (0.8, 0.6, 0.4, 0.2)
STEP_SECONDS = 0.01
REQUEST_STEPS = 25

Sample = tuple[str, Mapping[str, object], float]


def v1_page(
    steps: int | Mapping[str, int],
    *,
    model: str = "small",
    speculative: bool = True,
    extra: Iterable[Sample] = (),
) -> bytes:
    """Write a page of the current engine; `steps` by engine, or those of engine "0" alone."""
    samples: list[Sample] = []
    for engine, count in ({"0": steps} if isinstance(steps, int) else steps).items():
        labels = {"engine": engine, "model_name": model}
        samples += _served(labels, count, "inter_token_latency_seconds", tokens=3 * count)
        if speculative:
            samples += [
                ("spec_decode_num_drafts_total", labels, count),
                ("spec_decode_num_draft_tokens_total", labels, K * count),
                ("spec_decode_num_accepted_tokens_total", labels, 2 * count),
            ]
            samples += [
                (
                    "spec_decode_num_accepted_tokens_per_pos_total",
                    {**labels, "position": position},
                    round(share * count),
                )
                for position, share in enumerate(KEPT)
            ]
    return _page([*samples, *extra])


def v0_page(collected: Sequence[int], steps: int, *, model: str = "old") -> bytes:
    """Write a page of the former engine, which adds its totals up anew at each collection.

    `collected` holds the steps there had been at each collection so far.
    """
    labels = {"model_name": model}
    requests = steps // REQUEST_STEPS
    samples = _served(labels, steps, "time_per_output_token_seconds", tokens=steps)
    samples += [
        ("num_requests_swapped", labels, 0),
        *_histogram("request_decode_time_seconds", labels, requests, steps * STEP_SECONDS, "1.0"),
        *_histogram("request_generation_tokens", labels, requests, 3 * steps + requests, "100.0"),
    ]
    if collected:
        samples += [
            ("spec_decode_draft_acceptance_rate", labels, 0.5),
            ("spec_decode_efficiency", labels, 3 / (K + 1)),
            ("spec_decode_num_draft_tokens_total", labels, K * sum(collected)),
            ("spec_decode_num_accepted_tokens_total", labels, 2 * sum(collected)),
            ("spec_decode_num_emitted_tokens_total", labels, 3 * sum(collected)),
        ]
    return _page(samples)


def diffusion_page(steps: int, *, model: str = "canvas") -> bytes:
    """Write a page of a diffusion model, whose drafts are no speculation."""
    labels = {"engine": "0", "model_name": model}
    return v1_page(
        steps, model=model, extra=[("diffusion_num_denoising_steps_total", labels, steps)]
    )


def _served(labels: Mapping[str, object], steps: int, latency: str, *, tokens: int) -> list[Sample]:
    requests = steps // REQUEST_STEPS
    return [
        ("num_requests_running", labels, 1),
        ("num_requests_waiting", labels, 0),
        ("kv_cache_usage_perc", labels, 0.25),
        ("num_preemptions_total", labels, requests // 4),
        ("prompt_tokens_total", labels, 100 * requests),
        ("generation_tokens_total", labels, tokens + requests),
        ("request_success_total", {**labels, "finished_reason": "stop"}, requests),
        *_histogram(latency, labels, steps, steps * STEP_SECONDS, "0.025"),
        *_histogram("time_to_first_token_seconds", labels, requests, requests * 0.05, "0.1"),
        *_histogram("e2e_request_latency_seconds", labels, requests, requests * 0.3, "1.0"),
    ]


def _histogram(
    name: str, labels: Mapping[str, object], count: int, total: float, bound: str
) -> list[Sample]:
    """Write a histogram whose observations all lie below its one bound."""
    return [
        (f"{name}_bucket", {**labels, "le": bound}, count),
        (f"{name}_bucket", {**labels, "le": "+Inf"}, count),
        (f"{name}_count", labels, count),
        (f"{name}_sum", labels, total),
    ]


def _page(samples: Iterable[Sample]) -> bytes:
    lines = []
    for name, labels, value in samples:
        pairs = ",".join(f'{label}="{text}"' for label, text in labels.items())
        lines.append(f"vllm:{name}{{{pairs}}} {value:g}\n")
    return "".join(lines).encode()
