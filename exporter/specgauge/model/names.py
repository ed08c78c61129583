"""Every series specgauge emits: its name, type, labels, help, and what it is made from."""

from collections.abc import Mapping
from dataclasses import dataclass

from specgauge.model.quantity import Kind, Quantity

TARGET = "target"
MODEL = "model_name"
ENGINE = "engine"
_PER_MODEL = (TARGET, MODEL)
_PER_ENGINE = (TARGET, MODEL, ENGINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesName:
    """One emitted family; `name` is the sample name, `_total` included."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def _counter(name: str, labels: tuple[str, ...], text: str) -> SeriesName:
    return SeriesName(name=f"specgauge_{name}_total", kind="counter", labels=labels, help=text)


def _gauge(name: str, labels: tuple[str, ...], text: str) -> SeriesName:
    return SeriesName(name=f"specgauge_{name}", kind="gauge", labels=labels, help=text)


def _histogram(name: str, text: str) -> SeriesName:
    return SeriesName(name=f"specgauge_{name}", kind="histogram", labels=_PER_MODEL, help=text)


COUNTERS: Mapping[tuple[Quantity, Kind], SeriesName] = {
    (Quantity.DRAFTS, Kind.COUNTER): _counter(
        "drafts", _PER_ENGINE, "Decode steps of a request that carried a draft."
    ),
    (Quantity.DRAFT_TOKENS, Kind.COUNTER): _counter(
        "draft_tokens", _PER_ENGINE, "Tokens that the draft proposed."
    ),
    (Quantity.ACCEPTED_TOKENS, Kind.COUNTER): _counter(
        "accepted_tokens", _PER_ENGINE, "Draft tokens that the target accepted, bonus excluded."
    ),
    (Quantity.ACCEPTED_PER_POSITION, Kind.COUNTER): _counter(
        "accepted_tokens_per_position",
        (*_PER_ENGINE, "position"),
        "Draft tokens accepted at each position of the draft, from 0.",
    ),
    (Quantity.GENERATION_TOKENS, Kind.COUNTER): _counter(
        "generation_tokens", _PER_ENGINE, "Tokens generated; on V0 those of finished requests."
    ),
    (Quantity.PROMPT_TOKENS, Kind.COUNTER): _counter(
        "prompt_tokens", _PER_ENGINE, "Prompt tokens."
    ),
    (Quantity.STEP_LATENCY, Kind.COUNT): _counter(
        "decode_steps", _PER_ENGINE, "Decode steps, one a request and step."
    ),
    (Quantity.STEP_LATENCY, Kind.SUM): _counter(
        "decode_seconds", _PER_ENGINE, "Time that requests spent in decode, added up."
    ),
    (Quantity.TTFT, Kind.COUNT): _counter(
        "first_tokens", _PER_ENGINE, "First tokens, one a request."
    ),
    (Quantity.REQUESTS_FINISHED, Kind.COUNTER): _counter(
        "requests_finished",
        (*_PER_ENGINE, "finished_reason"),
        "Requests finished, by reason; clients that went away are not among them.",
    ),
    (Quantity.PREEMPTIONS, Kind.COUNTER): _counter(
        "preemptions", _PER_ENGINE, "Requests preempted for want of KV cache."
    ),
}
"""Counters that we accumulate: an engine's restart does not make them fall."""

HTTP_REQUESTS = _counter("http_requests", (TARGET, "code"), "HTTP requests by class of status.")
ENGINE_RESTARTS = _counter(
    "engine_restarts", _PER_ENGINE, "Times that an engine's own counters began anew."
)

HISTOGRAMS: Mapping[Quantity, SeriesName] = {
    Quantity.TTFT: _histogram(
        "time_to_first_token_seconds", "Arrival of a request to its first token."
    ),
    Quantity.STEP_LATENCY: _histogram(
        "step_latency_seconds",
        "Time of a decode step of a request, whatever the release calls it; not of a token.",
    ),
    Quantity.E2E: _histogram(
        "e2e_request_latency_seconds", "Arrival of a request to its last token."
    ),
    Quantity.REQUEST_TPOT: _histogram(
        "request_time_per_output_token_seconds",
        "Decode time over tokens after the first, one observation a finished request.",
    ),
}

GAUGES: Mapping[str, SeriesName] = {
    "acceptance_ratio": _gauge(
        "acceptance_ratio", _PER_MODEL, "Accepted over drafted tokens in the window."
    ),
    "acceptance_length": _gauge(
        "acceptance_length",
        _PER_MODEL,
        "Tokens of a step that carried a draft in the window, bonus included.",
    ),
    "draft_length": _gauge("draft_length", _PER_MODEL, "Tokens of a draft in the window."),
    "position_acceptance_ratio": _gauge(
        "position_acceptance_ratio",
        (*_PER_MODEL, "position"),
        "Share of drafts accepted up to and with the position, in the window.",
    ),
    "position_conditional_acceptance_ratio": _gauge(
        "position_conditional_acceptance_ratio",
        (*_PER_MODEL, "position"),
        "Acceptance at the position given the one before, in the window.",
    ),
    "tokens_per_step": _gauge(
        "tokens_per_step", _PER_MODEL, "Tokens of a decode step, over all steps of the window."
    ),
    "draft_coverage_ratio": _gauge(
        "draft_coverage_ratio", _PER_MODEL, "Share of decode steps that carried a draft."
    ),
    "tpot_seconds": _gauge(
        "tpot_seconds", _PER_MODEL, "True time per output token after the first, in the window."
    ),
    "decode_concurrency": _gauge(
        "decode_concurrency", _PER_MODEL, "Mean number of requests in decode over the window."
    ),
    "num_speculative_tokens": _gauge(
        "num_speculative_tokens", _PER_MODEL, "Draft positions that the engine counts (K)."
    ),
    "requests_running": _gauge("requests_running", _PER_MODEL, "Requests in execution."),
    "requests_waiting": _gauge("requests_waiting", _PER_MODEL, "Requests waiting."),
    "kv_cache_usage_ratio": _gauge(
        "kv_cache_usage_ratio", _PER_MODEL, "Share of KV cache in use, mean over engines."
    ),
}
"""Gauges over the window, by the field of a derived model that they show."""

BASELINE_DECODE_SECONDS = _counter(
    "baseline_decode_seconds",
    (*_PER_MODEL, "basis"),
    "What the covered intervals' tokens would have cost without speculation, in decode time.",
)
BASELINE_COVERED_SECONDS = _counter(
    "baseline_covered_decode_seconds",
    (*_PER_MODEL, "basis"),
    "Decode time of the intervals that the baseline covers: the denominator of the speedup.",
)
SPEEDUP = _gauge(
    "speedup_ratio",
    (*_PER_MODEL, "basis"),
    "How many times as fast each token came as without speculation, in the decision window.",
)
SPEEDUP_LOW = _gauge(
    "speedup_ratio_low", (*_PER_MODEL, "basis"), "Lower end of the speedup's 95 % interval."
)
SPEEDUP_HIGH = _gauge(
    "speedup_ratio_high", (*_PER_MODEL, "basis"), "Upper end of the speedup's 95 % interval."
)
JUDGED: Mapping[str, SeriesName] = {
    "e2e_speedup_ratio": _gauge(
        "e2e_speedup_ratio", _PER_MODEL, "The same for whole requests of the length seen."
    ),
    "step_cost_ratio": _gauge(
        "step_cost_ratio", _PER_MODEL, "Time of a decode step in steps of the baseline."
    ),
    "breakeven_acceptance_length": _gauge(
        "breakeven_acceptance_length",
        _PER_MODEL,
        "Acceptance length at which a step pays for itself.",
    ),
    "suggested_num_speculative_tokens": _gauge(
        "suggested_num_speculative_tokens",
        _PER_MODEL,
        "Draft positions that would yield most at this acceptance and step cost; a hint.",
    ),
}
"""Gauges of a judgement, by the name of its value."""

VERDICT = _gauge("verdict", (*_PER_MODEL, "verdict"), "1 for whether speculation pays now, else 0.")
BASELINE_TPOT = _gauge(
    "baseline_tpot_seconds",
    (*_PER_MODEL, "concurrency"),
    "Baseline's time per output token at a level of decode concurrency.",
)
BASELINE_TTFT = _gauge(
    "baseline_ttft_seconds",
    (*_PER_MODEL, "concurrency"),
    "Baseline's time to first token at a level of decode concurrency.",
)
BASELINE_CREATED = _gauge(
    "baseline_created_timestamp_seconds", _PER_MODEL, "Unix time at which it was recorded."
)
BASELINE_MISMATCH = _gauge(
    "baseline_mismatch", (*_PER_MODEL, "field"), "1 for a fact that makes it another server's."
)

SPECULATION_STATE = _gauge(
    "speculation_state", (*_PER_MODEL, "state"), "1 for what speculation is doing, else 0."
)
DERIVATION_INFO = _gauge(
    "derivation_info", (*_PER_MODEL, "quantity", "method"), "1 for how a quantity was derived."
)
TARGET_UP = _gauge(
    "target_up", (TARGET,), "1 if the last scrape fetched a page and could parse it."
)
SCRAPES = _counter("scrapes", (TARGET, "result"), "Scrapes of the target by result.")
SCRAPE_DURATION = _gauge(
    "scrape_duration_seconds", (TARGET,), "Time that the last scrape took, page to values."
)
LAST_SUCCESS = _gauge(
    "last_scrape_success_timestamp_seconds", (TARGET,), "Unix time of the last good scrape."
)
ENGINE_SEEN = _gauge(
    "engine_seen_timestamp_seconds", _PER_ENGINE, "Unix time at which an engine was last seen."
)
IDENTITY_VIOLATIONS = _counter(
    "identity_violations",
    (*_PER_MODEL, "check"),
    "Intervals in which an engine's counters broke an identity.",
)
ENGINE_INFO = _gauge(
    "engine_info", (*_PER_ENGINE, "version", "dialect"), "1 for each engine on the last page."
)
RELOAD_SUCCESS = _gauge(
    "config_last_reload_success", (), "1 if the last (re)load of the configuration succeeded."
)
BUILD_INFO = _gauge("build_info", ("version", "python_version"), "1, with our version.")

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
    RELOAD_SUCCESS,
    BUILD_INFO,
)
