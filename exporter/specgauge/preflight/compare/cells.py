"""From the bouts of both pools to the figures of a cell; no clock, no socket."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from specgauge.baseline.figures import quantile
from specgauge.derive.statistics import Estimate
from specgauge.preflight.compare.bouts import Answer, Bout, CellKey
from specgauge.preflight.compare.intervals import (
    Block,
    Sums,
    mean_ratio,
    quantile_ratios,
    ratio_of_logs,
)

QUANTITIES = ("tpot", "ttft", "e2e")
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

_OUT_OF_MEMORY = re.compile(r"out ?of ?memory|\boom\b|cuda error", re.IGNORECASE)
_TRY_AGAIN = re.compile(
    r"http (?:408|425|429|502|503|504)\b|cannot connect|connection lost|stalled"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A latency in seconds."""

    mean: float
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One pool in one cell.

    `retries` counts the requests that a client would have to send again, `errors` all that
    failed by their reason; `server` are the server's own figures by canonical name.
    """

    requests: int = 0
    failed: int = 0
    retries: int = 0
    out_of_memory: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    latencies: Mapping[str, Spread] = field(default_factory=dict)
    tokens_per_second: float | None = None
    requests_per_second: float | None = None
    server: Mapping[str, float] = field(default_factory=dict)
    finished: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell with both pools' figures, and the ratios in which above 1 is better with speculation.

    `pairs` are requests that both pools answered; `died` names the pool that could not go on, by
    its reason; `single` says that a cell of one measurement is judged by its point.
    """

    key: CellKey
    repeats: int
    pairs: int
    baseline: Figures
    speculative: Figures
    ratios: Mapping[str, Estimate]
    died: Mapping[str, str] = field(default_factory=dict)
    single: bool = False
    notes: tuple[str, ...] = ()


def measure(
    key: CellKey, baseline: Sequence[Bout], speculative: Sequence[Bout], *, seed: int
) -> Cell:
    """Put the bouts of a cell together; a repeat that one pool lacks is in the figures alone."""
    second = {bout.repeat: bout for bout in speculative}
    rounds = [(one, second[one.repeat]) for one in baseline if one.repeat in second]
    met = [_paired(one, other) for one, other in rounds]
    died = {
        side: why
        for side, bouts in (("baseline", baseline), ("speculative", speculative))
        if (why := next((bout.died for bout in bouts if bout.died), None)) is not None
    }
    notes = [note for bout in (*baseline, *speculative) for note in bout.notes]
    return Cell(
        key=key,
        repeats=len(rounds),
        pairs=sum(len(one) for one in met),
        baseline=figures(baseline),
        speculative=figures(speculative),
        ratios=_ratios(rounds, met, seed),
        died=died,
        notes=tuple(dict.fromkeys(notes)),
    )


def figures(bouts: Sequence[Bout]) -> Figures:
    """Sum up what one pool did in a cell."""
    answers = [one for bout in bouts for one in bout.answers]
    failures = [one.failure for one in answers if one.failure is not None]
    seconds = math.fsum(bout.seconds for bout in bouts)
    good = [one for one in answers if one.failure is None]
    spreads = {name: _spread([_value(one, name) for one in good]) for name in QUANTITIES}
    return Figures(
        requests=len(answers),
        failed=len(failures),
        retries=sum(bool(_TRY_AGAIN.search(one)) for one in failures),
        out_of_memory=sum(bool(_OUT_OF_MEMORY.search(one)) for one in failures),
        errors=dict(Counter(failures).most_common(10)),
        latencies={name: one for name, one in spreads.items() if one is not None},
        tokens_per_second=sum(one.tokens or 0 for one in good) / seconds if seconds else None,
        requests_per_second=len(good) / seconds if seconds else None,
        server=server_figures(bouts),
        finished=_added(bout.finished for bout in bouts),
    )


def server_figures(bouts: Sequence[Bout]) -> dict[str, float]:
    """Put the server's own figures of several bouts together: peaks, sums, and means of means."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for bout in bouts for name in bout.figures):
        values = [bout.figures[name] for bout in bouts if name in bout.figures]
        if name.endswith("_max"):
            found[name] = max(values)
        else:
            found[name] = math.fsum(values) if name in _COUNTED else fmean(values)
    return found


_COUNTED = frozenset({"preemptions", "drafts", "generation_tokens", "out_of_memory_lines"})


def _added(counts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for one in counts:
        total |= {name: total.get(name, 0.0) + count for name, count in one.items()}
    return total


def _paired(first: Bout, second: Bout) -> list[tuple[Answer, Answer]]:
    """Match the answers to the same prompt that both pools gave."""
    others = {one.place: one for one in second.answers if one.failure is None}
    return [
        (one, others[one.place])
        for one in first.answers
        if one.failure is None
        and one.place in others
        and one.asked == others[one.place].asked  # a stream's first answer is cut short
    ]


def _ratios(
    rounds: Sequence[tuple[Bout, Bout]], met: Sequence[list[tuple[Answer, Answer]]], seed: int
) -> dict[str, Estimate]:
    found: dict[str, Estimate | None] = {}
    for name in QUANTITIES:
        blocks = [_block(pairs, name) for pairs in met]
        found[f"{name}_mean"] = mean_ratio(blocks)
        each = quantile_ratios(blocks, tuple(SHARES.values()), seed=seed)
        found |= {f"{name}_{label}": each.get(share) for label, share in SHARES.items()}
    flows = [(_flow(one), _flow(other)) for one, other in rounds]
    found["throughput"] = ratio_of_logs([math.log(b / a) for a, b in flows if a > 0 and b > 0])
    return {name: one for name, one in found.items() if one is not None}


def _block(pairs: Sequence[tuple[Answer, Answer]], name: str) -> Block:
    sums = _SUMS[name]
    found = [(sums(one), sums(other)) for one, other in pairs]
    return [(a, b) for a, b in found if a is not None and b is not None]


def _of_tpot(answer: Answer) -> Sums | None:
    if not answer.decode_seconds or not answer.decode_tokens:
        return None
    return answer.decode_seconds, float(answer.decode_tokens)


_SUMS: Mapping[str, Callable[[Answer], Sums | None]] = {
    "tpot": _of_tpot,
    "ttft": lambda one: (one.ttft, 1.0) if one.ttft else None,
    "e2e": lambda one: (one.e2e, 1.0) if one.e2e else None,
}


def _value(answer: Answer, name: str) -> float | None:
    sums = _SUMS[name](answer)
    return None if sums is None else sums[0] / sums[1]


def _flow(bout: Bout) -> float:
    """Tokens a second of a bout, by what the client received."""
    tokens = sum(one.tokens or 0 for one in bout.answers if one.failure is None)
    return tokens / bout.seconds if bout.seconds else 0.0


def _spread(found: Sequence[float | None]) -> Spread | None:
    values = sorted(value for value in found if value is not None)
    if not values:
        return None
    return Spread(mean=fmean(values), **{n: quantile(values, q) for n, q in SHARES.items()})
