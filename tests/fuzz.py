"""Feeds the core damaged pages: `python tests/fuzz.py --cases 100000 --seed 7`.

Whatever a page holds, reading it either works or raises SourceError, in bounded time; what is
derived is finite and not negative; a refused page changes nothing; and what was read before makes
no difference. A page that breaks one of these is saved, and the exit code is 1.
"""

import argparse
import math
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from specgauge.derive.accumulate import advance, open_ledger, whole_life
from specgauge.derive.identities import violations
from specgauge.derive.summary import summarise
from specgauge.derive.window import drafting, snapshot, windows
from specgauge.engines.reader import Reader
from specgauge.errors import SourceError
from specgauge.model.derived import FIELDS, Derived, Hints
from specgauge.model.ledger import Ledger
from specgauge.model.quantity import Page, Quantity, Series

PAGES = Path(__file__).parent / "pages"
SECONDS_A_PAGE = 10.0  # on a machine that is busy with other things
RATIOS = ("acceptance_ratio", "position_acceptance_ratio", "position_conditional_acceptance_ratio")
SHORT = re.compile(
    rb"spec_decode|(generation|prompt)_tokens_(total|created)|num_requests|cache_usage|"
    rb"(time_to_first_token|inter_token_latency|time_per_output_token)_seconds"
    rb'(_sum|_count|_created|_bucket.*le="(0.01|0.1|\+Inf)")'
)

Mutation = Callable[[random.Random, bytes], bytes]
Read = dict[tuple[object, ...], float]


def shorten(page: bytes) -> bytes:
    """Keep of a recorded page the lines that matter."""
    return b"".join(line for line in page.splitlines(keepends=True) if SHORT.search(line))


@cache
def load_seeds() -> list[bytes]:
    """Load the pages that are damaged: short ones of each dialect, and the reported ones."""
    recorded = [
        shorten((PAGES / "vllm" / name).read_bytes())
        for name in (
            "0.32.0-draft-dp2/during.prom",
            "0.32.0-ngram/after.prom",
            "0.9.2-ngram/after.prom",
            "0.8.5-v0-ngram/before.prom",
            "0.8.5-v0-ngram/during.prom",
            "0.8.5-v0-ngram/after.prom",
        )
    ]
    reported = [path.read_bytes() for path in sorted((PAGES / "reports").iterdir())]
    openmetrics = re.sub(rb"(# TYPE \S+?)_total counter", rb"\1 counter", recorded[1]) + b"# EOF\n"
    ray = recorded[1].replace(b"vllm:", b"ray_vllm_").replace(b"{", b'{ReplicaId="a",')
    return [page for page in [*recorded, openmetrics, ray, *reported] if len(page) < 20_000]


NUMBERS = (
    "NaN nan +Inf -Inf inf 1e400 -1e400 1e308 -1e308 1e300 5e-324 -0.0 -1 -0 0 1 1e9 1e18 1e-300 "
    "1_000 0x1p3 ١٢ one '' 1,5 ++1 1e 9" + "9" * 400
).split()
PIECES = (
    *(number.encode() for number in NUMBERS),
    *(b"\r", b"\t", b" ", b"\n", b"\x00", b"\xff", b"\xc3\x28", b"\xef\xbb\xbf", b"\xed\xa0\x80"),
    *(b"{", b"}", b'"', b"\\", b"\\n", b",", b"=", b"#", b"# EOF\n", b"# UNIT a b\n", b" # {} 1"),
    *(b"# TYPE vllm:x counter\nvllm:x_total 1\n", b"vllm:", b"ray_vllm_", b"_total", b"_created"),
    *(b'engine="1",', b'model_name="x",', b'position="4096",', b'le="NaN",', b'pid="7",'),
    *(b'{"a b","c"="d"} 1\n', b"process_start_time_seconds 5\n", b"<html>", b"[]"),
)


def truncate(rng: random.Random, page: bytes) -> bytes:
    """Cut the page off."""
    return page[: rng.randrange(len(page) + 1)]


def flip(rng: random.Random, page: bytes) -> bytes:
    """Change single bits."""
    changed = bytearray(page)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def shuffle(rng: random.Random, page: bytes) -> bytes:
    """Put the lines into another order."""
    lines = page.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines)


def drop(rng: random.Random, page: bytes) -> bytes:
    """Leave lines out."""
    return b"".join(line for line in page.splitlines(keepends=True) if rng.random() > 0.2)


