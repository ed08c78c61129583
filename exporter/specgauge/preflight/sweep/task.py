"""What is to be swept, and the settings that make it this sweep and no other."""

from dataclasses import dataclass
from typing import Any

from specgauge.baseline.record import Order
from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.document import described
from specgauge.preflight.sweep.order import Visit, running, started


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be swept; `start_timeout` and `grace` are in seconds."""

    order: Order
    candidates: tuple[Candidate, ...]
    server: str | None = None
    rounds: int = 1
    expected: tuple[float, ...] = ()
    prune: bool = True
    start_timeout: float = 600.0
    grace: float = 20.0

    @property
    def loads(self) -> tuple[int, ...]:
        """The concurrencies, rising."""
        return tuple(one.concurrency or 1 for one in self.order.plan.levels)

    @property
    def given(self) -> bool:
        """Whether the servers run already."""
        return self.candidates[0].url is not None

    @property
    def visits(self) -> tuple[Visit, ...]:
        """Every measurement, in order."""
        names = [one.name for one in self.candidates]
        make = running if self.given else started
        return make(names, self.loads, self.rounds)

    @property
    def settings(self) -> dict[str, Any]:
        """What must be the same for a sweep to go on where it was ended."""
        order = self.order
        return {
            "server": self.server,
            "candidates": [described(one) for one in self.candidates],
            "concurrency": list(self.loads),
            "rounds": self.rounds,
            "repeats": order.plan.repeats,
            "window_seconds": order.plan.window,
            "warmup_seconds": order.plan.warmup,
            "output_tokens": str(order.plan.lengths),
            "prompts_sha256": order.prompts.sha256,
            "endpoint": order.endpoint,
            "temperature": order.temperature,
            "seed": order.plan.seed,
            "model": order.model,
        }
