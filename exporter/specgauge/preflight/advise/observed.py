"""What is known of a server and its load, and the limits that it is held against."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where a figure begins to speak against speculation, or for it."""

    step_tokens: float = 256.0
    breakeven_acceptance: float = 0.4
    kv_use: float = 0.95
    kv_filling: float = 0.8
    short_outputs: float = 32.0
    long_outputs: float = 64.0
    high_temperature: float = 1.0
    low_temperature: float = 0.5
    ngram_tokens_per_step: float = 1.2
    speedup: float = 1.05
    requests: float = 20.0
    answer_tokens: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is known of a server and its load; None is not known."""

    model_name: str
    speculation: str = "absent"
    seconds: float | None = None
    requests: float | None = None
    decode_concurrency: float | None = None
    requests_waiting: float | None = None
    preemptions: float | None = None
    kv_use: float | None = None
    kv_change: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    tpot_seconds: float | None = None
    temperature: float | None = None
    version: str | None = None

    @property
    def kv_use_after(self) -> float | None:
        """The use of the KV cache once the draft has taken its part; that of now without one."""
        if self.kv_use is None or self.kv_change is None:
            return self.kv_use
        return self.kv_use / (1.0 + self.kv_change) if self.kv_change > -1.0 else None