def repeat(rng: random.Random, page: bytes) -> bytes:
    """Write a stretch of the page several times."""
    start = rng.randrange(len(page) + 1)
    end = min(len(page), start + rng.randint(1, 400))
    return page[:start] + page[start:end] * rng.randint(2, 5) + page[end:]


def insert(rng: random.Random, page: bytes) -> bytes:
    """Put pieces of the formats where they do not belong."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(page) + 1)
        page = page[:at] + rng.choice(PIECES) + page[at:]
    return page


def inflate(rng: random.Random, page: bytes) -> bytes:
    """Put a long run of one piece somewhere: escapes, quotes, braces, digits, blanks."""
    at = rng.randrange(len(page) + 1)
    piece = rng.choice([b"\\", b'"', b"{", b"a", b"9", b" ", b"\t", b"\r", b'a="b",', b"#", b"_"])
    return page[:at] + piece * rng.randint(100, 3000) + page[at:]


def revalue(rng: random.Random, page: bytes) -> bytes:
    """Give samples other values."""
    lines = page.splitlines()
    for _ in range(rng.randint(1, 6)):
        if lines:
            at = rng.randrange(len(lines))
            value = rng.choice(NUMBERS) if rng.random() < 0.6 else str(rng.randrange(10**6))
            lines[at] = lines[at].rpartition(b" ")[0] + b" " + value.encode()
    return b"".join(line + b"\n" for line in lines)


def relabel(rng: random.Random, page: bytes) -> bytes:
    """Give samples another engine, model, position or process."""
    old = rng.choice([rb'engine="\d*"', rb'model_name="[^"]*"', rb'position="\d"', rb'le="[^"]*"'])
    new = rng.choice([b'engine="%d"', b'model_name="m%d"', b'position="%d"', b'pid="%d"'])
    chance = rng.random()

    def other(match: re.Match[bytes]) -> bytes:
        return new % rng.randrange(4) if rng.random() < chance else match[0]

    return re.sub(old, other, page)


def multiply(rng: random.Random, page: bytes) -> bytes:
    """Add many series of one name."""
    name = rng.choice([b"vllm:prompt_tokens_total", b"vllm:x_created", b"other_total"])
    return page + b"".join(name + b'{pid="%d"} 1\n' % n for n in range(rng.randint(1, 200)))


def respace(rng: random.Random, page: bytes) -> bytes:
    """Use other line ends and blanks."""
    old, new = rng.choice(
        [
            (b"\n", b"\r\n"),
            (b" ", b"\t"),
            (b" ", b"  "),
            (b"\n", b" 1790000000123\n"),
            (b"} ", b"}"),
        ]
    )
    return page.replace(old, new)


def splice(rng: random.Random, page: bytes) -> bytes:
    """Follow the beginning of one page with the end of another."""
    other = rng.choice(load_seeds())
    return page[: rng.randrange(len(page) + 1)] + other[rng.randrange(len(other) + 1) :]


MUTATIONS: tuple[Mutation, ...] = (
    truncate,
    flip,
    shuffle,
    drop,
    repeat,
    insert,
    inflate,
    revalue,
    relabel,
    multiply,
    respace,
    splice,
)


def mutants(cases: int, seed: int) -> Iterator[bytes]:
    """Make damaged pages: every cut of the smallest recorded ones first, then any damage."""
    rng = random.Random(seed)  # noqa: S311 - dice, no secrets
    seeds = load_seeds()
    small = sorted(seeds, key=len)[5]
    cuts = [small[:at] for at in range(len(small) + 1)]
    yield from cuts[:cases]
    for _ in range(cases - len(cuts)):
        page = rng.choice(seeds)
        for mutate in rng.choices(MUTATIONS, k=rng.choice([1, 1, 1, 2, 3])):
            page = mutate(rng, page)
        yield page


class Broken(AssertionError):  # noqa: N818 - reads as the finding
    """A page on which a property does not hold."""


def require(holds: object, what: str) -> None:
    """Raise Broken with the property's text unless it holds."""
    if not holds:
        raise Broken(what)


def spell(page: Page) -> Read:
    """Spell out the series that quantities are read from."""
    return {_key(series): value for series, value in page.values.items() if _counts(series)}


def _counts(series: Series) -> bool:
    return series.quantity is not Quantity.OTHER


