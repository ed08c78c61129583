"""What the sidecar costs: CPU per cycle and per answer, memory, and others beside it.

    python benchmarks/scrape_cycle.py                    # four minutes; `make bench`
    python benchmarks/scrape_cycle.py --only cycle       # one part; repeat for more
    python benchmarks/scrape_cycle.py --cycles 20000     # the long memory run besides: 40 minutes

Tables go to standard output, progress to standard error. Nothing here fails on a slow machine:
the targets stand beside the numbers. `benchmarks/README.md` says what was measured and how.
"""

import argparse
import asyncio
import platform
import signal
import sys

from cycle import measure_cycle, measure_exposition, measure_scaling
from engine_process import engines
from measure import Row, tell, write_table
from whole_process import (
    measure_answer_times,
    measure_fast_memory,
    measure_memory,
    measure_side_by_side,
    processors,
)

_MARKS = (10, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000)


def measure(part: str, url: str, cycles: int) -> list[Row]:
    """Run one part against the engines at `url`."""
    match part:
        case "cycle":
            return asyncio.run(measure_cycle(url, turns=1_000))
        case "serving":
            return asyncio.run(measure_exposition(url, turns=300))
        case "scaling":
            return asyncio.run(measure_scaling(url, turns=60))
        case "processes":
            return measure_side_by_side(url, seconds=60)
        case "answers":
            return measure_answer_times(url, seconds=30)
        case _:
            fast = measure_fast_memory(url, max(cycles, 2_000), _MARKS)
            return fast + (measure_memory(url, cycles, _MARKS) if cycles else [])


PARTS = {
    "cycle": "One scrape cycle, CPU",
    "serving": "Our own /metrics, CPU",
    "scaling": "One scrape cycle of larger pages, CPU",
    "processes": "Whole processes, scraped once a second",
    "answers": "Answer times of /metrics",
    "memory": "Resident memory",
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; repeat for more")
    parser.add_argument(
        "--cycles", type=int, default=0, help="length of the memory runs, e.g. 20000"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # or what was started would stay
    print(f"{processors()} cores, Python {platform.python_version()}, median (quartiles)")
    for part in arguments.only or PARTS:
        tell(f"{PARTS[part]} ...")
        with engines() as url:
            write_table(PARTS[part], measure(part, url, arguments.cycles))


if __name__ == "__main__":
    main()
