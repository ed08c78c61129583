"""What a recording will do, before it does it: the grid, the lengths, the starts, when to stop.

Everything follows from its arguments and a seed; no clock, no socket.
"""

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specgauge.derive.statistics import ratio_estimate

DEFAULT_CONCURRENCY = (1, 2, 4, 8, 16, 32, 64)
MIN_REPEATS = 3
TOLERANCE = 0.02
"""Relative half-width of the 95 % interval of mean TPOT at which a level is finished."""

_CONFIDENCE = 0.95
_FACTOR = 2.0
_PATIENCE = 2
_MAX_STREAMS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One level: requests kept in flight, or requests sent each second; the other is None."""

    concurrency: int | None = None
    request_rate: float | None = None

    def __str__(self) -> str:
        """Name the level for people."""
        if self.concurrency is not None:
            return f"concurrency {self.concurrency}"
        return f"{self.request_rate:g} requests/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """The range that output lengths are drawn from, both ends included."""

    low: int = 32
    high: int = 352

    def __str__(self) -> str:
        """Write it as the baseline file does."""
        return f"{self.low}-{self.high}" if self.low != self.high else f"{self.low}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A recording: `window` is the most seconds of steady load a level is measured for.

    The window is cut into twice `repeats` pieces; a level may stop after `repeats` of them.
    """

    levels: tuple[Load, ...]
    lengths: Lengths = Lengths()
    window: float = 30.0
    repeats: int = MIN_REPEATS
    warmup: float = 3.0
    tolerance: float = TOLERANCE
    seed: int = 0

    @property
    def pieces(self) -> int:
        """How many pieces a level has at most."""
        return _PATIENCE * self.repeats

    @property
    def piece_seconds(self) -> float:
        """How long one piece is."""
        return self.window / self.pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a stream begins: after how long, and with which share of its first answer's length."""

    delay: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """How wide the interval of a mean is, as a share of it, and whether that is narrow enough."""

    half_width: float | None
    reached: bool


def closed_levels(texts: Sequence[str]) -> tuple[Load, ...]:
    """Read concurrencies, "1,2,4" or one by one; ValueError says what is wrong."""
    found = []
    for part in _parts(texts):
        if not (part.isascii() and part.isdigit() and 0 < int(part) <= _MAX_STREAMS):
            raise ValueError(f"{part!r} is no concurrency: whole numbers from 1 to {_MAX_STREAMS}")
        found.append(int(part))
    values = sorted(set(found or DEFAULT_CONCURRENCY))
    return tuple(Load(concurrency=value) for value in values)


def open_levels(texts: Sequence[str]) -> tuple[Load, ...]:
    """Read request rates, "0.5,1,2" or one by one; ValueError says what is wrong."""
    found = set()
    for part in _parts(texts):
        try:
            rate = float(part)
        except ValueError:
            rate = math.nan
        if not 0.0 < rate < math.inf:
            raise ValueError(f"{part!r} is no request rate: requests a second, above 0")
        found.add(rate)
    return tuple(Load(request_rate=rate) for rate in sorted(found))


def parse_lengths(text: str) -> Lengths:
    """Read "32-352" or "192"; ValueError says what is wrong."""
    low, dash, high = text.partition("-")
    high = high if dash else low
    whole = all(end.strip().isascii() and end.strip().isdigit() for end in (low, high))
    if not whole or not 1 < int(low) <= int(high):
        raise ValueError(f"{text!r} is no range of output lengths: LOW-HIGH, from 2 tokens on")
    return Lengths(low=int(low), high=int(high))


def doubts(plan: Plan) -> tuple[str, ...]:
    """Say what about a plan makes a worse baseline."""
    found = []
    sizes = [one.concurrency or one.request_rate or 0.0 for one in plan.levels]
    for below, above in itertools.pairwise(sizes):
        if above > _FACTOR * below:
            found.append(
                f"levels {below:g} and {above:g} are more than a factor of two apart: "
                f"between them the baseline is a guess; add {math.sqrt(below * above):.3g}"
            )
    if plan.lengths.low == plan.lengths.high and plan.levels[0].concurrency is not None:
        found.append(
            "fixed output lengths make a closed loop move in waves, which mislead a verdict; "
            "give a range with --output-tokens"
        )
    return tuple(found)


def draw_lengths(lengths: Lengths, seed: int) -> Iterator[int]:
    """Draw output lengths without end, uniformly over the range."""
    chance = random.Random(f"lengths {seed}")  # noqa: S311 - nothing secret here
    while True:
        yield chance.randint(lengths.low, lengths.high)


def draw_gaps(rate: float, seed: int) -> Iterator[float]:
    """Draw the seconds between arrivals of a Poisson process without end."""
    chance = random.Random(f"gaps {seed}")  # noqa: S311 - nothing secret here
    while True:
        yield chance.expovariate(rate)


def draw_order(count: int, seed: int) -> Iterator[int]:
    """Draw places 0 to count - 1 without end: each round is all of them in an order of its own."""
    chance = random.Random(f"order {seed}")  # noqa: S311 - nothing secret here
    while True:
        yield from chance.sample(range(count), count)


def stagger(streams: int, seconds: float, seed: int) -> tuple[Start, ...]:
    """Spread starts evenly over so many seconds, as if each stream were amid an answer."""
    shares = [(place + 0.5) / streams for place in range(streams)]
    random.Random(f"shares {seed}").shuffle(shares)  # noqa: S311 - nothing secret here
    return tuple(
        Start(delay=seconds * place / streams, share=share) for place, share in enumerate(shares)
    )


def convergence(
    tops: Sequence[float], bottoms: Sequence[float], *, repeats: int, tolerance: float
) -> Convergence:
    """Judge the mean sum(tops) / sum(bottoms) over pieces; too few pieces are never enough."""
    width = relative_half_width(tops, bottoms)
    enough = len(tops) >= repeats and width is not None and width <= tolerance
    return Convergence(half_width=width, reached=enough)


def relative_half_width(tops: Sequence[float], bottoms: Sequence[float]) -> float | None:
    """Give the half-width of the 95 % interval of sum(tops) / sum(bottoms), as a share of it."""
    if not (math.fsum(tops) > 0.0 and math.fsum(bottoms) > 0.0):
        return None
    found = ratio_estimate(tops, bottoms, confidence=_CONFIDENCE)
    return None if found.high is None else found.high / found.value - 1.0


def _parts(texts: Sequence[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]
