"""The guard on simulated servers: it acts soon where speculation costs, and not for nothing."""

import sys
from pathlib import Path
from statistics import median

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from guard_detection import Day, Fall, watch_day, watch_fall

SEEDS = range(7)
SOON = {0.6: 22.0, 0.9: 110.0}
"""Seconds of the median; benchmarks/README.md has the figures of many servers."""


@pytest.mark.parametrize("by", ["acceptance", "cost"])
@pytest.mark.parametrize("rate", [1.0, 10.0])
@pytest.mark.parametrize("loss", sorted(SOON))
def test_loss_turns_the_flag_off_soon(loss: float, rate: float, by: str) -> None:
    """From a gain of 1.5 to a great loss it takes seconds, to a small one a minute or two."""
    found = [watch_fall(Fall(rate=rate, loss=loss, by=by), seed, others=False)[0] for seed in SEEDS]
    delays = [1e9 if delay is None else delay for delay in found]
    assert min(delays) > 0.0
    assert median(delays) <= SOON[loss]


@pytest.mark.slow
def test_server_that_pays_is_left_alone() -> None:
    """Bursts, batches of like requests and short disturbances turn nothing off in half a day."""
    flips = [watch_day(Day(rate=6.0, gain=1.3, hours=12.0), 0, others=False)[0]]
    assert flips == [0]
