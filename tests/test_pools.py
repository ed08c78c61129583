"""What the pool without speculation could take, from the views of its targets."""

from dataclasses import replace
from typing import Any

import pytest
from tests.judging import derived

from specgauge.model.derived import Hints
from specgauge.model.guard import Look
from specgauge.model.outcome import ScrapeResult
from specgauge.model.view import TargetView
from specgauge.serve.pools import FULL_KV, Room, pool_numbers, room


def target(
    result: ScrapeResult | None = ScrapeResult.OK,
    *,
    numbers: dict[str, float] | None = None,
    restarted: bool = False,
    **values: float,
) -> TargetView:
    """Write the view of a standard target; values are those of its model."""
    up = result is ScrapeResult.OK
    shown = Look(start=0.0, end=15.0, numbers=numbers or {}, restarted=restarted)
    return TargetView(
        name="plain",
        url="http://plain",
        role="standard",
        hints=Hints(),
        result=result,
        models={"m": replace(derived(), values=values)} if up else {},
        looks={"m": shown} if up and numbers is not None else {},
    )


FREE = target(requests_waiting=0, kv_cache_usage_ratio=0.3)
QUEUED = target(requests_waiting=2, kv_cache_usage_ratio=0.3)
FULL = target(requests_waiting=0, kv_cache_usage_ratio=FULL_KV)
MUTE = target()
DOWN = target(ScrapeResult.UNREACHABLE)
NEW = target(None)


@pytest.mark.parametrize(
    ("targets", "up", "has_room"),
    [
        pytest.param([], None, None, id="none watched"),
        pytest.param([NEW], None, None, id="not scraped yet"),
        pytest.param([DOWN], False, None, id="down"),
        pytest.param([DOWN, NEW], False, None, id="down and not scraped yet"),
        pytest.param([FREE], True, True, id="free"),
        pytest.param([QUEUED], True, False, id="waiting"),
        pytest.param([FULL], True, False, id="full cache"),
        pytest.param([MUTE], True, None, id="tells nothing"),
        pytest.param([target(requests_waiting=0)], True, True, id="tells of waiting alone"),
        pytest.param([target(kv_cache_usage_ratio=0.95)], True, False, id="of the cache alone"),
        pytest.param([QUEUED, FREE], True, True, id="one of two is free"),
        pytest.param([QUEUED, DOWN], True, False, id="the one that is up waits"),
        pytest.param([QUEUED, MUTE], True, False, id="one waits, one tells nothing"),
        pytest.param([FREE, DOWN, NEW], True, True, id="one is enough"),
        pytest.param([target(ScrapeResult.NO_ENGINE_METRICS)], True, None, id="page of no engine"),
    ],
)
def test_room(targets: list[TargetView], up: bool | None, has_room: bool | None) -> None:
    """One target with room is enough; what is not known is neither."""
    found = room(targets)
    assert (found.up, found.has_room) == (up, has_room)


def test_no_pool() -> None:
    """A pool that is not watched has no numbers."""
    assert room([]) == Room()
    assert room([DOWN]).numbers == {}


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([FREE], {"restarts": 0.0}, id="no look yet"),
        pytest.param(
            [target(numbers={"tokens": 100.0, "tpot_seconds": 0.01, "requests": 2.0})],
            {"tokens": 100.0, "requests": 2.0, "tpot_seconds": 0.01, "restarts": 0.0},
            id="one",
        ),
        pytest.param(
            [
                target(
                    numbers={
                        "tokens": 100.0,
                        "tpot_seconds": 0.01,
                        "decode_concurrency": 2.0,
                        "errors": 1.0,
                        "served": 10.0,
                    },
                    restarted=True,
                ),
                target(numbers={"tokens": 300.0, "tpot_seconds": 0.03, "decode_concurrency": 6.0}),
                target(numbers={"tokens": 0.0, "tpot_seconds": 9.0}),
                target(numbers={"served": 5.0, "errors": 0.0}),
            ],
            {
                "tokens": 400.0,
                "tpot_seconds": 0.025,
                "decode_concurrency": 8.0,
                "errors": 1.0,
                "served": 15.0,
                "restarts": 1.0,
            },
            id="several",
        ),
    ],
)
def test_numbers_of_a_pool(targets: list[TargetView], expected: dict[str, Any]) -> None:
    """Loads and counts add up; time per token is time in decode over tokens."""
    assert pool_numbers(targets) == pytest.approx(expected)


def test_restarts_are_of_the_last_pages() -> None:
    """A restart counts while the page that showed it is the last, not for ever after."""
    before = target(numbers={"tokens": 1.0}, restarted=True)
    assert room([before]).numbers["restarts"] == 1.0
    assert room([target(numbers={"tokens": 1.0})]).numbers["restarts"] == 0.0
