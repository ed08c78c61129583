"""Three guards over the same simulated seconds: the sidecar's, the playbook's, Alertmanager's.

The sidecar's is the code that runs live: evidence, verdict, look and watchman, with the defaults of
the configuration. Only page text is not written and read again: an interval is made of the counts.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from traffic import K, Second

from specgauge.derive import speedup
from specgauge.derive.interpolate import tpot_at
from specgauge.derive.speedup import Piece
from specgauge.derive.summary import summarise
from specgauge.derive.window import windows
from specgauge.engines.reader import Reader
from specgauge.guard.fall import windows_in
from specgauge.guard.policy import Policy
from specgauge.model.baseline import Baseline, Curve
from specgauge.model.derived import Derived, Hints
from specgauge.model.guard import Decision, Look, Phase
from specgauge.model.ledger import Interval, Ledger, ModelWindow
from specgauge.model.quantity import Cell, Kind, Page, Quantity
from specgauge.model.verdict import Judgement
from specgauge.serve.comparison import Comparison, ComparisonTerms
from specgauge.serve.looks import counts, look
from specgauge.serve.pools import Room
from specgauge.serve.watchman import Circumstances, Watchman
from specgauge.serve.windows import choose

MODEL = "target"
WINDOW = 60.0

PLAYBOOK_EVERY = 60.0
ACCEPTANCE = 0.4
"""Floor of both simpler guards."""

RULE_WINDOW, RULE_EVERY, RULE_FOR, GROUP_WAIT = 300.0, 15.0, 300.0, 30.0
"""Seconds: rate over, evaluation and scrape, `for`, and how long Alertmanager waits to send."""

PAUSE = 300.0
"""After a false flip a guard stands still for so long and then begins anew."""

_MEASURES = {
    (Quantity.GENERATION_TOKENS, Kind.COUNTER): "generation_tokens_total",
    (Quantity.PROMPT_TOKENS, Kind.COUNTER): "prompt_tokens_total",
    (Quantity.REQUESTS_FINISHED, Kind.COUNTER): "request_success_total",
    (Quantity.DRAFTS, Kind.COUNTER): "spec_decode_num_drafts_total",
    (Quantity.DRAFT_TOKENS, Kind.COUNTER): "spec_decode_num_draft_tokens_total",
    (Quantity.ACCEPTED_TOKENS, Kind.COUNTER): "spec_decode_num_accepted_tokens_total",
    (Quantity.STEP_LATENCY, Kind.SUM): "inter_token_latency_seconds_sum",
    (Quantity.STEP_LATENCY, Kind.COUNT): "inter_token_latency_seconds_count",
    (Quantity.TTFT, Kind.SUM): "time_to_first_token_seconds_sum",
    (Quantity.TTFT, Kind.COUNT): "time_to_first_token_seconds_count",
    (Quantity.ITERATION_TOKENS, Kind.SUM): "iteration_tokens_total_sum",
    (Quantity.ITERATION_TOKENS, Kind.COUNT): "iteration_tokens_total_count",
}


Key = TypeVar("Key")
Found = TypeVar("Found")


def growth(second: Second) -> dict[tuple[Quantity, Kind], float]:
    """Say what each counter of the engine's page grew by in a second."""
    tokens = second.tokens + second.begun
    return {
        (Quantity.GENERATION_TOKENS, Kind.COUNTER): tokens,
        (Quantity.PROMPT_TOKENS, Kind.COUNTER): second.prompts,
        (Quantity.REQUESTS_FINISHED, Kind.COUNTER): float(second.finished),
        (Quantity.DRAFTS, Kind.COUNTER): second.steps,
        (Quantity.DRAFT_TOKENS, Kind.COUNTER): K * second.steps,
        (Quantity.ACCEPTED_TOKENS, Kind.COUNTER): second.accepted,
        (Quantity.STEP_LATENCY, Kind.SUM): second.spent,
        (Quantity.STEP_LATENCY, Kind.COUNT): second.steps,
        (Quantity.TTFT, Kind.SUM): second.waited,
        (Quantity.TTFT, Kind.COUNT): float(second.begun),
        (Quantity.ITERATION_TOKENS, Kind.SUM): tokens + second.prompts,
        (Quantity.ITERATION_TOKENS, Kind.COUNT): second.iterations,
    }


