"""The batch-size schedule of k in vLLM's own words, from the choice at each load.

vLLM takes inclusive ranges [first, last, k] of running requests, from 1 on and without overlap;
a gap and everything beyond the last range keep the k before them, and k = 0 drafts nothing.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from specgauge.preflight.sweep.candidate import Candidate
from specgauge.preflight.sweep.cell import Cell
from specgauge.preflight.sweep.choose import Pick, pick
from specgauge.preflight.sweep.methods import SCHEDULE_SINCE, release

Range = tuple[int, int, int]

KEY = "num_speculative_tokens_per_batch_size"


class Refusal(StrEnum):
    """Why there is no schedule."""

    ONE_K = "one_k_at_every_load"
    NOTHING_PAYS = "no_speculation_pays"
    NOTHING_MEASURED = "nothing_measured"
    TOO_OLD = "engine_too_old"
    DATA_PARALLEL = "data_parallel"


class Caution(StrEnum):
    """What to mind about a schedule."""

    RELEASE_UNKNOWN = "engine_version_unknown"
    METHOD_UNKNOWN = "method_unknown"
    NO_BASELINE = "k_zero_not_measured"
    BEYOND = "beyond_measured_load"
    REJECTED = "results_missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Ranges of running requests with their k, or why there are none; `config` is for vLLM."""

    ranges: tuple[Range, ...] = ()
    refusal: Refusal | None = None
    cautions: tuple[Caution, ...] = ()
    config: Mapping[str, object] | None = None

    @property
    def argument(self) -> str | None:
        """The argument for `vllm serve`, as JSON."""
        return None if self.config is None else json.dumps(dict(self.config))


def schedule(
    candidates: Sequence[Candidate],
    cells: Sequence[Cell],
    family: tuple[str, str],
    *,
    version: str | None,
    engines: int | None,
) -> Schedule:
    """Make the schedule for one method with one draft, which is what a server can run."""
    own = [c for c in cells if c.k == 0 or (c.family == family and c.k is not None)]
    chosen = [
        one
        for load in sorted({cell.concurrency for cell in own})
        if (one := pick([cell for cell in own if cell.concurrency == load])) is not None
    ]
    most = max((one.k or 0 for one in chosen), default=0)
    drafted = any(cell.usable and cell.k for cell in own)
    refusal = _refusal(chosen if drafted else (), most, version, engines)
    if refusal is not None:
        return Schedule(refusal=refusal)
    by_name = {one.name: one for one in candidates}
    named = next(one.candidate for one in chosen if one.k == most)
    config = by_name[named].config
    ranges = _ranges(chosen, own)
    cautions = (
        (release(version) is None, Caution.RELEASE_UNKNOWN),
        (config is None, Caution.METHOD_UNKNOWN),
        (all(cell.k != 0 for cell in own), Caution.NO_BASELINE),
        (ranges[-1][2] > 0, Caution.BEYOND),
        (any(not cell.usable for cell in own), Caution.REJECTED),
    )
    return Schedule(
        ranges=ranges,
        cautions=tuple(caution for is_so, caution in cautions if is_so),
        config={**(config or {}), "num_speculative_tokens": most, KEY: [list(r) for r in ranges]},
    )


def _refusal(
    chosen: Sequence[Pick], most: int, version: str | None, engines: int | None
) -> Refusal | None:
    known = release(version)
    rules = (
        (not chosen, Refusal.NOTHING_MEASURED),
        (most == 0, Refusal.NOTHING_PAYS),
        (len({one.k for one in chosen}) == 1, Refusal.ONE_K),
        ((engines or 1) > 1, Refusal.DATA_PARALLEL),
        (known is not None and known < SCHEDULE_SINCE, Refusal.TOO_OLD),
    )
    return next((reason for refused, reason in rules if refused), None)


def _ranges(chosen: Sequence[Pick], cells: Sequence[Cell]) -> tuple[Range, ...]:
    """Put the loads of one k together; between two k the change lies where their curves cross."""
    first, found = 1, []
    for here, after in pairwise(chosen):
        if here.k != after.k:
            last = max(_crossing(here, after, cells), first)
            found.append((first, last, here.k or 0))
            first = last + 1
    last = max(first, chosen[-1].concurrency)
    return (*found, (first, last, chosen[-1].k or 0))


def _crossing(here: Pick, after: Pick, cells: Sequence[Cell]) -> int:
    """Give the last batch for which the first choice is the better one.

    Its lead in logarithms is taken to fall evenly over the logarithm of the load; where either
    was not measured at both loads, or the lead is no lead, the middle is taken.
    """
    costs = {(one.candidate, one.concurrency): one.cost for one in cells if one.usable}
    low, high = here.concurrency, after.concurrency
    leads = []
    for load in (low, high):
        mine, other = costs.get((here.candidate, load)), costs.get((after.candidate, load))
        leads.append(math.log(other / mine) if mine and other else math.nan)
    lead, deficit = leads
    share = lead / (lead - deficit) if lead > 0.0 > deficit else 0.5
    last = math.floor(low * math.pow(high / low, share))
    return min(max(last, low), high - 1)
