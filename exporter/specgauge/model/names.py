"""Every series specgauge emits: its name, type, labels, help, and what it is made from."""

from collections.abc import Mapping

from specgauge.model.class_names import CLASSES
from specgauge.model.guard_names import GUARD
from specgauge.model.quantity import Kind, Quantity
from specgauge.model.series_name import (
    PER_ENGINE,
    PER_MODEL,
    TARGET,
    SeriesName,
    counter,
    gauge,
    histogram,
)

COUNTERS: Mapping[tuple[Quantity, Kind], SeriesName] = {
    (Quantity.DRAFTS, Kind.COUNTER): counter(
        "drafts", PER_ENGINE, "Decode steps of a request that carried a draft."
    ),
    (Quantity.DRAFT_TOKENS, Kind.COUNTER): counter(
        "draft_tokens", PER_ENGINE, "Tokens that the draft proposed."
    ),
    (Quantity.ACCEPTED_TOKENS, Kind.COUNTER): counter(
        "accepted_tokens", PER_ENGINE, "Draft tokens that the target accepted, bonus excluded."
    ),
    (Quantity.ACCEPTED_PER_POSITION, Kind.COUNTER): counter(
        "accepted_tokens_per_position",
        (*PER_ENGINE, "position"),
        "Draft tokens accepted at each position of the draft, from 0.",
    ),
    (Quantity.GENERATION_TOKENS, Kind.COUNTER): counter(
        "generation_tokens", PER_ENGINE, "Tokens generated; on V0 those of finished requests."
    ),
    (Quantity.PROMPT_TOKENS, Kind.COUNTER): counter("prompt_tokens", PER_ENGINE, "Prompt tokens."),
    (Quantity.STEP_LATENCY, Kind.COUNT): counter(
        "decode_steps", PER_ENGINE, "Decode steps, one a request and step."
    ),
    (Quantity.STEP_LATENCY, Kind.SUM): counter(
        "decode_seconds", PER_ENGINE, "Time that requests spent in decode, added up."
    ),
    (Quantity.TTFT, Kind.COUNT): counter(
        "first_tokens", PER_ENGINE, "First tokens, one a request."
    ),
    (Quantity.REQUESTS_FINISHED, Kind.COUNTER): counter(
        "requests_finished",
        (*PER_ENGINE, "finished_reason"),
        "Requests finished, by reason; clients that went away are not among them.",
    ),
    (Quantity.PREEMPTIONS, Kind.COUNTER): counter(
        "preemptions", PER_ENGINE, "Requests preempted for want of KV cache."
    ),
}
"""Counters that we accumulate: an engine's restart does not make them fall."""

HTTP_REQUESTS = counter("http_requests", (TARGET, "code"), "HTTP requests by class of status.")
ENGINE_RESTARTS = counter(
    "engine_restarts", PER_ENGINE, "Times that an engine's own counters began anew."
)

HISTOGRAMS: Mapping[Quantity, SeriesName] = {
    Quantity.TTFT: histogram(
        "time_to_first_token_seconds", "Arrival of a request to its first token."
    ),
    Quantity.STEP_LATENCY: histogram(
        "step_latency_seconds",
        "Time of a decode step of a request, whatever the release calls it; not of a token.",
    ),
    Quantity.E2E: histogram(
        "e2e_request_latency_seconds", "Arrival of a request to its last token."
    ),
    Quantity.REQUEST_TPOT: histogram(
        "request_time_per_output_token_seconds",
        "Decode time over tokens after the first, one observation a finished request.",
    ),
}

GAUGES: Mapping[str, SeriesName] = {
    "acceptance_ratio": gauge(
        "acceptance_ratio", PER_MODEL, "Accepted over drafted tokens in the window."
    ),
    "acceptance_length": gauge(
        "acceptance_length",
        PER_MODEL,
        "Tokens of a step that carried a draft in the window, bonus included.",
    ),
    "draft_length": gauge("draft_length", PER_MODEL, "Tokens of a draft in the window."),
    "position_acceptance_ratio": gauge(
        "position_acceptance_ratio",
        (*PER_MODEL, "position"),
        "Share of drafts accepted up to and with the position, in the window.",
    ),
    "position_conditional_acceptance_ratio": gauge(
        "position_conditional_acceptance_ratio",
        (*PER_MODEL, "position"),
        "Acceptance at the position given the one before, in the window.",
    ),
    "tokens_per_step": gauge(
        "tokens_per_step", PER_MODEL, "Tokens of a decode step, over all steps of the window."
    ),
    "draft_coverage_ratio": gauge(
        "draft_coverage_ratio", PER_MODEL, "Share of decode steps that carried a draft."
    ),
    "tpot_seconds": gauge(
        "tpot_seconds", PER_MODEL, "True time per output token after the first, in the window."
    ),
    "decode_concurrency": gauge(
        "decode_concurrency", PER_MODEL, "Mean number of requests in decode over the window."
    ),
    "num_speculative_tokens": gauge(
        "num_speculative_tokens", PER_MODEL, "Draft positions that the engine counts (K)."
    ),
    "requests_running": gauge("requests_running", PER_MODEL, "Requests in execution."),
    "requests_waiting": gauge("requests_waiting", PER_MODEL, "Requests waiting."),
    "kv_cache_usage_ratio": gauge(
        "kv_cache_usage_ratio", PER_MODEL, "Share of KV cache in use, mean over engines."
    ),
}
"""Gauges over the window, by the field of a derived model that they show."""

