"""Numbers about processes and how they are written down; starts nothing."""

import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psutil

MILLI = 1000.0
MEBI = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of repeated measurements with its quartiles."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        """Write the three with as many digits as say something."""
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the result: what, how much, and what it should be at most."""

    what: str
    value: str
    target: str = ""


def spread(samples: Sequence[float], scale: float = 1.0) -> Spread:
    """Give median and quartiles of the samples, each times `scale`."""
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(low=low * scale, median=median * scale, high=high * scale)


def percentile(samples: Sequence[float], percent: int) -> float:
    """Give the value that so many percent of the samples do not exceed."""
    return statistics.quantiles(samples, n=100, method="inclusive")[percent - 1]


def cpu_seconds(pid: int) -> float:
    """Read how long a process has computed, to the nanosecond where the kernel counts so."""
    # Linux builds the id of a process's CPU clock from its pid: clock_getcpuclockid(3).
    return time.clock_gettime((~pid << 3) | 2)


def resident_mib(pid: int) -> float:
    """Read how much of a process is in memory, in MiB."""
    return float(psutil.Process(pid).memory_info().rss) / MEBI


def write_table(title: str, rows: Iterable[Row]) -> None:
    """Print rows as a Markdown table on standard output."""
    print(f"\n### {title}\n\n| what | measured | target |\n|---|---|---|")
    for row in rows:
        print(f"| {row.what} | {row.value} | {row.target} |")
    sys.stdout.flush()


def tell(text: str) -> None:
    """Say on standard error what goes on."""
    print(text, file=sys.stderr, flush=True)
