"""Writes metrics pages by hand, as the engines would, for the cases that no recording shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What one V1 engine has counted since it started; None leaves a series out."""

    engine: str | None = "0"
    model: str = "target"
    drafts: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    positions: Sequence[float] = ()
    tokens: float | None = None
    prompts: float | None = None
    firsts: float | None = None
    first_seconds: float = 0.0
    steps: float | None = None
    step_seconds: float = 0.0
    iterations: float | None = None
    finished: float | None = None
    running: float | None = None
    waiting: float | None = None
    usage: float | None = None
    created: float | None = None
    labels: Labels = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Write the engine's samples."""
        own = {"model_name": self.model, **self.labels}
        own |= {} if self.engine is None else {"engine": self.engine}
        found = [
            sample(name, own, value) for name, value in self._plain().items() if value is not None
        ]
        found += [
            sample(
                "vllm:spec_decode_num_accepted_tokens_per_pos_total",
                {**own, "position": str(place)},
                value,
            )
            for place, value in enumerate(self.positions)
        ]
        found += histogram("vllm:time_to_first_token_seconds", own, self.firsts, self.first_seconds)
        found += histogram("vllm:inter_token_latency_seconds", own, self.steps, self.step_seconds)
        found += histogram("vllm:iteration_tokens_total", own, self.iterations, 0.0)
        found += histogram("vllm:e2e_request_latency_seconds", own, self.finished, 0.0)
        return found

    def _plain(self) -> dict[str, float | None]:
        return {
            "vllm:spec_decode_num_drafts_total": self.drafts,
            "vllm:spec_decode_num_draft_tokens_total": self.drafted,
            "vllm:spec_decode_num_accepted_tokens_total": self.accepted,
            "vllm:generation_tokens_total": self.tokens,
            "vllm:prompt_tokens_total": self.prompts,
            "vllm:num_requests_running": self.running,
            "vllm:num_requests_waiting": self.waiting,
            "vllm:kv_cache_usage_perc": self.usage,
            "vllm:generation_tokens_created": self.created,
        }


def write_page(*engines: Engine, extra: Sequence[str] = ()) -> bytes:
    """Write the page of a server with these engines; `extra` are more lines."""
    lines = [line for engine in engines for line in engine.lines()]
    return "".join(f"{line}\n" for line in [*lines, *extra]).encode()


def sample(name: str, labels: Labels, value: float) -> str:
    """Write one sample line."""
    inside = ",".join(f'{key}="{escape(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"


def histogram(name: str, labels: Labels, count: float | None, total: float) -> list[str]:
    """Write a histogram whose observations all lie in its middle bucket."""
    if count is None:
        return []
    return [
        sample(f"{name}_bucket", {**labels, "le": "0.001"}, 0.0),
        sample(f"{name}_bucket", {**labels, "le": "10.0"}, count),
        sample(f"{name}_bucket", {**labels, "le": "+Inf"}, count),
        sample(f"{name}_count", labels, count),
        sample(f"{name}_sum", labels, total),
    ]


def escape(text: str) -> str:
    """Escape a label value."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