BASELINE_DECODE_SECONDS = counter(
    "baseline_decode_seconds",
    (*PER_MODEL, "basis"),
    "What the covered intervals' tokens would have cost without speculation, in decode time.",
)
BASELINE_COVERED_SECONDS = counter(
    "baseline_covered_decode_seconds",
    (*PER_MODEL, "basis"),
    "Decode time of the intervals that the baseline covers: the denominator of the speedup.",
)
SPEEDUP = gauge(
    "speedup_ratio",
    (*PER_MODEL, "basis"),
    "How many times as fast each token came as without speculation, in the decision window.",
)
SPEEDUP_LOW = gauge(
    "speedup_ratio_low", (*PER_MODEL, "basis"), "Lower end of the speedup's 95 % interval."
)
SPEEDUP_HIGH = gauge(
    "speedup_ratio_high", (*PER_MODEL, "basis"), "Upper end of the speedup's 95 % interval."
)
JUDGED: Mapping[str, SeriesName] = {
    "e2e_speedup_ratio": gauge(
        "e2e_speedup_ratio", PER_MODEL, "The same for whole requests of the length seen."
    ),
    "step_cost_ratio": gauge(
        "step_cost_ratio", PER_MODEL, "Time of a decode step in steps of the baseline."
    ),
    "breakeven_acceptance_length": gauge(
        "breakeven_acceptance_length",
        PER_MODEL,
        "Acceptance length at which a step pays for itself.",
    ),
    "suggested_num_speculative_tokens": gauge(
        "suggested_num_speculative_tokens",
        PER_MODEL,
        "Draft positions that would yield most at this acceptance and step cost; a hint.",
    ),
}
"""Gauges of a judgement, by the name of its value."""

VERDICT = gauge("verdict", (*PER_MODEL, "verdict"), "1 for whether speculation pays now, else 0.")
BASELINE_TPOT = gauge(
    "baseline_tpot_seconds",
    (*PER_MODEL, "concurrency"),
    "Baseline's time per output token at a level of decode concurrency.",
)
BASELINE_TTFT = gauge(
    "baseline_ttft_seconds",
    (*PER_MODEL, "concurrency"),
    "Baseline's time to first token at a level of decode concurrency.",
)
BASELINE_CREATED = gauge(
    "baseline_created_timestamp_seconds", PER_MODEL, "Unix time at which it was recorded."
)
BASELINE_MISMATCH = gauge(
    "baseline_mismatch", (*PER_MODEL, "field"), "1 for a fact that makes it another server's."
)

SPECULATION_STATE = gauge(
    "speculation_state", (*PER_MODEL, "state"), "1 for what speculation is doing, else 0."
)
DERIVATION_INFO = gauge(
    "derivation_info", (*PER_MODEL, "quantity", "method"), "1 for how a quantity was derived."
)
TARGET_UP = gauge("target_up", (TARGET,), "1 if the last scrape fetched a page and could parse it.")
SCRAPES = counter("scrapes", (TARGET, "result"), "Scrapes of the target by result.")
SCRAPE_DURATION = gauge(
    "scrape_duration_seconds", (TARGET,), "Time that the last scrape took, page to values."
)
LAST_SUCCESS = gauge(
    "last_scrape_success_timestamp_seconds", (TARGET,), "Unix time of the last good scrape."
)
ENGINE_SEEN = gauge(
    "engine_seen_timestamp_seconds", PER_ENGINE, "Unix time at which an engine was last seen."
)
IDENTITY_VIOLATIONS = counter(
    "identity_violations",
    (*PER_MODEL, "check"),
    "Intervals in which an engine's counters broke an identity.",
)
ENGINE_INFO = gauge(
    "engine_info", (*PER_ENGINE, "version", "dialect"), "1 for each engine on the last page."
)
RELOAD_SUCCESS = gauge(
    "config_last_reload_success", (), "1 if the last (re)load of the configuration succeeded."
)
BUILD_INFO = gauge("build_info", ("version", "python_version"), "1, with our version.")

ALL: tuple[SeriesName, ...] = (
    *COUNTERS.values(),
    HTTP_REQUESTS,
    ENGINE_RESTARTS,
    *HISTOGRAMS.values(),
    *GAUGES.values(),
    BASELINE_DECODE_SECONDS,
    BASELINE_COVERED_SECONDS,
    SPEEDUP,
    SPEEDUP_LOW,
    SPEEDUP_HIGH,
    *JUDGED.values(),
    VERDICT,
    BASELINE_TPOT,
    BASELINE_TTFT,
    BASELINE_CREATED,
    BASELINE_MISMATCH,
    SPECULATION_STATE,
    DERIVATION_INFO,
    TARGET_UP,
    SCRAPES,
    SCRAPE_DURATION,
    LAST_SUCCESS,
    ENGINE_SEEN,
    IDENTITY_VIOLATIONS,
    ENGINE_INFO,
    *GUARD,
    *CLASSES,
    RELOAD_SUCCESS,
    BUILD_INFO,
)
