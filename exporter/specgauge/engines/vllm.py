"""vLLM's dialect as data: which release exports a quantity under which name.

Releases are those in which a default server can show the series (`hidden`: only with
`--show-hidden-metrics-for-version`). A name's place in `names` is its preference: where a page
shows several names of one quantity they are the same observations, and the first one is used.
Nothing here decides anything; the page does.
"""

from dataclasses import dataclass

from specgauge.model.quantity import Kind, Quantity

NEWEST_RELEASE = "0.33.0"
OLDEST_RELEASE = "0.5.5"

HISTOGRAM = (Kind.BUCKET, Kind.SUM, Kind.COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The releases of one engine generation that show a name; `last` None is the newest one."""

    engine: str
    first: str
    last: str | None = None
    hidden: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """One exposed name, without the `vllm:` prefix and without `_total`."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One canonical quantity: its kind, the label that splits it, its names, what it means."""

    quantity: Quantity
    kind: Kind
    names: tuple[Name, ...]
    meaning: str
    part: str | None = None
    speculation: bool = False


def _name(name: str, *spans: Span) -> Name:
    return Name(name=name, spans=spans)


def _v0(first: str, last: str, hidden: str | None = None) -> Span:
    return Span(engine="V0", first=first, last=last, hidden=hidden)


def _v1(first: str, last: str | None = None, hidden: str | None = None) -> Span:
    return Span(engine="V1", first=first, last=last, hidden=hidden)


TABLE: tuple[Entry, ...] = (
    Entry(
        quantity=Quantity.DRAFTS,
        kind=Kind.COUNTER,
        speculation=True,
        names=(_name("spec_decode_num_drafts", _v1("0.8.5")),),
        meaning="request-steps with at least one scheduled draft token",
    ),
    Entry(
        quantity=Quantity.DRAFT_TOKENS,
        kind=Kind.COUNTER,
        speculation=True,
        names=(_name("spec_decode_num_draft_tokens", _v1("0.8.3"), _v0("0.5.3", "0.9.2")),),
        meaning="V1: scheduled draft tokens; V0: lifetime totals added again at each collection",
    ),
    Entry(
        quantity=Quantity.ACCEPTED_TOKENS,
        kind=Kind.COUNTER,
        speculation=True,
        names=(_name("spec_decode_num_accepted_tokens", _v1("0.8.3"), _v0("0.5.3", "0.9.2")),),
        meaning="V1: accepted prefix without the bonus token; V0: sums of totals, any position",
    ),
    Entry(
        quantity=Quantity.ACCEPTED_PER_POSITION,
        kind=Kind.COUNTER,
        part="position",
        speculation=True,
        names=(_name("spec_decode_num_accepted_tokens_per_pos", _v1("0.8.5")),),
        meaning="drafts whose accepted prefix reached past the position; sums to accepted",
    ),
    Entry(
        quantity=Quantity.EMITTED_TOKENS,
        kind=Kind.COUNTER,
        speculation=True,
        names=(_name("spec_decode_num_emitted_tokens", _v0("0.5.3", "0.9.2")),),
        meaning="sums of totals of accepted prefix plus the recovered or bonus token",
    ),
    Entry(
        quantity=Quantity.ACCEPTANCE_GAUGE,
        kind=Kind.GAUGE,
        speculation=True,
        names=(_name("spec_decode_draft_acceptance_rate", _v0("0.5.3", "0.9.2")),),
        meaning="lifetime accepted over drafted, positions after a rejection included",
    ),
    Entry(
        quantity=Quantity.EFFICIENCY_GAUGE,
        kind=Kind.GAUGE,
        speculation=True,
        names=(_name("spec_decode_efficiency", _v0("0.5.3", "0.9.2")),),
        meaning="lifetime emitted over the most that K drafted tokens a step could emit",
    ),
    Entry(
        quantity=Quantity.DIFFUSION,
        kind=Kind.COUNTER,
        names=(
            _name("diffusion_num_denoising_steps", _v1("0.24.0")),
            _name("diffusion_num_canvas_positions", _v1("0.24.0")),
            _name("diffusion_num_committed_tokens", _v1("0.24.0")),
        ),
        meaning="a diffusion language model: the same data path, but no speculation",
    ),
    Entry(
        quantity=Quantity.STEP_LATENCY,
        kind=Kind.BUCKET,
        names=(
            _name("inter_token_latency_seconds", _v1("0.10.2"), _v0("0.10.2", "0.10.2")),
            _name(
                "time_per_output_token_seconds",
                _v1("0.7.1", "0.11.2", hidden="0.12.0 to 0.14.1"),
                _v0("0.3.1", "0.10.2"),
            ),
        ),
        meaning="gap between outputs of a request, once per step and never per token",
    ),
    Entry(
        quantity=Quantity.REQUEST_TPOT,
        kind=Kind.BUCKET,
        names=(_name("request_time_per_output_token_seconds", _v1("0.11.0")),),
        meaning="decode time over tokens after the first, once per finished request",
    ),
    Entry(
        quantity=Quantity.TTFT,
        kind=Kind.BUCKET,
        names=(_name("time_to_first_token_seconds", _v1("0.7.1"), _v0("0.3.1", "0.10.2")),),
        meaning="arrival to first output, once per request",
    ),
    Entry(
        quantity=Quantity.E2E,
        kind=Kind.BUCKET,
        names=(_name("e2e_request_latency_seconds", _v1("0.7.3"), _v0("0.3.1", "0.10.2")),),
        meaning="arrival to last output of finished requests",
    ),
    Entry(
        quantity=Quantity.DECODE_TIME,
        kind=Kind.BUCKET,
        names=(_name("request_decode_time_seconds", _v1("0.7.3"), _v0("0.6.4", "0.10.2")),),
        meaning="first to last token of finished requests",
    ),
    Entry(
        quantity=Quantity.REQUEST_GENERATION,
        kind=Kind.BUCKET,
        names=(_name("request_generation_tokens", _v1("0.7.1"), _v0("0.4.2", "0.10.2")),),
        meaning="output tokens of finished requests; right under speculation in every release",
    ),
    Entry(
        quantity=Quantity.ITERATION_TOKENS,
        kind=Kind.BUCKET,
        names=(_name("iteration_tokens_total", _v1("0.7.3"), _v0("0.6.4", "0.10.2")),),
        meaning="a histogram for all its name: tokens per engine step",
    ),
    Entry(
        quantity=Quantity.GENERATION_TOKENS,
        kind=Kind.COUNTER,
        names=(_name("generation_tokens", _v1("0.7.1"), _v0("0.3.1", "0.10.2")),),
        meaning="V1: delivered tokens; V0: one per sequence and step, too few under speculation",
    ),
    Entry(
        quantity=Quantity.PROMPT_TOKENS,
        kind=Kind.COUNTER,
        names=(_name("prompt_tokens", _v1("0.7.1"), _v0("0.3.1", "0.10.2")),),
        meaning="prompt tokens",
    ),
    Entry(
        quantity=Quantity.REQUESTS_RUNNING,
        kind=Kind.GAUGE,
        names=(_name("num_requests_running", _v1("0.7.1"), _v0("0.2.3", "0.10.2")),),
        meaning="requests in execution",
    ),
    Entry(
        quantity=Quantity.REQUESTS_WAITING,
        kind=Kind.GAUGE,
        names=(_name("num_requests_waiting", _v1("0.7.1"), _v0("0.2.3", "0.10.2")),),
        meaning="requests waiting, for whatever reason",
    ),
    Entry(
        quantity=Quantity.REQUESTS_SWAPPED,
        kind=Kind.GAUGE,
        names=(_name("num_requests_swapped", _v0("0.2.3", "0.8.2", hidden="0.8.3 to 0.9.0.1")),),
        meaning="swapped-out requests; only V0 knows them",
    ),
    Entry(
        quantity=Quantity.KV_CACHE_USAGE,
        kind=Kind.GAUGE,
        names=(
            _name("kv_cache_usage_perc", _v1("0.9.2")),
            _name(
                "gpu_cache_usage_perc",
                _v1("0.7.1", "0.10.2", hidden="0.11.0 to 0.11.2"),
                _v0("0.2.3", "0.10.2"),
            ),
        ),
        meaning="share of KV blocks in use, 0 to 1; once per process in 0.9.2 to 0.11.0",
    ),
    Entry(
        quantity=Quantity.PREEMPTIONS,
        kind=Kind.COUNTER,
        names=(_name("num_preemptions", _v1("0.8.0"), _v0("0.4.3", "0.10.2")),),
        meaning="preempted requests",
    ),
    Entry(
        quantity=Quantity.REQUESTS_FINISHED,
        kind=Kind.COUNTER,
        part="finished_reason",
        names=(_name("request_success", _v1("0.7.2"), _v0("0.4.2", "0.10.2")),),
        meaning="finished requests by reason; client disconnects are not among them",
    ),
    Entry(
        quantity=Quantity.CACHE_CONFIG,
        kind=Kind.INFO,
        names=(_name("cache_config_info", _v1("0.7.1"), _v0("0.3.3", "0.10.2")),),
        meaning="the KV cache's configuration in labels; nothing about speculation",
    ),
)
