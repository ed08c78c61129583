"""Made-up results of sweeps with a known truth: runs as a server would leave them, with noise."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.drafted import chance as dice

from specgauge.model.derived import Derived, Method, Value
from specgauge.model.derived import Speculation as Told
from specgauge.preflight.sweep.candidate import NONE, Candidate, grid
from specgauge.preflight.sweep.schema import Repeat, Run, Speculation

KS = (1, 2, 4, 8)


def candidates(ks: Sequence[int] = KS, method: str = "ngram") -> tuple[Candidate, ...]:
    """Give the grid of one method and the candidate without speculation."""
    return (Candidate(name=NONE), *grid([method], ks, [], {}))


def name(k: int, method: str = "ngram") -> str:
    return NONE if k == 0 else f"{method}-k{k}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How repeats scatter; a share of them are outliers, a share of runs is disturbed."""

    spread: float = 0.01
    outliers: float = 0.0
    disturbed: float = 0.0
    rounds: int = 1
    repeats: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The time per token that each k really takes at each load, in milliseconds."""

    tpot: Mapping[int, Mapping[int, float]]
    fails: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def runs(self, noise: Noise, seed: int) -> list[Run]:
        """Draw the runs of a whole sweep; a failure is by load and k."""
        chance = dice(seed)
        return [
            self._run(noise, chance, load, k, number)
            for number in range(1, noise.rounds + 1)
            for load, row in self.tpot.items()
            for k in row
        ]

    def _run(self, noise: Noise, chance: random.Random, load: int, k: int, number: int) -> Run:
        if (load, k) in self.fails:
            return run(k, load, [], number=number, failure=self.fails[load, k])
        truth = self.tpot[load][k] * (1.0 + chance.gauss(0.0, noise.spread / 4.0))
        upset = chance.random() < noise.disturbed
        tpots = []
        for _ in range(noise.repeats):
            value = truth * (1.0 + chance.gauss(0.0, noise.spread))
            if chance.random() < noise.outliers:
                value *= chance.uniform(1.2, 1.6)
            tpots.append(value * (chance.uniform(0.6, 2.5) if upset else 1.0))
        return run(k, load, tpots, number=number)


def run(
    k: int,
    load: int,
    tpots: Sequence[float],
    *,
    number: int = 1,
    failure: str | None = None,
    told: Speculation | None = None,
    candidate: str | None = None,
) -> Run:
    """Make one run of repeats that took so many milliseconds a token."""
    repeats = tuple(Repeat(decode_seconds=tpot, decode_tokens=1000.0) for tpot in tpots)
    return Run(
        candidate=candidate or name(k),
        concurrency=load,
        round=number,
        failure=failure,
        repeats=repeats,
        speculation=told,
    )


def drafted(
    survival: Sequence[float], *, drafts: float = 5000.0, coverage: float = 1.0
) -> Speculation:
    """Say of drafts what a page would."""
    return Speculation(
        state="active",
        num_speculative_tokens=len(survival),
        acceptance_ratio=sum(survival) / len(survival),
        acceptance_length=1.0 + sum(survival),
        draft_length=float(len(survival)),
        draft_coverage_ratio=coverage,
        tokens_per_step=1.0 + coverage * sum(survival),
        drafts=drafts,
        position_acceptance_ratio=tuple(survival),
    )


def world(
    survival: Sequence[float], cost: float, ks: Sequence[int], base: float = 10.0
) -> list[Run]:
    """Draw the runs of some ks where each drafted token costs a share of a step."""
    chance = dice(len(ks))
    runs = []
    for k in ks:
        tokens = 1.0 + sum(survival[:k])
        tpot = base * (1.0 + cost * k) / tokens
        told = drafted(survival[:k]) if k else Speculation(state="absent")
        values = [tpot * (1.0 + chance.gauss(0.0, 0.004)) for _ in range(6)]
        runs.append(run(k, 4, values, told=told))
    return runs


def derived(values: Mapping[str, Value], absent: Mapping[str, str] | None = None) -> Derived:
    """Give what was derived of a window in which a server drafted."""
    return Derived(
        model_name="m",
        engines=("0",),
        speculation=Told.ACTIVE,
        speculation_reason=None,
        method=Method.COUNTERS,
        values=values,
        absent=absent or {},
        warnings=(),
        violations=(),
        per_engine=(),
    )
