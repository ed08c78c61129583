"""The guard on simulated servers: it acts soon where speculation costs, and not for nothing."""

import sys
from pathlib import Path
from statistics import median

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from guard_detection import Day, Fall, watch_day, watch_fall

SEEDS = range(3)
LOSSES = [
    pytest.param(0.6, 1.0, 22.0, id="great, 1/s"),
    pytest.param(0.6, 10.0, 20.0, id="great, 10/s"),
    pytest.param(0.9, 10.0, 110.0, id="small, 10/s"),
]
"""What speedup falls to, requests a second, seconds of the median.

Few servers, for a test: benchmarks/README.md has the figures of many.
"""


@pytest.mark.parametrize(("loss", "rate", "soon"), LOSSES)
def test_loss_turns_the_flag_off_soon(loss: float, rate: float, soon: float) -> None:
    """From a gain of 1.5 to a great loss it takes seconds, to a small one a minute or two."""
    found = [watch_fall(Fall(rate=rate, loss=loss), seed, others=False)[0] for seed in SEEDS]
    delays = [1e9 if delay is None else delay for delay in found]
    assert min(delays) > 0.0
    assert median(delays) <= soon


def test_server_that_pays_is_left_alone() -> None:
    """Bursts, batches of like requests and short disturbances turn nothing off in an hour."""
    flips = [watch_day(Day(rate=6.0, gain=1.3, hours=1.0), 0, others=False)[0]]
    assert flips == [0]
