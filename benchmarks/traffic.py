"""A server simulated second by second, with speculation that gains or costs; no clock, no page.

Requests in decode go forward together, a step at a time, at the recorded baseline's time per token
at that many, times what a step with a draft costs; each request accepts drafts to its own extent.
What was measured on the recordings (one page a second, speedup of each second against the packaged
baseline; of the eagle ramp without the trend over load and the tokens a step):

- H200, none, 1/6/20/40 requests/s: deviation of a second's speedup 1.0/1.1/2.6/8.3 %, its lag-1
  autocorrelation -0.25 to 0.13.
- H200, eagle, 1/6/20/40 requests/s: 6.5/13.5/10.7/16.2 % with the drafts' own noise taken out,
  lag-1 0.12 with the bias of 16 points added back. Prompts share steps with drafts, so it is
  mostly step time.
- CPU, n-gram and none, 1 and 4 streams: 8 to 12 %, 22 % in one phase; lag-1 -0.29 to 0.43.
- Acceptance length on the eagle ramp: 3.2 with K = 4, in a second 6 % off with 100 drafts, 1.8 %
  with 300, 1.1 % with 1,200: as independent drafts of variance 2 would be.

So a step's cost varies as on the eagle ramp at the same rate, with lag 0.12. The ramp's acceptance
was synthetic and the same for every request; here it differs (beta, mean 0.55, deviation 0.15).
"""

import heapq
import math
import random
from bisect import bisect
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from specgauge.derive.interpolate import tpot_at, ttft_at
from specgauge.model.baseline import Curve

K = 4.0
MEAN_ACCEPTANCE = 0.55
ACCEPTANCE_SPREAD = 0.15
DRAFT_VARIANCE = 2.0
LAG = 0.12
NOISE = ((1.0, 0.065), (6.0, 0.135), (20.0, 0.107), (40.0, 0.162))
"""Requests a second, and the deviation of a second's step cost as a share."""