def _key(series: Series) -> tuple[object, ...]:
    return (*series.cell.measure, series.cell.model, series.cell.engine, series.origin, series.rank)


def judge(found: Derived) -> None:
    """Require that a summary is whole and its numbers possible."""
    require(sorted([*found.values, *found.absent]) == sorted(FIELDS), "a field is missing or twice")
    for name, value in found.values.items():
        for number in value if isinstance(value, Sequence) else (value,):
            require(math.isfinite(number), f"{name} is {number}")
            require(number >= 0, f"{name} is {number}")
            require(name not in RATIOS or number <= 1, f"{name} is {number}")


@dataclass(slots=True, kw_only=True)
class Target:
    """One target that gets good and damaged pages in turn."""

    good: bytes
    reader: Reader = field(default_factory=Reader)
    ledger: Ledger = field(init=False)
    expected: Read = field(init=False)

    def __post_init__(self) -> None:
        page = self.reader.read(self.good)
        self.expected, self.ledger = spell(page), open_ledger(page, 0.0)

    def take(self, mutant: bytes) -> bool:
        """Hold a damaged page against every property; answers whether it was accepted."""
        began = time.perf_counter()
        cold, warm = attempt(Reader(), mutant), attempt(self.reader, mutant)
        require((cold is None) == (warm is None), "a warm reader judges otherwise than a cold one")
        if cold is not None and warm is not None:
            require(spell(cold) == spell(warm), "a warm reader reads otherwise than a cold one")
            self.derive(warm)
            for window in windows({}, whole_life(warm, 0.0), warm, None).values():
                judge(summarise(window, Hints()))
        require(
            spell(self.reader.read(self.good)) == self.expected, "the good page reads otherwise"
        )
        require(time.perf_counter() - began < SECONDS_A_PAGE, "the page takes too long")
        return warm is not None

    def derive(self, page: Page) -> None:
        """Add the page to the ledger and derive all there is."""
        start = snapshot(self.ledger)
        after, interval = advance(self.ledger, page, self.ledger.time + 1.0)
        least = min(interval.deltas.values(), default=0.0)
        require(least >= 0.0, f"growth of {least}")
        require(all(map(math.isfinite, after.totals.values())), "a total is not finite")
        fell = any(total < self.ledger.totals.get(c, 0.0) for c, total in after.totals.items())
        require(not fell, "a total fell")
        for window in windows(start, after, page, 1.0).values():
            judge(summarise(window, Hints(method="ngram", engines=2)))
        for window in drafting(interval, page).values():
            violations(window)
        self.ledger = after


def attempt(reader: Reader, page: bytes) -> Page | None:
    """Read a page; None where it is refused."""
    try:
        return reader.read(page)
    except SourceError as refused:
        require(len(str(refused)) < 400, "a refusal is longer than a line")
        require("\n" not in str(refused), "a refusal has several lines")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A page that broke a property."""

    page: bytes
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How many pages were tried and taken, and the first that broke a property."""

    cases: int
    accepted: int
    finding: Finding | None = None


def fuzz(cases: int, seed: int, progress: Callable[[int], None] = lambda _: None) -> Outcome:
    """Try damaged pages until one breaks a property or all are through."""
    targets = [Target(good=page) for page in load_seeds()[:2]]
    accepted = 0
    for case, page in enumerate(mutants(cases, seed)):
        progress(case)
        if case % 500 == 0:  # begin anew now and then, so that not all history is damaged
            targets = [Target(good=target.good) for target in targets]
        try:
            accepted += targets[case % len(targets)].take(page)
        except Exception as problem:  # noqa: BLE001 - any exception is the finding
            what = f"{type(problem).__name__}: {problem}"
            return Outcome(cases=case, accepted=accepted, finding=Finding(page=page, what=what))
    return Outcome(cases=cases, accepted=accepted)


def show(case: int) -> None:
    """Tell a person on a terminal how far it is."""
    if case % 100 == 0 and sys.stderr.isatty():
        sys.stderr.write(f"\r{case} pages")


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, default=Path("fuzz-finding.prom"))
    options = parser.parse_args()
    outcome = fuzz(options.cases, options.seed, show)
    if outcome.finding:
        options.save.write_bytes(outcome.finding.page)
        sys.stderr.write(f"\n{outcome.finding.what}; the page is in {options.save}\n")
        return 1
    sys.stdout.write(f"{outcome.cases} pages, {outcome.accepted} accepted, nothing found\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
