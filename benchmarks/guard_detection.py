"""How soon the guard turns speculation off once it costs, and how often it does so for nothing.

    python benchmarks/guard_detection.py --jobs 15      # about an hour on 15 cores
    python benchmarks/guard_detection.py --quick        # two minutes on two cores
    python benchmarks/guard_detection.py --only delay --seeds 20

Servers are simulated (`traffic.py` says from which measurements); the same seconds go to the
sidecar's guard, to the article's guard and to an Alertmanager path (`guards.py`). A delay is from
the change to the decision that writes the flag; the evidence goes on as if nobody obeyed, so that
all three see the same. Tables go to standard output, progress to standard error.
"""

import argparse
import math
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import Pool

from guards import Alerts, Live, Playbook, for_workload, hold_costs, one_load
from measure import tell
from traffic import Change, Server, Traffic, calibrated

from specgauge.baseline.schema import usable
from specgauge.model.baseline import Baseline
from specgauge.serve.demo.recording import recorded_baseline

GUARDS = ("sidecar", "playbook", "Alertmanager")
RATES = (0.1, 1.0, 6.0, 20.0, 60.0)
LOADS = ("uniform", "lognormal", "bursts")
BEFORE = 1.5
TARGETS = {0.6: 20.0, 0.9: 40.0}
PATIENCE = 1800.0
"""Seconds after the change in which a guard that has not acted is called late."""

SETTLED = 300.0
"""Seconds of traffic that fill the others' windows before the sidecar's guard looks on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """One server that pays, until it costs; `load` is of `LOADS`, `by` what changes."""

    rate: float
    loss: float
    load: str = "uniform"
    by: str = "acceptance"

    def __str__(self) -> str:
        """Name the row."""
        cause = "acceptance falls" if self.by == "acceptance" else "steps get dearer"
        return f"{BEFORE:g} to {self.loss:g}, {cause}, {self.rate:g}/s, {self.load}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A part of a day of a server whose gain never changes; `hours` from midnight on."""

    rate: float
    gain: float
    hours: float = 24.0

    def __str__(self) -> str:
        """Name the row."""
        return f"speedup {self.gain:g}, {self.rate:g}/s"


@cache
def baseline_for(mean_length: float) -> Baseline:
    """Give the recorded baseline as of answers of this mean."""
    return for_workload(usable(recorded_baseline(), source="recorded"), mean_length)


def watch_fall(fall: Fall, seed: int, *, others: bool = True) -> tuple[float | None, ...]:
    """Let a server fall; gives each guard's delay in seconds, None where it was late.

    A negative delay is a flip before the change. Without `others` only the sidecar's is asked.
    """
    traffic = Traffic(
        rate=fall.rate,
        lengths="uniform" if fall.load == "uniform" else "lognormal",
        bursty=fall.load == "bursts",
    )
    base = baseline_for(traffic.mean_length)
    at = SETTLED + random.Random(seed).uniform(150.0, 210.0)  # noqa: S311 - dice, not secrets
    server = Server(
        base.curve,
        traffic,
        gain=calibrated(base.curve, traffic, BEFORE),
        seed=seed,
        change=Change(at=at, to=calibrated(base.curve, traffic, fall.loss), by=fall.by),
    )
    tpot = one_load(base.curve, fall.rate, traffic.mean_length)
    guards = (Live(base, SETTLED), Playbook(tpot, 0.0), Alerts(base.curve, 0.0))[
        : 3 if others else 1
    ]
    delays: list[float | None] = [None] * len(guards)
    for second in server.seconds(at + PATIENCE):
        for place, guard in enumerate(guards):
            early = place == 0 and second.end <= SETTLED
            if delays[place] is None and not early and guard.see(second):
                delays[place] = second.end - at
        if None not in delays:
            break
    return tuple(delays)


def watch_day(day: Day, seed: int, *, others: bool = True) -> tuple[int, ...]:
    """Let a server go through its day; gives how often each guard turned its flag off."""
    traffic = Traffic(rate=day.rate, lengths="lognormal", bursty=True, daily=True)
    base = baseline_for(traffic.mean_length)
    gain = calibrated(base.curve, traffic, day.gain)
    server = Server(base.curve, traffic, gain=gain, seed=seed, disturbed=True)
    tpot = one_load(base.curve, day.rate, traffic.mean_length)
    guards = (Live(base, 0.0), Playbook(tpot, 0.0), Alerts(base.curve, 0.0))[: 3 if others else 1]
    flips = [0] * len(guards)
    for second in server.seconds(day.hours * 3600.0):
        for place, guard in enumerate(guards):
            flips[place] += guard.see(second)
    return tuple(flips)


Case = Fall | Day
Task = tuple[Case, int]


def watch(task: Task, *, others: bool) -> tuple[Task, tuple[float | None, ...]]:
    """Run one task, in whichever process."""
    case, seed = task
    if isinstance(case, Fall):
        return task, watch_fall(case, seed, others=others)
    return task, watch_day(case, seed, others=others)


