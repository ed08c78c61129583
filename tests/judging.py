"""Curves, pieces and windows written by hand for tests of the verdict; right unless told so."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from specgauge.derive.interpolate import curve
from specgauge.derive.speedup import Piece
from specgauge.model.baseline import Baseline, Curve, Level
from specgauge.model.derived import Derived, Method, Speculation, Value

KNOWN: Mapping[str, Value] = {
    "tpot_seconds": 0.005,
    "ttft_seconds": 0.05,
    "output_tokens_per_request": 201.0,
    "acceptance_ratio": 0.5,
    "acceptance_length": 3.0,
    "tokens_per_step": 3.0,
    "decode_concurrency": 7.0,
    "draft_coverage_ratio": 1.0,
    "num_speculative_tokens": 4,
    "position_acceptance_ratio": (0.8, 0.6, 0.4, 0.2),
    "position_conditional_acceptance_ratio": (0.8, 0.75, 0.67, 0.5),
}


def level(load: float, tpot: float, **more: Any) -> Level:
    """Write a level."""
    return Level(decode_concurrency=load, tpot=tpot, **more)


def line(*points: tuple[float, float], **more: Any) -> Curve:
    """Draw a curve through points of load and time per token."""
    return curve([level(load, tpot, **more) for load, tpot in points])


FLAT = line((1.0, 0.01), (100.0, 0.01), ttft=0.05)
"""A baseline of 10 ms a token at every load."""


def base(found: Curve = FLAT, **more: Any) -> Baseline:
    """Make a baseline of a curve."""
    return Baseline(curve=found, source="test", **more)


def piece(
    speedup: float, *, load: float = 10.0, tpot: float = 0.01, seconds: float = 1.0, full: float = 0
) -> Piece:
    """Make a piece at a load, so many times as fast as a baseline of `tpot`."""
    spent = load * seconds
    return Piece(tokens=speedup * spent / tpot, spent=spent, seconds=seconds, fullness=full)


def derived(*, without: Sequence[str] = (), why: str = "no_requests", **values: Any) -> Derived:
    """Make a window in which everything is known but what is left out, and why."""
    return Derived(
        model_name="target",
        engines=("0",),
        speculation=Speculation.ACTIVE,
        speculation_reason=None,
        method=Method.COUNTERS,
        values={k: v for k, v in {**KNOWN, **values}.items() if k not in without},
        absent=dict.fromkeys(without, why),
        warnings=(),
        violations=(),
        per_engine=(),
    )


def curves(*, falling: bool = True) -> st.SearchStrategy[Curve]:
    """Draw curves; without `falling`, throughput never falls as load rises."""
    loads = st.lists(st.floats(0.1, 500.0), min_size=1, max_size=8, unique=True)
    return loads.flatmap(
        lambda drawn: st.lists(st.floats(0.001, 0.2), min_size=len(drawn), max_size=len(drawn)).map(
            lambda times: _drawn(sorted(drawn), times, falling=falling)
        )
    )


def _drawn(loads: Sequence[float], times: Sequence[float], *, falling: bool) -> Curve:
    found = curve([level(load, tpot) for load, tpot in zip(loads, times, strict=True)])
    if falling:
        return found
    kept: list[Level] = []
    for one in found.levels:
        most = one.tpot
        if kept:  # no more than what keeps load over time at that of the level below
            below = kept[-1]
            most = min(most, below.tpot * one.decode_concurrency / below.decode_concurrency)
        kept.append(level(one.decode_concurrency, most))
    return Curve(levels=tuple(kept))


def pieces_of(loads: st.SearchStrategy[float]) -> st.SearchStrategy[list[Piece]]:
    """Draw lists of pieces at drawn loads."""
    one = st.builds(
        lambda load, rate, seconds: Piece(
            tokens=rate * load * seconds, spent=load * seconds, seconds=seconds
        ),
        loads,
        st.floats(1.0, 2000.0),
        st.floats(0.1, 5.0),
    )
    return st.lists(one, min_size=1, max_size=20)