MOST = 256
DAY = 86400.0
_POOL = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What comes: requests a second, and answers of `shortest` tokens or more, of this mean.

    `bursty` adds bursts of three times the load for 5 to 20 s, on the mean every two minutes, and
    a batch of 20 like requests at once every four. `daily` lets the load swing by 80 % over a day.
    """

    rate: float
    lengths: str = "uniform"
    bursty: bool = False
    daily: bool = False

    @property
    def shortest(self) -> float:
        """Tokens of the shortest answer of the uniform lengths, which go up to eleven times it.

        At 60 requests a second answers are short enough for one such server at a loss of 0.6.
        """
        return 32.0 if self.rate <= 20.0 else 12.0

    @property
    def mean_length(self) -> float:
        """Tokens of an answer on the mean."""
        return 6.0 * self.shortest

    @property
    def noise(self) -> float:
        """Deviation of a second's step cost, as a share: as measured, held at the ends."""
        place = bisect([at for at, _ in NOISE], self.rate)
        if place in {0, len(NOISE)}:
            return NOISE[min(place, len(NOISE) - 1)][1]
        (a, low), (b, high) = NOISE[place - 1], NOISE[place]
        return low + (high - low) * (self.rate - a) / (b - a)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens to the gain at a time, and by what: `acceptance` falls or steps get `dearer`."""

    at: float = math.inf
    to: float = 1.0
    by: str = "acceptance"


@dataclass(slots=True)
class Second:
    """What the counters of one second grew by; times in seconds."""

    end: float
    spent: float = 0.0
    steps: float = 0.0
    accepted: float = 0.0
    iterations: float = 0.0
    begun: int = 0
    finished: int = 0
    waited: float = 0.0
    prompts: float = 0.0

    @property
    def tokens(self) -> float:
        """Tokens of decode."""
        return self.steps + self.accepted


class Server:
    """One server; `disturbed` adds stretches of 6 s, on the mean every 4 minutes, 15 % slower."""

    def __init__(
        self,
        curve: Curve,
        traffic: Traffic,
        *,
        gain: float,
        seed: int,
        change: Change | None = None,
        disturbed: bool = False,
    ) -> None:
        self._traffic, self._change = traffic, change or Change()
        self._disturbed = disturbed
        self._dice = random.Random(seed)  # noqa: S311 - dice, not secrets
        self._step_times, self._ttfts = _tables(curve)
        self._lengths = _acceptance_lengths(1.0)
        self._dearer = harmonic(self._lengths) / gain
        self._gain, self._time, self._work = gain, 0.0, 0.0
        self._active: list[tuple[float, int]] = []  # the step at which it ends, and its kind
        self._waiting: deque[tuple[float, float, int]] = deque()
        self._per_step = 0.0
        self._wobble = 0.0
        self._slow_until, self._slow_from = 0.0, self._dice.expovariate(1.0 / 240.0)
        self._burst_until, self._burst_from = 0.0, self._dice.expovariate(1.0 / 120.0)

    def seconds(self, until: float) -> Iterator[Second]:
        """Run on, and give each second."""
        while self._time < until:
            yield self._second()

    def _second(self) -> Second:
        start, end = self._time, self._time + 1.0
        seen = Second(end=end)
        arrivals = self._arrivals(start)
        cost = self._cost(start)
        if start <= self._change.at < end:
            place = bisect(arrivals, (self._change.at,))
            self._run(seen, arrivals[:place], self._change.at, cost)
            cost *= self._turn()
            self._run(seen, arrivals[place:], end, cost)
        else:
            self._run(seen, arrivals, end, cost)
        if seen.steps > 0.0:
            off = self._dice.gauss(0.0, math.sqrt(DRAFT_VARIANCE * seen.steps))
            seen.accepted = min(max(seen.accepted + off, 0.0), K * seen.steps)
        return seen

    def _run(
        self, seen: Second, arrivals: list[tuple[float, int]], end: float, cost: float
    ) -> None:
        """Serve until `end`: from one arrival or last token to the next."""
        active, times = self._active, self._step_times
        now, work, per_step = self._time, self._work, self._per_step
        spent = steps = accepted = iterations = 0.0
        place, last = 0, len(arrivals)
        while True:
            upto = arrivals[place][0] if place < last else end
            count = len(active)
            if count:
                lasts = times[count] * cost
                done = now + (active[0][0] - work) * lasts
                ends = done <= upto
                until = max(done, now) if ends else upto
                made = (until - now) / lasts
                work += made
                spent += count * (until - now)
                steps += count * made
                accepted += (per_step - count) * made
                iterations += made
                now = until
                if ends:
                    per_step -= self._lengths[heapq.heappop(active)[1]]
                    seen.finished += 1
                    if self._waiting:
                        came, length, kind = self._waiting.popleft()
                        self._begin(seen, work, length, kind, now - came)
                        per_step += self._lengths[kind]
                    continue
            now = upto
            if place == last:
                break
            kind = arrivals[place][1]
            place += 1
            length = self._length()
            if len(active) < MOST:
                self._begin(seen, work, length, kind, 0.0)
                per_step += self._lengths[kind]
            else:
                self._waiting.append((now, length, kind))
        self._time, self._work = now, work
        self._per_step = per_step if active else 0.0
        seen.spent += spent
        seen.steps += steps
        seen.accepted += accepted
        seen.iterations += iterations

    def _begin(self, seen: Second, work: float, length: float, kind: int, waited: float) -> None:
        heapq.heappush(self._active, (work + (length - 1.0) / self._lengths[kind], kind))
        seen.begun += 1
        seen.prompts += 245.0
        seen.waited += waited + self._ttfts[len(self._active)]

    def _turn(self) -> float:
        """Let the change happen; gives what steps cost times as much after it."""
        change = self._change
        if change.by != "acceptance":
            self._dearer *= self._gain / change.to
            return self._gain / change.to
        before, self._lengths = self._lengths, _lengths_for(change.to / self._gain)
        self._active = [
            (self._work + (ends - self._work) * before[kind] / self._lengths[kind], kind)
            for ends, kind in self._active
        ]
        heapq.heapify(self._active)
        self._per_step = math.fsum(self._lengths[kind] for _, kind in self._active)
        return 1.0

    def _cost(self, time: float) -> float:
        """Say what a step costs in this second, in steps without a draft."""
        noise = self._traffic.noise
        fresh = self._dice.gauss(0.0, noise * math.sqrt(1.0 - LAG * LAG))
        self._wobble = LAG * self._wobble + fresh
        found = self._dearer * math.exp(self._wobble + noise * noise / 2.0)
        if not self._disturbed:
            return found
        if time >= self._slow_from:
            self._slow_until = time + 6.0
            self._slow_from = self._slow_until + self._dice.expovariate(1.0 / 240.0)
        return found * 1.15 if time < self._slow_until else found

    def _arrivals(self, time: float) -> list[tuple[float, int]]:
        """Draw who comes in the second from `time`: when, and of which kind of acceptance."""
        dice, traffic = self._dice, self._traffic
        rate, crowd = traffic.rate, 0
        if traffic.daily:
            rate *= 1.0 + 0.8 * math.sin(2.0 * math.pi * time / DAY)
        if traffic.bursty:
            if time >= self._burst_from:
                self._burst_until = time + dice.uniform(5.0, 20.0)
                self._burst_from = self._burst_until + dice.expovariate(1.0 / 120.0)
            rate *= 3.0 if time < self._burst_until else 1.0
            crowd = 20 if dice.random() < 1.0 / 240.0 else 0
        drawn = [
            (time + dice.random(), int(dice.random() * _POOL)) for _ in range(poisson(dice, rate))
        ]
        if crowd:
            at, kind = time + dice.random(), int(dice.random() * _POOL)
            drawn += [(at, kind)] * crowd
        drawn.sort()
        return drawn

    def _length(self) -> float:
        traffic = self._traffic
        if traffic.lengths == "uniform":
            return traffic.shortest * (1.0 + 10.0 * self._dice.random())
        drawn = self._dice.lognormvariate(math.log(traffic.mean_length) - 0.245, 0.7)
        return min(max(drawn, 2.0), 20.0 * traffic.mean_length)


def poisson(dice: random.Random, expected: float) -> int:
    """Draw how many come where so many are expected."""
    if expected > 50.0:
        return max(round(dice.gauss(expected, math.sqrt(expected))), 0)
    floor, count, product = math.exp(-expected), 0, dice.random()
    while product > floor:
        count, product = count + 1, product * dice.random()
    return count


def harmonic(lengths: tuple[float, ...]) -> float:
    """Average tokens a step over requests in decode: who accepts less is there longer."""
    return len(lengths) / math.fsum(1.0 / one for one in lengths)


@cache
def calibrated(curve: Curve, traffic: Traffic, gain: float) -> float:
    """Give what to set so that tokens come so many times as fast as the baseline's, in all.

    Slow seconds hold more requests, so with noise a server as set is slower in sum.
    """
    plain = replace(traffic, daily=False)
    setting, length = gain, max(2400.0, 5000.0 / traffic.rate)
    for seed in (1, 2, 3):
        seconds = list(Server(curve, plain, gain=setting, seed=seed).seconds(length))
        spent = math.fsum(one.spent for one in seconds)
        worth = math.fsum(one.tokens * tpot_at(curve, one.spent) for one in seconds)
        setting *= gain * spent / worth
    return setting


@cache
def _acceptance_lengths(share: float) -> tuple[float, ...]:
    """Give the tokens a step of each kind of request, with acceptance at a share of the usual."""
    dice = random.Random(1)  # noqa: S311 - dice, not secrets
    scale = MEAN_ACCEPTANCE * (1.0 - MEAN_ACCEPTANCE) / ACCEPTANCE_SPREAD**2 - 1.0
    a, b = MEAN_ACCEPTANCE * scale, (1.0 - MEAN_ACCEPTANCE) * scale
    return tuple(1.0 + K * share * dice.betavariate(a, b) for _ in range(_POOL))


@cache
def _lengths_for(loss: float) -> tuple[float, ...]:
    """Give the tokens a step with which the gain is so many times the usual one."""
    wanted = loss * harmonic(_acceptance_lengths(1.0))
    low, high = 0.0, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2.0
        low, high = (
            (middle, high) if harmonic(_acceptance_lengths(middle)) < wanted else (low, middle)
        )
    return _acceptance_lengths(high)


@cache
def _tables(curve: Curve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Look the baseline's time per token and time to first token up once for each load."""
    loads = [float(count) for count in range(MOST + 1)]
    return (
        tuple(tpot_at(curve, load) for load in loads),
        tuple(ttft_at(curve, load) or 0.0 for load in loads),
    )