def piece_of(second: Second) -> Piece:
    """Give a second as the comparison with the baseline knows it."""
    full = (second.steps + second.begun) / second.iterations if second.iterations > 0.0 else 0.0
    return Piece(tokens=second.tokens, spent=second.spent, seconds=1.0, fullness=full)


def hold_costs() -> None:
    """Let each piece be priced once, and not in every window that it lies in; the same numbers."""
    for name in ("cost", "spread_at", "ttft_at", "upper_bound_at"):
        setattr(speedup, name, _held(getattr(speedup, name)))


def _held(plain: Callable[[Curve, Key], Found]) -> Callable[[Curve, Key], Found]:
    held: dict[tuple[int, Key], Found] = {}

    def remembered(curve: Curve, key: Key) -> Found:
        place = (id(curve), key)
        if place not in held:
            if len(held) > 256:
                held.clear()
            held[place] = plain(curve, key)
        return held[place]

    return remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    time: float
    totals: Mapping[Cell, float]


_Window = tuple[ModelWindow, Derived, _Snapshot]


class Live:
    """The sidecar's guard, page by page, as the tracker and the guardian run it."""

    def __init__(self, baseline: Baseline, time: float, policy: Policy | None = None) -> None:
        self._baseline, self._policy = baseline, policy or Policy()
        self._page = _empty_page()
        self._cells = {series.cell.measure[:2]: series.cell for series in self._page.layout.adding}
        self.decision: Decision | None = None
        self._begin(time)

    def _begin(self, time: float) -> None:
        terms = ComparisonTerms(
            baselines=(self._baseline,), window=WINDOW, guarded=True, policy=self._policy
        )
        self._compared = Comparison(terms)
        self._watchman = Watchman(self._policy, time=time)
        self._watchman.adopt(read_back=True, saved=None, time=time)
        self._totals: dict[Cell, float] = dict.fromkeys(self._cells.values(), 0.0)
        self._history = deque([_Snapshot(time=time, totals=dict(self._totals))])
        self._paused_until = 0.0

    def see(self, second: Second) -> bool:
        """Take a page in; true where the flag goes off."""
        now = second.end
        if now < self._paused_until:
            return False
        if self._paused_until:
            self._begin(now - 1.0)
        decision = self._watchman.consider(
            {MODEL: self._look(second)},
            Circumstances(room=Room(), confirmed=True),
            time=now,
            unix=now,
        )
        self.decision = decision
        fell = decision.before is Phase.ACTIVE and decision.flag is False
        if fell:
            self._paused_until = now + PAUSE
        return fell

    def _look(self, second: Second) -> Look:
        now, page, compared = second.end, self._page, self._compared
        deltas = {self._cells[measure]: grown for measure, grown in growth(second).items()}
        for cell, grown in deltas.items():
            self._totals[cell] += grown
        ledger = Ledger(time=now, totals=dict(self._totals), layout=page.layout)
        interval = Interval(start=now - 1.0, end=now, deltas=deltas)
        compared.add(interval, page, None, now)
        begin = compared.start(MODEL, now)
        history = self._history
        while history[0].time < now - WINDOW:
            history.popleft()
        history.append(_Snapshot(time=now, totals=ledger.totals))
        usual = self._since(begin, ledger, now)
        starts = compared.longer(usual[1], begin, now, self._baseline)
        longer = (self._since(start, ledger, now) for start in starts)
        _, found = choose(
            usual,
            longer,
            lambda one: one[1],
            worth=lambda one: self._worth(one[0], now),
            severe=self._policy.severe,
        )
        (window, derived, snap), judged = found
        return look(window, derived, judged, interval, start=snap.time, served={})

    def _worth(self, shown: _Window, now: float) -> int:
        window, _, snap = shown
        return windows_in(now - snap.time, counts(window.sums), self._policy)

    def _since(self, begin: float, ledger: Ledger, now: float) -> tuple[_Window, Judgement]:
        snap = next(one for one in self._history if begin - 1e-6 <= one.time < now)
        window = windows(snap.totals, ledger, self._page, now - snap.time)[MODEL]
        derived = summarise(window, Hints())
        facts = self._compared.facts(MODEL, self._page, None)
        judged = self._compared.verdict(derived, snap.time, self._baseline, facts, now)
        return (window, derived, snap), judged


def _empty_page() -> Page:
    lines = [f'vllm:{name}{{model_name="{MODEL}",engine="0"}} 0' for name in _MEASURES.values()]
    return Reader().read("\n".join([*lines, ""]).encode())


