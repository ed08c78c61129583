"""A pool without speculation as the baseline of its sibling: what it teaches, and for how long."""

from typing import Any

import pytest
from tests.baselines import vllm_page
from tests.recorded import Watched

from specgauge.derive.interpolate import tpot_at
from specgauge.model.baseline import Baseline
from specgauge.serve.sibling import MEMORY_SECONDS, Sibling

NOW = 1e9


class Pool:
    """A server without speculation, a page a second, that a sibling's curve is learnt from."""

    def __init__(self) -> None:
        self.made = Sibling("plain", 1.0)
        self.tokens = self.firsts = self.drafts = 0.0
        self.spent = self.time = 0.0
        self.watched = Watched(vllm_page())

    def serve(
        self,
        load: float,
        tpot: float,
        *,
        seconds: float = 1.0,
        drafting: bool = False,
        full: float | None = None,
    ) -> None:
        """Let it serve at a load; `full` requests in a step, where that is another number."""
        grown = load / tpot * seconds
        self.time += seconds
        self.tokens += grown
        self.firsts += 2
        self.spent += load * seconds
        self.drafts += grown if drafting else 0.0
        page = vllm_page(
            tokens=self.tokens + self.firsts,
            firsts=self.firsts,
            spent=self.spent,
            steps=self.tokens,
            iterations=None if full is None else self.tokens / full,
            drafts=self.drafts or None,
        )
        before = self.watched.ledger
        interval = self.watched.see(page, self.time)
        self.made.add(before, self.watched.ledger, self.watched.page, interval, now=NOW + self.time)

    @property
    def baseline(self) -> Baseline | None:
        """What is known now."""
        return self.made.baseline("target")


def test_learns_the_loads_it_sees() -> None:
    """Every load that was seen for a while becomes a level, with its interval and its shape."""
    pool = Pool()
    assert pool.baseline is None
    for place in range(40):
        pool.serve(
            2.0 if place < 20 else 16.0, (0.005 if place < 20 else 0.008) * (1 + place % 2 / 50)
        )
    found = pool.baseline
    assert found is not None
    assert (found.source, found.method, found.facts) == (
        "target plain",
        "live",
        {"model.name": "target"},
    )
    assert [one.decode_concurrency for one in found.curve.levels] == pytest.approx([2.0, 16.0])
    assert tpot_at(found.curve, 2.0) == pytest.approx(0.00505, rel=0.01)
    assert tpot_at(found.curve, 16.0) == pytest.approx(0.00808, rel=0.01)
    low = found.curve.levels[0]
    assert low.tpot_low is not None
    assert low.tpot_high is not None
    assert low.tpot_low < low.tpot < low.tpot_high
    assert low.ttft == pytest.approx(0.02)
    assert low.prompt_tokens_per_request == pytest.approx(100.0)
    assert low.output_tokens_per_request == pytest.approx(200.0, rel=0.05)


def test_is_made_anew_every_few_seconds() -> None:
    """The curve follows the pool, at most five seconds behind, and says when it was made."""
    pool = Pool()
    for _ in range(20):
        pool.serve(2.0, 0.005)
    found = pool.baseline
    assert found is not None
    assert found.created is not None
    assert 0.0 <= NOW + pool.time - found.created <= 5.0
    pool.serve(2.0, 0.005)
    for _ in range(5):
        pool.serve(2.0, 0.0055)
    assert pool.baseline is not found
    assert pool.baseline is not None
    assert tpot_at(pool.baseline.curve, 2.0) > 0.00502


def test_forgets_what_is_old() -> None:
    """After its memory's length only the new is known."""
    pool = Pool()
    for _ in range(20):
        pool.serve(2.0, 0.005)
    pool.serve(2.0, 0.005, seconds=MEMORY_SECONDS)
    for _ in range(20):
        pool.serve(2.0, 0.010)
    assert pool.baseline is not None
    assert tpot_at(pool.baseline.curve, 2.0) == pytest.approx(0.010, rel=1e-3)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"drafting": True}, id="speculating"),
        pytest.param({"seconds": 2.5}, id="gaps"),
        pytest.param({"full": 8.0}, id="load that comes and goes"),
    ],
)
def test_teaches_nothing(how: dict[str, Any]) -> None:
    """Intervals with speculation, over gaps or with uneven load are left out."""
    pool = Pool()
    for _ in range(30):
        pool.serve(2.0, 0.005, **how)
    assert pool.baseline is None


def test_no_level_from_a_glimpse() -> None:
    """A load seen for a moment is not known well enough."""
    pool = Pool()
    pool.serve(2.0, 0.005)
    pool.serve(2.0, 0.005)
    assert pool.baseline is None


def test_pool_without_requests_counted() -> None:
    """Where no first token came, TTFT and shape are not known; the curve is."""
    pool = Pool()
    pool.firsts = -2.0
    for _ in range(20):
        pool.firsts = -2.0
        pool.serve(2.0, 0.005)
    assert pool.baseline is not None
    (one,) = pool.baseline.curve.levels
    assert (one.ttft, one.prompt_tokens_per_request, one.output_tokens_per_request) == (
        None,
        None,
        None,
    )
