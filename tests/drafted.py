"""Simulated traffic whose acceptance is correlated as in real servers, as looks of the guard.

Requests come at random, each has an acceptance of its own for as long as it decodes, and load
comes in waves and batches of like requests: so successive seconds are far from independent.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from specgauge.model.guard import Look

K = 4.0
STEPS_A_SECOND = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What comes: requests a second, seconds each, and how acceptance differs between them."""

    rate: float
    seconds: float = 4.0
    mean: float = 0.55
    spread: float = 0.15
    page: float = 1.0
    waves: Callable[[float], float] = field(default=lambda _: 1.0)
    batch_chance: float = 0.0
    batch_size: int = 20
    drift: Callable[[float], float] = field(default=lambda _: 1.0)


def chance(seed: int) -> random.Random:
    """Give dice that fall the same way each time."""
    return random.Random(seed)  # noqa: S311 - dice, not secrets


def looks(traffic: Traffic, dice: random.Random, *, until: float) -> Iterator[tuple[float, Look]]:
    """Give one look a page; a look's window is the last 15 s, or longer until it holds enough."""
    active: list[tuple[float, float]] = []
    window: list[dict[str, float]] = []
    time = 0.0
    while time < until:
        time += traffic.page
        came = _arrivals(traffic, dice, time)
        active = [one for one in active if one[0] > time] + came
        step = _step(traffic, dice, [share for _, share in active], time, float(len(came)))
        window = [*window[-max(int(60.0 / traffic.page) - 1, 0) :], step]
        yield time, _look(window, traffic.page, time)


def _arrivals(traffic: Traffic, dice: random.Random, time: float) -> list[tuple[float, float]]:
    expected = traffic.rate * traffic.page * traffic.waves(time)
    like = [_share(traffic, dice)] * traffic.batch_size
    shares = [_share(traffic, dice) for _ in range(_poisson(dice, expected))]
    if traffic.batch_chance and dice.random() < traffic.batch_chance * traffic.page:
        shares += like
    ends = (time + dice.lognormvariate(math.log(traffic.seconds), 0.7) for _ in shares)
    return list(zip(ends, shares, strict=False))


def _share(traffic: Traffic, dice: random.Random) -> float:
    scale = traffic.mean * (1.0 - traffic.mean) / traffic.spread**2 - 1.0
    return dice.betavariate(traffic.mean * scale, (1.0 - traffic.mean) * scale)


def _poisson(dice: random.Random, expected: float) -> int:
    if expected > 50.0:
        return max(round(dice.gauss(expected, math.sqrt(expected))), 0)
    floor, count, product = math.exp(-expected), 0, dice.random()
    while product > floor:
        count, product = count + 1, product * dice.random()
    return count


def _step(
    traffic: Traffic, dice: random.Random, shares: list[float], time: float, first: float
) -> dict[str, float]:
    if not shares:
        return {}
    drafts = len(shares) * round(STEPS_A_SECOND * traffic.page)
    mean = min(sum(shares) / len(shares) * traffic.drift(time), 1.0)
    noise = dice.gauss(0.0, math.sqrt(0.5 * mean * (1.0 - mean) / drafts))
    accepted = round(min(max(mean + noise, 0.0), 1.0) * K * drafts)
    return {
        "drafts": float(drafts),
        "draft_tokens": K * drafts,
        "accepted_tokens": float(accepted),
        "first_tokens": first,
        "tokens": float(drafts + accepted),
        "present": float(len(shares)),
    }


def _look(window: list[dict[str, float]], page: float, time: float) -> Look:
    pages = max(round(15.0 / page), 1)
    part = window[-pages:]
    if sum(step.get("tokens", 0.0) for step in part) < 500.0:
        part = window
    names = ("drafts", "draft_tokens", "accepted_tokens", "first_tokens", "tokens", "present")
    sums = {name: sum(step.get(name, 0.0) for step in part) for name in names}
    sums["decode_concurrency"] = sums.pop("present") / len(part)
    step = {name: value for name, value in window[-1].items() if name != "present"}
    return Look(
        start=time - len(part) * page,
        end=time,
        speculating=True,
        numbers=sums,
        step=step,
        step_seconds=page,
    )