def run(
    tasks: Sequence[Task], jobs: int, *, others: bool
) -> Mapping[Case, list[tuple[float | None, ...]]]:
    """Run all tasks over processes; gives the results by case in the order of the seeds."""
    found: dict[Case, dict[int, tuple[float | None, ...]]] = defaultdict(dict)
    began, shares = time.monotonic(), Counter[int]()
    for done, ((case, seed), result) in enumerate(_results(tasks, jobs, others), 1):
        found[case][seed] = result
        share = 20 * done // len(tasks)
        if not shares[share]:
            tell(f"{done} of {len(tasks)} after {time.monotonic() - began:.0f} s")
        shares[share] += 1
    return {case: [one for _, one in sorted(by_seed.items())] for case, by_seed in found.items()}


def _results(
    tasks: Sequence[Task], jobs: int, others: bool
) -> Iterator[tuple[Task, tuple[float | None, ...]]]:
    watched = partial(watch, others=others)
    if jobs == 1:
        hold_costs()
        yield from map(watched, tasks)
        return
    with Pool(jobs, initializer=hold_costs) as pool:
        yield from pool.imap_unordered(watched, tasks)


def falls(rates: Iterable[float], losses: Iterable[float]) -> list[Fall]:
    """Give every kind of fall."""
    return [
        Fall(rate=rate, loss=loss, load=load, by=by)
        for loss in losses
        for by in ("acceptance", "cost")
        for rate in rates
        for load in LOADS
    ]


def write_delays(
    cases: Sequence[Fall], found: Mapping[Case, list[tuple[float | None, ...]]]
) -> None:
    """Print delays side by side: median and 90th percentile, and what went wrong."""
    print("\n### From the change to the flag, seconds: median (90th percentile)\n")
    _write_head("what", found[cases[0]])
    for case in cases:
        columns = zip(*found[case], strict=True)
        target = f"{TARGETS[case.loss]:g} s" if case.rate >= 1.0 else ""
        print(f"| {case} | {' | '.join(map(_delays, columns))} | {target} |")
    sys.stdout.flush()


def _write_head(first: str, results: Sequence[tuple[float | None, ...]]) -> None:
    head = f"| {first} | {' | '.join(GUARDS[: len(results[0])])} | target |"
    print(f"{head}\n|{'---|' * (head.count('|') - 1)}")


def _delays(samples: Sequence[float | None]) -> str:
    early = sum(one is not None and one < 0.0 for one in samples)
    known = sorted(math.inf if one is None else one for one in samples if one is None or one >= 0.0)
    late = sum(math.isinf(one) for one in known)
    shown = [_seconds(known[min(int(len(known) * q), len(known) - 1)]) for q in (0.5, 0.9)]
    notes = [f"{late} of {len(samples)} late"] * bool(late)
    notes += [f"{early} before it"] * bool(early)
    return ", ".join([f"{shown[0]} ({shown[1]})", *notes]) if known else ", ".join(notes)


def _seconds(value: float) -> str:
    return f"over {PATIENCE:g}" if math.isinf(value) else f"{value:.0f}"


def write_flips(cases: Sequence[Day], found: Mapping[Case, list[tuple[float | None, ...]]]) -> None:
    """Print false flips of 30 days side by side."""
    print("\n### Flags turned off for nothing\n")
    _write_head("what | days", found[cases[0]])
    for case in cases:
        days = len(found[case]) * case.hours / 24.0
        sums = [sum(one or 0 for one in column) for column in zip(*found[case], strict=True)]
        print(f"| {case} | {days:.3g} | {' | '.join(map(str, sums))} | 1 in 30 days |")
    sys.stdout.flush()


def main() -> None:
    """Run the parts asked for and print their tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=["delay", "flips"], help="one part")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="servers a row")
    parser.add_argument("--days", type=int, default=30, metavar="N", help="days a row")
    parser.add_argument("--hours", type=float, default=24.0, metavar="N", help="of each day")
    parser.add_argument("--losses", type=float, nargs="+", default=list(TARGETS), metavar="L")
    parser.add_argument(
        "--rates", type=float, nargs="+", default=RATES, metavar="R", help="a second"
    )
    parser.add_argument("--first", type=int, default=0, metavar="N", help="seed to begin with")
    parser.add_argument("--alone", action="store_true", help="the sidecar's guard only")
    parser.add_argument("--quick", action="store_true", help="6 servers a row, 3 hours a row")
    args = parser.parse_args()
    if args.quick:
        args.seeds, args.days, args.hours = 6, 1, 3.0
    sudden = falls(args.rates, args.losses) if args.only != "flips" else []
    days = [
        Day(rate=rate, gain=gain, hours=args.hours) for gain in (1.3, 1.0) for rate in args.rates
    ]
    days = days if args.only != "delay" else []
    tasks: list[Task] = [(case, args.first + seed) for case in days for seed in range(args.days)]
    tasks += [(case, args.first + seed) for case in sudden for seed in range(args.seeds)]
    found = run(tasks, args.jobs, others=not args.alone)
    if sudden:
        write_delays(sudden, found)
    if days:
        write_flips(days, found)


if __name__ == "__main__":
    main()