class Playbook:
    """The article's guard: every minute on the last minute, three in a row, one load's latency."""

    def __init__(self, tpot: float, time: float) -> None:
        self._tpot = tpot
        self._policy = Policy(playbook=True, consecutive=3)
        self._begin(time)

    def _begin(self, time: float) -> None:
        self._since, self._sum = time, Second(end=time)
        self._watchman = Watchman(self._policy, time=time)
        self._watchman.adopt(read_back=True, saved=None, time=time)

    def see(self, second: Second) -> bool:
        """Take a second in; true where the flag goes off."""
        now, total = second.end, self._sum
        if now <= self._since:
            return False
        total.spent += second.spent
        total.steps += second.steps
        total.accepted += second.accepted
        total.begun += second.begun
        if now - self._since < PLAYBOOK_EVERY - 0.5:
            return False
        shown, self._since, self._sum = self._look(now), now, Second(end=now)
        decision = self._watchman.consider(
            {MODEL: shown}, Circumstances(room=Room(), confirmed=True), time=now, unix=now
        )
        if decision.flag is not False:
            return False
        self._begin(now + PAUSE)
        return True

    def _look(self, now: float) -> Look:
        total = self._sum
        numbers = {"drafts": total.steps, "tokens": total.tokens}
        if total.steps > 0.0:
            numbers["acceptance_ratio"] = total.accepted / (K * total.steps)
            numbers["tpot_seconds"] = total.spent / total.tokens
            numbers["baseline_tpot_seconds"] = self._tpot
        return Look(start=self._since, end=now, model_name=MODEL, speculating=True, numbers=numbers)


class Alerts:
    """A rule on five minutes of speedup and acceptance with `for: 5m`, then Alertmanager.

    The counters are exact and scraped when the rule is evaluated. It fires where speedup is below
    0.95 or acceptance below 0.4 at every evaluation of five minutes; the receiver is told
    `GROUP_WAIT` later and turns the flag off at once.
    """

    def __init__(self, curve: Curve, time: float) -> None:
        self._curve = curve
        self._begin(time)

    def _begin(self, time: float) -> None:
        self._since = self._next = time
        self._sums = [0.0, 0.0, 0.0, 0.0]
        self._samples: deque[tuple[float, ...]] = deque(
            [(0.0, 0.0, 0.0, 0.0)], maxlen=round(RULE_WINDOW / RULE_EVERY) + 1
        )
        self._pending: float | None = None
        self._sent: float | None = None

    def see(self, second: Second) -> bool:
        """Take a second in; true where the flag goes off."""
        now = second.end
        if now <= self._since:
            return False
        priced = speedup.cost(self._curve, piece_of(second)) if second.spent > 0.0 else None
        if priced is not None:
            self._sums[0] += priced.concurrency
            self._sums[1] += second.spent
        self._sums[2] += second.accepted
        self._sums[3] += K * second.steps
        if now >= self._next + RULE_EVERY - 1e-6:
            self._next += RULE_EVERY
            self._evaluate(now)
        if self._sent is None or now < self._sent:
            return False
        self._begin(now + PAUSE)
        return True

    def _evaluate(self, now: float) -> None:
        self._samples.append(tuple(self._sums))
        baseline, spent, accepted, drafted = (
            last - first for first, last in zip(self._samples[0], self._samples[-1], strict=True)
        )
        slow = spent > 0.0 and baseline / spent < 0.95
        if not slow and not (drafted > 0.0 and accepted / drafted < ACCEPTANCE):
            self._pending = None
            return
        self._pending = now if self._pending is None else self._pending
        if now - self._pending >= RULE_FOR and self._sent is None:
            self._sent = now + GROUP_WAIT


def for_workload(baseline: Baseline, mean_length: float) -> Baseline:
    """Take the recorded curve as recorded with answers of this mean, as a user's would be."""
    levels = tuple(
        replace(level, prompt_tokens_per_request=245.0, output_tokens_per_request=mean_length)
        for level in baseline.curve.levels
    )
    return replace(baseline, curve=Curve(levels=levels))


def one_load(curve: Curve, rate: float, mean_length: float) -> float:
    """Give the time per token without speculation at the load of these arrivals, in seconds."""
    load = 0.0
    for _ in range(200):
        load = (load + rate * mean_length * tpot_at(curve, load)) / 2.0
    return tpot_at(curve, load)
